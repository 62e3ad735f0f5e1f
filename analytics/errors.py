"""The errors that the analytics package raises.

AnalyticsError
├── UnknownName       a table or a parameter that does not exist
└── BadParameter      a value that a parameter does not allow
"""


class AnalyticsError(Exception):
    """The base class of all errors that the analytics package raises."""


class UnknownName(AnalyticsError):
    """The requested table or parameter does not exist. The message lists those that do."""


class BadParameter(AnalyticsError):
    """A parameter does not allow the given value. The message lists the allowed values."""
