"""Numbers from the event stream: a store opened in DuckDB, the reported tables, and the claims that must hold."""

from analytics.checks import Finding, checks
from analytics.errors import AnalyticsError, BadParameter, UnknownName
from analytics.parameters import PARAMETERS, Parameter
from analytics.tables import TABLES, Table, comparable, table

__all__ = [
    "PARAMETERS",
    "TABLES",
    "AnalyticsError",
    "BadParameter",
    "Finding",
    "Parameter",
    "Table",
    "UnknownName",
    "checks",
    "comparable",
    "table",
]
