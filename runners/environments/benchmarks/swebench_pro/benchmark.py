"""The SWE-Bench Pro benchmark: published instances as tasks, their images as containers, their tests as graders."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.protocol import Artifact, Benchmark, Environment, EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.published import PublishedError
from lhaw_record.runners.environments.benchmarks.refusals import decoded, docker_of, refuse_changed_environment
from lhaw_record.runners.environments.benchmarks.swebench_pro.environment import SuitePlan, SwebenchProEnvironment
from lhaw_record.runners.environments.benchmarks.swebench_pro.instances import (
    BENCHMARK,
    PUBLISHED_TEMPLATE,
    PUBLISHED_USER,
    VERSION,
    Instance,
    image_name,
    read_instances,
    task_of,
)
from lhaw_record.runners.environments.benchmarks.swebench_pro.patch import AgentRepository, prepared_image
from lhaw_record.runners.environments.benchmarks.swebench_pro.scripts import Scripts, read_scripts
from lhaw_record.runners.environments.sandboxes.docker.containers import check_network
from lhaw_record.runners.environments.sandboxes.docker.engine import connected
from lhaw_record.runners.environments.sandboxes.docker.program_sandbox import open_program_sandbox, room_of_trial
from lhaw_record.runners.environments.sandboxes.docker.provider import DockerSandbox, DockerSandboxProvider
from lhaw_record.runners.environments.sandboxes.docker.shell import MachineShell
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess
from lhaw_record.runners.experiment.tables import GraderSpec
from lhaw_record.runners.models.replay import Reference, ReferenceCall

_GOLD = "/tmp/reference.patch"  # noqa: S108  in the agent's container


class InstanceSetup(msgspec.Struct, frozen=True, kw_only=True):
    """How instances are run: the options that do not name files.

    ``history`` says what the agent's repository contains. With ``past``, it has only the base commit and its ancestors.
    With ``published``, it has everything that the image has, including the solution's commit. If ``test_memory_mb`` is
    None, the experiment's limit applies. ``test_network`` is the engine's network for the tests: some published run
    scripts install packages, and the original's have a network.
    """

    image: str = PUBLISHED_TEMPLATE
    user: str = PUBLISHED_USER
    work_dir: Annotated[str, msgspec.Meta(pattern="^/")] = "/app"
    history: Literal["past", "published"] = "past"
    test_seconds: Annotated[float, msgspec.Meta(gt=0)] = 3600.0
    test_memory_mb: Annotated[int, msgspec.Meta(ge=1)] | None = None
    test_network: Annotated[str, msgspec.Meta(min_length=1)] = "bridge"


class SwebenchProOptions(InstanceSetup, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of ``[benchmark]`` that belong to swebench_pro. Paths are relative to the experiment file."""

    instances: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    scripts: str


def read_options(options: dict[str, Any], base: Path) -> SwebenchProOptions:
    """Return the options of an experiment file, with absolute paths."""
    given = {**options, "instances": [options["instances"]]} if isinstance(options.get("instances"), str) else options
    chosen = decoded(given, SwebenchProOptions, "docs/benchmarks/swebench-pro.md")
    if "{tag}" not in chosen.image:
        raise ExperimentError(f"key 'benchmark.image': {chosen.image!r} lacks {{tag}}, which differs by instance")
    folder = (base / chosen.scripts).resolve()
    if not folder.is_dir():
        raise ExperimentError(f"key 'benchmark.scripts': {folder} is not a folder; set it to the published run_scripts")
    instances = tuple(str((base / path).resolve()) for path in chosen.instances)
    return msgspec.structs.replace(chosen, instances=instances, scripts=str(folder))


def open_swebench_pro(options: dict[str, Any], base: Path, grader: GraderSpec) -> "SwebenchProBenchmark":
    """Return the benchmark that an experiment file describes."""
    del grader
    chosen = read_options(options, base)
    try:
        instances = read_instances([Path(path) for path in chosen.instances])
    except PublishedError as error:
        raise ExperimentError(f"key 'benchmark.instances': {error}") from error
    scripts = {each.instance_id: read_scripts(Path(chosen.scripts), each.instance_id) for each in instances}
    benchmark = SwebenchProBenchmark(instances, scripts, chosen)
    benchmark.files = tuple(map(Path, (*chosen.instances, chosen.scripts)))
    if not benchmark.tasks():
        first = instances[0].instance_id
        raise ExperimentError(
            f"key 'benchmark.instances': none of {len(instances)} instances can run here; {first}: "
            f"{benchmark.why_not(first)}"
        )
    return benchmark


