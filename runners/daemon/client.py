"""The client: asks a daemon over HTTP and turns its refusals into errors of the command line."""

import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from runners.daemon.address import read_address
from runners.daemon.errors import DaemonRefusal
from runners.daemon.messages import Detail, Listing, Message, Order, Refused, Requeued, Retuning, Submission
from runners.errors import ExperimentError, RunnerError

TOKEN_VARIABLE = "LHAW_RECORD_TOKEN"  # noqa: S105 - the name of a variable
PATIENCE_S = 120.0
M = TypeVar("M", bound=Message)


class Client:
    """A daemon, as far as its clients need it.

    Args:
        url: Where it is.
        token: What it asks for, if anything.
        origin: How the address was found, for messages.
    """

    def __init__(self, url: str, token: str | None = None, origin: str = "") -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._origin = origin
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def list(self) -> Listing:
        """Return every experiment."""
        return self._ask("/api/experiments", Listing)

    def status(self, name: str) -> Detail:
        """Return one experiment."""
        return self._ask(f"/api/experiments/{quote(name)}", Detail)

    def submit(self, submission: Submission) -> Detail:
        """Submit an experiment file."""
        return self._ask("/api/experiments", Detail, submission)

    def order(self, name: str, verb: str, by: str) -> Detail:
        """Pause, resume or cancel an experiment."""
        return self._ask(f"/api/experiments/{quote(name)}/{verb}", Detail, Order(by=by))

    def requeue(self, name: str, by: str) -> Requeued:
        """Have failed trials attempted again."""
        return self._ask(f"/api/experiments/{quote(name)}/requeue", Requeued, Order(by=by))

    def retune(self, name: str, concurrency: int, by: str) -> Detail:
        """Change how many trials run at a time."""
        return self._ask(
            f"/api/experiments/{quote(name)}/concurrency", Detail, Retuning(concurrency=concurrency, by=by)
        )

    def _ask(self, path: str, kind: type[M], body: Message | None = None) -> M:
        request = urllib.request.Request(self._url + path, method="POST" if body else "GET")  # noqa: S310 - checked below
        if request.type not in ("http", "https"):
            raise ExperimentError(f"--url {self._url}: write http://HOST:PORT")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
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


def client_of(url: str | None, store: Path | None) -> Client:
    """Return a client of the daemon at a URL, or of the one that serves a store.

    Raises:
        ExperimentError: Neither is named.
        RunnerError: No daemon said where it serves the store.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    if url is not None:
        return Client(url, token)
    if store is None:
        raise ExperimentError("say which daemon: --store DIR of the store that it serves, or --url http://HOST:PORT")
    address = read_address(store)
    if address is None:
        raise RunnerError(f"no daemon serves {store}; start one with 'lhaw-record serve --store {store}'")
    return Client(address.url, token, f", where process {address.process} on {address.host} served {store}")


def _refusal(status: int, body: bytes, url: str) -> RunnerError:
    try:
        problem = msgspec.json.decode(body, type=Refused).error
    except msgspec.DecodeError:
        return RunnerError(f"what answers at {url} is no daemon of lhaw-record (status {status}); check --url")
    if problem.kind in ("bad_experiment", "secret", "bad_path"):
        return ExperimentError(problem.message)
    return DaemonRefusal(problem.message, kind=problem.kind, status=status)
