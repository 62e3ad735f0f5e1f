"""The processes of a sandbox: count them, end them all, and detect when the kernel kills one for lack of memory."""

# pathlib would cost milliseconds of every start.
# ruff: noqa: PTH123, PTH208
import os
import time

_SIGKILL = 9


class Survivors:
    """Every process of this sandbox except the driver.

    Args:
        is_init: Whether the driver is process 1 of its own namespace, so that the namespace contains exactly the
            sandbox.
        members_path: If not ``is_init``, the process list of its control group; if empty, the driver's descendants are
            searched, which become its children when their parent dies.
    """

    def __init__(self, *, is_init: bool, members_path: str) -> None:
        self._is_init = is_init
        self._members_path = members_path
        self.statuses: dict[int, int] = {}

    def count(self) -> int:
        """Return the number of processes, or 0 if counting would require listing all processes of the host."""
        if self._is_init or self._members_path:
            return len(self.members())
        return 0

    def left_by(self, program: int, own: "list[int]") -> tuple[int, int]:
        """Return how many processes but our own are left of a program, and how many of them left its session."""
        self.reap()
        sessions = []
        for process_id in set(self.members()).difference(own):
            try:
                sessions.append(os.getsid(process_id))
            except ProcessLookupError:
                continue
        return len(sessions), len(sessions) - sessions.count(program)

    def reap(self) -> None:
        """Reap every ended child, own or adopted, and remember its exit status."""
        while True:
            try:
                process_id, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process_id == 0:
                return
            self.statuses[process_id] = os.waitstatus_to_exitcode(status)

    def end_all(self) -> None:
        """Kill until no process is left, for at most five seconds."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            self._kill_once()
            self.reap()
            if not self.members():
                return
            time.sleep(0.001)

    def _kill_once(self) -> None:
        # For process 1 of a namespace, -1 means all others at once, so a fork cannot escape.
        for process_id in (-1,) if self._is_init else self.members():
            try:
                os.kill(process_id, _SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue

    def members(self) -> "list[int]":
        """Return the processes of the sandbox but this one."""
        if self._is_init:
            found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        elif self._members_path:
            with open(self._members_path, "rb") as file:
                found = [int(line) for line in file.read().split()]
        else:
            found = _descendants()
        return [process_id for process_id in found if process_id != os.getpid()]


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        next_ones = children.get(waiting.pop(), [])
        found += next_ones
        waiting += next_ones
    return found


class MemoryKills:
    """Counts the processes that the kernel killed for lack of memory.

    Args:
        paths: Files of the control group (version 1 or 2) that may have a line ``oom_kill N``.
    """

    def __init__(self, paths: list[str]) -> None:
        self._descriptor = -1
        for path in paths:
            try:
                self._descriptor = os.open(path, os.O_RDONLY)
            except OSError:
                continue
            break
        self.is_known = self._descriptor >= 0 and b"oom_kill " in os.pread(self._descriptor, 4096, 0)
        self._seen = self._count()

    def has_grown(self) -> bool:
        """Return whether the count has grown since the last call."""
        before, self._seen = self._seen, self._count()
        return self._seen > before

    def _count(self) -> int:
        if self._descriptor >= 0:
            for line in os.pread(self._descriptor, 4096, 0).splitlines():
                words = line.split()
                if len(words) == 2 and words[0] == b"oom_kill":
                    return int(words[1])
        return 0
