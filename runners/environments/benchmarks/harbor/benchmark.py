"""The harbor benchmark: the task folders of a dataset in Harbor's format."""

import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.expected_answers import answer_remarks
from lhaw_record.runners.environments.benchmarks.harbor.compose import MAIN, service_names
from lhaw_record.runners.environments.benchmarks.harbor.container import NO_NETWORK, agent_phase
from lhaw_record.runners.environments.benchmarks.harbor.environment import (
    TOOLS,
    ContainerSetup,
    HarborEnvironment,
    memory_of,
    open_task,
    room_of,
    tests_memory_mb,
)
from lhaw_record.runners.environments.benchmarks.harbor.hil_bench import Group, remarks_on, task_units
from lhaw_record.runners.environments.benchmarks.harbor.host import host_of, refusal_of_host, system_name
from lhaw_record.runners.environments.benchmarks.harbor.images import ensure_images
from lhaw_record.runners.environments.benchmarks.harbor.mcp_servers import SERVER_MB, open_servers
from lhaw_record.runners.environments.benchmarks.harbor.oracle import (
    Oracle,
    OracleGate,
    oracle_of,
    passes_folder,
    without_verdict,
)
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import (
    BENCHMARK,
    CONFIG,
    VERSION,
    HarborTask,
    compose_of,
    mcp_servers_of,
    place_of,
    read_task,
    refusal,
    resolved,
    secrets_of_task,
    task_folders,
    task_of,
)
from lhaw_record.runners.environments.benchmarks.protocol import Artifact, Benchmark, Environment, EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.published import PublishedError
from lhaw_record.runners.environments.benchmarks.refusals import decoded, docker_of, refuse_changed_environment
from lhaw_record.runners.environments.benchmarks.variants_file import parameters_of
from lhaw_record.runners.environments.sandboxes.docker.program_sandbox import open_program_sandbox
from lhaw_record.runners.environments.sandboxes.docker.provider import DockerSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from lhaw_record.runners.models.replay import Reference, ReferenceCall

_PAGE = "docs/benchmarks/harbor.md"
_PUBLIC = "bridge"


class HarborOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of ``[benchmark]`` that belong to harbor.

    Attributes:
        folder: The folder with the task folders, or one task folder; relative to the experiment file.
        network: The engine's network for tasks with ``network_mode = "public"``; ``none`` keeps all tasks offline.
        build_network: The engine's network while images are built.
        gate: Whether a task's reference solution must pass here before its first trial.
        without_services: Services of compose files that are left out, such as a simulated user that asks a model.
        without_docker: Whether tasks run in the experiment's sandbox on this machine's own system, without their image.
        keep_processes: Whether what an agent left running stays for the tests of all tasks; else for those whose
            reference solution needs it.
    """

    folder: str
    network: str = _PUBLIC
    build_network: str = "default"
    gate: bool = True
    without_services: tuple[str, ...] = ()
    without_docker: bool = False
    keep_processes: bool = False


def open_harbor(options: dict[str, Any], base: Path, grader: GraderSpec) -> "HarborBenchmark":
    """Return the benchmark that an experiment file describes."""
    del grader
    chosen = decoded(options, HarborOptions, _PAGE)
    if chosen.keep_processes and chosen.without_docker:
        raise ExperimentError("key 'benchmark.keep_processes': without_docker ends agents' processes; remove the key")
    folder = (base / chosen.folder).resolve()
    if not folder.is_dir():
        raise ExperimentError(f"key 'benchmark.folder': {folder} is not a folder; name the folder of the task folders")
    benchmark = HarborBenchmark(folder, chosen)
    unknown = set(chosen.without_services) - benchmark.services()
    if unknown:
        raise ExperimentError(f"key 'benchmark.without_services': no task of {folder} has a service {min(unknown)!r}")
    if not benchmark.tasks():
        left_out, none = benchmark.left_out(), f"no folder in it has a {CONFIG}"
        reason = f"{left_out[0]}: {benchmark.why_not(left_out[0])}" if left_out else none
        raise ExperimentError(f"key 'benchmark.folder': no task of {folder} can run here; {reason}")
    return benchmark


class HarborBenchmark(Benchmark):
    """The tasks of a folder.

    Args:
        folder: The folder with the task folders, or one task folder.
        options: How they are run.
    """

    name = BENCHMARK
    version = VERSION
    grader = "harbor/tests-1"
    ends_on_text = False
    has_own_images = True

    def __init__(self, folder: Path, options: HarborOptions) -> None:
        self._options = options
        self.files = (folder,)
        self.needs_sandbox = None if options.without_docker else "docker"
        self._gate = OracleGate(passes_folder())
        self._folders: dict[str, HarborTask] = {}
        self._broken: dict[str, str] = {}
        self._tasks: list[Task] = []
        for each in task_units(task_folders(folder)):
            try:
                task = each.read(folder) if isinstance(each, Group) else read_task(each, folder)
                known = [] if self._refusal(task) else [task_of(task, self._network(), options.without_services)]
            except (PublishedError, OSError) as error:
                self._broken[place_of(each.place if isinstance(each, Group) else each, folder)] = str(error)
                continue
            self._tasks += known
            if (same := self._folders.setdefault(task.task_id, task)) is not task:
                raise ExperimentError(
                    f"key 'benchmark.folder': {same.folder} and {task.folder} are both the task {task.task_id}; give "
                    f"one of them another name under [task] in its {CONFIG}"
                )
        if any(self.has_mcp_tools(each.task_id) for each in self._tasks):
            self.tools_over_mcp = "some"

    def services(self) -> frozenset[str]:
        """Return the names of the services that any task has beside its agent's container."""
        return frozenset[str]().union(*(service_names(each.folder) for each in self._folders.values())) - {MAIN}

    def tasks(self) -> Sequence[Task]:
        return self._tasks

    def folder_of(self, task_id: str) -> Path:
        return self._folders[task_id].folder

    def has_mcp_tools(self, task_id: str) -> bool:
        return bool(mcp_servers_of(self._folders[task_id], self._options.without_services))

    def left_out(self) -> Sequence[str]:
        return [name for name in sorted({*self._folders, *self._broken}) if self.why_not(name) is not None]

    def why_not(self, task_id: str) -> str | None:
        if task_id in self._broken:
            return self._broken[task_id]
        if task_id not in self._folders:
            return f"benchmark.folder has no folder of that name with a {CONFIG}"
        return self._refusal(self._folders[task_id])

    def _refusal(self, task: HarborTask) -> str | None:
        return refusal(task, self._options.without_services) or (
            refusal_of_host(task) if self._options.without_docker else None
        )

    def variants(self) -> Sequence[Variant]:
        """Return the variants from each task's own ``variants.toml``. Others are generated or imported."""
        return [each for task in self._tasks for each in self._folders[task.task_id].hand_written(task)]

    def remarks(self) -> Sequence[str]:
        """Return the expected questions that the rule-based user finds only as they are written."""
        pairs = [(self._folders[each.task_id], each) for each in self.variants()]
        return [
            remark
            for task, variant in pairs
            for remark in (
                remarks_on(task, variant) if variant is task.paired else answer_remarks(variant, task.prompt)
            )
        ]

    def system_prompt(self) -> str:
        """Return what the agent is told about its container and tools."""
        name = "harbor-without-docker.md" if self._options.without_docker else "harbor.md"
        return data_path("prompts", name).read_text(encoding="utf-8").strip()

    def program_prompt(self) -> str:
        """Return what a program is told about its container, or about a sandbox without Docker."""
        if self._options.without_docker:
            return super().program_prompt()
        return data_path("prompts", "harbor_program.md").read_text(encoding="utf-8").strip()

    def memory_mb(self, task_id: str, sandbox_mb: int) -> int:
        """Return the memory of a task's containers in MiB; where nothing sets it, the experiment's for each."""
        task = self._folders[task_id]
        compose, limits = compose_of(task, self._options.without_services), SandboxLimits(memory_mb=sandbox_mb)
        servers_mb = SERVER_MB * len(mcp_servers_of(task, self._options.without_services))
        return max(memory_of(task, compose, limits) + servers_mb, tests_memory_mb(task, limits))

    def reference(self, task_id: str) -> Reference | None:
        """Return the task's solution as the calls of an agent, or None if it has none or one that is not text.

        Without Docker the solution is below /tmp, because an agent cannot make folders in the root of its sandbox.
        """
        task = self._folders.get(task_id)
        if task is None or not task.has_solution:
            return None
        root = "/tmp/solution" if self._options.without_docker else "/solution"  # noqa: S108
        try:
            texts = [_solution_texts(step.solution, root) for step in task.steps]
        except (UnicodeDecodeError, OSError):
            return None
        whole = "\0".join(text for files in texts for text in files.values())
        variables = "".join(
            f"export {name}={shlex.quote(value)}; " for name, value in resolved(task.config.solution.env).items()
        )
        run = f"{variables}export DEBIAN_FRONTEND=noninteractive; chmod +x {root}/solve.sh; {root}/solve.sh"
        return Reference(
            task_id=task_id,
            origin="published",
            calls=tuple(
                call
                for files in texts
                for call in (
                    *(
                        ReferenceCall(name="write_file", arguments={"path": f"{root}/{name}", "content": text})
                        for name, text in files.items()
                    ),
                    ReferenceCall(name="bash", arguments={"command": run}, uses_earlier=True),
                    ReferenceCall(name="submit", arguments={"answer": "The task's solution was run."}),
                )
            ),
            later_prompts=task.later,
            parameters=tuple(each for each in parameters_of(task.variants) if each.written in whole),
        )

    def has_steps(self, task_id: str) -> bool:
        return bool(self._folders[task_id].config.steps)

    def secrets(self) -> frozenset[str]:
        """Return the secrets that the tasks take from the environment of this process."""
        return frozenset[str]().union(*(secrets_of_task(each.config) for each in self._folders.values()))

    def open(
        self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None
    ) -> AbstractAsyncContextManager[Environment]:
        """Open the environment of a task, once its reference solution has passed on this machine."""
        refuse_changed_environment(variant, self.name)
        harbor = self._folders[task.task_id]
        if self._options.without_docker:
            return self._open_on_host(harbor, settings)
        return self._open(harbor, settings, docker_of(settings, self.name))

    async def oracle(self, task_id: str, settings: EnvironmentSettings) -> Oracle:
        """Return how the reference solution of a task is tried."""
        if self._options.without_docker:
            return host_of(settings).oracle(self._folders[task_id])
        setup = await self.setup(task_id, docker_of(settings, self.name), settings.limits)
        return oracle_of(setup, self._options.without_services)

    async def setup(self, task_id: str, provider: DockerSandboxProvider, limits: SandboxLimits) -> ContainerSetup:
        """Return how the containers of a task are opened, with images that the engine has."""
        task, network = self._folders[task_id], self._options.network
        compose = compose_of(task, self._options.without_services)
        images = await ensure_images(provider.images, task, self._options.build_network, compose)
        environment = task.config.environment
        tests = [(step.config.verifier, step.config.verifier.environment or environment) for step in task.steps]
        modes = [verifier.network_mode or table.network for verifier, table in tests]
        return ContainerSetup(
            task=task,
            provider=provider,
            images=images,
            compose=compose,
            servers=mcp_servers_of(task, self._options.without_services),
            limits=limits,
            network=network if environment.network == "public" else NO_NETWORK,
            verifier_networks=tuple(network if mode == "public" else NO_NETWORK for mode in modes),
            keeps_processes=self._options.keep_processes,
        )

    @asynccontextmanager
    async def _open(
        self, task: HarborTask, settings: EnvironmentSettings, provider: DockerSandboxProvider
    ) -> AsyncIterator[Environment]:
        setup = await self.setup(task.task_id, provider, settings.limits)
        images, oracle = setup.images, oracle_of(setup, self._options.without_services)
        is_gated = self._options.gate and task.has_solution
        passed = await self._gate.pass_through(oracle) if is_gated else None
        setup = msgspec.structs.replace(
            setup, keeps_processes=setup.keeps_processes or (passed is not None and passed.keeps_processes)
        )
        check_solution = partial(self._gate.pass_through, oracle) if is_gated and setup.has_network else None
        facts = {
            "sandbox": provider.kind,
            "image": images.agent,
            "image_id": images.ids[images.agent],
            "verifier_images": list(images.verifiers),
            "network": setup.network,
            "oracle_passed": is_gated,
            "processes_kept": setup.keeps_processes,
            **(
                {"services": {name: images.ids[image] for name, image in images.services.items()}}
                if setup.compose
                else {}
            ),
        }
        artifact = Artifact.of_json("environment.json", "environment", facts)
        access = settings.access
        async with AsyncExitStack() as closing:
            provider = await closing.enter_async_context(room_of(setup, access))
            container = await closing.enter_async_context(open_task(setup, provider, access.mounts if access else ()))
            servers = None
            if setup.servers:
                names, room = [tool.name for tool in TOOLS], provider.room
                opened = open_servers(setup.servers, images.agent, room, container.machine, names, settings)
                servers = await closing.enter_async_context(opened)
            sandbox = None
            if access is not None:
                own, user = provider.with_image(name=images.agent), agent_phase(task).user
                sandbox = await closing.enter_async_context(
                    open_program_sandbox(own, container, settings.limits, access, user=user)
                )
                await container.give_skills(task, sandbox.home)
            inner = setup.within(provider)
            without = partial(without_verdict, oracle) if is_gated else None
            parts = (artifact,), sandbox, check_solution, servers, passed, without, await container.skills(task)
            yield HarborEnvironment(inner, container, closing, *parts)

    @asynccontextmanager
    async def _open_on_host(self, task: HarborTask, settings: EnvironmentSettings) -> AsyncIterator[Environment]:
        host, is_gated = host_of(settings), self._options.gate and task.has_solution
        passed = await self._gate.pass_through(host.oracle(task)) if is_gated else None
        async with host.open(task, settings, passed) as environment:
            yield environment

    def _network(self) -> str:
        """Return what sets the environments of tasks apart beside their files."""
        if self._options.without_docker:
            return f"without_docker, {system_name()}"
        network = "" if self._options.network == _PUBLIC else self._options.network
        return network + (", processes kept" if self._options.keep_processes else "")


def _solution_texts(folder: Path, root: str) -> dict[str, str]:
    """Return the files of a solution by name, for another place than ``/solution``. Raises UnicodeDecodeError."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8").replace("/solution/", f"{root}/")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
