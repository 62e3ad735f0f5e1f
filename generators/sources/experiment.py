"""Source ``experiment``: the tasks of the benchmark in an experiment file, which may come from an installed package."""

from collections.abc import Iterable
from pathlib import Path

from lhaw_record.generators.protocol import SourceTask
from lhaw_record.generators.sources.changed_workspaces import changed_workspaces
from lhaw_record.generators.sources.task_checks import CheckedSource, LocatedTask
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks import open_benchmark
from lhaw_record.runners.experiment.decoding import load_experiment
from lhaw_record.runners.runs.planning.plan import chosen_tasks


class ExperimentSource(CheckedSource):
    """The tasks of the benchmark that an experiment file names, opened with the options in that file.

    The tasks have no files and no trajectory; recorded trials provide trajectories.

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
            changed = changed_workspaces(benchmark, tasks)
            self._tasks = tuple(SourceTask(task=task, changed_workspaces=changed[task.task_id]) for task in tasks)
        except ExperimentError as error:
            raise ExperimentError(f"{path}: {error}") from error
        self.benchmark = benchmark.name

    def found(self) -> Iterable[LocatedTask]:
        """Yield the tasks that the file names, in the benchmark's order."""
        for each in self._tasks:
            yield LocatedTask(each, f"{self.benchmark} task {each.task.task_id}")
