"""The child's side: give up every permission, run the function, and write its result as plain data.

The function and its arguments come from the host and are trusted, so they are pickled. The result is not trusted,
because an agent's file may have taken over the parser. The host therefore decodes the result only as one known type.
"""

import importlib
import os
import pickle
import signal
import struct
import traceback
from collections.abc import Iterator
from typing import Any

import msgspec

from lhaw_record.recorder.events.encoding import valid_text
from lhaw_record.runners.environments.grading.confined.lockdown import ConfinedLimits, lock_down

REPLY_DESCRIPTOR = 3
FRAME_HEADER_BYTES = 5
"""The size of a frame header: one byte for the frame's kind, then four bytes for the length of its body."""
READING, VALUE, EXCEPTION, OUT_OF_MEMORY = b"R", b"V", b"E", b"M"
_SHOWN_CHARACTERS = 2000
_is_confined = False
_has_read = False


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the fork server: load modules, then fork a child with these limits."""

    modules: tuple[str, ...]
    import_paths: tuple[str, ...]
    readable: tuple[str, ...]
    limits: ConfinedLimits


class ChildEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a child ended, reported by the fork server.

    ``is_asleep`` means that it was over time and had mostly slept. ``start_problem`` says why a child could not be
    started. ``is_import_problem`` means that the code could not be loaded.
    """

    exit_code: int = 0
    signal: int = 0
    cpu_seconds: float = 0.0
    is_over_time: bool = False
    is_asleep: bool = False
    start_problem: str = ""
    is_import_problem: bool = False


def reading(name: str) -> None:
    """Announce that the grader is about to read an agent's item, which is blamed for limits reached from now on.

    Do nothing outside a confined call.
    """
    global _has_read  # noqa: PLW0603  the process exists only for one call
    if _is_confined:
        _has_read = True
        _send(READING, valid_text(name).encode()[:_SHOWN_CHARACTERS])


def run(request: Request) -> None:
    """Make one call and end the process. All descriptors except the one for the reply must be closed already.

    The call arrives as a length and a pickled ``(module, name, arguments)``.
    """
    global _is_confined  # noqa: PLW0603  the process exists only for this call
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        call = _take(*struct.unpack("!I", _take(4)))
        lock_down(request.limits, request.readable)
        _is_confined = True
        _send(VALUE, msgspec.msgpack.encode(_returned(call)))
    except BaseException as error:  # noqa: BLE001  the host receives and classifies every error
        if isinstance(error, Exception) or not _has_read:  # an exit or interrupt after that is of what was read
            _send_error(error)
    finally:
        os._exit(0)


def _returned(call: bytes) -> Any:
    module, name, arguments = pickle.loads(call)  # noqa: S301  the host wrote it
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    return function(*arguments)


def _send_error(error: BaseException) -> None:
    try:
        if any(isinstance(each, MemoryError) for each in _chain(error)):
            _send(OUT_OF_MEMORY, b"")
        else:
            _send(EXCEPTION, msgspec.json.encode(_told(error)))
    except MemoryError:
        _send(OUT_OF_MEMORY, b"")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(20):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _told(error: BaseException) -> list[str]:
    try:
        message = str(error)
    except Exception:  # noqa: BLE001  the error's own __str__ fails
        message = ""
    texts = (type(error).__name__, message, "".join(traceback.format_tb(error.__traceback__, limit=-3)))
    return [valid_text(text[:_SHOWN_CHARACTERS]) for text in texts]


def _take(size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = os.read(REPLY_DESCRIPTOR, size - len(data))
        if not more:
            os._exit(0)  # the host is gone
        data += more
    return bytes(data)


def _send(kind: bytes, body: bytes) -> None:
    for part in (kind + struct.pack("!I", len(body)), body):
        view = memoryview(part)
        while view:
            view = view[os.write(REPLY_DESCRIPTOR, view) :]
