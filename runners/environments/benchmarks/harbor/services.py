"""The services beside an agent's container, opened as a task's compose file says: a network, volumes, containers.

Services and agent find each other by name in a network of the trial alone. If the task has a network, all of them are
in that one too, as in Harbor.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from lhaw_record.runners.base.errors import SandboxUnfit
from lhaw_record.runners.environments.benchmarks.harbor.compose import Compose, Mount, Service
from lhaw_record.runners.environments.sandboxes.docker.config import read_only_mounts
from lhaw_record.runners.environments.sandboxes.docker.containers import created_volume, internal_network
from lhaw_record.runners.environments.sandboxes.docker.engine import connected
from lhaw_record.runners.environments.sandboxes.docker.machine import (
    DockerMachine,
    MachineState,
    ServiceConfig,
    open_machine,
)
from lhaw_record.runners.environments.sandboxes.docker.provider import DockerSandboxProvider
from lhaw_record.runners.environments.sandboxes.docker.services import (
    check_undisturbed,
    wait_until_done,
    wait_until_healthy,
)
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

_PROCESSES = 4096  # a service is not the agent
_RESTARTS = 10
_OWNER = "the task"


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What is beside an agent's container.

    Attributes:
        network: The network of the trial.
        main: What the compose file adds to the agent's container.
        volumes: The engine's names of the volumes.
        containers: The containers of the services by name, without those that end by themselves.
        at_start: How each was when the trial began.
    """

    network: str
    main: Service
    volumes: Mapping[str, str]
    containers: Mapping[str, DockerMachine]
    at_start: Mapping[str, MachineState]

    @property
    def mounts(self) -> list[dict[str, Any]]:
        """The mounts of the agent's container, in the engine's format."""
        return _mounts(self.main.mounts, self.volumes)

    async def check(self) -> None:
        """Check that every service has run since the trial began, is healthy, and had enough memory."""
        await check_undisturbed(self.containers, self.at_start, _OWNER)


@asynccontextmanager
async def open_services(
    provider: DockerSandboxProvider,
    compose: Compose,
    images: Mapping[str, str],
    limits: SandboxLimits,
    outside: str,
    job_s: float,
) -> AsyncIterator[Beside]:
    """Open the services of a task. They are healthy when yielded; closing them leaves nothing behind."""
    containers: dict[str, DockerMachine] = {}
    async with AsyncExitStack() as stack:
        docker = await stack.enter_async_context(connected())
        network = await stack.enter_async_context(internal_network(docker, has_neighbours=True))
        volumes = {name: await stack.enter_async_context(created_volume(docker)) for name in compose.volumes}
        for service in compose.services:
            await _wait(service, containers, job_s)
            image = provider.with_image(name=images[service.name], network=network.name, cpus=service.cpus).image
            opened = open_machine(
                image,
                SandboxLimits(memory_mb=service_memory_mb(service, limits), processes=_PROCESSES),
                provider.room,
                service=_config(service),
                aliases=(service.name,),
                volumes=_mounts(service.mounts, volumes),
                outside=outside,
            )
            containers[service.name] = await stack.enter_async_context(opened)
        await _wait(compose.main, containers, job_s)
        lasting = {name: each for name, each in containers.items() if name not in compose.jobs}
        for name, container in lasting.items():
            await wait_until_healthy(name, container)
        yield Beside(
            network=network.name,
            main=compose.main,
            volumes=volumes,
            containers=lasting,
            at_start={name: await each.state() for name, each in lasting.items()},
        )


def service_memory_mb(service: Service, limits: SandboxLimits) -> int:
    """Return the memory of a service in MiB: its own, or the experiment's."""
    return service.memory_mb or limits.memory_mb


async def _wait(service: Service, containers: Mapping[str, DockerMachine], job_s: float) -> None:
    """Wait until a service may start."""
    for name, condition in service.depends_on.items():
        if condition == "service_healthy":
            await wait_until_healthy(name, containers[name])
            if (await containers[name].health()).status == "none":
                raise SandboxUnfit(
                    f"the service {service.name} waits until {name} is healthy, and neither its image nor the compose "
                    "file has a health check for it; add one",
                    kind="service_unfit",
                )
        elif condition == "service_completed_successfully":
            await wait_until_done(name, containers[name], job_s)


def _config(service: Service) -> ServiceConfig:
    overrides = {
        "Cmd": service.command,
        "Entrypoint": service.entrypoint,
        "User": service.user,
        "WorkingDir": service.work_dir,
        "Healthcheck": service.healthcheck,
    }
    return ServiceConfig(
        environment=service.environment,
        overrides={name: value for name, value in overrides.items() if value not in (None, "")},
        shared_memory_mb=service.shared_memory_mb,
        restarts=_RESTARTS if service.restarts else 0,
    )


def _mounts(mounts: tuple[Mount, ...], volumes: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return mounts in the engine's format."""
    shown = {mount.target: str(mount.path) for mount in mounts if mount.path}
    kept = [mount for mount in mounts if not mount.path]
    return [
        *read_only_mounts(shown),
        *(
            {
                "Type": "volume",
                "Target": mount.target,
                "ReadOnly": mount.is_read_only,
                **({"Source": volumes[mount.volume]} if mount.volume else {}),
            }
            for mount in kept
        ),
    ]
