"""The way from a container of any image to the run's listener: a port on its loopback, served from beside it.

The forwarder is in a container of its own that shares nothing with the agent's but the network. So it needs no Python
in the task's image, counts in none of the agent's limits, cannot be ended from inside, and the socket stays out of
reach.
Its files are those of this machine, read-only: the engine must run here, as for everything that programs are shown.
"""

import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path

import anyio

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.docker.sidecar import LineChannel, open_sidecar
from lhaw_record.runners.environments.sandboxes.inside import forwarder
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.environments.sandboxes.python_home import current_python_home

LIMITS = SandboxLimits(memory_mb=64, processes=32)
_SOCKET = "/run/listener.sock"
_START_S = 60.0


@asynccontextmanager
async def open_relay(socket: str, image: str, room: MemoryBudget, beside: DockerMachine) -> AsyncIterator[LineChannel]:
    """Serve a unix socket of this machine at ``127.0.0.1:PORT`` of a container's network."""
    async with open_python(_program(), (_SOCKET,), image, room, beside, {_SOCKET: socket}) as channel:
        is_open = False
        with anyio.move_on_after(_START_S), suppress(anyio.EndOfStream):
            await channel.lines.receive()
            is_open = True
        if not is_open:
            why, kind = channel.end or (f"it said nothing within {_START_S:g} s", "sandbox_died")
            raise SandboxBoundaryError(f"the way to the gateway did not open: {why}", kind=kind)
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
    """Run a program of ours with this machine's Python in a container beside another one, in its network."""
    home = current_python_home()
    opened = open_sidecar(
        DockerImage(name=image, work_dir="/"),
        LIMITS,
        room,
        beside=beside,
        entrypoint=("/usr/bin/env", "-i", home.executable, "-I", "-S", "-c", program),
        arguments=arguments,
        shown={**_python_paths(home.executable, home.base_prefix), **(shown or {})},
    )
    async with opened as channel:
        yield channel


async def relay_end(channel: LineChannel) -> SandboxBoundaryError:
    """Wait until a relay has ended, and return what that means for a trial."""
    async for _ in channel.lines:
        pass
    why, _ = channel.end or ("it ended", "")
    return SandboxBoundaryError(f"the way to the gateway broke: {why}", kind="relay_gone")


def _python_paths(executable: str, prefix: str) -> dict[str, str]:
    """Return what the interpreter that runs us needs, by its path in the container."""
    folders = ["/usr", *(path for path in ("/lib", "/lib64") if Path(path).exists())]
    shown = {folder: posixpath.realpath(folder) for folder in folders}
    if not Path(prefix).is_relative_to("/usr"):
        shown |= {path: path for path in (executable, f"{prefix}/lib", f"{prefix}/lib64") if Path(path).exists()}
    return shown


@lru_cache(maxsize=1)
def _program() -> str:
    source = Path(forwarder.__file__).read_text(encoding="utf-8")
    return f"{source}\nimport sys\nforward_until_input_ends(sys.argv[1])\n"
