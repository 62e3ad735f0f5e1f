"""The host's side: make a call in a child of the fork server, and say whose fault it is if there is no reply.

    one of our limits was reached                    LimitReached   the file being read caused it
      RLIMIT_AS (a MemoryError anywhere in the chain), RLIMIT_CPU (SIGXCPU, or SIGKILL with that time used up),
      a reply larger than allowed, a signal that nothing outside sends (a crash, an alarm), and, once an item was
      announced, an end without a reply or an exception that only ends processes, and time that it slept away
    the function raised                              Raised         the function's fault
    the function returned another type              Raised         the same
    anything else                                    NoReply        the host's fault: it could not fork, the child was
                                                                    killed, or it got no CPU time for minutes

C code that gets no memory, a parser misled by a file, and an agent's code that a check runs end this way. The child's
filter keeps it from the signals that come from outside. A busy machine delays honest work: only time in which the child
asked for no processor is its own, and not while it waits for us to take its reply.
"""

import atexit
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lhaw_record.recorder import processes
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.environments.grading.confined.child import (
    EXCEPTION,
    FRAME_HEADER_BYTES,
    OUT_OF_MEMORY,
    READING,
    VALUE,
    ChildEnd,
    Request,
)
from lhaw_record.runners.environments.grading.confined.lockdown import ConfinedLimits

T = TypeVar("T")

_GRACE_S = 30.0
_PACKAGE = "lhaw_record"
_KINDS = (READING, VALUE, EXCEPTION, OUT_OF_MEMORY)
_TOO_LARGE = b"L"
_SYSTEM_FOLDERS = ("/usr", "/lib", "/lib64", "/etc/localtime", "/etc/mime.types", "/dev/null", "/dev/urandom")
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_BOOT = (
    "import sys; sys.path[:] = {0!r}; "
    "from lhaw_record.runners.environments.grading.confined.fork_server import main; main()"
)


class LimitReached(Exception):
    """The call reached one of its limits, or crashed.

    Args:
        message: The limit, as the end of a sentence whose subject is the item that was read.
        reading: The last item that the function announced it would read, or None.
    """

    def __init__(self, message: str, reading: str | None) -> None:
        super().__init__(message)
        self.reading = reading


class ChildException(Exception):
    """The function raised an exception (of type ``type_name``), or returned a wrong type."""

    def __init__(self, type_name: str, message: str, place: str) -> None:
        super().__init__(f"{type_name}: {message}")
        self.type_name = type_name
        self.message = message
        self.place = place


