"""What can go wrong when numbers are asked for.

AnalyticsError
├── UnknownName       a table or a parameter that does not exist
└── BadParameter      a value that a parameter does not allow
"""


class AnalyticsError(Exception):
    """Base of the errors of this layer."""


class UnknownName(AnalyticsError):
    """A table or a parameter that does not exist; the message lists those that do."""


class BadParameter(AnalyticsError):
    """A value that a parameter does not allow; the message says which it does."""
