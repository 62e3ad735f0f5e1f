"""Sandboxes that are containers of a Docker Engine: the same driver as everywhere, as the container's first process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from runners.errors import SandboxBoundaryError
from runners.sandboxes.channel import ControlChannel
from runners.sandboxes.docker import boot
from runners.sandboxes.docker.attach import Attachment
from runners.sandboxes.docker.config import AGENT_HOME, DockerImage, agent_config, container_config
from runners.sandboxes.docker.containers import created
from runners.sandboxes.docker.engine import asked, connected
from runners.sandboxes.docker.images import Images
from runners.sandboxes.docker.machine import DockerMachine
from runners.sandboxes.docker.room import MemoryRoom
from runners.sandboxes.driven import DrivenSandbox
from runners.sandboxes.inside.forwarder import PORT
from runners.sandboxes.protocol import SandboxLimits, Way
from runners.sandboxes.settings import program_environment

if TYPE_CHECKING:
    from aiodocker.containers import DockerContainer


class DockerSandbox(DrivenSandbox):
    """A container with an agent in it; ``machine`` is the same container for what is run before and after the agent."""

    machine: DockerMachine


class DockerSandboxProvider:
    """Opens containers of one image.

    Args:
        image: The image and how agents find themselves in it.
        room: Bounds how many are open at once; shared by all providers of a run.
        images: Pulls the images that benchmarks need besides; shared like the room.
    """

    kind = "docker"

    def __init__(self, image: DockerImage, room: MemoryRoom, images: Images) -> None:
        self.image = image
        self.room = room
        self.images = images

    def with_image(self, **changes: Any) -> "DockerSandboxProvider":
        """Return a provider of another image on the same engine, for benchmarks whose tasks have their own.

        Args:
            changes: Fields of :class:`runners.sandboxes.docker.config.DockerImage` that differ.
        """
        return DockerSandboxProvider(msgspec.structs.replace(self.image, **changes), self.room, self.images)

    @asynccontextmanager
    async def open(
        self, files: Path | None, limits: SandboxLimits, way: Way | None = None
    ) -> AsyncIterator[DockerSandbox]:
        """Open a container whose work directory starts as a copy of ``files``; it may have to wait for memory.

        Raises:
            SandboxBoundaryError: It does not start.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.room.hold(limits.memory_mb))
            docker = await stack.enter_async_context(connected())
            config = container_config(self.image, limits, way)
            container = await stack.enter_async_context(created(docker, config))
            channel = await _start(stack, container, self.image)
            driver_config = agent_config(self.image, limits, way, container_environment=await _environment(container))
            channel.send_program(boot.program(driver_config, has_packages=not self.image.is_own_machine))
            sandbox = DockerSandbox(self.kind, self.image.work_dir, self.image.weak_limits, limits, channel)
            sandbox.machine = DockerMachine(container)
            if way is not None:
                environment = program_environment(driver_config["environment"], AGENT_HOME, way)
                sandbox.offer_programs(f"http://127.0.0.1:{PORT}", environment)
            if files is not None:
                await sandbox.load(files)
            yield sandbox


async def _start(stack: AsyncExitStack, container: "DockerContainer", image: DockerImage) -> ControlChannel:
    """Attach to a container and start it; its first process waits for its program."""
    what = f"a container of the image {image.name} cannot be started"
    channel = ControlChannel(lambda: ("its container was closed", "sandbox_died"))
    stream = container.attach(stdin=True, stdout=True, stderr=True)
    async with asked(what):
        await stream.__aenter__()
    attachment = Attachment(container, stream, channel)
    stack.push_async_callback(_shielded_end, attachment)
    try:
        async with asked(what):
            await container.start()
    except SandboxBoundaryError as error:
        if error.kind == "image_unfit":
            raise SandboxBoundaryError(
                f"{error}; the image needs python3 (3.9 or newer) and /bin/bash, see docs/sandboxes.md",
                kind=error.kind,
                is_retry_owed=False,
            ) from error
        raise
    attachment.watch()
    return channel


async def _environment(container: "DockerContainer") -> dict[str, str]:
    """Return the variables that the image sets."""
    async with asked("the container cannot be looked at"):
        known = await container.show()
    return dict(item.partition("=")[::2] for item in known["Config"]["Env"] or ())


async def _shielded_end(attachment: Attachment) -> None:
    with anyio.CancelScope(shield=True):
        await attachment.end()
