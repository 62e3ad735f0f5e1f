"""Which variant belongs to which task, and which models solve the task: found by an integer program of its own."""

from tests.reconstruction.lhaw_arms import Arms
from tests.reconstruction.lhaw_printed import CLASSES, Benchmark, Cell
from tests.reconstruction.printed_values import count
from tests.reconstruction.programs import Program

Placed = dict[str, list[tuple[int, frozenset[str]]]]
"""For each class, the number of each variant's task and the models that solve it."""


def tasks_of(benchmark: Benchmark, sizes: dict[Cell, int], arms: dict[tuple[str, Cell], Arms]) -> Placed:
    """For each class, the task of each variant and the models that solve it; of every task at least one variant.

    Tasks are told apart by who solves them: how many there are of each kind, and how many variants of each class they
    have, is a second program.
    """
    if benchmark.has_task_per_variant:
        return _own_tasks(benchmark, sizes, arms)
    models, program = benchmark.models, Program()
    kinds = [
        frozenset(model for place, model in enumerate(models) if number >> place & 1)
        for number in range(2 ** len(models))
    ]
    tasks = {kind: program.number(f"tasks {sorted(kind)}", benchmark.n_tasks) for kind in kinds}
    variants = {
        (kind, label): program.number(f"variants {sorted(kind)} {label}", benchmark.class_sizes[label])
        for kind in kinds
        for label in CLASSES
    }
    program.rule(dict.fromkeys(tasks.values(), 1.0), benchmark.n_tasks, benchmark.n_tasks)
    for kind in kinds:
        own = {variants[kind, label]: 1.0 for label in CLASSES}
        program.rule(own | {tasks[kind]: -1.0}, 0, float("inf"))
        program.rule(own | {tasks[kind]: -float(benchmark.n_variants)}, float("-inf"), 0)
    for label in CLASSES:
        total = benchmark.class_sizes[label]
        program.rule({variants[kind, label]: 1.0 for kind in kinds}, total, total)
    for model in models:
        base = benchmark.points(model, "baseline_pass3_pct")
        program.rule({tasks[kind]: 1.0 for kind in kinds if model in kind}, base, base)
        for label in CLASSES:
            text, size = benchmark.by_class[label, model, "baseline_pass3"], benchmark.class_sizes[label]
            wanted = count(text, size, 1.0)
            if wanted is None:
                wanted = round(float(text) * size)
            program.wish({variants[kind, label]: 1.0 for kind in kinds if model in kind}, wanted, benchmark.n_variants)
    found = program.solve()
    placed: Placed = {label: [] for label in CLASSES}
    first = 0
    for kind in kinds:
        owners = [label for label in CLASSES for _ in range(found[variants[kind, label]])]
        for place, label in enumerate(owners):
            placed[label].append((first + place % found[tasks[kind]], kind))
        first += found[tasks[kind]]
    return placed


def _own_tasks(benchmark: Benchmark, sizes: dict[Cell, int], arms: dict[tuple[str, Cell], Arms]) -> Placed:
    """A task for each variant: of each cell, the first ones are solved."""
    placed: Placed = {label: [] for label in CLASSES}
    number = 0
    for cell in benchmark.cells:
        for place in range(sizes[cell]):
            solvers = frozenset(model for model in benchmark.models if place < arms[model, cell].full_passes)
            placed[cell[0]].append((number, solvers))
            number += 1
    return placed
