"""Leases: trials whose agent works somewhere else, in another harness, on a cluster or in an editor.

A lease is one attempt of a trial whose agent has a ``leased`` entry. The daemon begins it for a client; the attempt
offers what the client needs, and waits until the lease is closed, released or expired.

    async with open_leases(socket, url) as leases:
        lease = leases.begin(trial, idle_s=600.0)   # before the attempt starts
        await lease.settled.wait()                     # then there is lease.offer, or lease.message says why not
        lease.close(Closing(exit_code=0))
        await lease.ended.wait()                       # lease.state, and lease.finished if the trial was graded
"""

import posixpath
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Literal, ParamSpec, TypeVar

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lhaw_record.recorder.events import TrialFailed, TrialFinished
from lhaw_record.runners.agents.programs.program_server import ProgramServer, open_program_server
from lhaw_record.runners.agents.programs.workspace import WorkspaceError, packed, replace
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.errors import BoundaryError, LeaseReturned, SandboxUnfit
from lhaw_record.runners.environments.sandboxes.protocol import READ_BYTES, ProgramSandbox
from lhaw_record.runners.users.ask_user.serving import key_digest
from lhaw_record.runners.users.ask_user.streamable_http import has_token

LeaseState = Literal["opening", "open", "grading", "graded", "returned", "failed"]
"""``returned``: the trial is owed to the next who asks. ``failed``: it is missing data for another reason."""

P = ParamSpec("P")
T = TypeVar("T")
_ENDED_LEASES = 1000
"""How many ended leases are remembered, for clients that ask again."""
STALL_S = 60.0
"""How long a transfer may wait for its client, so that a client that is gone does not hold the agent's clock."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent of a leased trial gets. ``key`` is part of its address at the gateway, ``token`` is sent there."""

    prompt: str
    model: str
    key: str
    token: str
    has_tools: bool


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """How the agent ended, as its client says: its exit code, and its final answer if that is not its last message."""

    exit_code: int = 0
    answer: str | None = None


class LeasedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempt a lease is of."""

    experiment: str
    agent: str
    trial_id: str
    attempt: int


class Lease:
    """One leased attempt.

    Args:
        lease_id: The id under which the client asks for it.
        idle_s: After how many seconds without a sign of life it expires.
        trial: Its attempt.
    """

    def __init__(self, lease_id: str, idle_s: float, trial: LeasedTrial) -> None:
        self.lease_id = lease_id
        self.idle_s = idle_s
        self.trial = trial
        self.token = secrets.token_hex(32)
        """Lets its holder ask for the lease, close it and give it back. The agent gets another, that of the offer."""
        self.begun_s = time.monotonic()
        self.state: LeaseState = "opening"
        self.message = ""
        self.limit: str | None = None
        """The limit that the agent has reached. The lease then waits for its last files and for its close."""
        self.offer: Offer | None = None
        self.settled, self.ended = anyio.Event(), anyio.Event()
        self.finished: TrialFinished | None = None
        self.points: tuple[float, float] | None = None
        """The points of all checkpoints, and how many there are."""
        self._sandbox: ProgramSandbox | None = None
        self._trial_clock: TrialClock | None = None
        self._files = anyio.Lock()
        self._seen_s = 0.0
        self._busy = 0
        self._is_over = anyio.Event()
        self._closing: Closing | None = None
        self._error: BoundaryError | None = None

    async def held(self, offer: Offer, sandbox: ProgramSandbox, trial_clock: TrialClock) -> Closing | None:
        """Offer the trial, and return how its agent ended. None if :meth:`break_off` was called.

        Transfers of files count as waiting time on the trial's clock.
        """
        if not posixpath.normpath(sandbox.work_dir).strip("/."):
            raise SandboxUnfit(
                f"the work directory is {sandbox.work_dir!r}, so a lease would replace the whole container; give the "
                "image a WORKDIR, or run this agent as a program in the sandbox",
                kind="lease_work_dir",
            )
        if not self._is_over.is_set():
            self.offer, self._sandbox, self._trial_clock, self.state = offer, sandbox, trial_clock, "open"
        self.touch()
        self.settled.set()
        try:
            while not self._is_over.is_set():
                left_s = self.idle_s if self._busy else self._seen_s + self.idle_s - time.monotonic()
                if left_s <= 0:
                    message = f"the lease sent no request for {self.idle_s:g} s"
                    raise LeaseReturned(message, kind="lease_expired")
                with anyio.move_on_after(left_s):
                    await self._is_over.wait()
        finally:
            self.state = "grading" if self.state == "open" else self.state
            with anyio.CancelScope(shield=True):
                async with self._files:  # a transfer under way is finished before anything is graded or closed
                    self._sandbox = None
        if self._error is not None:
            raise self._error
        return self._closing

    def touch(self) -> None:
        """Note a sign of life."""
        self._seen_s = time.monotonic()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Do not let the lease expire during the block."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self.touch()

    @contextmanager
    def transferring(self) -> Iterator[None]:
        """Keep the lease alive and the clock of its agent stopped during the block."""
        with self.busy(), ExitStack() as stack:
            if self._trial_clock is not None:
                stack.enter_context(self._trial_clock.waiting("sandbox", "the transfer of its files"))
            yield

    def close(self, closing: Closing) -> None:
        """End the agent's part, so that the trial is graded. Only the first close or release counts."""
        self._end(closing, None)

    def release(self) -> None:
        """Give the trial back. Its attempt is missing data, and the trial is owed to the next who asks.

        A trial that is still being opened is given back as soon as it is open.
        """
        self._end(None, LeaseReturned("the client gave the leased trial back", kind="lease_released"))

    def break_off(self) -> None:
        """Wait no longer, because the trial has failed on our side."""
        self._end(None, None)

    def _end(self, closing: Closing | None, error: BoundaryError | None) -> None:
        is_returned = isinstance(error, LeaseReturned)
        if (self.state == "open" or (is_returned and self.state == "opening")) and not self._is_over.is_set():
            self._closing, self._error, self.state = closing, error, "returned" if is_returned else "grading"
            self.message = str(error) if is_returned else ""
            self._is_over.set()

    def end(self, last: TrialFinished | TrialFailed | None, points: tuple[float, float] | None) -> None:
        """Note the last event of the attempt, once it is durable. None if the attempt was interrupted."""
        if isinstance(last, TrialFinished):
            self.state, self.finished, self.points = "graded", last, points
        elif last is None or last.error_kind in (*LeaseReturned.KINDS, LeaseReturned.COUNTED):
            self.state, self.message = "returned", last.message if last else "the run was stopped"
        else:
            self.state, self.message = "failed", f"{last.boundary}, {last.error_kind}: {last.message}"
        self.settled.set()
        self.ended.set()

    async def download(self) -> bytes:
        """Return the work directory as a compressed tar archive."""
        async with self._files:
            return await self._guarded(packed(self._open_sandbox()))

    async def upload(self, archive: bytes) -> None:
        """Replace the work directory by the files of a compressed tar archive."""
        async with self._files:
            await self._guarded(replace(self._open_sandbox(), archive))

    def _open_sandbox(self) -> ProgramSandbox:
        if self._sandbox is None or self.state != "open":
            raise WorkspaceError("the lease is no longer open; nothing was transferred")
        return self._sandbox

    async def _guarded(self, transfer: Coroutine[Any, Any, T]) -> T:
        """Await a transfer. If the sandbox breaks, the trial has failed."""
        try:
            return await transfer
        except BoundaryError as error:
            self._end(None, error)
            raise WorkspaceError(str(error)) from error


