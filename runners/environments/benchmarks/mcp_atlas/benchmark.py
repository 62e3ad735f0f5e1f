"""The MCP-Atlas benchmark: published rows as tasks, real servers as tools, claims as checkpoints."""

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json, digest
from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.recorder.resources import data_path
from lhaw_record.recorder.writing.redaction import given_secrets
from lhaw_record.runners.base.errors import ExperimentError, ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.availability import (
    AtlasInstallation,
    Availability,
    availability,
)
from lhaw_record.runners.environments.benchmarks.mcp_atlas.claims import MATCHER
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import data_digest, private_copy
from lhaw_record.runners.environments.benchmarks.mcp_atlas.container import MEMORY_MB, WorldSpec, memory_mb, open_world
from lhaw_record.runners.environments.benchmarks.mcp_atlas.environment import (
    McpAtlasEnvironment,
    offered_tools,
    server_plan,
)
from lhaw_record.runners.environments.benchmarks.mcp_atlas.judge import ClaimJudge
from lhaw_record.runners.environments.benchmarks.mcp_atlas.options import read_options
from lhaw_record.runners.environments.benchmarks.mcp_atlas.own_servers import (
    files_of,
    read_own_servers,
    refuse_shown_answers,
    with_own,
)
from lhaw_record.runners.environments.benchmarks.mcp_atlas.playbook import ANSWERS, Playbook, playbooks
from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import BENCHMARK, VERSION, Row, read_rows, task_of
from lhaw_record.runners.environments.benchmarks.mcp_atlas.server import RunningServer, ServerPlan, running_servers
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import (
    ServerSpec,
    catalog,
    installed_version,
    secrets_of_servers,
)
from lhaw_record.runners.environments.benchmarks.protocol import Artifact, Benchmark, Environment, EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.published import PublishedError
from lhaw_record.runners.environments.benchmarks.refusals import docker_of, lacking_tools, refuse_changed_environment
from lhaw_record.runners.environments.sandboxes.docker.program_sandbox import room_of_trial
from lhaw_record.runners.experiment.tables import GraderSpec
from lhaw_record.runners.models.replay import Reference, ReferenceCall


def open_mcp_atlas(options: dict[str, Any], base: Path, grader: GraderSpec) -> "McpAtlasBenchmark":
    """Return the benchmark that an experiment file describes."""
    chosen = read_options(options, base)
    judge = None
    if grader.kind == "judge" and grader.judge is not None:
        wording = Path(chosen.claim_judge) if chosen.claim_judge else None
        judge = ClaimJudge(wording, grader.judge.model, grader.judge.generation_parameters)
    try:
        rows = read_rows([Path(path) for path in chosen.rows])
    except PublishedError as error:
        raise ExperimentError(f"key 'benchmark.rows': {error}") from error
    place = AtlasInstallation(
        data=Path(chosen.data),
        servers=Path(chosen.servers),
        is_container=chosen.container is not None,
        has_network=chosen.allow_network,
        is_confined=not chosen.allow_unconfined,
        catalog=with_own(catalog(), read_own_servers(Path(chosen.own_servers)) if chosen.own_servers else ()),
    )
    refuse_shown_answers(place.catalog, [Path(path) for path in chosen.rows])
    benchmark = McpAtlasBenchmark(rows, place, judge, container=chosen.container)
    named = (*chosen.rows, chosen.own_servers, chosen.claim_judge, "" if chosen.container else chosen.data)
    benchmark.files = (*(Path(each) for each in named if each), *files_of(place.catalog))
    if not benchmark.tasks():
        first = rows[0].task_id
        raise ExperimentError(
            f"key 'benchmark.rows': none of {len(rows)} rows can run here; {first}: {benchmark.why_not(first)}; "
            "`lhaw-record mcp-atlas` shows all of them"
        )
    return benchmark


