"""Source ``swebench_pro``: published instances as tasks; their fail-to-pass tests become checkpoints."""

from collections.abc import Iterator

from lhaw_record.generators.protocol import SourceTask
from lhaw_record.generators.sources.reading import Finding, error, warning
from lhaw_record.generators.sources.task_checks import LocatedTask, PublishedSource
from lhaw_record.runners.environments.benchmarks.published import PublishedError, read_records
from lhaw_record.runners.environments.benchmarks.swebench_pro import BENCHMARK, instance_of, task_of


class SwebenchProSource(PublishedSource):
    """The tasks in files of published instances."""

    benchmark = BENCHMARK

    def found(self) -> Iterator[LocatedTask | Finding]:
        """Yield the tasks in the order of the files, each up to its first undecodable record, and what is wrong."""
        for path in self._paths:
            try:
                for place, record in read_records(path):
                    yield from _read(place, record)
            except PublishedError as fault:
                yield error(str(fault))


def _read(place: str, record: dict[str, object]) -> Iterator[LocatedTask | Finding]:
    try:
        instance = instance_of(record, place)
    except PublishedError as fault:
        yield error(str(fault))
        return
    yield LocatedTask(SourceTask(task=task_of(instance)), f"{place}, task {instance.instance_id}")
    if instance.quoted_columns:
        columns = " and ".join(instance.quoted_columns)
        yield warning(f"{place}: {columns} has a JSON string, whose content is used", instance.instance_id)
