"""Source ``mcp_atlas``: published rows, their claims as checkpoints, their recorded calls as the trajectory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from generators.protocol import SourceTask, TrajectoryStep
from generators.sources.checking import Placed, checked
from generators.sources.environment import files_below, texts_of
from generators.sources.reading import Finding, Reading, error, usable, warning
from recorder.canonical import canonical_json
from recorder.values import Task
from runners.benchmarks.mcp_atlas.availability import Place
from runners.benchmarks.mcp_atlas.benchmark import McpAtlasBenchmark
from runners.benchmarks.mcp_atlas.confinement import DATA_MOUNT
from runners.benchmarks.mcp_atlas.rows import Row, read_rows
from runners.benchmarks.mcp_atlas.specs import servers_directory
from runners.benchmarks.mcp_atlas.task import BENCHMARK, task_of
from runners.benchmarks.published import PublishedError


class McpAtlasSource:
    """Rows files.

    Args:
        rows: The files, in order.
        data: The folder that servers see as ``/data``; with it a task is the very task of the benchmark's trials.
        stand_ins: Servers that a stand-in replaces, as in the experiment whose trials belong to these tasks.
    """

    benchmark = BENCHMARK

    def __init__(self, rows: Sequence[Path], data: Path | None = None, stand_ins: Sequence[str] = ()) -> None:
        self._paths = rows
        self._data = data.resolve() if data else None
        self._stand_ins = tuple(stand_ins)

    def tasks(self) -> Sequence[SourceTask]:
        """Return every task, in the order of the rows, also those that cannot run here.

        Raises:
            SourceError: A file cannot be read or has a row that is none.
        """
        return usable(self.read())

    def read(self) -> Reading:
        """Return the tasks with every finding; a rows file with a broken row gives no tasks."""
        try:
            rows = read_rows(self._paths)
        except PublishedError as fault:
            return Reading(tasks=(), findings=(error(str(fault)),))
        files, findings = self._environment()
        tasks, more = self._recorded(rows)
        placed = [
            Placed(SourceTask(task=task, files=files, trajectory=_trajectory(row)), f"{row.source}, task {row.task_id}")
            for row, task in zip(rows, tasks, strict=True)
        ]
        return checked(placed, [*findings, *more])

    def _environment(self) -> tuple[dict[str, str], list[Finding]]:
        """The data by the paths that servers give them, the same for every task."""
        if self._data is None:
            return {}, [warning("no --data: nothing is known of the files, and trials of these tasks are not found")]
        found = files_below(self._data)
        try:
            texts = texts_of(found.files)
        except OSError as fault:
            return {}, [error(f"cannot read {fault.filename}: {fault.strerror}; name data that you may read")]
        findings = [warning(f"data {each.path} is not shown: {each.reason}") for each in found.refused]
        findings += [warning(f"data {name} is too large to be read") for name in texts.too_large]
        return {f"{DATA_MOUNT}/{name}": text for name, text in texts.files.items()}, findings

    def _recorded(self, rows: Sequence[Row]) -> tuple[list[Task], list[Finding]]:
        """The tasks as the benchmark records them, and which of them have no trials here."""
        if self._data is None:
            return [task_of(row, environment_digest="") for row in rows], []
        place = Place(data=self._data, servers=servers_directory(), stand_ins=self._stand_ins)
        benchmark = McpAtlasBenchmark(rows, place)
        return list(benchmark.every_task()), list(_not_runnable(benchmark, rows))


def _not_runnable(benchmark: McpAtlasBenchmark, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        reason = benchmark.why_not(row.task_id)
        if reason is not None:
            yield warning(f"{row.source}, task {row.task_id}: it cannot run here: {reason}", row.task_id)


def _trajectory(row: Row) -> tuple[TrajectoryStep, ...] | None:
    if row.trajectory is None:
        return None
    return tuple(
        TrajectoryStep(name=call.name, arguments_json=canonical_json(call.arguments).decode(), result=call.result)
        for call in row.trajectory
    )
