"""Serving: one socket, one application, one daemon, until a signal ends them in order."""

import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from recorder.store import Store
from runners.daemon.address import Address, host_name, remove_address, url_of, write_address
from runners.daemon.app import application
from runners.daemon.client import TOKEN_VARIABLE
from runners.daemon.guard import SHORTEST_TOKEN, is_loopback
from runners.daemon.opening import opened_daemon
from runners.daemon.pages import page_routes
from runners.daemon.reports import MakeReport, Reports
from runners.errors import ExperimentError, RunnerError, ungrouped
from runners.interrupts import interruptibly
from runners.serving import QuietServer, without_delay

_SECONDS_FOR_READERS = 2


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen, what to ask of clients, and how many trials to run at a time."""

    host: str = "127.0.0.1"
    port: int = 8321
    max_trials: int = 8
    token: str | None = None


async def serve(root: Path, settings: Settings, make_report: MakeReport, say: Callable[[str], None]) -> None:
    """Serve a store until a signal: the first lets running trials end, the second stops them; they are owed again.

    Raises:
        ExperimentError: The settings are not safe.
        RunnerError: The port is in use.
        StoreError: The store cannot be used, or another daemon serves it.
        RecordingFailed: An order could not be recorded.
    """
    check(settings)
    with bound(settings.host, settings.port) as listener:
        store = await anyio.to_thread.run_sync(Store.create, root)
        async with opened_daemon(store, settings.max_trials) as daemon:
            url = url_of(settings.host, listener.getsockname()[1])
            daemon_id = daemon.facts().daemon_id
            pages = page_routes(daemon, Reports(store, make_report), has_token=settings.token is not None)
            server = QuietServer(
                application(daemon, settings.token, pages), timeout_graceful_shutdown=_SECONDS_FOR_READERS
            )
            write_address(store, Address(url=url, process=os.getpid(), host=host_name(), daemon_id=daemon_id))

            def stop() -> bool:
                if daemon.is_stopping:
                    daemon.cancel()
                elif daemon.live:
                    say("stopping when the running trials have ended; Ctrl-C again ends them now")
                daemon.stop()
                return True

            try:
                with ungrouped():
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(server.serve, [listener])
                        say(f"{store.name} is served at {url}")
                        try:
                            await interruptibly(daemon.supervise, stop)
                        finally:
                            daemon.hub.close()
                            server.should_exit = True
            finally:
                remove_address(store, daemon_id)


def check(settings: Settings) -> None:
    """Refuse to be reached from elsewhere without a token.

    Raises:
        ExperimentError: The settings are not safe.
    """
    if settings.token is not None and len(settings.token) < SHORTEST_TOKEN:
        raise ExperimentError(
            f"{TOKEN_VARIABLE} is shorter than {SHORTEST_TOKEN} characters and could be guessed; make one with "
            "'python -c \"import secrets; print(secrets.token_hex(32))\"'"
        )
    if settings.token is None and not is_loopback(settings.host):
        raise ExperimentError(
            f"--host {settings.host} can be reached from elsewhere, and whoever reaches the daemon can run programs "
            f"here: set {TOKEN_VARIABLE} to a long random text, or leave --host away to listen on loopback"
        )
    if settings.max_trials < 1:
        raise ExperimentError("--max-trials: at least 1")
    if not settings.host:
        raise ExperimentError("--host is empty; give an address of this machine, or leave --host away for loopback")


@contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """Give a listening socket.

    Raises:
        RunnerError: The port is in use or reserved, or the host has no address here.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=512)
    except (OSError, UnicodeError) as error:  # a name that cannot be one of the network's is a UnicodeError
        raise RunnerError(f"cannot listen on {host} port {port}: {_remedy(error, host, port)}") from error
    with listener:
        yield without_delay(listener)


def _remedy(error: OSError | UnicodeError, host: str, port: int) -> str:
    """Say why an address cannot be listened on, and what to change."""
    if isinstance(error, UnicodeError) or (error.errno or 0) < 0:  # getaddrinfo's codes, which are below 0
        return f"no address of the name {host!r} is known here; give an address of this machine with --host"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; give one of its own with --host"
    if error.errno == errno.EADDRINUSE:
        return "another program listens there; choose another with --port, or --port 0 for a free one"
    if error.errno == errno.EACCES:
        return f"ports below 1024 are for root here; choose a higher one than {port} with --port, or --port 0"
    return f"{os.strerror(error.errno) if error.errno else error}; choose another address with --host or --port"
