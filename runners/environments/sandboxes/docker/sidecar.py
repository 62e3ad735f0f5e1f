"""A container that shares another one's network and folders, and exchanges lines of text with us.

It runs programs that an agent's image does not have, such as a browser, with the agent's addresses, ``/etc/hosts`` and
``localhost``. One sidecar is the relay from a port on the agent's loopback interface to the run's listener. The relay
needs no Python in the task's image, does not count towards the agent's limits, and cannot be ended from inside. It uses
this machine's files, read-only, so the engine must run on this machine.
"""

import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import anyio
import msgspec

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.channel import Channel
from lhaw_record.runners.environments.sandboxes.docker.attach import started
from lhaw_record.runners.environments.sandboxes.docker.config import ATTACHED, DockerImage, limited, read_only_mounts
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget, created_within
from lhaw_record.runners.environments.sandboxes.driver_program import source_of
from lhaw_record.runners.environments.sandboxes.inside import forwarder
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.environments.sandboxes.python_home import current_python_home

_MOST_UNREAD_LINES = 1024
_SHARED_MEMORY_BYTES = 256 << 20  # browsers store pages there


class LineChannel(Channel):
    """Our end of a container's standard streams, split into lines.

    Attributes:
        lines: The lines of its standard output, until the output ends.
        end: Why it ended, and the error kind, or None.
        most_line_bytes: The limit of one line.
    """

    machine: DockerMachine
    most_line_bytes = 64 << 20

    def __init__(self) -> None:
        super().__init__()
        self._inbox, self.lines = anyio.create_memory_object_stream[bytes](_MOST_UNREAD_LINES)
        self.end: tuple[str, str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._inbox.close()
        self.lines.close()

    def data_received(self, data: bytes) -> None:
        if self.end is not None:
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            try:
                self._inbox.send_nowait(bytes(self._buffer + line))
            except anyio.WouldBlock:
                self.break_off(f"it printed {_MOST_UNREAD_LINES} lines before one was read", "sandbox_protocol")
                return
            self._buffer.clear()
        self._buffer += rest
        if len(self._buffer) > self.most_line_bytes:
            self.break_off(f"it printed a line of more than {self.most_line_bytes >> 20} MB", "sandbox_protocol")

    def break_off(self, reason: str, kind: str) -> None:
        """Close the stream of lines; the first reason is kept."""
        self.end = self.end or (reason, kind)
        self._inbox.close()

    async def write(self, line: bytes) -> None:
        """Send a line to its standard input."""
        assert self._transport is not None
        self._transport.write(line + b"\n")


@asynccontextmanager
async def open_sidecar(
    image: DockerImage,
    limits: SandboxLimits,
    room: MemoryBudget,
    *,
    beside: DockerMachine,
    arguments: Sequence[str],
    entrypoint: Sequence[str] = (),
    shown: Mapping[str, str] | None = None,
) -> AsyncIterator[LineChannel]:
    """Open a container that runs its image's entrypoint with arguments. Remove everything on exit.

    It runs as root in ``image.work_dir``, which exists if the other container shares it. It ends when its standard
    input is closed, also if our process is killed.
    """
    host = limited(msgspec.structs.replace(image, network=f"container:{beside.container_id}"), limits)
    if shown is None:
        host |= {"VolumesFrom": [beside.container_id], "ShmSize": _SHARED_MEMORY_BYTES}
    else:
        host |= {"CapDrop": ["ALL"], "ReadonlyRootfs": True, "Mounts": read_only_mounts(shown)}
    config = {
        **ATTACHED,
        "Image": image.name,
        **({"Entrypoint": list(entrypoint)} if entrypoint else {}),
        "Cmd": list(arguments),
        "User": "0",
        "WorkingDir": image.work_dir,
        "HostConfig": host,
    }
    async with AsyncExitStack() as stack:
        container = await created_within(stack, room, limits, config)
        channel = stack.enter_context(LineChannel())
        channel.machine = DockerMachine(container)
        what = f"a container of the image {image.name} cannot be started"
        await stack.enter_async_context(started(container, channel, what))
        yield channel


RELAY_LIMITS = SandboxLimits(memory_mb=64, processes=32)
_SOCKET = "/run/listener.sock"
_START_S = 60.0


@asynccontextmanager
async def open_relay(socket: str, image: str, room: MemoryBudget, beside: DockerMachine) -> AsyncIterator[LineChannel]:
    """Serve a unix socket of this machine at ``127.0.0.1:PORT`` in a container's network."""
    program = f"{source_of(forwarder)}\nimport sys\nforward_until_input_ends(sys.argv[1])\n"
    async with open_python(program, (_SOCKET,), image, room, beside, {_SOCKET: socket}) as channel:
        is_open = False
        with anyio.move_on_after(_START_S), suppress(anyio.EndOfStream):
            await channel.lines.receive()
            is_open = True
        if not is_open:
            why, kind = channel.end or (f"it printed nothing within {_START_S:g} s", "sandbox_died")
            raise SandboxBoundaryError(f"the connection to the gateway did not open: {why}", kind=kind)
        yield channel


@asynccontextmanager
async def open_python(
    program: str,
    arguments: Sequence[str],
    image: str,
    room: MemoryBudget,
    beside: DockerMachine,
    shown: Mapping[str, str] | None = None,
) -> AsyncIterator[LineChannel]:
    """Run one of our programs with this machine's Python in a container in another container's network."""
    home = current_python_home()
    opened = open_sidecar(
        DockerImage(name=image, work_dir="/"),
        RELAY_LIMITS,
        room,
        beside=beside,
        entrypoint=("/usr/bin/env", "-i", home.executable, "-I", "-S", "-c", program),
        arguments=arguments,
        shown={**_python_paths(home.executable, home.base_prefix), **(shown or {})},
    )
    async with opened as channel:
        yield channel


async def relay_end(channel: LineChannel) -> SandboxBoundaryError:
    """Wait until a relay has ended, and return the trial's error."""
    async for _ in channel.lines:
        pass
    why, _ = channel.end or ("it ended", "")
    return SandboxBoundaryError(f"the connection to the gateway broke: {why}", kind="relay_gone")


def _python_paths(executable: str, prefix: str) -> dict[str, str]:
    """Return the host paths that our Python interpreter needs, by their paths in the container."""
    folders = ["/usr", *(path for path in ("/lib", "/lib64") if Path(path).exists())]
    shown = {folder: posixpath.realpath(folder) for folder in folders}
    if not Path(prefix).is_relative_to("/usr"):
        shown |= {path: path for path in (executable, f"{prefix}/lib", f"{prefix}/lib64") if Path(path).exists()}
    return shown
