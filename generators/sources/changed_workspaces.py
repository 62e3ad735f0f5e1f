"""The variants that a benchmark brings in which the prompt of a task stays and its environment changes."""

from collections.abc import Iterable

from recorder.values import Task, Variant
from runners.benchmarks.desk import DeskBenchmark
from runners.benchmarks.desk.registry import desk_tasks
from runners.benchmarks.desk.surroundings import environment_variants
from runners.benchmarks.protocol import Benchmark


def changed_workspaces(benchmark: Benchmark, tasks: Iterable[Task]) -> dict[str, tuple[Variant, ...]]:
    """Return those of each task, by its id, in the benchmark's order."""
    prompts = {task.task_id: task.prompt for task in tasks}
    found: dict[str, tuple[Variant, ...]] = dict.fromkeys(prompts, ())
    for each in _brought(benchmark):
        if each.environment_change is not None and prompts.get(each.task_id) == each.prompt:
            found[each.task_id] += (each,)
    return found


def _brought(benchmark: Benchmark) -> Iterable[Variant]:
    """``desk`` keeps its own in a file; other benchmarks list theirs among their variants."""
    if benchmark.name == DeskBenchmark.name:
        return (variant for task in desk_tasks() for variant in environment_variants(task))
    return benchmark.variants()
