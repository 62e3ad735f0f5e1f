"""Provide the company's services to one trial, in its own containers or from a shared company used in turn.

The original benchmark has one company on one host, with a server that resets services. Two trials that use one service
at the same time would undo each other's work. Therefore either every trial gets its own company, under the same host
name on its own network, or trials wait for each other, including trials of other experiments on this machine.
"""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.tac import services_program
from lhaw_record.runners.environments.benchmarks.tac.options import CompanionSpec, CompanyContainer, TacOptions
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.docker.containers import internal_network
from lhaw_record.runners.environments.sandboxes.docker.engine import connected
from lhaw_record.runners.environments.sandboxes.docker.images import Images
from lhaw_record.runners.environments.sandboxes.docker.machine import (
    DockerMachine,
    MachineState,
    ServiceConfig,
    open_machine,
)
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.docker.services import check_undisturbed, last_words
from lhaw_record.runners.environments.sandboxes.driver_program import source_of
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

CONTROL = SandboxLimits(memory_mb=128, processes=64)
_SERVICE_PROCESSES = 4096
_RESTARTS = 100  # the original restarts its services always
_START_S = 30.0
_LOOK_AGAIN_S = 0.5


class Company(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial needs to know about the company.

    Args:
        network: The Docker network of the trial's container.
        server: The value of ``SERVER_HOSTNAME`` for the image's init script.
        addresses: The health check address of each service.
        images: The image id of each service. Empty if the company runs outside our control.
        control: A container from which health is checked, which agents cannot use. None without services.
        containers: The containers of the services and their companions by name, without those that end by themselves.
        at_start: How each of them was when the trial began.
    """

    network: str = "none"
    server: str = "localhost"
    addresses: Mapping[str, str] = {}
    images: Mapping[str, str] = {}
    control: DockerMachine | None = None
    containers: Mapping[str, DockerMachine] = {}
    at_start: Mapping[str, MachineState] = {}

    async def check(self, machine: DockerMachine, limit_s: float) -> None:
        """Wait until every service is healthy, as seen from a container."""
        if not self.addresses:
            return
        argv = ["python3", "-c", source_of(services_program), "wait", str(limit_s), *self.addresses.values()]
        result = await machine.run(argv, timeout_s=limit_s + _START_S)
        if result.exit_code != 0:
            said = (result.stdout + result.stderr).decode(errors="replace").strip() or "no answer at all"
            raise SandboxBoundaryError(
                f"a service did not become healthy within {limit_s:g} s: {said[-500:]}; {await self._about(said)}",
                kind="service_unhealthy",
            )

    async def check_undisturbed(self) -> None:
        """Check that no container of the company was disturbed since the trial began."""
        await check_undisturbed(self.containers, self.at_start, "the company")

    async def _about(self, said: str) -> str:
        """Describe the containers' states. Containers whose health address is in the text come first."""
        if not self.containers:
            return "look at its container or host"
        guilty = [name for name, url in self.addresses.items() if url in said]
        states = []
        for name in sorted(self.containers, key=lambda name: name not in guilty):
            state = await self.containers[name].state()
            how = "runs" if state.is_running else f"ended with {state.exit_code}"
            memory = ", out of memory" if state.memory_kills else ""
            states.append(f"{name} {how}{memory} ({await last_words(self.containers[name])})")
        return "; ".join(states)


@asynccontextmanager
async def open_company(
    options: TacOptions, services: Sequence[str], image: str, room: MemoryBudget, images: Images
) -> AsyncIterator[Company]:
    """Open the company that a task needs. If we started it, it is healthy when yielded and removed at the end."""
    addresses = {name: options.health_of(name) for name in services}
    if not services:
        yield Company()
    elif options.services_host:
        async with open_machine(DockerImage(name=image, network=options.network), CONTROL, room) as machine:
            yield Company(network=options.network, server=options.services_host, addresses=addresses, control=machine)
    else:
        async with AsyncExitStack() as stack:
            yield await _started(stack, options, addresses, image, room, images)


async def _started(
    stack: AsyncExitStack,
    options: TacOptions,
    addresses: Mapping[str, str],
    image: str,
    room: MemoryBudget,
    images: Images,
) -> Company:
    """Start every container, wait until the services are healthy, and prepare them.

    As in the original benchmark, one host forwards all ports. Here it is a container, and each service behind it has
    its own address and name.
    """
    docker = await stack.enter_async_context(connected())
    specs = dict(_containers(options, addresses))
    image_ids = {name: (await images.ensure(docker, spec.image))["Id"] for name, spec in specs.items()}
    network = await stack.enter_async_context(internal_network(docker, has_neighbours=True))
    own = DockerImage(name=image, network=network.name)
    machine = await stack.enter_async_context(open_machine(own, CONTROL, room, aliases=(options.hostname,)))
    containers = {}
    for name, spec in specs.items():
        limits = SandboxLimits(memory_mb=spec.limit_mb, processes=_SERVICE_PROCESSES)
        config = await _config(spec)
        opened = open_machine(
            DockerImage(name=spec.image, network=network.name), limits, room, service=config, aliases=(name,)
        )
        containers[name] = await stack.enter_async_context(opened)
    ports = {str(port): [name, at] for name, spec in specs.items() for port, at in spec.published_ports.items()}
    in_background = 'python3 -c "$0" serve "$1" "$2" > /dev/null 2>&1 &'
    program = [source_of(services_program), canonical_json(addresses).decode(), canonical_json(ports).decode()]
    await machine.run(["/bin/sh", "-c", in_background, *program], timeout_s=_START_S)
    jobs = {name for name, spec in specs.items() if isinstance(spec, CompanionSpec) and spec.is_job}
    company = Company(
        network=network.name,
        server=options.hostname,
        addresses=addresses,
        images=image_ids,
        control=machine,
        containers={name: each for name, each in containers.items() if name not in jobs},
    )
    await company.check(machine, options.health_seconds)
    for name in sorted(jobs):
        await _ended(name, containers[name], options.health_seconds)
    for service in addresses:
        for name, command in options.services[service].prepare.items():
            await _prepare(name, containers[name], command, options.health_seconds)
    await company.check(machine, options.health_seconds)
    return msgspec.structs.replace(
        company, at_start={name: await each.state() for name, each in company.containers.items()}
    )


def _containers(options: TacOptions, services: Iterable[str]) -> Iterator[tuple[str, CompanyContainer]]:
    """Yield the containers of services by name, companions before the service that needs them."""
    for name in services:
        yield from options.services[name].companions.items()
        yield name, options.services[name]


async def _config(spec: CompanyContainer) -> ServiceConfig:
    return ServiceConfig(
        environment=spec.environment,
        files={path: await anyio.Path(file).read_bytes() for path, file in spec.files.items()},
        shared_memory_mb=spec.shared_memory_mb,
        restarts=_RESTARTS,
    )


async def _ended(name: str, container: DockerMachine, limit_s: float) -> None:
    """Wait until a container ends with exit code 0."""
    state = await container.state()
    with anyio.move_on_after(limit_s):
        while state.is_running or state.exit_code != 0:
            await anyio.sleep(_LOOK_AGAIN_S)
            state = await container.state()
        return
    raise SandboxBoundaryError(
        f"the companion {name} did not end with exit code 0 within {limit_s:g} s; {await last_words(container)}",
        kind="service_unprepared",
    )


async def _prepare(name: str, container: DockerMachine, command: Sequence[str], limit_s: float) -> None:
    """Run a command that prepares a service in its container."""
    result = await container.run(command, timeout_s=limit_s)
    if result.exit_code != 0:
        how = f"took over {limit_s:g} s" if result.is_timeout else f"ended with {result.exit_code}"
        said = (result.stdout + result.stderr).decode(errors="replace").split()
        raise SandboxBoundaryError(
            f"{' '.join(command)} in {name} {how}: {' '.join(said)[-300:]}", kind="service_unprepared"
        )


@asynccontextmanager
async def turn(host: str) -> AsyncIterator[None]:
    """Wait until no other trial on this machine uses the company on a host, then block the others until the end."""
    if not host:
        yield
        return
    name = hashlib.sha256(host.encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"lhaw-record-tac-{os.getuid()}-{name}.lock"
    with path.open("w") as file:  # the lock ends with the open file, even if this process is killed
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await anyio.sleep(_LOOK_AGAIN_S)
        yield
