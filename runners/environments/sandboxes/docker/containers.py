"""Containers, networks and volumes that are removed at the end or, after a kill, at the next start."""

import json
import os
import resource
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from lhaw_record.runners.base.errors import SandboxBoundaryError, SandboxUnfit
from lhaw_record.runners.environments.sandboxes.docker.engine import MEMORY, OWNED, asked, is_orphan, is_own, own_labels

if TYPE_CHECKING:
    from aiodocker import Docker
    from aiodocker.containers import DockerContainer

_REMOVE_S = 30.0
_PODMANS = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
_PODMANS_LIMIT, _PODMANS_OWN = 1 << 20, 1 << 15  # Podman's default, and its service's reserve of processes
_ULIMITS: dict[str | None, list[dict[str, Any]]] = {}  # by the address of the engine


@asynccontextmanager
async def created(docker: "Docker", config: dict[str, Any]) -> AsyncIterator["DockerContainer"]:
    """Create a container without starting it. Kill and remove it at the end.

    A cancelled caller waits until the engine confirms the creation; otherwise a container created after cancellation
    would never be removed. A container is left for :func:`reap` only if the engine is unreachable or this process is
    killed.
    """
    name = _new_name()
    labelled = {**config, "Labels": {**config.get("Labels", {}), **own_labels()}}
    if ulimits := await _podmans_ulimits(docker):
        labelled["HostConfig"] = {**labelled["HostConfig"], "Ulimits": ulimits}
    try:
        with anyio.CancelScope(shield=True):
            async with asked(f"a container of the image {config['Image']} cannot be made"):
                container = await docker.containers.create(labelled, name=name)
        yield container
    finally:
        with anyio.CancelScope(shield=True), suppress(SandboxBoundaryError):
            await remove(docker, name)


async def _podmans_ulimits(docker: "Docker") -> list[dict[str, Any]]:
    """Return the ulimits to set explicitly if the engine is Podman, else an empty list.

    Podman gives root's containers 1,048,576 open files and processes. If it may not raise its own limits (no
    CAP_SYS_RESOURCE), no container starts. Its ``default_ulimits`` do not apply to API requests.
    """
    if docker.docker_host not in _ULIMITS:
        async with asked("the engine cannot be asked for its version"):
            about = await docker.version()
        is_podman = any(part["Name"] == "Podman Engine" for part in about.get("Components") or ())
        hard = {name: resource.getrlimit(number)[1] for name, number in _PODMANS.items()} if is_podman else {}
        lower = {name: min(limit, _PODMANS_OWN) for name, limit in hard.items() if 0 <= limit < _PODMANS_LIMIT}
        _ULIMITS[docker.docker_host] = [{"Name": name, "Soft": each, "Hard": each} for name, each in lower.items()]
    return _ULIMITS[docker.docker_host]


def _new_name() -> str:
    """Return an unused name for a container, a network or a volume."""
    return f"lhaw-record-{os.getpid()}-{secrets.token_hex(6)}"


async def connect_network(container: "DockerContainer", network: str) -> None:
    """Connect a container to an additional network."""
    async with asked(f"a container cannot be connected to the network {network}"):
        await (await container.docker.networks.get(network)).connect({"Container": container.id})


async def remove(docker: "Docker", name: str) -> None:
    """Kill a container and remove it with its anonymous volumes. Do nothing if it is already gone."""
    async with _removing(f"container {name}"):
        await docker.containers.container(name).delete(force=True, v=True)


async def _remove_network(docker: "Docker", name: str) -> None:
    async with _removing(f"network {name}"):
        await (await docker.networks.get(name)).delete()


async def _remove_volume(docker: "Docker", name: str) -> None:
    from aiodocker.volumes import DockerVolume

    async with _removing(f"volume {name}", 409):  # still in use by a container that is being removed
        await DockerVolume(docker, name).delete()  # type: ignore[no-untyped-call]


@asynccontextmanager
async def _removing(what: str, *ignored: int) -> AsyncIterator[None]:
    """Ask the engine to remove something, and ignore the error if it is already gone."""
    from aiodocker import DockerError

    async with asked(f"the {what} cannot be removed", timeout_s=_REMOVE_S):
        try:
            yield
        except DockerError as error:
            if error.status not in (404, *ignored) and "already in progress" not in error.message:
                raise


