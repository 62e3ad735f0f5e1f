"""A daemon in this process, asked without a network; trials are pretended or really run on desk."""

import socket
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import httpx
import msgspec

from lhaw_record.analytics.report import attempt_data
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.runners.agents.programs.leases import open_leases
from lhaw_record.runners.runs.daemon.app import application
from lhaw_record.runners.runs.daemon.pages import Reports, page_routes
from lhaw_record.runners.runs.daemon.serve import opened_daemon
from tests.cli.experiments import write_experiment

PATIENCE_S = 300.0


def read_attempt(root, stream_id):
    """One attempt as the command line hands it to the daemon."""
    return msgspec.json.encode(attempt_data(root, stream_id))


@asynccontextmanager
async def daemon_at(root, *, token=None, lease_token=None, max_trials=4, store=None, extend=None):
    """A daemon that supervises, and a client of its application; it is stopped in order afterwards."""
    async with AsyncExitStack() as stack:
        leases = await stack.enter_async_context(open_leases(socket.create_server(("127.0.0.1", 0)), "http://gateway"))
        daemon = await stack.enter_async_context(opened_daemon(store or create_store(root), max_trials, leases))
        extension = await stack.enter_async_context(extend(daemon)) if extend else None
        pages = page_routes(
            daemon, Reports(daemon.store, lambda *_: b"<p>report</p>"), read_attempt, has_token=token is not None
        )
        transport = httpx.ASGITransport(application(daemon, token, pages, extension, lease_token))
        async with (
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8321") as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(daemon.supervise)
            try:
                yield daemon, client
            finally:
                daemon.stop()
                daemon.cancel()
                daemon.hub.close()


def submission(folder, **changes):
    """The body of a submission of a small experiment on desk."""
    path = write_experiment(folder / "small.toml", **changes)
    return {"config_toml": path.read_text(), "path": str(path), "by": "a test"}


async def until(daemon, name, is_true):
    """Wait until an overview is as it should be, and return it.

    Raises:
        AssertionError: It never was, or the daemon reports a problem instead.
    """
    found = None
    with anyio.move_on_after(PATIENCE_S):
        while True:
            found = daemon.overview(name) if name in daemon.queue.entries else None
            if found is not None and is_true(found):
                return found
            assert found is None or found.state != "problem", found.problem
            await anyio.sleep(0.02)
    raise AssertionError(f"waited in vain; it stands so: {found}")
