"""Functions that misbehave in a child."""

import ctypes
import os
import signal
import socket
import sys
from pathlib import Path

from lhaw_record.runners.environments.grading.confined import reading


def told(word: str) -> dict[str, str]:
    """Return what it was given, after printing it many times."""
    for _ in range(1000):
        sys.stdout.write(word * 1000)
        sys.stderr.write(word * 1000)
    return {"word": word}


def take_memory() -> dict[str, str]:
    """Ask for more memory than there is."""
    reading("big.xlsx")
    return {"size": str(len(bytearray(1 << 40)))}


def hide_the_want_of_memory() -> dict[str, str]:
    """Turn the error into another one, as libraries do."""
    reading("big.xlsx")
    try:
        return take_memory()
    except MemoryError as error:
        raise ValueError("not a workbook") from error


def spin(name: str) -> dict[str, str]:
    """Use processor time without end."""
    if name:
        reading(name)
    while True:
        pass


def spin_on(name: str) -> dict[str, str]:
    """The same by a process that has caught the first signal."""
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    return spin(name)


def crash() -> dict[str, str]:
    """End by a segmentation fault."""
    reading("odd.pdf")
    ctypes.string_at(0)
    return {}


def wait(name: str) -> dict[str, str]:
    """Use no processor time, and never return."""
    if name:
        reading(name)
    signal.pause()
    return {}


def run_code(name: str, source: str) -> dict[str, str]:
    """Run an agent's program, as a check may, which takes its exceptions for a wrong answer."""
    reading(name)
    try:
        exec(compile(source, name, "exec"), {})
    except Exception as error:  # noqa: BLE001
        return {"wrong": type(error).__name__}
    return {"wrong": ""}


def fail() -> dict[str, str]:
    """Raise."""
    reading("fine.csv")
    raise ZeroDivisionError("half of \udc80 nothing")


def leave() -> dict[str, str]:
    """End the process."""
    sys.exit(0)


def return_much() -> dict[str, str]:
    """Return more than a reply may hold."""
    reading("long.txt")
    return {"text": "x" * (3 << 20)}


def return_a_list() -> list[int]:
    """Return something else."""
    return [1]


def try_everything(secret: str) -> dict[str, str]:
    """Do what a parser that has been taken over would do; return what came of each."""

    def attempt(what):
        try:
            return repr(what())
        except OSError as error:
            return f"refused: {error.strerror}"

    return {
        "network": attempt(socket.socket),
        "process": attempt(os.fork),
        "program": attempt(lambda: os.execv("/bin/true", ["true"])),
        "signal": attempt(lambda: os.kill(os.getppid(), 0)),
        "secret": attempt(lambda: Path(secret).read_text()),
        "write": attempt(lambda: Path(secret).with_name("mine").write_text("x")),
        "environment": ",".join(sorted(os.environ)),
        "descriptors": ",".join(str(number) for number in range(64) if _is_open(number)),
    }


def _is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
