"""The client, which finds the daemon of a store, sends it HTTP requests, and raises its refusals as errors."""

import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from lhaw_record.recorder.files.disk import publish
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.base.errors import ExperimentError, RunnerError
from lhaw_record.runners.runs.daemon.messages import (
    ApiMessage,
    DaemonRefusal,
    Detail,
    ErrorReply,
    ExperimentOrder,
    LeaseClosing,
    LeaseReply,
    LeaseRequest,
    Listing,
    RequeueReply,
    Retuning,
    Submission,
)

TOKEN_VARIABLE = "LHAW_RECORD_TOKEN"  # noqa: S105 - the name of a variable
LEASE_TOKEN_VARIABLE = "LHAW_RECORD_LEASE_TOKEN"  # noqa: S105 - the name of a variable
PATIENCE_S = 120.0
ADDRESS_FILE = "daemon.json"
M = TypeVar("M", bound=ApiMessage)


class Client:
    """Calls the control API of a daemon.

    Args:
        url: The URL of the daemon.
        token: The daemon's token, or None if it has none.
        origin: A text for error messages that says how the URL was found.
    """

    def __init__(self, url: str, token: str | None = None, origin: str = "") -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._origin = origin
        self._of_leases: dict[str, str] = {}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def list(self) -> Listing:
        return self._ask("/api/experiments", Listing)

    def status(self, name: str) -> Detail:
        return self._ask(f"/api/experiments/{quote(name)}", Detail)

    def submit(self, submission: Submission) -> Detail:
        return self._ask("/api/experiments", Detail, submission)

    def order(self, name: str, verb: str, by: str) -> Detail:
        """Pause, resume or cancel an experiment. ``verb`` is the name of the order, ``by`` that of the caller."""
        return self._ask(f"/api/experiments/{quote(name)}/{verb}", Detail, ExperimentOrder(by=by))

    def requeue(self, name: str, by: str) -> RequeueReply:
        return self._ask(f"/api/experiments/{quote(name)}/requeue", RequeueReply, ExperimentOrder(by=by))

    def retune(self, name: str, concurrency: int, by: str) -> Detail:
        return self._ask(
            f"/api/experiments/{quote(name)}/concurrency", Detail, Retuning(concurrency=concurrency, by=by)
        )

    def lease(self, wanted: LeaseRequest) -> LeaseReply:
        """Take the next trial of a leased agent. Later requests about it carry its own token."""
        taken = self._ask("/api/leases", LeaseReply, wanted)
        if taken.lease_token is not None:
            self._of_leases[taken.lease_id] = taken.lease_token
        return taken

    def beat(self, lease_id: str) -> LeaseReply:
        """Renew a lease and return its state."""
        return self._of_lease(lease_id, "", ExperimentOrder())

    def close_lease(self, lease_id: str, closing: LeaseClosing) -> LeaseReply:
        return self._of_lease(lease_id, "/close", closing)

    def release_lease(self, lease_id: str, by: str) -> LeaseReply:
        return self._of_lease(lease_id, "/release", ExperimentOrder(by=by))

    def _of_lease(self, lease_id: str, verb: str, body: ApiMessage) -> LeaseReply:
        path = f"/api/leases/{quote(lease_id)}{verb}"
        try:
            return self._ask(path, LeaseReply, body, self._of_leases.get(lease_id))
        except DaemonRefusal as refusal:
            if refusal.status != 401 or self._of_leases.pop(lease_id, None) is None:
                raise
            return self._ask(path, LeaseReply, body)  # a daemon that was started again says so to its own token only

    def _ask(self, path: str, kind: type[M], body: ApiMessage | None = None, token: str | None = None) -> M:
        request = urllib.request.Request(self._url + path, method="POST" if body else "GET")  # noqa: S310 - checked below
        if request.type not in ("http", "https"):
            raise ExperimentError(f"--url {self._url}: write http://HOST:PORT")
        if token := token or self._token:
            request.add_header("Authorization", f"Bearer {token}")
        if body is not None:
            request.data = msgspec.json.encode(body)
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=PATIENCE_S) as reply:
                return msgspec.json.decode(reply.read(), type=kind)
        except urllib.error.HTTPError as error:
            raise _refusal(error.code, error.read(), self._url) from error
        except (OSError, msgspec.DecodeError) as error:
            raise RunnerError(
                f"no daemon answers at {self._url}{self._origin} ({error}); start one with 'lhaw-record serve'"
            ) from error


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a running daemon, which the daemon writes into its store.

    After a power failure the file is still there, so a client must check that the daemon answers.
    """

    url: str
    process: int
    host: str
    daemon_id: str


def write_address(store: Store, address: Address) -> None:
    publish(store.disk, store.root / ADDRESS_FILE, msgspec.json.encode(address) + b"\n")


def read_address(root: Path) -> Address | None:
    """Return the address of the daemon that serves a store, or None if the store has no readable address file."""
    try:
        return msgspec.json.decode((root / ADDRESS_FILE).read_bytes(), type=Address)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def remove_address(store: Store, daemon_id: str) -> None:
    """Remove the address of a daemon from its store, unless another daemon has already overwritten the address."""
    found = read_address(store.root)
    if found is not None and found.daemon_id == daemon_id:
        store.disk.remove(store.root / ADDRESS_FILE)


def client_of(url: str | None, store: Path | None) -> Client:
    token = os.environ.get(TOKEN_VARIABLE) or os.environ.get(LEASE_TOKEN_VARIABLE)
    if url is not None:
        return Client(url, token)
    if store is None:
        raise ExperimentError("choose a daemon: --store DIR (the store that it serves) or --url http://HOST:PORT")
    address = read_address(store)
    if address is None:
        raise RunnerError(f"no daemon serves {store}; start one with 'lhaw-record serve --store {store}'")
    return Client(address.url, token, f", where process {address.process} on {address.host} served {store}")


def _refusal(status: int, body: bytes, url: str) -> RunnerError:
    try:
        problem = msgspec.json.decode(body, type=ErrorReply).error
    except msgspec.DecodeError:
        return RunnerError(f"the server at {url} is not a daemon of lhaw-record (status {status}); check --url")
    if problem.kind in ("bad_experiment", "secret", "bad_path"):
        return ExperimentError(problem.message)
    return DaemonRefusal(problem.message, kind=problem.kind, status=status)
