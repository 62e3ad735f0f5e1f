"""Serve a store: open a daemon on it, listen for requests, and shut both down in order when a signal arrives."""

import errno
import importlib.metadata
import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.errors import RecordingFailed, StoreInUse
from lhaw_record.recorder.events import CONTROL_EXPERIMENT
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.redaction import Redactor, secrets_of
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.agents.programs.leases import Leases, open_leases
from lhaw_record.runners.base.errors import ExperimentError, RunnerError, ungrouped
from lhaw_record.runners.base.host.serving import interruptibly, quiet_server, without_delay
from lhaw_record.runners.models.litellm_library import close_clients
from lhaw_record.runners.runs.daemon.app import SHORTEST_TOKEN, application, is_loopback
from lhaw_record.runners.runs.daemon.client import (
    LEASE_TOKEN_VARIABLE,
    TOKEN_VARIABLE,
    Address,
    remove_address,
    write_address,
)
from lhaw_record.runners.runs.daemon.daemon import Daemon
from lhaw_record.runners.runs.daemon.endpoints import Extension
from lhaw_record.runners.runs.daemon.messages import DaemonFacts
from lhaw_record.runners.runs.daemon.pages import MakeReport, ReadAttempt, Reports, page_routes
from lhaw_record.runners.runs.daemon.queue import stored_queue
from lhaw_record.runners.runs.run_record import command_finished, run_started

_SECONDS_FOR_READERS = 2

Extend = Callable[[Daemon], AbstractAsyncContextManager[Extension]]
"""A function that opens what another layer adds to a daemon, and closes it when the daemon stops."""


class ServeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the daemon listens, the token that clients must send, and how many trials it runs at a time.

    ``lease_token`` lets clients take leases, and nothing else. Leased trials are reached at ``gateway``, a host or
    HOST:PORT, and told to their clients as ``gateway_url``.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    max_trials: int = 8
    token: str | None = None
    lease_token: str | None = None
    gateway: str = "127.0.0.1"
    gateway_url: str | None = None


async def serve(
    root: Path,
    settings: ServeSettings,
    make_report: MakeReport,
    read_attempt: ReadAttempt,
    extend: Extend,
    say: Callable[[str], None],
) -> None:
    """Serve a store until a signal arrives.

    After the first signal, running trials continue until they end. The second signal stops them, and they run again
    when the daemon is restarted.
    """
    check(settings)
    with bound(settings.host, settings.port) as listener:
        async with _leases(settings) as leases, AsyncExitStack() as stack:
            store = await anyio.to_thread.run_sync(create_store, root)
            daemon = await stack.enter_async_context(opened_daemon(store, settings.max_trials, leases))
            extension = await stack.enter_async_context(extend(daemon))
            url = url_of(settings.host, listener.getsockname()[1])
            daemon_id = daemon.facts().daemon_id
            reports = Reports(store, make_report)
            pages = page_routes(daemon, reports, read_attempt, has_token=settings.token is not None)
            server = quiet_server(
                application(daemon, settings.token, pages, extension, settings.lease_token),
                timeout_graceful_shutdown=_SECONDS_FOR_READERS,
            )
            write_address(store, Address(url=url, process=os.getpid(), host=socket.gethostname(), daemon_id=daemon_id))

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


@asynccontextmanager
async def _leases(settings: ServeSettings) -> AsyncIterator[Leases]:
    host, port = _host_and_port(settings.gateway)
    with bound(host, port, "--gateway") as tcp:
        url = settings.gateway_url or url_of(host, tcp.getsockname()[1])
        async with open_leases(tcp, url) as leases:
            yield leases


def _host_and_port(address: str) -> tuple[str, int]:
    """Return the parts of HOST:PORT, [HOST]:PORT or HOST. The port is 0 if there is none: any that is free."""
    parts = urlsplit(f"//{address}")
    try:
        return parts.hostname or "", parts.port or 0
    except ValueError as error:
        raise ExperimentError(f"--gateway {address}: write HOST or HOST:PORT; {error}") from error