async def reap(docker: "Docker") -> int:
    """Remove the containers, networks and volumes that killed processes left behind, and return their number.

    Resources of live processes or of other hosts are kept.
    """
    containers = await owned_containers(docker)
    async with asked("the networks and volumes of earlier runs cannot be listed"):
        networks = await docker.networks.list(filters={"label": [OWNED]})
        volumes = await docker.volumes.list(filters={"label": [OWNED]})  # type: ignore[no-untyped-call]
    orphans = [
        *((remove, each["Id"]) for each in containers if is_orphan(each["Labels"])),
        *((_remove_network, each["Id"]) for each in networks if is_orphan(each["Labels"])),
        *((_remove_volume, each["Name"]) for each in volumes["Volumes"] or () if is_orphan(each["Labels"])),
    ]
    for removed, name in orphans:
        await removed(docker, name)
    return len(orphans)


async def check_network(docker: "Docker", name: str, key: str) -> None:
    """Check that the engine has a network that a trial needs at its end, before the trial costs money."""
    from aiodocker import DockerError

    async with asked(f"the network {name} cannot be inspected"):
        try:
            await (await docker.networks.get(name)).show()
        except DockerError as error:
            if error.status != 404:
                raise
            raise SandboxUnfit(
                f"the engine has no network {name!r}; name one of `docker network ls` in {key}", kind="no_network"
            ) from error


async def owned_containers(docker: "Docker") -> list[dict[str, Any]]:
    """Return the engine's list entries for all our containers, running or not, created by any process."""
    async with asked("the containers of earlier runs cannot be listed"):
        found = await docker.containers.list(all=True, filters=json.dumps({"label": [OWNED]}))
    # The library offers no public access to the listed data.
    return [container._container for container in found]


async def memory_of_others_mb(docker: "Docker") -> int:
    """Return the total memory limit of other processes' running containers, in MiB."""
    return sum(
        int(container["Labels"].get(MEMORY, 0))
        for container in await owned_containers(docker)
        if container["State"] == "running" and not is_own(container["Labels"])
    )


class InternalNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """A network for containers of :class:`lhaw_record.runners.environments.sandboxes.docker.config.DockerImage`.

    ``host_address`` is this machine's address on the network, if the engine runs here. A server for the containers must
    listen only at that address, because one that listens at all addresses is reachable from every container of the
    network.
    """

    name: str
    host_address: str


@asynccontextmanager
async def internal_network(docker: "Docker", *, has_neighbours: bool = False) -> AsyncIterator[InternalNetwork]:
    """Create a network without external access, and remove it at the end.

    An engine has addresses for about thirty networks, so a run has one network, not one per trial, unless its
    containers must reach each other.
    """
    name = _new_name()
    config = {
        "Name": name,
        "CheckDuplicate": True,
        "Driver": "bridge",
        "Internal": True,
        "Options": {"com.docker.network.bridge.enable_icc": "true" if has_neighbours else "false"},
        "Labels": own_labels(),
    }
    try:
        with anyio.CancelScope(shield=True):
            async with asked("a network cannot be made"):
                network = await docker.networks.create(config)
                about = await network.show()
        yield InternalNetwork(name=name, host_address=about["IPAM"]["Config"][0]["Gateway"])
    finally:
        with anyio.CancelScope(shield=True), suppress(SandboxBoundaryError):
            await _remove_network(docker, name)


@asynccontextmanager
async def created_volume(docker: "Docker") -> AsyncIterator[str]:
    """Create a volume that containers share, yield its name, and remove it at the end."""
    name = _new_name()
    try:
        with anyio.CancelScope(shield=True):
            async with asked("a volume cannot be made"):
                await docker.volumes.create({"Name": name, "Labels": own_labels()})  # type: ignore[no-untyped-call]
        yield name
    finally:
        with anyio.CancelScope(shield=True), suppress(SandboxBoundaryError):
            await _remove_volume(docker, name)
