"""The variants that a benchmark brings in which the prompt of a task stays and its environment changes."""

from recorder.values import Task, Variant
from runners.benchmarks.desk import DeskBenchmark
from runners.benchmarks.desk.registry import desk_tasks
from runners.benchmarks.desk.surroundings import environment_variants
from runners.benchmarks.protocol import Benchmark


def changed_workspaces(benchmark: Benchmark, task: Task) -> tuple[Variant, ...]:
    """Return those of one task; ``desk`` keeps its own in a file, other benchmarks list theirs among their variants."""
    found = _of_desk(task.task_id) if benchmark.name == DeskBenchmark.name else tuple(benchmark.variants())
    return tuple(
        each
        for each in found
        if each.environment_change is not None and each.task_id == task.task_id and each.prompt == task.prompt
    )


def _of_desk(task_id: str) -> tuple[Variant, ...]:
    return next((environment_variants(task) for task in desk_tasks() if task.task_id == task_id), ())
