"""Source ``mcp_atlas``: published rows, with claims as checkpoints and recorded calls as the trajectory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from lhaw_record.generators.protocol import SourceTask, TrajectoryStep
from lhaw_record.generators.sources.environment_files import files_below, texts_of
from lhaw_record.generators.sources.task_checks import CheckedSource, LocatedTask, SourceFinding, error, warning
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.values import Task
from lhaw_record.runners.environments.benchmarks.mcp_atlas.availability import AtlasInstallation
from lhaw_record.runners.environments.benchmarks.mcp_atlas.benchmark import McpAtlasBenchmark
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import DATA_MOUNT
from lhaw_record.runners.environments.benchmarks.mcp_atlas.own_servers import read_own_servers, with_own
from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import BENCHMARK, Row, read_rows, task_of
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import catalog, servers_directory
from lhaw_record.runners.environments.benchmarks.published import PublishedError


class McpAtlasSource(CheckedSource):
    """The tasks in files of published rows.

    Args:
        rows: The files, in order.
        data: The folder that servers see as ``/data``. Without it, the tasks do not match those of recorded trials.
        own_servers: A file of servers of one's own; name the same one as in the experiment that ran the tasks.
    """

    benchmark = BENCHMARK

    def __init__(
        self,
        rows: Sequence[Path],
        data: Path | None = None,
        own_servers: Path | None = None,
    ) -> None:
        self._paths = rows
        self._data = data.resolve() if data else None
        self._own_servers = own_servers

    def found(self) -> Iterator[LocatedTask | SourceFinding]:
        """Yield the tasks in the order of the rows, also those that cannot run here. A broken row leaves no tasks."""
        try:
            rows = read_rows(self._paths)
        except PublishedError as fault:
            yield error(str(fault))
            return
        files, findings = self._environment()
        tasks, more = self._recorded(rows)
        yield from (*findings, *more)
        for row, task in zip(rows, tasks, strict=True):
            source = SourceTask(task=task, files=files, trajectory=_trajectory(row))
            yield LocatedTask(source, f"{row.source}, task {row.task_id}")

    def _environment(self) -> tuple[dict[str, str], list[SourceFinding]]:
        """Return the text of each data file by its path on the servers, and findings. All tasks share these files."""
        if self._data is None:
            return {}, [warning("no --data: the files are unknown, so trials of these tasks are not found")]
        found = files_below(self._data)
        try:
            texts = texts_of(found.files)
        except OSError as fault:
            return {}, [error(f"cannot read {fault.filename}: {fault.strerror}; name data that you may read")]
        findings = [warning(f"data {each.path} is not shown: {each.reason}") for each in found.refused]
        findings += [warning(f"data {name} is too large to be read") for name in texts.too_large]
        return {f"{DATA_MOUNT}/{name}": text for name, text in texts.files.items()}, findings

    def _recorded(self, rows: Sequence[Row]) -> tuple[list[Task], list[SourceFinding]]:
        """Return the tasks as the benchmark records them, and a warning for each task that cannot run here."""
        if self._data is None:
            return [task_of(row, environment_digest="") for row in rows], []
        own = read_own_servers(self._own_servers) if self._own_servers else ()
        known, servers = with_own(catalog(), own), servers_directory()
        place = AtlasInstallation(data=self._data, servers=servers, catalog=known)
        benchmark = McpAtlasBenchmark(rows, place)
        return list(benchmark.every_task()), list(_not_runnable(benchmark, rows))


def _not_runnable(benchmark: McpAtlasBenchmark, rows: Sequence[Row]) -> Iterator[SourceFinding]:
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
