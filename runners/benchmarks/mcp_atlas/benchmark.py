"""The MCP-Atlas benchmark: published rows as tasks, real servers as tools, claims as checkpoints."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property
from pathlib import Path

from recorder.canonical import canonical_json, digest
from recorder.values import Checkpoint, Task, Variant
from runners.benchmarks.mcp_atlas.answers import ANSWERS
from runners.benchmarks.mcp_atlas.availability import Availability, Place, availability
from runners.benchmarks.mcp_atlas.claims import MATCHER
from runners.benchmarks.mcp_atlas.confinement import confined, unconfined
from runners.benchmarks.mcp_atlas.credentials import secrets_of_servers, with_credentials
from runners.benchmarks.mcp_atlas.environment import McpAtlasEnvironment, OfferedTool
from runners.benchmarks.mcp_atlas.judge import ClaimJudge
from runners.benchmarks.mcp_atlas.playbook import Playbook, playbooks
from runners.benchmarks.mcp_atlas.rows import Row
from runners.benchmarks.mcp_atlas.server import RunningServer, ServerPlan, running_servers
from runners.benchmarks.mcp_atlas.specs import (
    ServerSpec,
    catalog,
    command_of,
    installed_version,
    runtime_roots,
)
from runners.benchmarks.mcp_atlas.world import data_digest, private_copy
from runners.benchmarks.protocol import Artifact, Environment, EnvironmentSettings
from runners.benchmarks.refusals import refuse_changed_environment
from runners.errors import ToolBoundaryError
from runners.models.replay import Reference, ReferenceCall

LICENCE = "CC-BY-4.0"


class McpAtlasBenchmark:
    """A source of tasks from rows files.

    Args:
        rows: The rows, in order.
        place: The data folder, the installed servers, and the stand-ins that may be used.
        judge: Grades claims with a model; None for the deterministic matcher.
        is_confined: Whether servers run in bubblewrap; else as plain processes.
    """

    name = "mcp_atlas"
    version = "1"
    ends_on_text = True

    def __init__(
        self, rows: Sequence[Row], place: Place, judge: ClaimJudge | None = None, *, is_confined: bool = True
    ) -> None:
        self._rows = {row.task_id: row for row in rows}
        self._place = place
        self._judge = judge
        self._is_confined = is_confined
        self.grader = judge.name if judge else MATCHER

    @cached_property
    def availability(self) -> dict[str, Availability]:
        """Whether each row can run here."""
        return {task_id: availability(row, self._place) for task_id, row in self._rows.items()}

    def tasks(self) -> Sequence[Task]:
        """Return the tasks that can run here, in the order of the rows."""
        return [self._task(row) for row in self._rows.values() if self.availability[row.task_id].is_runnable]

    def every_task(self) -> Sequence[Task]:
        """Return the tasks of all rows, also of those that cannot run here, in the order of the rows."""
        return [self._task(row) for row in self._rows.values()]

    def left_out(self) -> Sequence[str]:
        """Return the tasks of rows that cannot run here, in the order of the rows."""
        return [task_id for task_id, found in self.availability.items() if not found.is_runnable]

    def why_not(self, task_id: str) -> str | None:
        """Return why a task of the rows cannot run here, or None; for tasks that somebody asks for by name."""
        if task_id not in self._rows:
            return "no rows file has it"
        return "; ".join(self.availability[task_id].reasons) or None

    def variants(self) -> Sequence[Variant]:
        """Return our hand-written variants of the tasks, cut out of the user's own rows."""
        return [
            variant
            for row in self._rows.values()
            if self.availability[row.task_id].is_runnable and (book := _playbook(row))
            for variant in book.variants_of(self.name, row.prompt)
        ]

    def secrets(self) -> frozenset[str]:
        """Return what servers are told in secret, so that it is never recorded."""
        return secrets_of_servers(os.environ)

    def system_prompt(self) -> str:
        """Return nothing: the benchmark's agents get one user message."""
        return ""

    def reference(self, task_id: str) -> Reference | None:
        """Return how a task is done, published with its row or our own script, or None where neither is there."""
        row = self._rows.get(task_id)
        if row is None:
            return None
        book = _playbook(row)
        own = book.own_calls() if book else ()
        if not own and not row.trajectory:
            return None
        published = tuple(
            ReferenceCall(name=c.name, arguments=c.arguments, result=c.result) for c in row.trajectory or ()
        )
        return Reference(
            task_id=task_id,
            origin="own" if own else "published",
            calls=own or published,
            parameters=book.parameters(row.prompt) if book else (),
            compose=ANSWERS[book.answer] if book else None,
        )

    def open(
        self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None
    ) -> AbstractAsyncContextManager[Environment]:
        """Start the servers of a task on a private copy of the data; closing leaves no process and no file behind.

        Raises:
            ToolBoundaryError: A server cannot be started.
            SandboxBoundaryError: Servers have to be confined and bubblewrap is missing, or the variant would change the
                data, which this cannot.
        """
        refuse_changed_environment(variant, self.name)
        return self._open(task, settings)

    @asynccontextmanager
    async def _open(self, task: Task, settings: EnvironmentSettings) -> AsyncIterator[Environment]:
        row = self._rows[task.task_id]
        found = self.availability[task.task_id]
        if not found.is_runnable:
            raise ToolBoundaryError(
                f"task {task.task_id} cannot run here: {'; '.join(found.reasons)}",
                kind="not_runnable",
                is_retry_owed=False,
            )
        async with private_copy(self._place.data) as copy:
            plans = [self._plan(spec, copy, settings) for spec in found.servers]
            async with running_servers(plans) as servers:
                for server in servers:
                    server.check()
                by_name = dict(zip((spec.name for spec in found.servers), servers, strict=True))
                yield McpAtlasEnvironment(
                    task,
                    offered_tools(row, by_name),
                    row.trajectory or (),
                    self._judge,
                    data_at=None if self._is_confined else str(copy),
                    facts=(self._facts(found.servers, servers),),
                )

    def _facts(self, specs: Sequence[ServerSpec], servers: Sequence[RunningServer]) -> Artifact:
        """Which servers a trial really had: package and version as installed, and what each said about itself."""
        described = [
            {
                "server": spec.recorded_name,
                "package": spec.package,
                "version": installed_version(spec, self._place.servers),
                "pinned_version": spec.version,
                "says": server.info,
                "tools": len(server.tools),
                "is_confined": self._is_confined,
                "has_network": spec.needs_network or not self._is_confined,
            }
            for spec, server in zip(specs, servers, strict=True)
        ]
        return Artifact(
            name="servers.json", role="environment", media_type="application/json", content=canonical_json(described)
        )

    def _plan(self, spec: ServerSpec, copy: Path, settings: EnvironmentSettings) -> ServerPlan:
        return server_plan(
            spec,
            self._place.servers,
            copy,
            settings.limits.file_mb,
            settings.limits.command_seconds,
            is_confined=self._is_confined,
        )

    def _task(self, row: Row) -> Task:
        return task_of(row, self._environment_digest(row))

    def _environment_digest(self, row: Row) -> str:
        servers = {
            spec.recorded_name: [
                spec.package,
                installed_version(spec, self._place.servers),
                spec.arguments,
                spec.variables,
            ]
            for spec in self.availability[row.task_id].servers
        }
        return digest({"servers": servers, "data": self._data_digest, "tools": row.enabled_tools})

    @cached_property
    def _data_digest(self) -> str:
        return data_digest(self._place.data)


