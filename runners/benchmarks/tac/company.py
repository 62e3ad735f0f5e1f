"""The company around one trial: its services in containers of their own, or a running one that trials use in turn.

The original has one company on one host, whose server for resets puts a service back in place: two trials that use one
service at once would undo each other's work. So either every trial gets a company of its own, on a network of its own,
under the same name; or trials wait for each other, also those of other experiments on this machine.
"""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache
from pathlib import Path

import anyio
import msgspec

from recorder.canonical import canonical_json
from runners.benchmarks.tac import inside
from runners.benchmarks.tac.options import TacOptions
from runners.errors import SandboxBoundaryError
from runners.sandboxes.docker.config import DockerImage
from runners.sandboxes.docker.engine import connected
from runners.sandboxes.docker.images import Images
from runners.sandboxes.docker.machine import DockerMachine, open_machine
from runners.sandboxes.docker.network import internal_network
from runners.sandboxes.docker.room import MemoryRoom
from runners.sandboxes.protocol import SandboxLimits

_CONTROL = SandboxLimits(memory_mb=128, processes=64)
_SERVICE_PROCESSES = 4096
_START_S = 30.0
_LOOK_AGAIN_S = 0.5


class Company(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial knows of the company.

    Args:
        network: The engine's network that its container is on.
        server: What the image's init script is told as ``SERVER_HOSTNAME``.
        addresses: Where each service shows its health.
        images: The id of each service's image; empty where the company is not ours.
        control: A container that no agent gets into, where services are looked at from; None where there are none.
    """

    network: str = "none"
    server: str = "localhost"
    addresses: Mapping[str, str] = {}
    images: Mapping[str, str] = {}
    control: DockerMachine | None = None

    async def check(self, machine: DockerMachine, limit_s: float) -> None:
        """Wait until every service is healthy, as a container sees it.

        Raises:
            SandboxBoundaryError: One did not become healthy in time; the trial is owed again.
        """
        if not self.addresses:
            return
        argv = ["python3", "-c", _inside(), "wait", str(limit_s), *self.addresses.values()]
        result = await machine.run(argv, timeout_s=limit_s + _START_S)
        if result.exit_code != 0:
            said = (result.stdout + result.stderr).decode(errors="replace").strip() or "no answer at all"
            raise SandboxBoundaryError(
                f"a service did not become healthy within {limit_s:g} s: {said[-500:]}; look at its container or host",
                kind="service_unhealthy",
            )


def memory_of(options: TacOptions, services: Sequence[str]) -> int:
    """Return how many megabytes the containers of a trial's company take."""
    own = [options.services[name].memory_mb for name in services] if not options.services_host else []
    return _CONTROL.memory_mb + sum(own) if services else 0


@asynccontextmanager
async def open_company(
    options: TacOptions, services: Sequence[str], image: str, room: MemoryRoom, images: Images
) -> AsyncIterator[Company]:
    """Give the company that a task needs, healthy where it is ours; nothing of ours is left at the end.

    Args:
        options: Where its services come from.
        services: Those that the task depends on.
        image: The task's image: its Python runs the control server.
        room: Where containers take their memory.
        images: Pulls those of the services.

    Raises:
        SandboxBoundaryError: A container does not start, or a service does not become healthy.
    """
    addresses = {name: options.health_of(name) for name in services}
    if not services:
        yield Company()
    elif options.services_host:
        async with open_machine(DockerImage(name=image, network=options.network), _CONTROL, room) as machine:
            yield Company(network=options.network, server=options.services_host, addresses=addresses, control=machine)
    else:
        async with AsyncExitStack() as stack:
            company = await _started(stack, options, addresses, image, room, images)
            assert company.control is not None
            await company.check(company.control, options.health_seconds)
            yield company


async def _started(
    stack: AsyncExitStack,
    options: TacOptions,
    addresses: Mapping[str, str],
    image: str,
    room: MemoryRoom,
    images: Images,
) -> Company:
    """Start every service. All share the network of one container, as those of the original share one host."""
    docker = await stack.enter_async_context(connected())
    image_ids = {name: (await images.ensure(docker, options.services[name].image))["Id"] for name in addresses}
    network = await stack.enter_async_context(internal_network(docker, has_neighbours=True))
    own = DockerImage(name=image, network=network.name)
    machine = await stack.enter_async_context(open_machine(own, _CONTROL, room, aliases=(options.hostname,)))
    for name in addresses:
        spec = options.services[name]
        shared = DockerImage(name=spec.image, network=f"container:{machine.container_id}")
        limits = SandboxLimits(memory_mb=spec.memory_mb, processes=_SERVICE_PROCESSES)
        await stack.enter_async_context(open_machine(shared, limits, room, has_own_command=True))
    in_background = 'python3 -c "$0" serve "$1" > /dev/null 2>&1 &'
    argv = ["/bin/sh", "-c", in_background, _inside(), canonical_json(addresses).decode()]
    await machine.run(argv, timeout_s=_START_S)
    return Company(
        network=network.name, server=options.hostname, addresses=addresses, images=image_ids, control=machine
    )


@lru_cache(maxsize=1)
def _inside() -> str:
    """The program for containers, as source."""
    return Path(inside.__file__).read_text(encoding="utf-8")


@asynccontextmanager
async def turn(host: str) -> AsyncIterator[None]:
    """Wait until no other trial on this machine uses the company on a host, and keep the others waiting.

    Args:
        host: Where it lives; empty for a company that is the trial's own.
    """
    if not host:
        yield
        return
    name = hashlib.sha256(host.encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"lhaw-record-tac-{os.getuid()}-{name}.lock"
    with path.open("w") as file:  # the lock goes with the file, also when this process is killed
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await anyio.sleep(_LOOK_AGAIN_S)
        yield
