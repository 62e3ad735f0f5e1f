"""Which variants Ask Early has, which of its units are complete, and which of those pass: found by an integer program.

The shares of table 4 must hold, or come as near as a count can; the numbers of table 10 are wishes.
"""

import math
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from lhaw_record.recorder.events.values import DIMENSIONS, INJECT_PERCENTAGES
from tests.reconstruction.lhaw_printed import CLASSES
from tests.reconstruction.printed_values import count, labels, rows
from tests.reconstruction.programs import Program

INJECTED = tuple(f"inject_{percentage}" for percentage in INJECT_PERCENTAGES)
CONDITIONS = ("full", *INJECTED, "underspecified")
SHAPES = (*((one,) for one in DIMENSIONS), *combinations(DIMENSIONS, 2))
FITTING = {("tac", "input"): 48}
"""Where another number of units than the printed one gives the shares: table 10 has no more variants with an input."""

Shape = tuple[str, ...]


class Units(NamedTuple):
    """The shape and class of each variant; complete units by shape, and those that pass by condition and shape."""

    variants: list[tuple[Shape, str]]
    complete: dict[Shape, int]
    passing: dict[str, dict[Shape, int]]


def units_of(benchmark: str, n_variants: int, n_models: int) -> Units:
    """Find the units of a benchmark; one is complete when all its injections took place, and counts in table 4 then."""
    program = Program()
    variants = {
        (shape, label): program.number(f"variants {shape} {label}", n_variants) for shape in SHAPES for label in CLASSES
    }
    complete = {shape: program.number(f"complete {shape}", n_variants * n_models) for shape in SHAPES}
    passing = {
        name: {shape: program.number(f"{name} {shape}", n_variants * n_models) for shape in SHAPES}
        for name in CONDITIONS
    }
    program.rule(dict.fromkeys(variants.values(), 1.0), n_variants, n_variants)
    for shape in SHAPES:
        of_shape = {variants[shape, label]: -float(n_models) for label in CLASSES}
        program.rule({complete[shape]: 1.0, **of_shape}, -math.inf, 0)
        for numbers in passing.values():
            program.rule({numbers[shape]: 1.0, complete[shape]: -1.0}, -math.inf, 0)
    printed = rows("askearly_voi", benchmark=benchmark)
    sizes = {row["dimension"]: int(row["n"]) for row in printed}
    for dimension in DIMENSIONS:
        sizes[dimension] = FITTING.get((benchmark, dimension), sizes.get(dimension, 0))
        program.rule(
            {number: 1.0 for shape, number in complete.items() if dimension in shape},
            sizes[dimension],
            sizes[dimension],
        )
    for row in printed:
        size = sizes[row["dimension"]]
        wanted, share = count(row["value"], size, 1.0), float(row["value"]) * size
        low, high = (math.floor(share), math.ceil(share)) if wanted is None else (wanted, wanted)
        numbers = passing[row["condition"]]
        program.rule({number: 1.0 for shape, number in numbers.items() if row["dimension"] in shape}, low, high)
    breakdown = list(_breakdown(benchmark))
    for label in CLASSES:
        total = sum(wanted for _, each, wanted in breakdown if each == label)
        program.rule({number: 1.0 for (_, own), number in variants.items() if own == label}, total, total)
    for shapes, label, wanted in breakdown:
        terms = {number: 1.0 for (shape, own), number in variants.items() if shape in shapes and label in (own, "all")}
        program.wish(terms, wanted, slack=1)
    found = program.solve()
    return Units(
        [key for key, number in variants.items() for _ in range(found[number])],
        {shape: found[number] for shape, number in complete.items()},
        {name: {shape: found[number] for shape, number in numbers.items()} for name, numbers in passing.items()},
    )


def _breakdown(benchmark: str) -> Iterator[tuple[list[Shape], str, int]]:
    """The rows of table 10: shapes, class or all, number of variants."""
    shapes_of = labels("askearly_breakdown", "dimensions")
    for row in rows("askearly_breakdown", benchmark=benchmark):
        named = shapes_of.get(row["dimensions"], [row["dimensions"]])
        yield [tuple(name.split("+")) for name in named], row["ambiguity_class"], int(row["value"])
