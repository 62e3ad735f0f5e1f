"""The Python functions that the SQL queries call, for intervals, tests, and normalized arguments of actions."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec
from duckdb import list_type, struct_type
from duckdb.func import ARROW, SPECIAL
from duckdb.sqltypes import BIGINT, DOUBLE, UBIGINT, VARCHAR

from lhaw_record.analytics.statistics.agreement import f1, rank_agreement, rank_correlation, weighted_kappa
from lhaw_record.analytics.statistics.inference import (
    Claim,
    Estimate,
    InferenceSettings,
    SharedArm,
    Units,
    band_halves,
    contrast,
    estimate,
    family_p_values,
)
from lhaw_record.analytics.statistics.randomization import pass_noise_floor, progress_noise_floor
from lhaw_record.recorder.events.canonical_json import canonical_json

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Columns = Mapping[str, NDArray[Any]]


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Add the functions to a connection. The macros in sql/macros wrap them.

    A connection with Python functions must be closed before the interpreter exits.
    """
    integers, doubles = list_type(BIGINT), list_type(DOUBLE)
    define = partial(connection.create_function, null_handling=SPECIAL)
    for name, (fields, estimator) in _CELLS.items():
        units = list_type(struct_type({"cluster": UBIGINT} | dict.fromkeys(fields, DOUBLE)))
        parameters = [VARCHAR, units, BIGINT, VARCHAR, DOUBLE, BIGINT, BIGINT, BIGINT]
        define(name, _by_chunk(estimator), parameters, struct_type(_ESTIMATE), type=ARROW)
    for name, (fields, together) in _TOGETHER.items():
        units = list_type(struct_type({"member": BIGINT, "cluster": UBIGINT} | dict.fromkeys(fields, DOUBLE)))
        found = list_type(struct_type({"member": BIGINT, "number": DOUBLE}))
        define(name, _by_family(together), [units, DOUBLE, BIGINT, BIGINT, BIGINT], found, type=ARROW)
    agreement = struct_type({"tau": DOUBLE, "p_value": DOUBLE, "n": BIGINT, "n_ties": BIGINT})
    define("rank_agreement", _rank_agreement, [doubles, doubles], return_type=agreement)
    define("pass_noise_floor", pass_noise_floor, [integers, integers, integers, BIGINT], return_type=DOUBLE)
    define("progress_noise_floor", progress_noise_floor, [integers, integers, doubles], return_type=DOUBLE)
    connection.create_function("trimmed_arguments", trimmed_arguments, [VARCHAR], VARCHAR)
    connection.create_function("asking_of", asking_of, [VARCHAR], VARCHAR)


def asking_of(text: str) -> str:
    """Return what the closing of a text asks for (:func:`lhaw_record.recorder.prose.asking_of`)."""
    from lhaw_record.recorder import prose  # compiles its patterns, which few commands need

    return prose.asking_of(text)


def trimmed_arguments(arguments_json: str) -> str:
    """Convert JSON to canonical JSON with every string value trimmed. Text that is not JSON is trimmed as a whole.

    Source: docs/metrics.md 4, wasted compute.
    """
    try:
        value = msgspec.json.decode(arguments_json)
    except (msgspec.MsgspecError, RecursionError):
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


def _by_chunk(estimator: "_Estimator") -> "Callable[..., pa.Array]":
    def estimated(
        kinds: Any, units: Any, dropped: Any, reasons: Any, confidence: Any, draws: Any, permutations: Any, seed: Any
    ) -> Any:  # DuckDB counts these parameters and evaluates their annotations
        chosen = [column[0].as_py() for column in (confidence, draws, permutations, seed)]
        return _cells(estimator, InferenceSettings(*chosen), kinds, units, dropped, reasons)

    return estimated


def _cells(
    estimator: "_Estimator",
    settings: InferenceSettings,
    kinds: "pa.ChunkedArray",
    units: "pa.ChunkedArray",
    dropped: "pa.ChunkedArray",
    reasons: "pa.ChunkedArray",
) -> "pa.Array":
    """Estimate every cell of a chunk of rows."""
    import pyarrow as pa

    rows = []
    lists = _lists(units)
    for kind, n_dropped, reason in zip(kinds.to_pylist(), dropped.to_pylist(), reasons.to_pylist(), strict=True):
        found = estimator(kind, next(lists), settings)
        if found.value is None and reason is not None:
            found = found._replace(reason=reason)
        rows.append({**found._asdict(), "n_dropped": n_dropped})
    return pa.array(rows, type=_arrow_type())


