"""Interruptible work: the first signal asks the work to stop, and the second one cancels it."""

import signal
from collections.abc import Awaitable, Callable

import anyio

from lhaw_record.runners.base.errors import ungrouped


async def interruptibly(work: Callable[[], Awaitable[None]], stop: Callable[[], bool]) -> None:
    """Await work while handling SIGINT and SIGTERM."""

    async def listen() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if not stop():
                    running.cancel()

    with ungrouped():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            with anyio.CancelScope() as running:
                await work()
            tasks.cancel_scope.cancel()