class NoReply(Exception):
    """The host could not make the call, or lost it. If ``is_final`` is true, another attempt would fail too."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


def call(
    function: Callable[..., T],
    *arguments: Any,
    returns: type[T],
    readable: Sequence[Path] = (),
    modules: Sequence[str] = (),
    limits: ConfinedLimits | None = None,
) -> T:
    """Call a function in a child process with limits, and return its result. This blocks, so call it from a thread."""
    limits = limits or ConfinedLimits()
    payload = pickle.dumps((function.__module__, function.__qualname__, arguments))
    modules = (function.__module__, *modules)
    request = Request(
        modules=modules,
        import_paths=tuple(path for path in sys.path if path),
        readable=(*_code_folders(modules), *(str(path) for path in readable)),
        limits=limits,
    )
    ours, theirs = socket.socketpair()
    status_read, status_write = os.pipe()
    try:
        try:
            _server().submit(request, theirs.fileno(), status_write)
        finally:
            theirs.close()
            os.close(status_write)
        deadline = time.monotonic() + limits.wall_seconds + _GRACE_S
        reply = _exchange(ours, payload, limits.reply_mb << 20, deadline)
        ours.close()
        end = _end_of(status_read, deadline)
    finally:
        ours.close()
        os.close(status_read)
    return _judged(reply, end, limits, returns)


def _judged(reply: Mapping[bytes, bytes], end: ChildEnd, limits: ConfinedLimits, returns: type[T]) -> T:
    """Return the value, or raise the error that says whether the file, the function or the host is at fault."""
    if end.start_problem:
        raise NoReply(end.start_problem, is_final=end.is_import_problem)
    reached = _limit_reached(reply, end, limits)
    if reached is not None:
        reading = reply.get(READING)
        raise LimitReached(reached, None if reading is None else reading.decode("utf-8", "replace"))
    if end.is_over_time:
        raise NoReply(f"it did not end in {limits.wall_seconds:.0f} s, of which it ran {end.cpu_seconds:.1f} s")
    if end.signal:
        raise NoReply(f"it was killed from outside (signal {end.signal}) after {end.cpu_seconds:.1f} s of work")
    if EXCEPTION in reply:
        raise _decoded_error(reply[EXCEPTION])
    if VALUE not in reply:
        raise ChildException("SystemExit", f"it ended with exit code {end.exit_code} and returned nothing", "")
    try:
        return msgspec.msgpack.decode(reply[VALUE], type=returns)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ChildException(type(error).__name__, f"it returned no {returns.__name__}: {error}", "") from error


def _limit_reached(reply: Mapping[bytes, bytes], end: ChildEnd, limits: ConfinedLimits) -> str | None:
    if _TOO_LARGE in reply:
        return f"gives more than {limits.reply_mb} MB of results"
    if OUT_OF_MEMORY in reply:
        return f"could not be read within {limits.memory_mb} MB of memory"
    if end.signal == signal.SIGXCPU or (end.signal == signal.SIGKILL and end.cpu_seconds >= limits.cpu_seconds):
        return f"could not be read within {limits.cpu_seconds} s of processor time"
    if end.signal and end.signal not in _FROM_OUTSIDE:
        return f"ended the process that read it ({signal.Signals(end.signal).name})"
    if READING in reply and end.is_asleep:
        return f"kept the process that read it waiting for {limits.wall_seconds:.0f} s"
    if READING in reply and not (end.signal or end.is_over_time or {VALUE, EXCEPTION} & reply.keys()):
        return f"ended the process that read it (exit code {end.exit_code})"
    return None


def _decoded_error(raised: bytes) -> ChildException:
    try:
        return ChildException(*msgspec.json.decode(raised, type=tuple[str, str, str]))
    except msgspec.DecodeError:
        return ChildException("Exception", "it raised something that it could not describe", "")


def _exchange(ours: socket.socket, payload: bytes, limit_bytes: int, deadline: float) -> dict[bytes, bytes]:
    """Send the call, and return the last frame of each kind that the child sends before it closes its end."""
    reply: dict[bytes, bytes] = {}
    ours.settimeout(max(1.0, deadline - time.monotonic()))
    with suppress(ConnectionError):  # the child could not be forked, or ended before reading everything
        ours.sendall(struct.pack("!I", len(payload)) + payload)
    buffer = bytearray()
    while True:
        ours.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            data = ours.recv(1 << 20)
        except ConnectionError:
            return reply
        except TimeoutError:
            raise NoReply("the process that should end it does not answer") from None
        if not data:
            return reply
        buffer += data
        while len(buffer) >= FRAME_HEADER_BYTES:
            size = int.from_bytes(buffer[1:FRAME_HEADER_BYTES], "big")
            if size > limit_bytes:
                return {**reply, _TOO_LARGE: b""}
            if len(buffer) < FRAME_HEADER_BYTES + size:
                break
            if (kind := bytes(buffer[:1])) in _KINDS:
                reply[kind] = bytes(buffer[FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + size])
            del buffer[: FRAME_HEADER_BYTES + size]


def _end_of(status: int, deadline: float) -> ChildEnd:
    """Return how the child ended, from the fork server's single report, which fits in one atomic pipe write."""
    poller = select.poll()
    poller.register(status, select.POLLIN)
    if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise NoReply("the process that started it does not say how it ended")
    told = os.read(status, 65536)
    if not told:
        raise NoReply("the process that started it has died")
    return msgspec.json.decode(told, type=ChildEnd)


class _Server:
    """The running fork server of this process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._sending = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        paths = [path for path in sys.path if path]
        try:
            self._process = processes.start(
                [sys.executable, "-I", "-c", _BOOT.format(paths)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", "TZ": "UTC"},
                cwd="/",
            )
        except OSError as error:
            self._control.close()
            raise NoReply(f"no process can be made: {error}") from error
        finally:
            theirs.close()
        atexit.register(self.close)

    def submit(self, request: Request, reply: int, status: int) -> None:
        with self._sending:  # a request that does not fit into the socket is sent in parts
            processes.send_message(self._control, msgspec.json.encode(request), [reply, status])

    @property
    def is_gone(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        """End the fork server and all of its children."""
        atexit.unregister(self.close)
        self._control.close()
        if self.owner == os.getpid():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()


_lock = threading.Lock()
_servers: list[_Server] = []


def _server() -> "_Server":
    """Return the fork server of this process, started at the first call and restarted if it has ended."""
    with _lock:
        if _servers and (_servers[0].owner != os.getpid() or _servers[0].is_gone):
            _servers.pop().close()
        if not _servers:
            _servers.append(_Server())
        return _servers[0]


@cache
def _code_folders(modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths that the code must read: Python, its packages, our code, the modules and bundled data.

    Packages outside site-packages are listed one by one, because their parent folder may contain a store.
    """
    prefixes = {sys.prefix, sys.base_prefix, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    ours = (_PACKAGE, f"{_PACKAGE}.runners", f"{_PACKAGE}.recorder")  # in a checkout the two are links
    packages = {*ours, *(name.partition(".")[0] for name in modules)}
    own = {folder for name in packages for folder in _places_of(name)}
    return tuple(sorted({*_SYSTEM_FOLDERS, *prefixes, *own, str(data_path())}))


def _places_of(package: str) -> list[str]:
    loaded = sys.modules.get(package)
    paths = list(getattr(loaded, "__path__", ()))
    file = getattr(loaded, "__file__", None)
    return paths or ([file] if file else [])
