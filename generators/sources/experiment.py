"""Source ``experiment``: the tasks of whatever benchmark an experiment file names, an installed package's included."""

from collections.abc import Sequence
from pathlib import Path

from generators.protocol import SourceTask
from generators.sources.changed_workspaces import changed_workspaces
from generators.sources.checking import Placed, checked
from generators.sources.reading import Reading, usable
from runners.benchmarks import open_benchmark
from runners.errors import ExperimentError
from runners.experiment_file import load_experiment
from runners.plan import chosen_tasks


class ExperimentSource:
    """The tasks as the benchmark lists them, with the options that the file has for it.

    There are no files and no trajectory: trials in a store give one.

    Args:
        path: The experiment file; of it only ``[benchmark]`` and ``[grader]`` are used.

    Raises:
        ExperimentError: The file, one of the benchmark's options or the name of a task is wrong.
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

    def tasks(self) -> Sequence[SourceTask]:
        """Return every task that the file names, in the benchmark's order."""
        return usable(self.read())

    def read(self) -> Reading:
        """Return the tasks with every finding."""
        return checked([Placed(each, f"{self.benchmark} task {each.task.task_id}") for each in self._tasks])
