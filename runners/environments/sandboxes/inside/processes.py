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
    for process_id, parent in _all_with_parents():
        children.setdefault(parent, []).append(process_id)
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        next_ones = children.get(waiting.pop(), [])
        found += next_ones
        waiting += next_ones
    return found


def _all_with_parents() -> "list[tuple[int, int]]":
    found = []
    if not os.access("/proc/self", os.F_OK):  # macOS
        with os.popen("/bin/ps -A -o pid= -o ppid=") as listed:  # noqa: S605  no word of it is an agent's
            return [(int(process_id), int(parent)) for process_id, parent in map(str.split, listed)]
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    found.append((int(name), int(file.read().rpartition(b")")[2].split()[1])))
            except (OSError, IndexError, ValueError):
                continue
    return found


class MemoryKills:
    """Watches whether the kernel kills processes of a control group for lack of memory, and whose limit that was.

    Args:
        paths: Files that may say so, of version 1 or 2; see ``limit_counts``.
    """

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._descriptors = []
        for path in paths:
            try:
                self._descriptors.append(os.open(path, os.O_RDONLY))
            except OSError:
                continue
        self._seen = self._counts()
        self.is_known = "oom_kill" in self._seen

    def since_last(self) -> str:
        """Return ``memory_kill`` since the last call."""
        before, self._seen = self._seen, self._counts()
        return memory_kill(before, self._seen)

    def _counts(self) -> "dict[str, int]":
        return limit_counts("\n".join(os.pread(each, 4096, 0).decode() for each in self._descriptors))


def limit_counts(text: str) -> "dict[str, int]":
    """Return how often the kernel enforced limits, from the files of control groups.

    ``oom_kill`` counts killed processes, ``oom`` how often the group met its own limit of memory, which is all that
    ``memory.failcnt`` of version 1 holds. Lines of ``pids.events`` begin with ``processes`` here.
    """
    counts = {}
    for words in map(str.split, text.splitlines()):
        name = "oom" if len(words) == 1 else words[0] if words else ""
        if name in ("oom_kill", "oom", "processes") and words[-1].isdigit():
            counts[name] = int(words[-1])
    return counts


def memory_kill(before: "dict[str, int]", now: "dict[str, int]") -> str:
    """Return whose memory had run out when the kernel killed a process between two counts, empty if it did not.

    ``memory_limit`` is the group's own limit. A kill without it is ``memory_outside``: the host, or a group around it.
    """
    if now.get("oom_kill", 0) <= before.get("oom_kill", 0):
        return ""
    return "memory_limit" if "oom" not in now or now["oom"] > before.get("oom", 0) else "memory_outside"
