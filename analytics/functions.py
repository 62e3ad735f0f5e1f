"""The functions that the queries call: intervals, tests, and the arguments of an action in a comparable form."""

from functools import partial
from typing import Any

import duckdb
import msgspec
from duckdb import list_type, struct_type
from duckdb.func import SPECIAL
from duckdb.sqltypes import BIGINT, BOOLEAN, DOUBLE, VARCHAR

from analytics.agreement import weighted_kappa
from analytics.hypotheses import rank_agreement, sign_flips
from analytics.power import (
    Pool,
    Spread,
    pass_noise_floor,
    pass_trials_needed,
    progress_noise_floor,
    progress_trials_needed,
)
from analytics.rank_interval import rank_interval
from analytics.statistics import Interval, Settings, harmonic_interval, median_interval, ratio_interval, wilson
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
    define("harmonic_bounds", _harmonic, [doubles, doubles, doubles, doubles, integers, *settings])
    define("rank_bounds", _rank, [doubles, doubles, integers, *settings])
    kappa = struct_type({"value": DOUBLE, "bounds": bounds})
    define("weighted_kappa", _weighted_kappa, [doubles, doubles, integers, *settings], return_type=kappa)
    tested = struct_type({"p_value": DOUBLE, "n": BIGINT, "method": VARCHAR})
    agreement = struct_type({"tau": DOUBLE, "p_value": DOUBLE, "n": BIGINT, "n_ties": BIGINT})
    define("sign_flips", _sign_flips, [doubles, integers, BIGINT, BIGINT, BOOLEAN], return_type=tested)
    define("rank_agreement", _rank_agreement, [doubles, doubles], return_type=agreement)
    seen = struct_type({"noise_floor": DOUBLE, "trials_needed": BIGINT})
    define("pass_power", _pass_power, [integers, integers, integers, BIGINT, DOUBLE, DOUBLE, DOUBLE], return_type=seen)
    define("progress_power", _progress_power, [integers, integers, doubles, DOUBLE, DOUBLE, DOUBLE], return_type=seen)
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


def _harmonic(
    found: list[float] | None,
    asked: list[float] | None,
    covered: list[float] | None,
    wanted: list[float] | None,
    clusters: list[int] | None,
    cluster_count: int,
    draws: int,
    seed: int,
    confidence: float,
    method: str,
) -> dict[str, Any] | None:
    if found is None or asked is None or covered is None or wanted is None or clusters is None:
        return None  # a cell without any value
    settings = Settings(cluster_count, draws, seed, confidence, method)
    return _row(harmonic_interval((found, asked), (covered, wanted), clusters, settings))


def _rank(
    left: list[float] | None,
    right: list[float] | None,
    clusters: list[int] | None,
    cluster_count: int,
    draws: int,
    seed: int,
    confidence: float,
    method: str,
) -> dict[str, Any] | None:
    if left is None or right is None or clusters is None:
        return None  # two agents without a common cell
    return _row(rank_interval(left, right, clusters, Settings(cluster_count, draws, seed, confidence, method)))


def _weighted_kappa(
    left: list[float],
    right: list[float],
    clusters: list[int],
    cluster_count: int,
    draws: int,
    seed: int,
    confidence: float,
    method: str,
) -> dict[str, Any]:
    settings = Settings(cluster_count, draws, seed, confidence, method)
    value, interval = weighted_kappa(left, right, clusters, settings)
    return {"value": value, "bounds": _row(interval)}


def _sign_flips(
    differences: list[float] | None, clusters: list[int] | None, draws: int, seed: int, is_two_sided: bool
) -> dict[str, Any] | None:
    if differences is None or clusters is None:
        return None  # a cell without any value
    found = sign_flips(differences, clusters, draws=draws, seed=seed, is_two_sided=is_two_sided)
    return None if found is None else found._asdict()


def _rank_agreement(left: list[float] | None, right: list[float] | None) -> dict[str, Any] | None:
    return rank_agreement(left or (), right or ())._asdict()


def _pass_power(
    left: list[int] | None,
    right: list[int] | None,
    successes: list[int] | None,
    k: int,
    gain: float,
    level: float,
    power: float,
) -> dict[str, Any] | None:
    if left is None or right is None or successes is None:
        return None  # a cell without any value
    units = [Pool(*unit) for unit in zip(left, right, successes, strict=True)]
    needed = pass_trials_needed(units, k, gain, level=level, power=power)
    return {"noise_floor": pass_noise_floor(units, k), "trials_needed": needed}


def _progress_power(
    left: list[int] | None,
    right: list[int] | None,
    variances: list[float] | None,
    gain: float,
    level: float,
    power: float,
) -> dict[str, Any] | None:
    if left is None or right is None or variances is None:
        return None  # a cell without any value
    units = [Spread(*unit) for unit in zip(left, right, variances, strict=True)]
    needed = progress_trials_needed(units, gain, level=level, power=power)
    return {"noise_floor": progress_noise_floor(units), "trials_needed": needed}


def _row(interval: Interval | None) -> dict[str, Any] | None:
    """Bounds as a struct; without numbers where every draw gave the same, since a width of 0 would be a false claim."""
    if interval is None:
        return None
    return dict.fromkeys(Interval._fields) if interval.low == interval.high else interval._asdict()
