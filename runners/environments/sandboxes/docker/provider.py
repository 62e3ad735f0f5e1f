"""Sandboxes that are containers of a Docker Engine, with the usual driver as the main process."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lhaw_record.runners.base.errors import ExperimentError, SandboxBoundaryError, SandboxUnfit
from lhaw_record.runners.environments.sandboxes.channel import ControlChannel
from lhaw_record.runners.environments.sandboxes.docker.attach import started
from lhaw_record.runners.environments.sandboxes.docker.config import (
    AGENT_HOME,
    DockerImage,
    agent_config,
    boot_program,
    container_config,
)
from lhaw_record.runners.environments.sandboxes.docker.containers import memory_of_others_mb, reap
from lhaw_record.runners.environments.sandboxes.docker.engine import asked, connected
from lhaw_record.runners.environments.sandboxes.docker.images import Images
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget, created_within
from lhaw_record.runners.environments.sandboxes.driven import DrivenSandbox
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess, SandboxLimits

if TYPE_CHECKING:
    from aiodocker.containers import DockerContainer

_SHARE_OF_MEMORY = 0.8  # the rest is for the engine, the system and ourselves
_TRY = SandboxLimits(memory_mb=128, command_seconds=20)


class DockerSandbox(DrivenSandbox):
    """A container with an agent; ``machine`` is the same container for programs before and after the agent."""

    machine: DockerMachine

    async def cpu_s(self) -> float | None:
        return await self.machine.cpu_s()


class DockerSandboxProvider:
    """Opens containers of one image.

    Args:
        room: Limits how many are open at once; shared by all providers of a run.
        images: Pulls further images for benchmarks; shared by all providers of a run.
    """

    kind = "docker"

    def __init__(self, image: DockerImage, room: MemoryBudget, images: Images) -> None:
        self.image = image
        self.room = room
        self.images = images

    def with_image(self, **changes: Any) -> "DockerSandboxProvider":
        """Return a provider of another image on the same engine, for benchmarks whose tasks have their own images."""
        return DockerSandboxProvider(msgspec.structs.replace(self.image, **changes), self.room, self.images)

    def within(self, memory_mb: int) -> "DockerSandboxProvider":
        """Return a provider whose containers draw on the ``memory_mb`` MiB that the caller already holds."""
        return DockerSandboxProvider(self.image, MemoryBudget.of_trial(memory_mb), self.images)

    @asynccontextmanager
    async def open(
        self, files: Path | None, limits: SandboxLimits, access: ProgramAccess | None = None
    ) -> AsyncIterator[DockerSandbox]:
        """Wait for memory, then open a container whose work directory starts as a copy of ``files``.

        A container of a task's own image gets only the mounts of ``access``: its programs run in
        :func:`program_sandbox.open_program_sandbox`, which opens a relay beside the container.
        """
        async with AsyncExitStack() as stack:
            container = await created_within(stack, self.room, limits, container_config(self.image, limits, access))
            channel = await _start(stack, container, self.image)
            access = None if self.image.is_own_machine else access
            config = agent_config(self.image, limits, access, container_environment=await _environment(container))
            channel.send_program(boot_program(config, has_packages=not self.image.is_own_machine))
            sandbox = DockerSandbox(self.kind, config, self.image.weak_limits, limits, channel)
            sandbox.machine = DockerMachine(container)
            await sandbox.prepare(files, access, home=AGENT_HOME)
            yield sandbox


async def _start(stack: AsyncExitStack, container: "DockerContainer", image: DockerImage) -> ControlChannel:
    """Attach to a container and start it; its main process then waits for its program."""
    channel = ControlChannel(lambda: ("its container was closed", "sandbox_died"))
    what = f"a container of the image {image.name} cannot be started"
    try:
        await stack.enter_async_context(started(container, channel, what))
    except SandboxBoundaryError as error:
        if error.kind == "image_unfit":
            raise SandboxUnfit(
                f"{error}; the image needs python3 (3.9 or newer) and /bin/bash, see docs/sandboxes.md", kind=error.kind
            ) from error
        raise
    return channel


async def _environment(container: "DockerContainer") -> dict[str, str]:
    """Return the variables that the image sets."""
    async with asked("the container cannot be inspected"):
        known = await container.show()
    return dict(item.partition("=")[::2] for item in known["Config"]["Env"] or ())


async def docker_provider(image: DockerImage, report: Callable[[str], None]) -> DockerSandboxProvider:
    """Return the provider of an image, or of no image if tasks have their own.

    Before that, find the engine, remove leftovers of killed runs, pull the image, and try one sandbox.
    """
    try:
        images = Images(report)
        provider = DockerSandboxProvider(image, await _memory_budget(image, images, report), images)
        if not image.name:
            return provider
        async with provider.open(None, _TRY) as sandbox:
            result = await sandbox.run_bash("echo works")
    except SandboxBoundaryError as error:
        if error.kind in ("sandbox_exhausted", "sandbox_died"):
            raise _unfit(image, str(error)) from error
        raise ExperimentError(str(error)) from error
    if result.output != "works\n":
        raise _unfit(image, f"'echo works' printed {result.output!r}")
    return provider


def _unfit(image: DockerImage, what: str) -> ExperimentError:
    return ExperimentError(
        f"no sandbox works in the image {image.name}: it needs python3 (3.9 or newer) and /bin/bash, see "
        f"docs/sandboxes.md ({what})"
    )


async def _memory_budget(image: DockerImage, images: Images, report: Callable[[str], None]) -> MemoryBudget:
    """Remove leftovers, pull the image, and return the memory budget of the engine's machine."""
    async with connected() as docker:
        async with asked("the Docker Engine cannot be asked"):
            about = await docker.system.info()
        reaped = await reap(docker)
        if reaped:
            report(f"removed {reaped} containers, networks and volumes of runs that were killed")
        if image.name:
            await images.ensure(docker, image.name)
    return MemoryBudget(int(about["MemTotal"] * _SHARE_OF_MEMORY) >> 20, _used_by_others_mb)


async def _used_by_others_mb() -> int:
    async with connected() as docker:
        return await memory_of_others_mb(docker)
