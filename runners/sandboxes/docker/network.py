"""Networks of a run that lead nowhere but to this machine's end of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
import msgspec

from runners.errors import SandboxBoundaryError
from runners.sandboxes.docker.containers import new_name, remove_network
from runners.sandboxes.docker.engine import asked
from runners.sandboxes.docker.owners import own_labels

if TYPE_CHECKING:
    from aiodocker import Docker


class InternalNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """A network, for :class:`runners.sandboxes.docker.config.DockerImage`.

    ``host_address`` is this machine's address on it, where the engine runs here. A server for its containers listens at
    that address only: one that listens at all addresses is reached by every container of the network as well.
    """

    name: str
    host_address: str


@asynccontextmanager
async def internal_network(docker: "Docker", *, has_neighbours: bool = False) -> AsyncIterator[InternalNetwork]:
    """Make a network without a way out, and remove it at the end.

    An engine has addresses for some thirty networks, so one for a run, not one for every trial, unless its containers
    must find each other.

    Args:
        docker: The client.
        has_neighbours: Whether its containers reach each other, as an agent and the services of its task do.

    Raises:
        SandboxBoundaryError: It cannot be made.
    """
    name = new_name()
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
            await remove_network(docker, name)
