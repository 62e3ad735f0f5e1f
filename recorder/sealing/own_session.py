"""Starts child processes in their own sessions, so that Ctrl-C in the terminal does not reach them.

Between fork and setsid, a child is still in our process group and has default signal handlers. An interrupt at that
moment ends the child before it runs its program. Such a child is started again.
"""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_FORKED_BUT_NOT_EXECUTED = 0x40
"""The kernel's task flag PF_FORKNOEXEC. It can be read until the child is waited for."""


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
    flags = int(stat.rpartition(")")[2].split()[6])  # the program name before it may hold spaces
    return not flags & _FORKED_BUT_NOT_EXECUTED
