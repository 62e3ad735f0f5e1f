"""LHAW as single trials: a store per benchmark whose tables 2, 3, 5 and 7 to 9 come out as printed, where they can."""

from collections.abc import Sequence

from recorder.values import Task, Variant
from tests.reconstruction.lhaw_arms import Arms, arms_of, sizes_of
from tests.reconstruction.lhaw_printed import Benchmark, Cell
from tests.reconstruction.lhaw_tasks import Placed, tasks_of
from tests.reconstruction.recording import TRIALS, Tale, Told, name_of, task, variant
from tests.reconstruction.shares import Asking, asking, levels


def lhaw(name: str) -> Tale:
    """Return a benchmark as one store; the full trials of a task are shared by its variants."""
    benchmark = Benchmark(name)
    sizes = sizes_of(benchmark)
    arms = {
        (model, cell): found for model in benchmark.models for cell, found in arms_of(benchmark, model, sizes).items()
    }
    patterns = tasks_of(benchmark, sizes, arms)
    tale = Tale(f"lhaw-{name}", [], [], [], [], "task")
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
    percent = {
        metric: float(text) / 100
        for (name, metric), text in benchmark.overall.items()
        if name == model and "ckpt" in metric
    }
    solvers = {one.task_id: own for members in variants.values() for one, own in members}
    placed = [(one, place, arms[cell]) for cell, members in variants.items() for place, (one, _) in enumerate(members)]
    paired = [one.variant_id for one, place, own in placed if place < own.paired]
    run = [(one, _passes(place, own)) for one, place, own in placed if place < own.run]
    asking_first = sorted(placed, key=lambda each: each[1] >= each[2].paired)
    ask_run = [(one, _passes_asking(place, own)) for one, place, own in asking_first if _is_asking(place, own)]
    full = [(each, model in solvers[each.task_id]) for each in tale.tasks]
    _add_arm(tale, model, "full", full, percent["baseline_ckpt_pct"], lowest)
    means = _add_arm(tale, model, "underspecified", run, percent["underspecified_ckpt_pct"], lowest)
    before = sum(means[name] for name in paired) / len(paired)
    printed = {metric: text for (name, metric), text in benchmark.overall.items() if name == model}
    asked = asking(printed, len(ask_run), benchmark.asking_trials.get((model,)))
    _add_arm(tale, model, "ask_user", ask_run, before + percent["ckpt_gain_pp"], lowest, asked, len(paired))


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
    units: Sequence[tuple[Task | Variant, bool]],
    progress: float,
    lowest: float,
    questions: Asking | None = None,
    n_counted: int | None = None,
) -> dict[str, float]:
    """Add three trials of every unit, of which some pass; ``progress`` is that of the first ``n_counted`` units.

    Returns the mean progress of each unit.
    """
    counted = units[:n_counted]
    plan = levels(sum(is_passing for _, is_passing in counted) / len(counted), progress, lowest)
    means = {}
    for number, (unit, is_passing) in enumerate(units):
        successes = plan.successes if is_passing else 0
        means[name_of(unit)] = (successes * plan.reached + (TRIALS - successes) * plan.missed) / TRIALS
        for index in range(TRIALS):
            n_asks = questions.of(number, index) if questions else 0
            tale.trials.append(
                Told(
                    agent=model,
                    unit=unit,
                    condition=condition,
                    index=index,
                    score=round(plan.reached if index < successes else plan.missed, 9),
                    is_success=index < successes,
                    actions=n_asks + 1,
                    asks=tuple(range(1, n_asks + 1)),
                )
            )
    return means
