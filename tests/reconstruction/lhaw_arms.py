"""Which variants there are and which of them pass in which arm, found by integer programs.

Class sizes, dimension sizes and table 3 must hold, the other printed cells are wishes.
"""

from typing import NamedTuple

from lhaw_record.recorder.events.values import DIMENSIONS
from tests.reconstruction.lhaw_printed import CLASSES, ONE_SEGMENT, OTHER_RUNS, SIZES, Benchmark, Cell
from tests.reconstruction.printed_values import count
from tests.reconstruction.programs import Program, Terms


class Arms(NamedTuple):
    """For one model and cell: variants run without ask_user, with it, and both ways, and those of them that pass."""

    run: int
    ask_run: int
    paired: int
    passes: int
    ask_passes: int
    paired_passes: int
    paired_ask_passes: int
    full_passes: int


def sizes_of(benchmark: Benchmark) -> dict[Cell, int]:
    """Find how many variants of each class have each shape: so that most holds together, else as even as can be."""
    program = Program()
    size = {cell: program.number(f"size {cell}", benchmark.class_sizes[cell[0]]) for cell in benchmark.cells}
    for label in CLASSES:
        total = benchmark.class_sizes[label]
        program.rule({size[cell]: 1 for cell in benchmark.cells if cell[0] == label}, total, total)
    for dimension, total in zip(DIMENSIONS, SIZES[benchmark.name], strict=True):
        if total:
            program.rule({size[cell]: _times(cell, dimension) for cell in benchmark.cells}, total, total)
    if benchmark.is_per_segment:
        total = ONE_SEGMENT[benchmark.name]
        program.rule({size[cell]: 1 for cell in benchmark.cells if len(cell[1]) == 1}, total, total)
    for model in benchmark.models:
        if benchmark.is_complete(model):
            _bind_sizes(benchmark, program, model, size)
    for cell, name in size.items():
        even = benchmark.class_sizes[cell[0]] * len(CLASSES) / len(benchmark.cells)
        program.rule(
            {name: 1, program.number(f"missing {cell}", benchmark.n_variants, cost=0.01): 1}, even, float("inf")
        )
    found = program.solve()
    return {cell: found[name] for cell, name in size.items()}


def _bind_sizes(benchmark: Benchmark, program: Program, model: str, size: dict[Cell, str]) -> None:
    """Demand sizes that let a model's shares of tables 3, 5 and 7 to 9 hold together, in each arm."""
    cells = benchmark.cells
    under = benchmark.points(model, "underspecified_pass3_pct")
    totals = {"underspecified_pass3": under, "with_user_pass3": under + benchmark.points(model, "pass3_gain_pp")}
    dimensions = (
        zip(DIMENSIONS, SIZES[benchmark.name], strict=True) if (benchmark.name, model) not in OTHER_RUNS else ()
    )
    found = {name: benchmark.dimension_counts(model, name, total) for name, total in dimensions if total}
    for arm, (metric, total) in enumerate(totals.items()):
        passes = {cell: program.number(f"{metric} {model} {cell}", benchmark.n_variants) for cell in cells}
        for cell in cells:
            program.rule({passes[cell]: 1, size[cell]: -1}, float("-inf"), 0)
        program.rule(_sum(passes), total, total)
        for label in CLASSES:
            wanted = count(benchmark.by_class[label, model, metric], benchmark.class_sizes[label], 1.0)
            if wanted is not None:
                program.wish(
                    _sum(passes, {cell: 1 for cell in cells if cell[0] == label}), wanted, benchmark.n_variants
                )
        for name, counts in found.items():
            wanted = counts[arm]
            if wanted is not None:
                program.wish(
                    _sum(passes, {cell: _times(cell, name) for cell in cells}), wanted, 2 * benchmark.n_variants
                )


