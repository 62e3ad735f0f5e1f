"""Turn the driver's report about a command into the text that the agent reads."""

import re

from lhaw_record.recorder.events.interaction import SandboxLimit
from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.protocol import CommandResult, ProgramEnd, SandboxLimits

_PYTHON_TOO = "; the shell and the Python interpreter start anew, without their variables"
_LIMITS: dict[str, SandboxLimit] = {
    "timeout": "command_seconds",
    "process_limit": "processes",
    "process_refused": "processes",
    "memory_limit": "memory_mb",
}
_FILE_SIGNAL = 128 + 25  # SIGXFSZ, as a shell reports it
# EFBIG as reported by the C library, Python, Rust and Node.js, but not a server's "413 File too large".
_FILE_ERROR = re.compile(r": File too large\r?$|\[Errno 27\]|\(os error 27\)|\bEFBIG\b", re.MULTILINE)
_SHELL_ONLY = "; the shell starts anew, without its variables"


def command_result(
    reply: list[bytes], limits: SandboxLimits, seen: tuple[str, ...] = (), watched: tuple[SandboxLimit, ...] = ()
) -> CommandResult:
    """Convert a ``done`` reply: exit code, notes, total bytes, head and tail of the output."""
    _, exit_code, notes, *output = reply
    if b"memory_outside" in notes.split(b",") or "memory_outside" in seen:
        raise killed_from_outside("the sandbox")
    text, is_truncated = _output_text(*output)
    named = list(dict.fromkeys((*filter(None, notes.decode().split(",")), *seen)))
    if "memory_watched" in named:
        named.remove("memory_watched")
        watched = ("memory_mb",)
    met = [_LIMITS[name] for note in named if (name := note.partition(":")[0].removesuffix("_python")) in _LIMITS]
    code = int(exit_code) if exit_code else None
    if not met and says_file_limit(code, text):
        met.append("file_mb")
    for note in named:
        text = _with_line(text, f"[{_note_text(note, limits)}]")
    return CommandResult(
        output=text,
        exit_code=code,
        is_timeout=not exit_code,
        is_truncated=is_truncated,
        is_out_of_memory="memory_limit" in named,
        limit_met=next(iter(met), None),
        limits_watched=("command_seconds", "file_mb", *watched),
    )


def killed_from_outside(whose: str) -> SandboxBoundaryError:
    """Return the failure of a sandbox of which the kernel killed a process, though its own limit was not met."""
    return SandboxBoundaryError(
        f"memory ran out outside of {whose}, on its host or in a group around it, and the kernel killed one of its "
        "processes; run fewer trials at once (concurrency), or lower limits.memory_mb",
        kind="host_out_of_memory",
    )


def says_file_limit(exit_code: int | None, output: str) -> bool:
    """Return whether a command failed because of the file size limit, judged by its signal or the error message."""
    return bool(exit_code) and (exit_code == _FILE_SIGNAL or bool(_FILE_ERROR.search(output)))


def program_end(reply: list[bytes]) -> ProgramEnd:
    """Convert an ``ended`` reply: exit code, memory, what it left, then total bytes, head and tail of each stream."""
    _, exit_code, memory_kill, left, *streams = reply
    count, detached = map(int, left.split())
    return ProgramEnd(
        exit_code=int(exit_code) if exit_code else None,
        memory_kill=memory_kill.decode(),
        left=count,
        detached=detached,
        stdout=_output_text(*streams[:3])[0],
        stderr=_output_text(*streams[3:])[0],
    )


def _output_text(total: bytes, head: bytes, tail: bytes) -> tuple[str, bool]:
    """Return the printed text, and whether it is truncated."""
    is_truncated = int(total) > len(head) + len(tail)
    return (cut_text(head, tail, int(total)) if is_truncated else decode_output(head + tail)), is_truncated


def decode_output(data: bytes) -> str:
    """Decode output as printable text, replacing invalid UTF-8 and NUL."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def cut_text(head: bytes, tail: bytes, total_bytes: int) -> str:
    """Return whole characters from both ends of a long output, around a line with the number of missing bytes."""
    head = _without_split_end(head)
    start = 0
    while start < min(3, len(tail)) and tail[start] & 0xC0 == 0x80:
        start += 1
    tail = tail[start:]
    left_out = total_bytes - len(head) - len(tail)
    return _with_line(decode_output(head), f"[... {left_out} bytes left out ...]") + "\n" + decode_output(tail)


def _without_split_end(data: bytes) -> bytes:
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if back < length else data
        if byte & 0xC0 != 0x80:
            break
    return data


def _with_line(text: str, line: str) -> str:
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}"


def _note_text(note: str, limits: SandboxLimits) -> str:
    name, _, code = note.partition(":")
    restart = _PYTHON_TOO if name.endswith("_python") else _SHELL_ONLY
    match name.removesuffix("_python"):
        case "timeout":
            return f"timed out after {limits.command_seconds:g} s: every process was ended{restart}"
        case "cancelled":
            return f"cancelled: every process was ended{restart}"
        case "process_limit":
            return f"the limit of {limits.processes} processes was reached: every process was ended{_PYTHON_TOO}"
        case "process_refused":
            return f"the limit of {limits.processes} processes was reached: the system refused one more"
        case "memory_limit":
            return f"the limit of {limits.memory_mb} MB of memory was reached: the system ended a process"
        case "shell_ended":
            return f"the shell ended with exit code {code}{_SHELL_ONLY}"
        case _:
            return f"the Python interpreter ended with exit code {code}; it starts anew, without its variables"
