"""How far each variant gets in both arms: table 3 must hold, the cells of table 6 are wishes."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from lhaw_record.recorder.events.values import DIMENSIONS, Variant
from tests.reconstruction.lhaw_printed import Benchmark
from tests.reconstruction.programs import Program, Terms

_PARTS = 100_000
"""Progress is found in whole hundredthousandths."""
_NEAR_PP = 0.045
"""How far a value may be from a text with one place that it is printed as."""


class Kind(NamedTuple):
    """What variants have in common; ``under`` and ``asking`` tell who passes, None who was not run in that arm."""

    dimensions: tuple[str, ...]
    under: bool | None
    asking: bool | None


class Progress(NamedTuple):
    """The mean progress of the variants of each kind, without ``ask_user`` and with it."""

    under: dict[Kind, float]
    asking: dict[Kind, float]


def kind_of(one: Variant, under: bool | None, asking: bool | None) -> Kind:
    """Return the kind of a variant."""
    return Kind(tuple(segment.dimension for segment in one.segments), under, asking)


def progress_of(benchmark: Benchmark, model: str, kinds: Sequence[Kind], lowest: float) -> Progress:
    """Find the progress of a model.

    Args:
        benchmark: Whose tables.
        model: Whose cells.
        kinds: That of every variant.
        lowest: The lowest score that is a success; 0 where success is told apart from points.
    """
    program, sizes = Program(), Counter(kinds)
    arms: list[dict[Kind, str]] = [{}, {}]
    for kind in sizes:
        for numbers, is_passing, arm in zip(arms, (kind.under, kind.asking), ("under", "asking"), strict=True):
            if is_passing is not None:
                numbers[kind] = program.number(f"{arm} {kind}", _PARTS)
                program.rule({numbers[kind]: 1}, *_bounds(is_passing, lowest))
    under, asking = arms
    paired = {kind: size for kind, size in sizes.items() if kind in under and kind in asking}
    _hold(program, _sum(under, sizes), benchmark.overall[model, "underspecified_ckpt_pct"], sizes, under)
    _hold(program, _gain(under, asking, paired), benchmark.overall[model, "ckpt_gain_pp"], paired, under)
    for dimension in DIMENSIONS:
        inside = {kind: size * kind.dimensions.count(dimension) for kind, size in sizes.items()}
        both = {kind: inside[kind] for kind in paired}
        for metric, terms, weights in (
            ("underspecified_ckpt_pct", _sum(under, inside), inside),
            ("ckpt_gain_pp", _gain(under, asking, both), both),
        ):
            if text := benchmark.progress_by_dimension.get((dimension, model, metric)):
                total = _total(weights, under)
                program.wish(terms, _parts(text) * total, 2.0 * _PARTS * total, near=_NEAR_PP / 100 * _PARTS * total)
    found = program.solve()
    return Progress(*({kind: found[name] / _PARTS for kind, name in numbers.items()} for numbers in arms))


def _bounds(is_passing: bool, lowest: float) -> tuple[float, float]:
    """Between which parts the progress of three trials may be: of a variant that passes, one of them is a success."""
    if is_passing:
        return lowest / 3 * _PARTS, (0.99 if lowest else 1.0) * _PARTS  # three full scores would be all or nothing
    return 0, (lowest - 0.01 if lowest else 1.0) * _PARTS


def _hold(program: Program, terms: Terms, text: str, weights: dict[Kind, int], run: dict[Kind, str]) -> None:
    total = _total(weights, run)
    program.rule(terms, (_parts(text) - 1) * total, (_parts(text) + 1) * total)


def _total(weights: dict[Kind, int], run: dict[Kind, str]) -> int:
    return sum(weight for kind, weight in weights.items() if kind in run)


def _parts(text: str) -> float:
    return float(text) / 100 * _PARTS


def _sum(names: dict[Kind, str], weights: dict[Kind, int], sign: int = 1) -> Terms:
    return {name: float(sign * weights[kind]) for kind, name in names.items() if weights.get(kind)}


def _gain(under: dict[Kind, str], asking: dict[Kind, str], weights: dict[Kind, int]) -> Terms:
    return _sum(asking, weights) | _sum(under, weights, -1)
