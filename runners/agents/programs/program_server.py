"""The server that a run provides for its programs: the gateway and the simulated users of its trials.

It listens on a unix socket in a private folder, which sandboxes mount. It also listens on loopback if a sandbox shares
the host's loopback interface. The daemon's control API is a separate listener, which no trial can reach.
"""

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from lhaw_record.runners.agents.programs.acp import AcpServer
from lhaw_record.runners.agents.programs.entries import shown_folders
from lhaw_record.runners.agents.programs.installation import bin_folder
from lhaw_record.runners.base.errors import ExperimentError, ungrouped
from lhaw_record.runners.base.host.scratch import scratch_folder
from lhaw_record.runners.base.host.serving import LOOPBACK, quiet_server, without_delay
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess
from lhaw_record.runners.experiment.program import ProgramSpec
from lhaw_record.runners.models.gateway.app import Gateway
from lhaw_record.runners.users.ask_user.serving import AskUserServer

SERVER_OPTIONS: dict[str, Any] = {
    "http": "h11",  # it bounds the headers of a request; httptools, a little faster, takes any number of megabytes
    "ws": "none",
    "timeout_keep_alive": 600,  # an agent may work for a long time between two calls on one connection
    "timeout_graceful_shutdown": 1,
    "proxy_headers": False,  # no proxy is in front of it
}
_BACKLOG = 512


class ProgramServer(NamedTuple):
    """Where the programs of a run find their models, their tools and their users while it is open."""

    gateway: Gateway
    asking: AskUserServer
    acp: AcpServer
    socket_path: str
    port: int | None
    """The TCP port on loopback, if it has one."""


@asynccontextmanager
async def open_program_server(
    *,
    has_port: bool = False,
    tcp: socket.socket | None = None,
    routes: Sequence[BaseRoute] = (),
    wrapped: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> AsyncIterator[ProgramServer]:
    """Listen for the programs of a run, or for those who lease trials."""
    with scratch_folder() as folder:
        gateway, asking, acp = Gateway(), AskUserServer(), AcpServer()
        path = str(folder / "listener")
        listeners = [_unix_listener(path)]
        if has_port:
            tcp = without_delay(socket.create_server((LOOPBACK, 0), backlog=_BACKLOG))
        listeners += [tcp] if tcp is not None else []
        port = tcp.getsockname()[1] if tcp is not None else None
        app = Starlette(routes=[*routes, *asking.routes, *acp.routes, *gateway.routes])
        server = quiet_server(wrapped(app), **SERVER_OPTIONS)
        try:
            with ungrouped():
                async with asking, anyio.create_task_group() as tasks:
                    tasks.start_soon(server.serve, listeners)
                    try:
                        yield ProgramServer(gateway, asking, acp, path, port)
                    finally:
                        server.should_exit = True
        finally:
            for listener in listeners:
                listener.close()


def _unix_listener(path: str) -> socket.socket:
    """Listen on a unix socket that any user may connect to. Only the private folder around it restricts access."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        Path(path).chmod(0o666)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ExperimentError(f"cannot listen at {path}: {error}; set TMPDIR to a folder with a short path") from error
    return listener


def program_access(program: ProgramSpec, listener: ProgramServer) -> ProgramAccess:
    """Return what a sandbox must provide for a program: the socket, the port, the mounts and the PATH folders."""
    path = tuple(filter(None, (bin_folder(program),)))
    return ProgramAccess(socket=listener.socket_path, port=listener.port, mounts=shown_folders(program), path=path)