def _by_family(together: "_Together") -> "Callable[..., pa.Array]":
    def found(units: Any, confidence: Any, draws: Any, permutations: Any, seed: Any) -> Any:
        import pyarrow as pa

        settings = InferenceSettings(*(column[0].as_py() for column in (confidence, draws, permutations, seed)))
        kind = pa.list_(pa.struct([("member", pa.int64()), ("number", pa.float64())]))
        return pa.array([_numbered(each, together, settings) for each in _lists(units)], type=kind)

    return found


def _numbered(columns: "Columns", together: "_Together", settings: InferenceSettings) -> list[dict[str, Any]]:
    """Return the number of each member of a family of cells."""
    import numpy as np

    members = np.unique(columns["member"])
    parts: list[Columns] = [
        {name: column[columns["member"] == one] for name, column in columns.items()} for one in members
    ]
    numbers = together(parts, settings) if parts else []
    return [{"member": int(one), "number": number} for one, number in zip(members, numbers, strict=True)]


def _lists(units: "pa.ChunkedArray") -> "Iterator[Columns]":
    """Yield the units of each row as one array per field."""
    for chunk in units.chunks:
        values = chunk.values
        fields = {
            field.name: values.field(position).to_numpy(zero_copy_only=False)
            for position, field in enumerate(values.type)
        }
        offsets = chunk.offsets.to_numpy()
        for row in range(len(chunk)):
            part = slice(offsets[row], offsets[row + 1]) if chunk[row].is_valid else slice(0, 0)
            yield {name: array[part] for name, array in fields.items()}


def _units_of(columns: "Columns") -> Units:
    return Units(columns["above"], columns["below"], columns["cluster"])


def _shared_units_of(columns: "Columns") -> Units:
    """Return the units with the arm that they share, which is null where there is none."""
    import numpy as np

    shared = SharedArm(columns["base"], columns["n_base"], columns["n_own"])
    return _units_of(columns)._replace(shared=None if np.isnan(shared.trials).any() else shared)


def _halves(columns: "Columns", name: str) -> tuple[Units, Units]:
    units, is_first = _units_of(columns), columns[name] > 0
    one, other = (
        Units(units.numerators[part], units.denominators[part], units.clusters[part]) for part in (is_first, ~is_first)
    )
    return one, other


_Estimator = Callable[[str, "Columns", InferenceSettings], Estimate]
_CELLS: dict[str, tuple[tuple[str, ...], _Estimator]] = {
    "cell_estimate": (("above", "below"), lambda kind, units, chosen: estimate(kind, _units_of(units), chosen)),
    "cell_shared": (
        ("above", "below", "base", "n_base", "n_own"),
        lambda kind, units, chosen: estimate(kind, _shared_units_of(units), chosen),
    ),
    "cell_f1": (("is_hit", "above", "below"), lambda _, units, chosen: f1(*_halves(units, "is_hit"), chosen)),
    "cell_contrast": (
        ("is_a", "above", "below"),
        lambda kind, units, chosen: contrast(kind, *_halves(units, "is_a"), chosen),
    ),
    "cell_kappa": (
        ("one", "other"),
        lambda _, units, chosen: weighted_kappa(units["one"], units["other"], units["cluster"], chosen),
    ),
    "cell_tau": (
        ("one", "other"),
        lambda _, units, chosen: rank_correlation(units["one"], units["other"], units["cluster"], chosen),
    ),
}
"""The functions that estimate a cell, each with the fields of its units except the cluster."""

_Together = Callable[["list[Columns]", InferenceSettings], list[float | None]]
_TOGETHER: dict[str, tuple[tuple[str, ...], _Together]] = {
    "family_p_values": (
        ("above", "below", "base", "n_base", "n_own", "is_one_sided", "lead"),
        lambda parts, chosen: family_p_values(
            [Claim(_shared_units_of(each), bool(each["is_one_sided"].any()), float(each["lead"][0])) for each in parts],
            chosen,
        ),
    ),
    "band_halves": (
        ("above", "below"),
        lambda parts, chosen: band_halves([_units_of(each) for each in parts], chosen),
    ),
}
"""The functions that give a number to each cell of a family, each with the fields of its units."""

_ESTIMATE = {
    "value": DOUBLE,
    "low": DOUBLE,
    "high": DOUBLE,
    "p_value": DOUBLE,
    "p_greater": DOUBLE,
    "n_units": BIGINT,
    "n_dropped": BIGINT,
    "n_clusters": BIGINT,
    "method": VARCHAR,
    "reason": VARCHAR,
}


def _arrow_type() -> "pa.DataType":
    import pyarrow as pa

    types = {DOUBLE: pa.float64(), BIGINT: pa.int64(), VARCHAR: pa.string()}
    return pa.struct([(name, types[kind]) for name, kind in _ESTIMATE.items()])


def _rank_agreement(left: list[float] | None, right: list[float] | None) -> dict[str, Any] | None:
    return rank_agreement(left or (), right or ())._asdict()
