"""Decide how many sandboxes may be open at once, from the engine machine's memory and its use by other processes."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from lhaw_record.runners.base.errors import SandboxUnfit
from lhaw_record.runners.environments.sandboxes.docker.containers import created
from lhaw_record.runners.environments.sandboxes.docker.engine import MEMORY, connected
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

if TYPE_CHECKING:
    from aiodocker.containers import DockerContainer

_LOOK_AGAIN_S = 1.0


class MemoryBudget:
    """Admits sandboxes in order of request while the sum of their memory limits does not exceed the capacity.

    Args:
        capacity_mb: The memory that all sandboxes on the engine may use together, in MiB.
        used_by_others_mb: Returns how much of it other processes use. They do not wait for us, so two processes that
            ask at the same time may both go ahead.
    """

    def __init__(self, capacity_mb: int, used_by_others_mb: Callable[[], Awaitable[int]]) -> None:
        self.capacity_mb = capacity_mb
        self.used_mb = 0
        self._used_by_others_mb = used_by_others_mb
        self._queue: deque[object] = deque()
        self._change = anyio.Event()

    @classmethod
    def of_trial(cls, memory_mb: int) -> "MemoryBudget":
        """Return the budget of one trial, whose containers draw on memory that the trial already holds."""

        async def nobody() -> int:
            return 0

        return cls(memory_mb, nobody)

    def fits(self, memory_mb: int) -> int:
        """Return how many sandboxes of that size fit if no other process uses memory."""
        return self.capacity_mb // memory_mb

    @asynccontextmanager
    async def hold(self, memory_mb: int) -> AsyncIterator[None]:
        """Wait until there is memory for one more sandbox, and hold it."""
        if memory_mb > self.capacity_mb:
            raise SandboxUnfit(
                f"a sandbox of {memory_mb} MB does not fit into the {self.capacity_mb} MB that the Docker Engine's "
                "machine has for sandboxes; lower limits.memory_mb",
                kind="no_room",
            )
        await self._wait_for(memory_mb)
        try:
            yield
        finally:
            self.used_mb -= memory_mb
            self._announce()

    async def _wait_for(self, memory_mb: int) -> None:
        turn = object()
        self._queue.append(turn)
        try:
            while not (self._queue[0] is turn and await self._has_room(memory_mb)):
                change = self._change
                with anyio.move_on_after(_LOOK_AGAIN_S):  # other processes do not notify us
                    await change.wait()
            self.used_mb += memory_mb
        finally:
            self._queue.remove(turn)
            self._announce()

    async def _has_room(self, memory_mb: int) -> bool:
        if self.used_mb + memory_mb > self.capacity_mb:
            return False
        # Our first sandbox is admitted even if others hold all memory, so experiments never starve each other.
        return not self.used_mb or self.used_mb + memory_mb + await self._used_by_others_mb() <= self.capacity_mb

    def _announce(self) -> None:
        self._change.set()
        self._change = anyio.Event()


async def created_within(
    stack: AsyncExitStack, room: MemoryBudget, limits: SandboxLimits, config: dict[str, Any]
) -> "DockerContainer":
    """Wait for memory, then create a container with that memory and its own client."""
    await stack.enter_async_context(room.hold(limits.memory_mb))
    docker = await stack.enter_async_context(connected())
    labelled = {**config, "Labels": {MEMORY: str(limits.memory_mb)}}
    return await stack.enter_async_context(created(docker, labelled))
