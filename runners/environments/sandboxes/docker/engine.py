"""Access to a Docker Engine: clients with time limits and translated errors, and labels that identify owners."""

import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from lhaw_record.runners.base.errors import SandboxBoundaryError

if TYPE_CHECKING:
    from aiodocker import Docker

ANSWER_S = 60.0
_NOT_FOUND = (
    "no Docker Engine was found: neither DOCKER_HOST nor a socket such as /var/run/docker.sock; start one "
    "(apt-get install docker.io; service docker start), or set DOCKER_HOST. Tasks in Harbor's format can run without "
    "it: benchmark.without_docker = true"
)
# Lower-case text in an engine's refusal; our error kind; whether another attempt could succeed.
_REFUSALS = (
    ("no space left on device", "engine_disk_full", True),
    ("no such image", "image_missing", False),
    ("no command specified", "image_unfit", False),
    ("executable file not found", "image_unfit", False),
    ("no such file or directory", "image_unfit", False),
    ("is already in use", "engine_conflict", True),
    ("address pool", "engine_networks_full", True),
)


@asynccontextmanager
async def connected() -> AsyncIterator["Docker"]:
    """Open a client of the engine that DOCKER_HOST, the Docker context or a well-known socket specifies.

    Each sandbox has its own client, because a client holds at most a hundred connections and an open sandbox uses one.
    """
    from aiodocker import Docker
    from aiodocker.exceptions import DockerContextError

    try:
        docker = Docker()
    except (AssertionError, ValueError, DockerContextError) as error:
        raise SandboxBoundaryError(str(error) or _NOT_FOUND, kind="engine_away") from error
    try:
        yield docker
    finally:
        with anyio.CancelScope(shield=True):
            await docker.close()


@asynccontextmanager
async def asked(what: str, *, timeout_s: float = ANSWER_S) -> AsyncIterator[None]:
    """Put a time limit on requests to an engine, and translate its errors."""
    from aiodocker import DockerError
    from aiohttp import ClientError

    try:
        with anyio.fail_after(timeout_s):
            yield
    except TimeoutError as error:
        raise SandboxBoundaryError(
            f"{what}: the Docker Engine gave no answer in {timeout_s:.0f} s", kind="engine_hung"
        ) from error
    except DockerError as error:
        raise refusal(what, error.status, error.message) from error
    except (ClientError, ConnectionError) as error:
        raise SandboxBoundaryError(f"{what}: the Docker Engine went away ({error})", kind="engine_away") from error


def refusal(what: str, status: int, message: str) -> SandboxBoundaryError:
    """Return the error for an engine's refusal."""
    if status == 900:
        return SandboxBoundaryError(f"{what}: {message}", kind="engine_away")
    lowered = message.lower()
    for words, kind, is_retry_owed in _REFUSALS:
        if words in lowered:
            return SandboxBoundaryError(f"{what}: {message}", kind=kind, is_retry_owed=is_retry_owed)
    return SandboxBoundaryError(f"{what}: {message} (status {status})", kind="engine_error")


_PREFIX = "lhaw-record."
OWNED = f"{_PREFIX}host"
"""A label on all our containers, networks and volumes."""
MEMORY = f"{_PREFIX}memory_mb"

_work: ContextVar[Mapping[str, str]] = ContextVar("work", default={})  # noqa: B039  never changed in place


@contextmanager
def labelled(**work: str | int) -> Iterator[None]:
    """Add labels (run, trial, attempt) to every container created inside the context, for people and tools."""
    token = _work.set({f"{_PREFIX}{name}": str(value) for name, value in work.items()})
    try:
        yield
    finally:
        _work.reset(token)


def own_labels() -> dict[str, str]:
    """Return the labels for containers that this process creates now."""
    return {
        OWNED: _host(),
        f"{_PREFIX}boot": _boot(),
        f"{_PREFIX}pid_namespace": _pid_namespace(),
        f"{_PREFIX}pid": str(os.getpid()),
        f"{_PREFIX}pid_started": _started(os.getpid()),
        **_work.get(),
    }


def is_own(labels: Mapping[str, str]) -> bool:
    mine = own_labels()
    return all(labels.get(name) == mine[name] for name in (OWNED, f"{_PREFIX}boot", f"{_PREFIX}pid_started"))


def is_orphan(labels: Mapping[str, str]) -> bool:
    """Return whether the process that created the labelled container or network has certainly ended.

    The result is false if it was created on another host or by a process in another container, because we cannot tell
    whether that process is alive.
    """
    if labels.get(OWNED) != _host():
        return False
    if labels.get(f"{_PREFIX}boot") != _boot():
        return True  # this host has rebooted since
    if labels.get(f"{_PREFIX}pid_namespace") != _pid_namespace():
        return False
    process_id = labels.get(f"{_PREFIX}pid", "")
    return not process_id.isdigit() or _started(int(process_id)) != labels.get(f"{_PREFIX}pid_started")


def _host() -> str:
    # Cloned machines share a host name, and containers lack a machine-id: together, the two identify most hosts.
    return f"{socket.gethostname()} {_text('/etc/machine-id')}".strip()


def _boot() -> str:
    return _text("/proc/sys/kernel/random/boot_id")


def _pid_namespace() -> str:
    namespace = Path("/proc/self/ns/pid")
    return str(namespace.readlink()) if namespace.is_symlink() else ""  # macOS


def _started(process_id: int) -> str:
    """Return a process's start time in ticks since boot, empty if it has ended or is a zombie."""
    words = _text(f"/proc/{process_id}/stat").rpartition(")")[2].split()
    return words[19] if len(words) > 19 and words[0] not in "ZX" else ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
