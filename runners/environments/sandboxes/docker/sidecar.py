"""A container beside another one, with the same network and shared folders, that we talk to in lines.

It is for programs that an agent's image does not have, such as a browser: it sees the same addresses, the same
``/etc/hosts`` and the same ``localhost`` as the agent.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

import anyio
import msgspec

from lhaw_record.runners.environments.sandboxes.docker.attach import started
from lhaw_record.runners.environments.sandboxes.docker.config import ATTACHED, DockerImage, limited, read_only_mounts
from lhaw_record.runners.environments.sandboxes.docker.containers import created
from lhaw_record.runners.environments.sandboxes.docker.engine import connected
from lhaw_record.runners.environments.sandboxes.docker.labels import MEMORY
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

MAX_LINE_BYTES = 64 << 20
_MOST_UNREAD_LINES = 1024
_SHARED_MEMORY_BYTES = 256 << 20  # browsers keep pages there


class LineChannel:
    """Our end of a container's standard streams, in lines.

    Attributes:
        lines: The lines of its standard output. They end when it ends.
        end: Why it ended, and the error kind, or None.
        machine: The container itself.
    """

    machine: DockerMachine

    def __init__(self) -> None:
        self._inbox, self.lines = anyio.create_memory_object_stream[bytes](_MOST_UNREAD_LINES)
        self.end: tuple[str, str] | None = None
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._inbox.close()
        self.lines.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Split the received bytes into lines."""
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
        if len(self._buffer) > MAX_LINE_BYTES:
            self.break_off(f"it printed a line of more than {MAX_LINE_BYTES >> 20} MB", "sandbox_protocol")

    def break_off(self, reason: str, kind: str) -> None:
        """End the lines."""
        self.end = self.end or (reason, kind)
        self._inbox.close()

    def write(self, line: bytes) -> None:
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
    """Open a container that runs its image's entrypoint with arguments. Closing it leaves nothing behind.

    It works as root in ``image.work_dir``, which is there if the container beside it shares it, and ends with its
    standard input, also if our process is killed.
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
        "Labels": {MEMORY: str(limits.memory_mb)},
        "HostConfig": host,
    }
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(room.hold(limits.memory_mb))
        docker = await stack.enter_async_context(connected())
        container = await stack.enter_async_context(created(docker, config))
        channel = stack.enter_context(LineChannel())
        channel.machine = DockerMachine(container)
        what = f"a container of the image {image.name} cannot be started"
        await stack.enter_async_context(started(container, channel, what))
        yield channel
