"""The functions that the queries call: intervals, and the arguments of an action in a comparable form."""

from functools import partial
from typing import Any

import duckdb
import msgspec
from duckdb import list_type, struct_type
from duckdb.func import SPECIAL
from duckdb.sqltypes import BIGINT, DOUBLE, VARCHAR

from analytics.statistics import Interval, Settings, median_interval, ratio_interval, wilson
from recorder.canonical import canonical_json


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions known to a connection; the macros of sql/macros give them short names.

    A connection with functions must be closed before the interpreter ends.
    """
    doubles, integers = list_type(DOUBLE), list_type(BIGINT)
    bounds = struct_type({"low": DOUBLE, "high": DOUBLE, "method": VARCHAR})
    settings = (BIGINT, BIGINT, BIGINT, DOUBLE, VARCHAR)
    define = partial(connection.create_function, return_type=bounds, null_handling=SPECIAL)
    define("wilson_bounds", _wilson, [BIGINT, BIGINT, DOUBLE])
    define("ratio_bounds", _ratio, [doubles, doubles, integers, *settings])
    define("median_bounds", _median, [doubles, integers, *settings])
    connection.create_function("trimmed_arguments", trimmed_arguments, [VARCHAR], VARCHAR)


def trimmed_arguments(arguments_json: str) -> str:
    """Return canonical JSON with every string value trimmed; text that is no JSON is trimmed itself.

    Source: docs/metrics.md 4, wasted compute.
    """
    try:
        value = msgspec.json.decode(arguments_json)
    except msgspec.MsgspecError:
        return arguments_json.strip()
    return canonical_json(_trim(value)).decode()


def _trim(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return [_trim(item) for item in value]
    if isinstance(value, dict):
        return {key: _trim(item) for key, item in value.items()}
    return value


def _wilson(successes: int, count: int, confidence: float) -> dict[str, Any] | None:
    return _row(wilson(successes, count, confidence))


def _ratio(
    numerators: list[float] | None,
    denominators: list[float] | None,
    clusters: list[int] | None,
    cluster_count: int,
    draws: int,
    seed: int,
    confidence: float,
    method: str,
) -> dict[str, Any] | None:
    if numerators is None or denominators is None or clusters is None:
        return None  # a cell without any value
    settings = Settings(cluster_count, draws, seed, confidence, method)
    return _row(ratio_interval(numerators, denominators, clusters, settings))


def _median(
    values: list[float] | None,
    clusters: list[int] | None,
    cluster_count: int,
    draws: int,
    seed: int,
    confidence: float,
    method: str,
) -> dict[str, Any] | None:
    if values is None or clusters is None:
        return None  # a cell without any value
    return _row(median_interval(values, clusters, Settings(cluster_count, draws, seed, confidence, method)))


def _row(interval: Interval | None) -> dict[str, Any] | None:
    return None if interval is None else interval._asdict()
