"""Containers that leave nothing behind: named before they are made, removed at the end, reaped at the next start."""

import json
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio

from runners.errors import SandboxBoundaryError
from runners.sandboxes.docker.engine import asked
from runners.sandboxes.docker.owners import MEMORY, OWNED, is_orphan, is_own, own_labels

if TYPE_CHECKING:
    from aiodocker import Docker
    from aiodocker.containers import DockerContainer

_REMOVE_S = 30.0


@asynccontextmanager
async def created(docker: "Docker", config: dict[str, Any]) -> AsyncIterator["DockerContainer"]:
    """Create a container, not started yet, that is killed and removed at the end.

    Whoever is cancelled waits for the engine to say that the container exists: one that comes into being after the
    request was given up would be nobody's. Only when the engine itself is away, or this process is killed, does it
    stay, until :func:`reap`.

    Args:
        docker: The client.
        config: As the engine takes it; our labels are added.

    Raises:
        SandboxBoundaryError: It cannot be created.
    """
    name = new_name()
    labelled = {**config, "Labels": {**config.get("Labels", {}), **own_labels()}}
    try:
        with anyio.CancelScope(shield=True):
            async with asked(f"a container of the image {config['Image']} cannot be made"):
                container = await docker.containers.create(labelled, name=name)
        yield container
    finally:
        with anyio.CancelScope(shield=True), suppress(SandboxBoundaryError):
            await remove(docker, name)


def new_name() -> str:
    """Return a name for a container or a network that nothing else has."""
    return f"lhaw-record-{os.getpid()}-{secrets.token_hex(6)}"


async def remove(docker: "Docker", name: str) -> None:
    """Kill a container and remove it with its anonymous volumes; it may be gone already.

    Raises:
        SandboxBoundaryError: The engine is away, or cannot remove it now.
    """
    from aiodocker import DockerError

    async with asked(f"the container {name} cannot be removed", timeout_s=_REMOVE_S):
        try:
            await docker.containers.container(name).delete(force=True, v=True)
        except DockerError as error:
            if error.status != 404 and "already in progress" not in error.message:
                raise


async def reap(docker: "Docker") -> int:
    """Remove the containers and networks of processes that were killed, and return how many there were.

    Those of processes that live, here or on another host, stay.

    Raises:
        SandboxBoundaryError: The engine is away or refuses.
    """
    count = 0
    for container in await owned_containers(docker):
        if is_orphan(container["Labels"]):
            await remove(docker, container["Id"])
            count += 1
    async with asked("the networks of earlier runs cannot be listed"):
        networks = await docker.networks.list(filters={"label": [OWNED]})
    for network in networks:
        if is_orphan(network["Labels"]):
            await remove_network(docker, network["Id"])
            count += 1
    return count


async def remove_network(docker: "Docker", name: str) -> None:
    """Remove a network; it may be gone already.

    Raises:
        SandboxBoundaryError: The engine is away, or a container is still connected to it.
    """
    from aiodocker import DockerError

    async with asked(f"the network {name} cannot be removed", timeout_s=_REMOVE_S):
        try:
            await (await docker.networks.get(name)).delete()
        except DockerError as error:
            if error.status != 404:
                raise


async def owned_containers(docker: "Docker") -> list[dict[str, Any]]:
    """Return what the engine lists about every container of ours, whoever made it, running or not.

    Raises:
        SandboxBoundaryError: The engine is away or refuses.
    """
    async with asked("the containers of earlier runs cannot be listed"):
        found = await docker.containers.list(all=True, filters=json.dumps({"label": [OWNED]}))
    # The library hands out in no other way what it was told.
    return [container._container for container in found]


async def memory_of_others_mb(docker: "Docker") -> int:
    """Return how much memory the running containers of other processes may take.

    Raises:
        SandboxBoundaryError: The engine is away or refuses.
    """
    return sum(
        int(container["Labels"].get(MEMORY, 0))
        for container in await owned_containers(docker)
        if container["State"] == "running" and not is_own(container["Labels"])
    )