def task_of(row: Row, environment_digest: str) -> Task:
    """Return a row as a task, a claim for each checkpoint; the digest is empty where the environment is not known."""
    return Task(
        benchmark=McpAtlasBenchmark.name,
        benchmark_version=McpAtlasBenchmark.version,
        task_id=row.task_id,
        prompt=row.prompt,
        checkpoints=tuple(
            Checkpoint(checkpoint_id=f"c{number}", label=claim) for number, claim in enumerate(row.claims, start=1)
        ),
        environment_digest=environment_digest,
        licence=LICENCE,
    )


def server_plan(
    spec: ServerSpec, servers: Path, data: Path, file_mb: int, call_seconds: float, *, is_confined: bool = True
) -> ServerPlan:
    """Return how a server is started on a copy of the data.

    Raises:
        SandboxBoundaryError: It has to be confined and bubblewrap is missing.
    """
    command = [with_credentials(part) for part in command_of(spec, servers)]
    variables = {name: with_credentials(value) for name, value in spec.variables.items()}
    readable = runtime_roots(spec, servers)
    process = (
        confined(command, variables, data, readable, file_mb, has_network=spec.needs_network)
        if is_confined
        else unconfined(command, variables, data)
    )
    return ServerPlan(name=spec.recorded_name, process=process, call_seconds=call_seconds)


def offered_tools(row: Row, servers: dict[str, RunningServer]) -> dict[str, OfferedTool]:
    """Return the enabled tools of a row that its running servers really list, in the order of the row."""
    offered = {}
    for name in row.enabled_tools:
        split = catalog().split(name)
        server = servers.get(split[0]) if split else None
        if split and server and any(tool.name == split[1] for tool in server.tools):
            offered[name] = OfferedTool(server, split[1])
    return offered


def _playbook(row: Row) -> Playbook | None:
    book = playbooks().get(row.task_id)
    return book if book and book.fits(row.prompt) else None
