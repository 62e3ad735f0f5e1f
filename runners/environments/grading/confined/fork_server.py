"""The fork server: load trusted code once, fork a child for every call, and report how each child ended.

    python -m lhaw_record.runners.environments.grading.confined.fork_server   (its standard input is the control socket)

The server is a fresh process with an empty environment and no descriptors of the host. Only its children read an
agent's files, so damage to a child never outlives that child.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from lhaw_record.recorder.processes import receive_message
from lhaw_record.runners.environments.grading.confined import child
from lhaw_record.runners.environments.grading.confined.child import ChildEnd, Request
from lhaw_record.runners.environments.grading.confined.lockdown import prepare

_MESSAGE_CHARACTERS = 2000
_WRITE = ("1", "64")  # of x86-64 and arm64


class _Running(msgspec.Struct):
    """A running child: the descriptor for the report of its end, and the time at which it is killed."""

    status: int
    deadline: float
    wall_seconds: float
    is_over_time: bool = False
    is_asleep: bool = False


class ForkServer:
    """Serves one host until it closes the control socket."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._running: dict[int, _Running] = {}
        self._wake, wake_write = os.pipe()
        for descriptor in (self._wake, wake_write):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        prepare()

    def serve(self) -> None:
        """Fork children on request and reap them until the host is gone. Then kill every child."""
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poller.poll(self._wait_ms())}
            self._end_overdue()
            if self._wake in ready:
                with suppress(BlockingIOError):
                    os.read(self._wake, 4096)
                self._reap()
            if self._control.fileno() in ready:
                message, descriptors = receive_message(self._control, 2)
                if not message:
                    break
                self._accept(msgspec.json.decode(message, type=Request), *descriptors)
        for process_id in self._running:
            os.kill(process_id, signal.SIGKILL)

    def _wait_ms(self) -> float | None:
        if not self._running:
            return None
        return max(0.0, min(each.deadline for each in self._running.values()) - time.monotonic()) * 1000 + 1

    def _end_overdue(self) -> None:
        for process_id, each in self._running.items():
            if time.monotonic() >= each.deadline:
                each.is_asleep = each.is_asleep or (not each.is_over_time and _is_asleep(process_id, each.wall_seconds))
                each.is_over_time = True
                each.deadline = time.monotonic() + 60
                os.kill(process_id, signal.SIGKILL)

    def _reap(self) -> None:
        while self._running:
            process_id, status, used = os.wait4(-1, os.WNOHANG)
            if process_id == 0:
                return
            ended = self._running.pop(process_id)
            code = os.waitstatus_to_exitcode(status)
            _tell(
                ended.status,
                ChildEnd(
                    exit_code=max(code, 0),
                    signal=max(-code, 0),
                    cpu_seconds=used.ru_utime + used.ru_stime,
                    is_over_time=ended.is_over_time,
                    is_asleep=ended.is_asleep,
                ),
            )

    def _accept(self, request: Request, reply: int, status: int) -> None:
        try:
            problem = _load(request)
            if problem:
                _tell(status, ChildEnd(start_problem=problem, is_import_problem=True))
                return
            try:
                process_id = os.fork()
            except OSError as error:
                _tell(status, ChildEnd(start_problem=f"no process can be made: {error}"))
                return
            if process_id == 0:
                self._become_child(request, reply)
            wall_seconds = request.limits.wall_seconds
            self._running[process_id] = _Running(status, time.monotonic() + wall_seconds, wall_seconds)
        finally:
            os.close(reply)

    def _become_child(self, request: Request, reply: int) -> None:
        signal.set_wakeup_fd(-1)
        keep = child.REPLY_DESCRIPTOR
        os.dup2(reply, keep)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.closerange(keep + 1, 1 << 20)
        child.run(request)


def _is_asleep(process_id: int, wall_seconds: float) -> bool:
    """Return whether a process sleeps and mostly has, by its own will: not for a processor, a disk or our taking.

    The times are those of all its threads.
    """
    process = Path(f"/proc/{process_id}")
    try:
        state, call = (
            (process / name).read_text(encoding="ascii").rpartition(")")[2].split() for name in ("stat", "syscall")
        )
        threads = [path.read_text(encoding="ascii").split() for path in process.glob("task/*/schedstat")]
    except (OSError, ValueError):
        return False
    is_replying = call[0] in _WRITE and call[1] == hex(child.REPLY_DESCRIPTOR)
    worked_ns = sum(int(time) for times in threads for time in times[:2])
    return state[0] == "S" and not is_replying and worked_ns < wall_seconds * 5e8


def _load(request: Request) -> str:
    """Import a call's code before the fork, so that only the first call pays for it; return an error or ""."""
    known = set(sys.path)
    sys.path += [path for path in request.import_paths if path not in known]
    loaded = len(sys.modules)
    try:
        for name in request.modules:
            importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001  importing a benchmark may raise anything
        return f"{type(error).__name__}: {error}"[:_MESSAGE_CHARACTERS]
    if len(sys.modules) != loaded:
        gc.collect()
        gc.freeze()  # garbage collection in a child would copy all of it
    return ""


def _tell(descriptor: int, end: ChildEnd) -> None:
    with suppress(OSError):  # the host no longer waits for it
        os.write(descriptor, msgspec.json.encode(end))
    os.close(descriptor)


def main() -> None:
    """Serve the host on standard input."""
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    ForkServer(control).serve()


if __name__ == "__main__":
    main()