class Leases:
    """The leases of a daemon.

    Args:
        url: The address of the server, as clients reach it.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._server: ProgramServer | None = None
        self._by_id: dict[str, Lease] = {}
        self._by_trial: dict[str, Lease] = {}
        self._by_key: dict[bytes, Lease] = {}

    @property
    def server(self) -> ProgramServer:
        """Serves the models and ``ask_user`` of all leased trials."""
        assert self._server is not None, "the leases are open"
        return self._server

    def begin(self, trial: LeasedTrial, idle_s: float) -> Lease:
        """Return a new lease for a trial whose attempt is about to start."""
        ended = [each.lease_id for each in self._by_id.values() if each.ended.is_set()]
        for lease_id in ended[:-_ENDED_LEASES]:
            del self._by_id[lease_id]
        lease = Lease(secrets.token_hex(8), idle_s, trial)
        self._by_id[lease.lease_id] = self._by_trial[trial.trial_id] = lease
        return lease

    def of_trial(self, trial_id: str) -> Lease:
        """Return the lease of a trial's attempt, which has just started."""
        return self._by_trial.pop(trial_id)

    def find(self, lease_id: str) -> Lease | None:
        """Return a lease, also one that has ended."""
        return self._by_id.get(lease_id)

    def token_of(self, lease_id: str) -> str | None:
        """Return the token of a lease, also of one that has ended, or None if it is unknown."""
        lease = self.find(lease_id)
        return lease.token if lease is not None else None

    def url_of(self, offer: Offer) -> str:
        """Return the address of a trial at the gateway."""
        return f"{self._url}/t/{offer.key}"

    @contextmanager
    def reachable(self, lease: Lease, key: str) -> Iterator[None]:
        """Serve the work directory of a lease, and take its traffic as signs of life, during the block."""
        self._by_key[key_digest(key)] = lease
        try:
            yield
        finally:
            del self._by_key[key_digest(key)]

    @property
    def routes(self) -> list[BaseRoute]:
        """The route of the work directories. It must come before those of the gateway."""
        return [Route("/t/{trial}/workspace", self._workspace, methods=["GET", "PUT"])]

    def watched(self, app: ASGIApp) -> ASGIApp:
        """Return an application that notes signs of life. A read may stay open for ever, so only its start counts."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            words = scope.get("path", "").split("/", 3)
            lease = self._by_key.get(key_digest(words[2])) if len(words) > 2 else None
            if lease is None:
                await app(scope, receive, send)
                return
            lease.touch()
            if words[3:] == ["workspace"]:
                with lease.transferring(), suppress(TimeoutError):  # from the request's first byte to the reply's last
                    await app(scope, _not_stalled(receive), _not_stalled(send))
                return
            if scope.get("method") in ("GET", "HEAD"):
                await app(scope, receive, send)
                return
            with lease.busy():
                await app(scope, receive, send)

        return answer

    async def _workspace(self, request: Request) -> Response:
        lease = self._by_key.get(key_digest(request.path_params["trial"]))
        offer = lease.offer if lease is not None else None
        if lease is None or offer is None or not has_token(request.scope, offer.token):
            return _refused(404, "not_found", "there is no such trial at this gateway")
        try:
            if request.method == "PUT":
                await lease.upload(await _body(request))
                return Response(status_code=204)
            return Response(await lease.download(), media_type="application/gzip")
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it; the work directory is as before
        except TimeoutError:
            return _refused(408, "stalled", f"no data arrived for {STALL_S:g} s; the work directory is unchanged")
        except WorkspaceError as error:
            return _refused(422, "bad_workspace", str(error))


@asynccontextmanager
async def open_leases(tcp: socket.socket, url: str) -> AsyncIterator[Leases]:
    """Serve the leases of a daemon."""
    leases = Leases(url)
    async with open_program_server(tcp=tcp, routes=leases.routes, wrapped=leases.watched) as leases._server:
        yield leases


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > READ_BYTES:
            raise WorkspaceError(f"the archive is larger than {READ_BYTES:,} bytes; leave out ungraded files")
    return bytes(body)


def _not_stalled(call: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Return ``receive`` or ``send`` of a request that waits for its client at most :data:`STALL_S`."""

    async def bounded(*args: P.args, **kwargs: P.kwargs) -> T:
        with anyio.fail_after(STALL_S):
            return await call(*args, **kwargs)

    return bounded


def _refused(status: int, kind: str, message: str) -> Response:
    return JSONResponse({"error": {"kind": kind, "message": message}}, status)