def arms_of(benchmark: Benchmark, model: str, sizes: dict[Cell, int]) -> dict[Cell, Arms]:
    """Find the arms of a model: sizes and table 3 hold, the other printed cells are wishes."""
    program, cells = Program(), benchmark.cells
    parts = [{cell: program.number(f"{part} {cell}", sizes[cell]) for cell in cells} for part in Arms._fields]
    run, ask_run, paired, passes, ask_passes, paired_passes, paired_ask_passes, full_passes = parts
    for cell in cells:
        limits: tuple[Terms, ...] = (
            {paired[cell]: 1, run[cell]: -1},
            {paired[cell]: 1, ask_run[cell]: -1},
            {paired_passes[cell]: 1, paired[cell]: -1},
            {paired_passes[cell]: 1, passes[cell]: -1},
            {passes[cell]: 1, paired_passes[cell]: -1, run[cell]: -1, paired[cell]: 1},
            {paired_ask_passes[cell]: 1, paired[cell]: -1},
            {paired_ask_passes[cell]: 1, ask_passes[cell]: -1},
            {ask_passes[cell]: 1, paired_ask_passes[cell]: -1, ask_run[cell]: -1, paired[cell]: 1},
            {full_passes[cell]: 1, run[cell]: -1},
        )
        for each in limits:
            program.rule(each, float("-inf"), 0)
        program.rule({run[cell]: 1, ask_run[cell]: 1, paired[cell]: -1}, 0, sizes[cell])
    under, gain = benchmark.points(model, "underspecified_pass3_pct"), benchmark.points(model, "pass3_gain_pp")
    for names, total in zip((run, ask_run, paired, passes), (*benchmark.run(model), under), strict=True):
        program.rule(_sum(names), total, total)
    program.rule(_sum(paired_ask_passes) | _sum(paired_passes, -1), gain, gain)
    if benchmark.has_task_per_variant:
        base = benchmark.points(model, "baseline_pass3_pct")
        program.rule(_sum(full_passes), base, base)
    for label in CLASSES:
        inside = {cell: 1 for cell in cells if cell[0] == label}
        for arm, metric, above, below in (
            (0, "underspecified_pass3", passes, run),
            (1, "with_user_pass3", ask_passes, ask_run),
            *([(0, "baseline_pass3", full_passes, run)] if benchmark.has_task_per_variant else []),
        ):
            text = benchmark.by_class[label, model, metric]
            number = benchmark.class_sizes[label]
            _wish_share(
                program, text, 1.0, benchmark.range_of(model, arm, number), _sum(above, inside), _sum(below, inside)
            )
    for place, dimension in enumerate(DIMENSIONS):
        inside = {cell: _times(cell, dimension) for cell in cells}
        largest = SIZES[benchmark.name][place]
        _wish_arms(benchmark, program, model, benchmark.by_dimension, dimension, largest, inside, parts)
    for segments in ("1", "2") if benchmark.is_per_segment else ():
        inside = {cell: 1 for cell in cells if len(cell[1]) == int(segments)}
        one = ONE_SEGMENT[benchmark.name]
        largest = one if segments == "1" else benchmark.n_variants - one
        _wish_arms(benchmark, program, model, benchmark.by_segments, segments, largest, inside, parts)
    found = program.solve()
    return {cell: Arms(*(found[part[cell]] for part in parts)) for cell in cells}


def _wish_arms(
    benchmark: Benchmark,
    program: Program,
    model: str,
    printed: dict[tuple[str, ...], str],
    group: str,
    largest: int,
    inside: dict[Cell, int],
    names: list[dict[Cell, str]],
) -> None:
    """Wish for the share that passes without ask_user, and for the gain."""
    run, _, paired, passes, _, paired_passes, paired_ask_passes, _ = names
    if under := printed.get((group, model, "underspecified_pass3_pct")):
        _wish_share(
            program, under, 100.0, benchmark.range_of(model, 0, largest), _sum(passes, inside), _sum(run, inside)
        )
    if gain := printed.get((group, model, "pass3_gain_pp")):
        above = _sum(paired_ask_passes, inside) | {
            name: -factor for name, factor in _sum(paired_passes, inside).items()
        }
        _wish_share(program, gain, 100.0, benchmark.range_of(model, 2, largest), above, _sum(paired, inside))


def _wish_share(program: Program, text: str, unit: float, sizes: tuple[int, int], above: Terms, below: Terms) -> None:
    """Wish for a share that is printed so: for one of the pairs of counts that give it, else for the nearest count.

    Args:
        program: Where to.
        text: The share.
        unit: What one whole is printed as.
        sizes: How many there are at least and at most below the line.
        above: What is counted above the line.
        below: What is counted below it.
    """
    pairs = [(found, size) for size in range(sizes[0], sizes[1] + 1) if (found := count(text, size, unit)) is not None]
    pairs = pairs or [(round(float(text) * sizes[1] / unit), sizes[1])]
    loose = 2.0 * sum(sizes) + 100
    choices = [program.number(f"choice {id(above)} {pair}", 1, cost=-1.0) for pair in pairs]
    program.rule(dict.fromkeys(choices, 1.0), 0, 1)
    for choice, (wanted, size) in zip(choices, pairs, strict=True):
        for terms, total in ((above, wanted), (below, size)):
            program.rule(terms | {choice: loose}, float("-inf"), total + loose)
            program.rule(terms | {choice: -loose}, total - loose, float("inf"))


def _sum(names: dict[Cell, str], factors: dict[Cell, int] | int = 1) -> Terms:
    if isinstance(factors, int):
        return dict.fromkeys(names.values(), float(factors))
    return {names[cell]: float(factor) for cell, factor in factors.items() if factor}


def _times(cell: Cell, dimension: str) -> int:
    return cell[1].count(dimension)
