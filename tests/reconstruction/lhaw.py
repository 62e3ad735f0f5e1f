"""LHAW as single trials: a store per benchmark whose tables 2, 3, 5 to 9 and 13 come out as printed, where they can."""

from collections.abc import Sequence

from lhaw_record.recorder.events.values import Task, Variant
from tests.reconstruction.lhaw_arms import Arms, arms_of, sizes_of
from tests.reconstruction.lhaw_printed import Benchmark, Cell
from tests.reconstruction.lhaw_progress import kind_of, progress_of
from tests.reconstruction.lhaw_tasks import Placed, tasks_of
from tests.reconstruction.shares import NOBODY, Asking, asking, levels, trials_of
from tests.reconstruction.told import Tale, task, variant


def lhaw(name: str) -> Tale:
    """Return a benchmark as one store; the full trials of a task are shared by its variants."""
    benchmark = Benchmark(name)
    sizes = sizes_of(benchmark)
    arms = {
        (model, cell): found for model in benchmark.models for cell, found in arms_of(benchmark, model, sizes).items()
    }
    patterns = tasks_of(benchmark, sizes, arms)
    tale = Tale(f"lhaw-{name}", "task")
    variants = _add_units(benchmark, tale, sizes, patterns)
    for model in benchmark.models:
        _add_trials(benchmark, tale, model, variants, {cell: arms[model, cell] for cell in benchmark.cells})
    return tale


def _add_units(
    benchmark: Benchmark, tale: Tale, sizes: dict[Cell, int], placed: Placed
) -> dict[Cell, list[tuple[Variant, frozenset[str]]]]:
    """Add tasks and variants; returns the variants of each cell, with the models that solve their task."""
    tasks = {number: task(benchmark.name, number) for number in range(benchmark.n_tasks)}
    tale.tasks.extend(tasks.values())
    left = {label: iter(places) for label, places in placed.items()}
    found: dict[Cell, list[tuple[Variant, frozenset[str]]]] = {cell: [] for cell in benchmark.cells}
    for cell in benchmark.cells:
        for _ in range(sizes[cell]):
            number, solvers = next(left[cell[0]])
            one = variant(tasks[number], len(tale.variants), cell[1], cell[0])
            tale.variants.append(one)
            found[cell].append((one, solvers))
    return found


def _add_trials(
    benchmark: Benchmark,
    tale: Tale,
    model: str,
    variants: dict[Cell, list[tuple[Variant, frozenset[str]]]],
    arms: dict[Cell, Arms],
) -> None:
    """Add the three arms of a model."""
    lowest = {"mcp_atlas": 0.75, "tac": 1.0}.get(benchmark.name, 0.0)
    printed = {metric: text for (name, metric), text in benchmark.overall.items() if name == model}
    solvers = {one.task_id: own for members in variants.values() for one, own in members}
    placed = [(one, place, arms[cell]) for cell, members in variants.items() for place, (one, _) in enumerate(members)]
    asking_first = sorted(placed, key=lambda each: each[1] >= each[2].paired)
    kinds = [
        (
            one,
            kind_of(
                one,
                _passes(place, own) if place < own.run else None,
                _passes_asking(place, own) if _is_asking(place, own) else None,
            ),
        )
        for one, place, own in asking_first
    ]
    progress = progress_of(benchmark, model, [kind for _, kind in kinds], lowest)
    run = [(one, kind.under, progress.under[kind]) for one, kind in kinds if kind.under is not None]
    ask_run = [(one, kind.asking, progress.asking[kind]) for one, kind in kinds if kind.asking is not None]
    asked = asking(printed, len(ask_run), benchmark.asking_trials.get((model,)))
    solved = [model in solvers[each.task_id] for each in tale.tasks]
    plan = levels(sum(solved) / len(solved), float(printed["baseline_ckpt_pct"]) / 100, lowest)
    full = [(each, own, plan.mean if own else plan.missed) for each, own in zip(tale.tasks, solved, strict=True)]
    _add_arm(tale, model, "full", full, lowest)
    _add_arm(tale, model, "underspecified", run, lowest)
    _add_arm(tale, model, "ask_user", ask_run, lowest, asked)


def _passes(place: int, arms: Arms) -> bool:
    """Whether the variant at a place of its cell passes without ask_user: first stand the paired ones, then its own."""
    alone = arms.passes - arms.paired_passes
    return place < arms.paired_passes or arms.paired <= place < arms.paired + alone


def _is_asking(place: int, arms: Arms) -> bool:
    """Whether the variant at a place was run with ask_user: paired ones, and those behind all that were run without."""
    return place < arms.paired or arms.run <= place < arms.run + arms.ask_run - arms.paired


def _passes_asking(place: int, arms: Arms) -> bool:
    """Whether it passes then: of the paired ones the last do."""
    alone = arms.ask_passes - arms.paired_ask_passes
    return arms.paired - arms.paired_ask_passes <= place < arms.paired or arms.run <= place < arms.run + alone


def _add_arm(
    tale: Tale,
    model: str,
    condition: str,
    units: Sequence[tuple[Task | Variant, bool, float]],
    lowest: float,
    questions: Asking = NOBODY,
) -> None:
    """Add three trials of every unit, of which we know whether it passes and its mean progress."""
    for number, (unit, is_passing, progress) in enumerate(units):
        plan = levels(float(is_passing), progress, lowest)
        asks = questions.of(number)
        tale.trials.extend(trials_of(model, unit, condition, plan, is_passing=is_passing, asks=asks))