class McpAtlasBenchmark(Benchmark):
    """The tasks of one or more rows files.

    Args:
        rows: The rows, in order.
        place: The data folder, the installed servers, and whether servers are confined.
        judge: The model that grades claims, or None to use the deterministic matcher.
        container: The container that replaces data folder and installed servers, or None.
    """

    name = BENCHMARK
    version = VERSION
    ends_on_text = True
    tools_over_mcp = "all"

    def __init__(
        self,
        rows: Sequence[Row],
        place: AtlasInstallation,
        judge: ClaimJudge | None = None,
        *,
        container: WorldSpec | None = None,
    ) -> None:
        self._rows = {row.task_id: row for row in rows}
        self._place = place
        self._judge = judge
        self._is_confined = place.is_confined
        self._container = container
        if container and not container.address:
            self.needs_sandbox, self.has_own_images = "docker", True
        self.grader = judge.name if judge else MATCHER

    @cached_property
    def availability(self) -> dict[str, Availability]:
        """Whether each row can run here, by task id."""
        return {task_id: availability(row, self._place) for task_id, row in self._rows.items()}

    def tasks(self) -> Sequence[Task]:
        return [self._task(row) for row in self._rows.values() if self.availability[row.task_id].is_runnable]

    def every_task(self) -> Sequence[Task]:
        """Return the tasks of all rows, including those that cannot run here, in the order of the rows."""
        return [self._task(row) for row in self._rows.values()]

    def needed_tools(self, task_id: str) -> frozenset[str]:
        """Return the enabled tools of the needed servers that the reference calls, or all if it is not known."""
        row, needed = self._rows[task_id], self.availability[task_id].needed
        if needed is None:
            return frozenset(row.enabled_tools)
        used = {call.name for call in row.trajectory} if row.trajectory else set(row.enabled_tools)
        split = {name: self._place.catalog.split(name) for name in used.intersection(row.enabled_tools)}
        return frozenset(name for name, parts in split.items() if parts and parts[0] in needed)

    async def lacking_tools(self, tasks: Sequence[Task], settings: EnvironmentSettings) -> dict[str, frozenset[str]]:
        """Start the servers of all tasks once, as for one row that enables the tools of all."""
        rows = [self._rows[task.task_id] for task in tasks]
        found = [self.availability[row.task_id] for row in rows]
        names = {name for each in found for name in (each.in_container if each.needed is None else each.needed)}
        row = msgspec.structs.replace(rows[0], enabled_tools=_union(row.enabled_tools for row in rows))
        all_found = Availability(
            needed=tuple(sorted(names)),
            servers=tuple({spec.name: spec for each in found for spec in each.servers}.values()),
            in_container=_union(each.in_container for each in found),
            reasons=(),
        )
        async with self._started(tasks[0], row, all_found, settings) as environment:
            return {task.task_id: lacking_tools(self, task, environment) for task in tasks}

    def left_out(self) -> Sequence[str]:
        return [task_id for task_id, found in self.availability.items() if not found.is_runnable]

    def why_not(self, task_id: str) -> str | None:
        if task_id not in self._rows:
            return "no rows file has it"
        return "; ".join(self.availability[task_id].reasons) or None

    def variants(self) -> Sequence[Variant]:
        """Return the hand-written variants. They are cut out of the prompts in the user's own rows."""
        return [
            variant
            for row in self._rows.values()
            if self.availability[row.task_id].is_runnable and (book := _playbook(row))
            for variant in book.variants_of(self.name, row.prompt)
        ]

    def secrets(self) -> frozenset[str]:
        """Return the servers' credentials, which must never be recorded."""
        own = [spec.variables for spec in self._place.catalog.servers.values() if spec.kind == "own"]
        return secrets_of_servers(self._place.catalog, os.environ).union(*map(given_secrets, own))

    def system_prompt(self) -> str:
        """Return an empty prompt, because this benchmark gives agents a single user message."""
        return ""

    def program_prompt(self) -> str:
        """Return what a program is told about its tools."""
        return data_path("prompts", "mcp_atlas_program.md").read_text(encoding="utf-8").strip()

    def reference(self, task_id: str) -> Reference | None:
        """Return a reference solution, from our own script or from the trajectory of the row.

        Returns None if the task has neither.
        """
        row = self._rows.get(task_id)
        if row is None:
            return None
        book = _playbook(row)
        own = book.calls if book else ()
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
        """Start the servers of a task on a private copy of the data. Closing removes every process and file."""
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
        async with self._started(task, row, found, settings) as environment:
            yield environment

    @asynccontextmanager
    async def _started(
        self, task: Task, row: Row, found: Availability, settings: EnvironmentSettings
    ) -> AsyncIterator[Environment]:
        """Start the servers that were found, and offer those of their tools that a row enables."""
        if self._container:
            async with self._in_container(self._container, task, row, found, settings) as environment:
                yield environment
            return
        async with private_copy(self._place.data) as copy:
            plans = [self._plan(spec, copy, settings) for spec in found.servers]
            async with running_servers(plans) as servers:
                for server in servers:
                    server.check()
                by_name = dict(zip((spec.name for spec in found.servers), servers, strict=True))
                yield McpAtlasEnvironment(
                    task,
                    offered_tools(row, self._place.catalog, by_name),
                    row.trajectory or (),
                    self._judge,
                    data_at=None if self._is_confined else str(copy),
                    facts=(self._facts(found.servers, servers),),
                    settings=settings,
                )

    @asynccontextmanager
    async def _in_container(
        self,
        container: WorldSpec,
        task: Task,
        row: Row,
        found: Availability,
        settings: EnvironmentSettings,
    ) -> AsyncIterator[Environment]:
        """Open a trial that uses the servers of a container."""
        names, needed = found.in_container, found.needed
        has_network, access = self._place.has_network, settings.access
        async with AsyncExitStack() as stack:
            sandbox = None
            if access is not None and not container.address:  # the program works beside the servers, not among them
                total_mb = memory_mb(container) + settings.limits.memory_mb
                provider = await stack.enter_async_context(
                    room_of_trial(docker_of(settings, self.name), total_mb, None)
                )
                settings = msgspec.structs.replace(settings, sandbox=provider)
                sandbox = await stack.enter_async_context(provider.open(None, settings.limits, access))
            opened = open_world(container, names, settings, has_network=has_network)
            world, image_id = await stack.enter_async_context(opened)
            servers = await world.servers(names, settings.limits.command_seconds)
            for name in names if needed is None else needed:
                await world.check(name, "at the start")
            described = [
                {
                    "server": name,
                    "image": container.image,
                    "image_id": image_id or None,
                    "tools": len(server.tools),
                    "output_schemas": server.output_schemas,
                    "refused_tools": server.refused_tools,
                    "is_shared": bool(container.address),
                    "has_network": has_network,
                }
                for name, server in servers.items()
            ]
            tools = offered_tools(row, self._place.catalog, servers)
            facts = (_recorded(described),)
            yield McpAtlasEnvironment(
                task,
                tools,
                row.trajectory or (),
                self._judge,
                facts=facts,
                sandbox=sandbox,
                settings=settings,
            )

    def memory_mb(self, task_id: str, sandbox_mb: int) -> int:
        """Return the memory of a trial in MiB: that of its containers, if it has some."""
        del task_id
        has_own = self._container and not self._container.address
        return memory_mb(self._container) if self._container and has_own else sandbox_mb

    def remarks(self) -> Sequence[str]:
        """Return a remark if the memory of the containers is a guess."""
        if not self._container or self._container.address or self._container.memory_mb:
            return ()
        return (f"{self._container.image} gets {MEMORY_MB} MB, a guess: see benchmark.container.memory_mb.",)

    def _facts(self, specs: Sequence[ServerSpec], servers: Sequence[RunningServer]) -> Artifact:
        """Return an artifact that lists the servers a trial used, with their versions and their self-descriptions."""
        described = [
            {
                "server": spec.name,
                "package": spec.package,
                "version": installed_version(spec, self._place.servers),
                "pinned_version": spec.version,
                "says": server.info,
                "tools": len(server.tools),
                "output_schemas": server.output_schemas,
                "refused_tools": server.refused_tools,
                "is_confined": self._is_confined,
                "has_network": spec.needs_network or not self._is_confined,
            }
            for spec, server in zip(specs, servers, strict=True)
        ]
        return _recorded(described)

    def _plan(self, spec: ServerSpec, copy: Path, settings: EnvironmentSettings) -> ServerPlan:
        plan = server_plan(spec, self._place.servers, copy, settings.limits, is_confined=self._is_confined)
        return msgspec.structs.replace(plan, fill_in=settings.fill_in)

    def _task(self, row: Row) -> Task:
        return task_of(row, self._environment_digest(row))

    def _environment_digest(self, row: Row) -> str:
        if self._container:
            world = {
                "image": self._container.image,
                "is_shared": bool(self._container.address),
                "has_network": self._place.has_network,
                "servers": self.availability[row.task_id].in_container,
            }
            return digest({"container": world, "tools": row.enabled_tools})
        servers = {
            spec.name: [
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


def _union(names: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(names)))


def _recorded(servers: list[dict[str, Any]]) -> Artifact:
    return Artifact(
        name="servers.json", role="environment", media_type="application/json", content=canonical_json(servers)
    )


def _playbook(row: Row) -> Playbook | None:
    book = playbooks().get(row.task_id)
    return book if book and book.fits(row.prompt) else None
