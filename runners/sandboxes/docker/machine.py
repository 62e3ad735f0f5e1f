"""A container as a machine to run programs on: for graders and services, where no agent needs a shell that lives on."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from runners.sandboxes.docker.config import DockerImage, limited
from runners.sandboxes.docker.containers import created
from runners.sandboxes.docker.engine import asked, connected
from runners.sandboxes.docker.execution import ExecResult, Program, check_end, execute
from runners.sandboxes.docker.files import FileLimits, packed, put_archive, read_archive, take_archive, unpacked
from runners.sandboxes.docker.owners import MEMORY
from runners.sandboxes.docker.room import MemoryRoom
from runners.sandboxes.protocol import SandboxLimits

if TYPE_CHECKING:
    from aiodocker.containers import DockerContainer

# Process 1 lives as long as its standard input, which the engine closes when this process has gone, also by SIGKILL. No
# signal from inside reaches it, it collects orphans while it waits, and a watcher that was ended is begun again.
_KEEPER = ("/bin/sh", "-c", "exec 3<&0; while :; do cat <&3 >/dev/null & wait $! && exit; done")
_MEMORY_EVENTS = "cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>/dev/null; exit 0"
_LOOK_S = 15.0


class DockerMachine:
    """A running container in which programs are run one after the other or at the same time.

    Args:
        container: The container.
    """

    def __init__(self, container: "DockerContainer") -> None:
        self._container = container
        self._memory_kills = 0

    @property
    def container_id(self) -> str:
        """The engine's id of the container."""
        return self._container.id

    async def run(self, argv: Sequence[str], *, timeout_s: float, **options: Any) -> ExecResult:
        """Run a program to its end.

        When its time is over, or we are cancelled, every process of the container is ended but the first: a service
        that must live on needs a container of its own.

        Args:
            argv: The program and its arguments.
            timeout_s: How long it may take.
            options: Further fields of :class:`runners.sandboxes.docker.execution.Program`.

        Raises:
            SandboxBoundaryError: The container or the engine is gone, or the program could not be ended.
        """
        result = await execute(self._container, Program(argv=argv, timeout_s=timeout_s, **options))
        if result.exit_code == 0:
            return result
        return msgspec.structs.replace(result, is_out_of_memory=await self._has_run_out_of_memory())

    async def put(self, folder: str, files: Mapping[str, bytes], *, executable: frozenset[str] = frozenset()) -> None:
        """Write files below a folder of the container that is there already; they belong to root.

        Args:
            folder: Absolute.
            files: Content by path below the folder.
            executable: Which of them are programs.

        Raises:
            SandboxBoundaryError: The folder is missing or full, or the container is gone.
        """
        await put_archive(self._container, folder, packed(files, executable))

    async def get(self, path: str, limits: FileLimits) -> dict[str, bytes]:
        """Return the regular files at or below a path of the container, by their path below it; links are left out.

        Raises:
            FileNotFoundError: There is nothing at the path.
            SandboxBoundaryError: They are more than the limits allow, or the container is gone.
        """
        return await read_archive(self._container, path, limits)

    async def take(self, path: str, limits: FileLimits) -> bytes:
        """Return a path as one archive with modes, owners and links, for :meth:`put_back`.

        Raises:
            FileNotFoundError: There is nothing at the path.
            SandboxBoundaryError: It is more than the limits allow, or the container is gone.
        """
        return await take_archive(self._container, path, limits)

    async def put_back(self, folder: str, archive: bytes) -> None:
        """Unpack what :meth:`take` gave into the folder that held its path.

        Raises:
            SandboxBoundaryError: The folder is missing or full, or the container is gone.
        """
        await put_archive(self._container, folder, archive)

    async def export(self, path: str, destination: Path, limits: FileLimits) -> None:
        """Copy the regular files below a folder of the container to a host folder, following no links.

        Raises:
            FileNotFoundError: There is nothing at the path.
            SandboxBoundaryError: They are more than the limits allow, or the container is gone.
        """
        unpacked(await self.get(path, limits), destination)

    async def _has_run_out_of_memory(self) -> bool:
        """Return whether the system has ended a process for want of memory since this was asked last.

        Raises:
            SandboxBoundaryError: The container has ended, and the program with it.
        """
        argv = ("/bin/sh", "-c", _MEMORY_EVENTS)
        looked = await execute(self._container, Program(argv=argv, timeout_s=_LOOK_S, user="0", work_dir="/"))
        if looked.exit_code != 0:
            await check_end(self._container)
        lines = [line.split() for line in looked.stdout.splitlines()]
        before = self._memory_kills
        self._memory_kills = sum(int(words[1]) for words in lines if len(words) == 2 and words[0] == b"oom_kill")
        return self._memory_kills > before


@asynccontextmanager
async def open_machine(
    image: DockerImage,
    limits: SandboxLimits,
    room: MemoryRoom,
    *,
    has_own_command: bool = False,
    aliases: Sequence[str] = (),
) -> AsyncIterator[DockerMachine]:
    """Open a container of an image as it is, root in it, writable; closing leaves nothing behind.

    Args:
        image: The image; ``work_dir`` and ``is_own_machine`` mean nothing here.
        limits: Memory and processes; the rest belongs to each program.
        room: Where it takes its memory.
        has_own_command: It runs what the image says, as a service does, instead of waiting for programs. When this
            process is killed, such a container runs on until the next start of any run.
        aliases: Names by which others on ``image.network`` find it.

    Raises:
        SandboxBoundaryError: It does not start.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(room.hold(limits.memory_mb))
        docker = await stack.enter_async_context(connected())
        config = _machine_config(image, limits, has_own_command=has_own_command, aliases=aliases)
        container = await stack.enter_async_context(created(docker, config))
        what = f"a container of the image {image.name} cannot be started"
        if not has_own_command:
            stream = container.attach(stdin=True)
            async with asked(what):
                await stream.__aenter__()
            stack.push_async_callback(stream.close)
        async with asked(what):
            await container.start()
        yield DockerMachine(container)


def _machine_config(
    image: DockerImage, limits: SandboxLimits, *, has_own_command: bool, aliases: Sequence[str]
) -> dict[str, Any]:
    keeper = {
        "Entrypoint": list(_KEEPER),
        "Cmd": [],
        "User": "0",
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "Healthcheck": {"Test": ["NONE"]},
    }
    return {
        "Image": image.name,
        **({} if has_own_command else keeper),
        "StopSignal": "SIGKILL",
        "Labels": {MEMORY: str(limits.memory_mb)},
        "HostConfig": limited(image, limits),
        "NetworkingConfig": {"EndpointsConfig": {image.network: {"Aliases": list(aliases)}}} if aliases else {},
    }
