"""Labels that name the process that created a container, and a check whether that process is still alive."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_PREFIX = "lhaw-record."
OWNED = f"{_PREFIX}host"
"""A label on all our containers, networks and volumes."""
MEMORY = f"{_PREFIX}memory_mb"

_work: ContextVar[Mapping[str, str]] = ContextVar("work", default={})  # noqa: B039  never changed in place


@contextmanager
def labelled(**work: str | int) -> Iterator[None]:
    """Add labels (run, trial, attempt) to every container that is created inside, for people and tools."""
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
    """Return whether this process created the labelled container or network."""
    mine = own_labels()
    return all(labels.get(name) == mine[name] for name in (OWNED, f"{_PREFIX}boot", f"{_PREFIX}pid_started"))


def is_orphan(labels: Mapping[str, str]) -> bool:
    """Return whether the process that created the labelled container or network has certainly ended.

    The result is False if it was created on another host, or by a process in another container, because we cannot tell
    whether that process is alive.
    """
    if labels.get(OWNED) != _host():
        return False
    if labels.get(f"{_PREFIX}boot") != _boot():
        return True  # this host has started anew since
    if labels.get(f"{_PREFIX}pid_namespace") != _pid_namespace():
        return False
    process_id = labels.get(f"{_PREFIX}pid", "")
    return not process_id.isdigit() or _started(int(process_id)) != labels.get(f"{_PREFIX}pid_started")


def _host() -> str:
    # Machines cloned from one image share a name, and containers lack a machine-id: together they identify most hosts.
    return f"{socket.gethostname()} {_text('/etc/machine-id')}".strip()


def _boot() -> str:
    return _text("/proc/sys/kernel/random/boot_id")


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _started(process_id: int) -> str:
    """Return when a process started, in ticks since boot.

    The result is empty if it has ended, even if it is a zombie.
    """
    words = _text(f"/proc/{process_id}/stat").rpartition(")")[2].split()
    return words[19] if len(words) > 19 and words[0] not in "ZX" else ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