class SwebenchProBenchmark(Benchmark):
    """The tasks of one or more instance files.

    Args:
        instances: The instances, in order.
        scripts: For each instance id, the instance's scripts or the reason why they cannot be used.
        setup: How instances are run.
    """

    name = BENCHMARK
    version = VERSION
    grader = "swebench_pro/tests-1"
    ends_on_text = False
    needs_sandbox = "docker"
    has_own_images = True

    def __init__(
        self, instances: Sequence[Instance], scripts: Mapping[str, Scripts | str], setup: InstanceSetup
    ) -> None:
        self._instances = {instance.instance_id: instance for instance in instances}
        self._scripts = scripts
        self._setup = setup

    def tasks(self) -> Sequence[Task]:
        return self._tasks

    def left_out(self) -> Sequence[str]:
        return [instance_id for instance_id in self._instances if self.why_not(instance_id) is not None]

    def why_not(self, task_id: str) -> str | None:
        instance = self._instances.get(task_id)
        if instance is None:
            return "no file of instances has it"
        if not instance.fail_to_pass:
            return "its record has no fail-to-pass test, so every repository would solve it; use the published file"
        if instance.before_tests is None or instance.test_files is None:
            return (
                "its record lacks the column before_repo_set_cmd or selected_test_files_to_run, so its tests cannot "
                "be run; use the published file"
            )
        scripts = self._scripts[task_id]
        return scripts if isinstance(scripts, str) else None

    def system_prompt(self) -> str:
        """Return what the agent is told about its container and tools."""
        return self._told("swebench_pro.md")

    def program_prompt(self) -> str:
        """Return what a program is told about its container."""
        return self._told("swebench_pro_program.md")

    def _told(self, name: str) -> str:
        text = data_path("prompts", name).read_text(encoding="utf-8").strip()
        return text.replace("{work_dir}", self._setup.work_dir)

    def reference(self, task_id: str) -> Reference | None:
        """Return a reference solution that applies the published patch, or None if the record has no patch."""
        instance = self._instances.get(task_id)
        if instance is None or instance.patch is None:
            return None
        apply = f"cd {self._setup.work_dir} && git apply {_GOLD}"
        return Reference(
            task_id=task_id,
            origin="published",
            calls=(
                ReferenceCall(name="write_file", arguments={"path": _GOLD, "content": instance.patch}),
                ReferenceCall(name="bash", arguments={"command": apply}),
                ReferenceCall(name="submit", arguments={"answer": "The published patch is applied."}),
            ),
        )

    def open(
        self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None
    ) -> AbstractAsyncContextManager[Environment]:
        """Open a container of an instance's image, with its repository at the base commit."""
        refuse_changed_environment(variant, self.name)
        return self._open(task, settings, docker_of(settings, self.name))

    @asynccontextmanager
    async def _open(
        self, task: Task, settings: EnvironmentSettings, docker: DockerSandboxProvider
    ) -> AsyncIterator[Environment]:
        setup, instance = self._setup, self._instances[task.task_id]
        scripts = self._scripts[task.task_id]
        assert isinstance(scripts, Scripts), "only what can run is a task"
        image = image_name(instance, setup.image, setup.user)
        async with connected() as client:
            await check_network(client, setup.test_network, "benchmark.test_network")
            about = await docker.images.ensure(client, image)
        provider = docker.with_image(name=image, work_dir=setup.work_dir, is_own_machine=True)
        test_limits = msgspec.structs.replace(
            settings.limits, memory_mb=setup.test_memory_mb or settings.limits.memory_mb
        )
        plan = SuitePlan(
            instance=instance,
            scripts=scripts,
            provider=provider.with_image(network=setup.test_network),
            limits=test_limits,
            timeout_s=setup.test_seconds,
        )
        access = settings.access
        async with AsyncExitStack() as closing:
            provider = await closing.enter_async_context(room_of_trial(provider, settings.limits.memory_mb, access))
            name = prepared_image(about["Id"], instance.base_commit, setup.work_dir) if setup.history == "past" else ""
            sandbox, repository = await _with_repository(closing, provider, settings, instance, name)
            program_sandbox = None
            if access is not None:
                shell = MachineShell(sandbox.machine, setup.work_dir, {})
                program_sandbox = await closing.enter_async_context(
                    open_program_sandbox(provider, shell, settings.limits, access, user="0")
                )
            facts = (_facts(image, about, setup),)
            yield SwebenchProEnvironment(plan, sandbox, repository, closing, facts, program_sandbox)

    @cached_property
    def _tasks(self) -> tuple[Task, ...]:
        return tuple(
            self._task(instance) for instance in self._instances.values() if self.why_not(instance.instance_id) is None
        )

    def _task(self, instance: Instance) -> Task:
        """Return a task whose environment digest covers the instance and the way its tests are run."""
        scripts = self._scripts[instance.instance_id]
        assert isinstance(scripts, Scripts), "only what can run is a task"
        task = task_of(instance)
        environment = {
            "instance": task.environment_digest,
            "image": image_name(instance, self._setup.image, self._setup.user),
            "before_tests": instance.before_tests,
            "test_files": instance.test_files,
            "scripts": scripts.sha256,
            "work_dir": self._setup.work_dir,
            "history": self._setup.history,
            "test_network": self._setup.test_network,
        }
        return msgspec.structs.replace(task, environment_digest=digest(environment))