@asynccontextmanager
async def opened_daemon(store: Store, max_trials: int, leases: Leases | None = None) -> AsyncIterator[Daemon]:
    """Open the daemon of a store: lock and recover the store, rebuild the queue, and record the daemon's own stream."""
    with ExitStack() as stack:
        try:
            stack.enter_context(store.hold_experiment(CONTROL_EXPERIMENT))
        except StoreInUse as error:
            raise StoreInUse(
                f"another daemon serves this store: {error}; 'lhaw-record status' shows its experiments"
            ) from error
        await anyio.to_thread.run_sync(recover, store)
        queue = await anyio.to_thread.run_sync(lambda: stored_queue(read_snapshot(store.root)))
        async with StoreRecorder(store, CONTROL_EXPERIMENT, redactor=Redactor(secrets_of(os.environ))) as recorder:
            daemon_id = f"daemon-{secrets.token_hex(6)}"
            stream = recorder.stream(daemon_id)
            config_json = canonical_json({"max_trials": max_trials}).decode()
            await stream.append(run_started(daemon_id, config_json, "serve"))
            facts = DaemonFacts(
                store=store.name,
                daemon_id=daemon_id,
                version=importlib.metadata.version("lhaw-record"),
                max_trials=max_trials,
                running=0,
            )
            try:
                yield Daemon(store, stream, queue, facts, leases)
            finally:
                await close_clients()
                with suppress(RecordingFailed):  # closing the recorder raises it again
                    await stream.append(command_finished(daemon_id, "completed"))


def check(settings: ServeSettings) -> None:
    """Refuse invalid settings, and settings that let others reach the daemon without a token."""
    for name, token in ((TOKEN_VARIABLE, settings.token), (LEASE_TOKEN_VARIABLE, settings.lease_token)):
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise ExperimentError(
                f"{name} is shorter than {SHORTEST_TOKEN} characters and could be guessed; make one with "
                "'python -c \"import secrets; print(secrets.token_hex(32))\"'"
            )
    if settings.lease_token is not None and settings.token in (None, settings.lease_token):
        raise ExperimentError(
            f"{LEASE_TOKEN_VARIABLE} limits access only with a different {TOKEN_VARIABLE}: set that, too"
        )
    if settings.token is None and not is_loopback(settings.host):
        raise ExperimentError(
            f"--host {settings.host} can be reached from elsewhere, and anyone who reaches the daemon can run "
            f"programs here: set {TOKEN_VARIABLE} to a long random text, or leave --host out to listen on loopback"
        )
    if settings.max_trials < 1:
        raise ExperimentError("--max-trials: must be at least 1")
    gateway, _ = _host_and_port(settings.gateway)
    if gateway in ("", "0.0.0.0", "::") and settings.gateway_url is None:  # noqa: S104 - compared, not bound
        raise ExperimentError(
            f"--gateway {settings.gateway} is no address that other machines can use: give one with --gateway-url, "
            f"such as http://{socket.gethostname()}:PORT"
        )
    if settings.gateway_url is not None and not re.match(r"https?://[^/]", settings.gateway_url):
        raise ExperimentError(f"--gateway-url {settings.gateway_url} is no URL; write http://HOST:PORT")
    if not settings.host:
        raise ExperimentError("--host is empty; give an address of this machine, or leave --host out for loopback")


@contextmanager
def bound(host: str, port: int, option: str = "--host") -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=512)
    except (OSError, UnicodeError) as error:  # UnicodeError: not a possible host name
        raise RunnerError(f"cannot listen on {host} port {port}: {_remedy(error, host, port, option)}") from error
    with listener:
        yield without_delay(listener)


def url_of(host: str, port: int) -> str:
    """Return the URL of a server. For a server that is bound to every address, return its URL on loopback."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _remedy(error: OSError | UnicodeError, host: str, port: int, option: str) -> str:
    if isinstance(error, UnicodeError) or (error.errno or 0) < 0:  # getaddrinfo's codes, which are below 0
        return f"no address of the name {host!r} is known here; give an address of this machine with {option}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; give one of its own with {option}"
    if error.errno == errno.EADDRINUSE:
        if option != "--host":
            return f"another program listens there; choose another port with {option} HOST:PORT"
        return "another program listens there; choose another with --port, or --port 0 for a free one"
    if error.errno == errno.EACCES:
        return f"ports below 1024 are for root here; choose a higher one than {port} with --port, or --port 0"
    return f"{os.strerror(error.errno) if error.errno else error}; choose another address with {option}"
