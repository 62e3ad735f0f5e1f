"""An HTTP server without signal handlers for use in our own process, and graceful shutdown on SIGINT and SIGTERM."""

import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio

from lhaw_record.runners.base.errors import ungrouped

if TYPE_CHECKING:
    from starlette.types import ASGIApp
    from uvicorn import Server

LOOPBACK = "127.0.0.1"


def quiet_server(app: "ASGIApp", **options: Any) -> "Server":
    """Return a uvicorn server that leaves signals to the program around it.

    Args:
        app: The ASGI application to serve.
        options: Further options for uvicorn.
    """
    from uvicorn import Config, Server  # not every run has a server

    class QuietServer(Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    quiet: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False, "lifespan": "off"}
    return QuietServer(Config(app, **{**quiet, **options}))


def without_delay(listener: socket.socket) -> socket.socket:
    """Make a listening TCP socket send small replies at once instead of after 40 ms, and return the socket."""
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def interruptibly(work: Callable[[], Awaitable[None]], stop: Callable[[], bool]) -> None:
    """Await work. The first SIGINT or SIGTERM asks it to stop; the second cancels it."""

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
