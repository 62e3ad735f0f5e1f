"""Starts child processes in their own sessions, and keeps pandas out of our processes.

Ctrl-C in the terminal does not reach such a child. Between fork and setsid, however, the child is still in our process
group and has default signal handlers. An interrupt at that moment kills it before exec, so it is started again.

pyarrow imports pandas for its first array, only to check whether a list is a Series. This costs 0.35 s of CPU time and
35 MB per process. Only our own programs block pandas, never the library, because pyarrow caches the result for the life
of the process.
"""

import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

_FORKED_BUT_NOT_EXECUTED = 0x40
"""The kernel's task flag PF_FORKNOEXEC. It can be read until the child is waited for."""
_LENGTH_BYTES = 4


def start(command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Start a command as the leader of a new session."""
    while True:
        process = subprocess.Popen(command, start_new_session=True, **options)
        if has_run(process.pid, process.returncode):
            return process
        process.communicate()


def start_module(module: str, arguments: Sequence[str], descriptor: int) -> "subprocess.Popen[bytes]":
    """Start a Python module as a program in a new session, with one inherited descriptor and no standard input."""
    return start([sys.executable, "-m", module, *arguments], pass_fds=[descriptor], stdin=subprocess.DEVNULL)


def has_run(process_id: int, returncode: int | None) -> bool:
    """Return whether a started child process reached exec."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return returncode != -signal.SIGINT
    flags = int(stat.rpartition(")")[2].split()[6])  # the program name before it may contain spaces
    return not flags & _FORKED_BUT_NOT_EXECUTED


def processor_count() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def send_message(connection: socket.socket, message: bytes, descriptors: Sequence[int]) -> None:
    """Send a message and open files through a stream socket: macOS has no local sockets that keep messages apart."""
    framed = len(message).to_bytes(_LENGTH_BYTES, "big") + message
    connection.sendall(framed[socket.send_fds(connection, [framed], descriptors) :])


def receive_message(connection: socket.socket, most: int) -> tuple[bytes, list[int]]:
    """Return the next message and at most ``most`` open files with it, or nothing if the other end is closed."""
    length, descriptors, _, _ = socket.recv_fds(connection, _LENGTH_BYTES, most)
    message = bytearray()
    while length and len(message) < int.from_bytes(length, "big"):
        more = connection.recv(int.from_bytes(length, "big") - len(message))
        if not more:
            return b"", descriptors
        message += more
    return bytes(message), descriptors


class _Refusal:
    """An import hook that blocks the refused packages and ignores all other modules."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Raise ImportError for a blocked package, and return None for all other modules."""
        if name in _REFUSED:
            raise ImportError(f"{name} is blocked to save time and memory; call allow_pandas() first")


_REFUSAL = _Refusal()
_REFUSED = {"pandas"}


def tune_process() -> None:
    """Save CPU time that libraries use at startup, a tenth of the time for all tables of a small store."""
    refuse_pandas()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's idle threads spin, and our matrices are small
    gc.freeze()
    gc.set_threshold(20_000)  # imports create no garbage


def refuse_pandas(*others: str) -> None:
    """Make imports of pandas fail from now on, and of other packages that pyarrow loads without need."""
    _REFUSED.update(others)
    sys.meta_path.insert(0, _REFUSAL)


def allow_pandas() -> None:
    """Allow pandas to be imported again."""
    with suppress(ValueError):
        sys.meta_path.remove(_REFUSAL)
