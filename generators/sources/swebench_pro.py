"""Source ``swebench_pro``: published instances, the prompt as the benchmark composes it, F2P tests as checkpoints."""

from collections.abc import Sequence
from pathlib import Path

from generators.protocol import SourceTask
from generators.sources.checking import Placed, checked
from generators.sources.reading import Finding, Reading, error, usable, warning
from runners.benchmarks.published import PublishedError, read_records
from runners.benchmarks.swebench_pro import BENCHMARK, instance_of, task_of


class SwebenchProSource:
    """Files of instances.

    Args:
        paths: The files, in order.
    """

    benchmark = BENCHMARK

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def tasks(self) -> Sequence[SourceTask]:
        """Return every task, in the order of the files.

        Raises:
            SourceError: A file cannot be read, or a record is no instance.
        """
        return usable(self.read())

    def read(self) -> Reading:
        """Return the tasks with every finding; after a record that cannot be decoded a file is not read on."""
        tasks: list[Placed] = []
        findings: list[Finding] = []
        for path in self._paths:
            try:
                for place, record in read_records(path):
                    _read(place, record, tasks, findings)
            except PublishedError as fault:
                findings.append(error(str(fault)))
        return checked(tasks, findings)


def _read(place: str, record: dict[str, object], tasks: list[Placed], findings: list[Finding]) -> None:
    try:
        instance = instance_of(record, place)
    except PublishedError as fault:
        findings.append(error(str(fault)))
        return
    tasks.append(Placed(SourceTask(task=task_of(instance)), f"{place}, task {instance.instance_id}"))
    if instance.quoted_columns:
        columns = " and ".join(instance.quoted_columns)
        message = f"{place}: a JSON string stands in {columns}; what it says is taken"
        findings.append(warning(message, instance.instance_id))
