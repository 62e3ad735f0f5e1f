"""Source ``experiment``: the tasks of the benchmark in an experiment file, which may come from an installed package."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lhaw_record.generators.protocol import SourceTask
from lhaw_record.generators.sources.task_checks import CheckedSource, LocatedTask
from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks import open_benchmark
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks, environment_variants
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark
from lhaw_record.runners.experiment.decoding import load_experiment
from lhaw_record.runners.runs.planning.plan import chosen_tasks


class ExperimentSource(CheckedSource):
    """The tasks of the benchmark that an experiment file names, opened with the options in that file.

    The tasks have the benchmark's own variants, but no files and no trajectory; recorded trials provide trajectories.

    Args:
        path: The experiment file; only ``[benchmark]`` and ``[grader]`` are used.

    Raises:
        ExperimentError: The file, a benchmark option or the name of a task is invalid.
    """

    def __init__(self, path: Path) -> None:
        experiment = load_experiment(path)
        spec = experiment.benchmark
        try:
            benchmark = open_benchmark(spec.name, dict(spec.options), path.parent, experiment.grader)
            tasks = chosen_tasks(benchmark, spec.tasks).values()
            brought = _variants_of(benchmark)
            self._tasks = tuple(SourceTask(task=task, variants=tuple(_own(task, brought))) for task in tasks)
        except ExperimentError as error:
            raise ExperimentError(f"{path}: {error}") from error
        self.benchmark = benchmark.name

    def found(self) -> Iterable[LocatedTask]:
        """Yield the tasks that the file names, in the benchmark's order."""
        for each in self._tasks:
            yield LocatedTask(each, f"{self.benchmark} task {each.task.task_id}")


def _variants_of(benchmark: Benchmark) -> Sequence[Variant]:
    """Return a benchmark's own variants. ``desk`` keeps those with a changed environment in a separate list."""
    changed = desk_tasks() if benchmark.name == DeskBenchmark.name else ()
    return [*benchmark.variants(), *(variant for task in changed for variant in environment_variants(task))]


def _own(task: Task, variants: Sequence[Variant]) -> Iterator[Variant]:
    """Yield the variants of a task that have no fault, and either the task's environment or its prompt."""
    for each in variants:
        changes_one = each.environment_change is None or each.prompt == task.prompt
        if each.task_id == task.task_id and not each.fault and changes_one:
            yield each