async def _with_repository(
    closing: AsyncExitStack,
    provider: DockerSandboxProvider,
    settings: EnvironmentSettings,
    instance: Instance,
    name: str,
) -> tuple[DockerSandbox, AgentRepository]:
    """Open the agent's container with the repository at the base commit.

    Removing the rest of the history takes a minute and more in large repositories. So the first trial of an instance
    saves what it leaves as an image, and later trials, also of other runs, begin there. If it cannot be saved, that is
    reported, and every trial of this run prepares its own without waiting for others.
    """

    async def opened(
        image: DockerSandboxProvider, stack: AsyncExitStack, access: ProgramAccess | None, *, is_past_only: bool
    ) -> tuple[DockerSandbox, AgentRepository]:
        sandbox = await stack.enter_async_context(image.open(None, settings.limits, access))
        repository = AgentRepository(sandbox, instance, provider.image.work_dir)
        await repository.prepare(is_past_only=is_past_only)
        return sandbox, repository

    access = settings.access
    if not name:
        return await opened(provider, closing, access, is_past_only=False)
    images, is_saved = provider.images, False
    if not images.is_given_up(name):
        async with images.turn(name), connected() as client:
            is_saved = await images.has(client, name)
            if not is_saved and not images.is_given_up(name):
                async with AsyncExitStack() as own:
                    sandbox, repository = await opened(provider, own, None, is_past_only=True)
                    try:
                        await sandbox.machine.save_as(name)
                        is_saved = True
                    except SandboxBoundaryError as error:
                        reason = f"every trial of {instance.instance_id} prepares its repository itself: {error}"
                        images.give_up(name, reason)
                    if access is None:  # else it is not shown the program, whose mounts must not be in the image
                        closing.push_async_exit(own.pop_all())
                        return sandbox, repository
    if is_saved:
        return await opened(provider.with_image(name=name), closing, access, is_past_only=False)
    return await opened(provider, closing, access, is_past_only=True)


def _facts(image: str, about: Mapping[str, Any], setup: InstanceSetup) -> Artifact:
    """Return an artifact that records which image a trial used."""
    described = {
        "image": image,
        "id": about["Id"],
        "digests": about.get("RepoDigests") or [],
        "work_dir": setup.work_dir,
        "history": setup.history,
        "test_network": setup.test_network,
    }
    return Artifact.of_json("image.json", "environment", described)
