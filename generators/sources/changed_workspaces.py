"""Finds the variants of a benchmark that change a task's environment but not its prompt."""

from collections.abc import Iterable

from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks, environment_variants
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark


def changed_workspaces(benchmark: Benchmark, tasks: Iterable[Task]) -> dict[str, tuple[Variant, ...]]:
    """Return the variants that change a task's environment but not its prompt, by task id, in the benchmark's order."""
    prompts = {task.task_id: task.prompt for task in tasks}
    found: dict[str, tuple[Variant, ...]] = dict.fromkeys(prompts, ())
    for each in _brought(benchmark):
        if each.environment_change is not None and prompts.get(each.task_id) == each.prompt:
            found[each.task_id] += (each,)
    return found


def _brought(benchmark: Benchmark) -> Iterable[Variant]:
    """Return the variants to consider. ``desk`` keeps its variants with a changed environment in a separate list."""
    if benchmark.name == DeskBenchmark.name:
        return (variant for task in desk_tasks() for variant in environment_variants(task))
    return benchmark.variants()
