"""Limit and end a whole tree of processes with control groups (version 1 or 2), if this process may create them."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from itertools import count
from pathlib import Path

import anyio
import msgspec

from lhaw_record.runners.environments.sandboxes.inside.processes import limit_counts, memory_kill
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

_numbers = count(1)
_PREFIX = "lhaw-record"
_CPU_USE = ("cpuacct.usage", "cpu.stat")  # of version 1 and of version 2
_MEMORY_COUNTS = ("memory.oom_control", "memory.failcnt", "memory.events")  # two of version 1, one of version 2


class Hierarchies(msgspec.Struct, frozen=True):
    """Folders below which groups can be created; None if that is not allowed. Version 2 has one folder for all."""

    memory: Path | None = None
    processes: Path | None = None
    cpu: Path | None = None
    is_version_2: bool = False

    @property
    def folders(self) -> list[Path]:
        """The folders, each once."""
        return sorted({folder for folder in (self.memory, self.processes, self.cpu) if folder is not None})


class Cgroup:
    """A control group with limits; ``has_memory`` and ``has_processes`` say which limits are in effect."""

    def __init__(self, hierarchies: Hierarchies, limits: SandboxLimits) -> None:
        name = f"{_PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._limits = limits
        self.has_memory = hierarchies.memory is not None
        self.has_processes = hierarchies.processes is not None
        self._folders = [parent / name for parent in hierarchies.folders]
        self._process_id: int | None = None
        self._cpu_use = hierarchies.cpu / name / _CPU_USE[hierarchies.is_version_2] if hierarchies.cpu else None
        for folder in self._folders:
            folder.mkdir()
        self._memory, self._processes = (each and each / name for each in (hierarchies.memory, hierarchies.processes))
        self._ooms = 0
        watched = () if hierarchies.memory is None or hierarchies.is_version_2 else (self._memory, hierarchies.memory)
        self._oom_events = [*map(_oom_events, filter(None, watched))]
        if hierarchies.memory is not None:
            names = ("memory.max", "memory.swap.max") if hierarchies.is_version_2 else ("memory.limit_in_bytes", "")
            (hierarchies.memory / name / names[0]).write_text(str(limits.memory_mb << 20))
            if names[1] and (hierarchies.memory / name / names[1]).exists():
                (hierarchies.memory / name / names[1]).write_text("0")
        if hierarchies.processes is not None:
            (hierarchies.processes / name / "pids.max").write_text(str(limits.processes + 1))  # one is the driver

    @property
    def members_path(self) -> str:
        """The file that lists the processes of the group, empty if there is no group."""
        return str(self._folders[0] / "cgroup.procs") if self._folders else ""

    def memory_limits(self, *, is_for_programs: bool) -> dict[str, int | None]:
        """Return memory limits per process, for use if the group's limit cannot be set."""
        each_bytes = None if self.has_memory else self._limits.memory_mb << 20
        names = ("address_space_bytes", "data_bytes")
        return dict(zip(names, (None, each_bytes) if is_for_programs else (each_bytes, None), strict=True))

    def memory_kill(self) -> str:
        """Return ``memory_kill`` since the group was created."""
        return memory_kill({}, self.times_met())

    def times_met(self) -> dict[str, int]:
        """Return ``limit_counts`` as far as they can be read.

        Without a group for memory, ``host_kills`` are the processes that the kernel killed on the whole host.
        """
        memory = [_text(self._memory / name) for name in _MEMORY_COUNTS] if self._memory else []
        refused = _text(self._processes / "pids.events") if self._processes else ""
        counts = limit_counts("\n".join((*memory, refused and f"processes {refused}")))
        for own, each in zip((1, -1), self._oom_events, strict=False):
            if each is not None:
                with suppress(BlockingIOError):
                    self._ooms += own * int.from_bytes(os.read(each, 8), sys.byteorder)
        if self._oom_events and self._oom_events[0] is not None and "oom" in counts:
            counts["oom"] = self._ooms
        if self._memory is None:
            counts["host_kills"] = limit_counts(_text(Path("/proc/vmstat"))).get("oom_kill", 0)
        return counts

    def cpu_s(self) -> float | None:
        """Return the CPU seconds of the group's processes so far, or None if they have ended.

        Without a group that counts, those of the processes that descend from the added one.
        """
        try:
            if self._cpu_use is None:
                return None if self._process_id is None else _cpu_of_descendants_s(self._process_id)
            words = self._cpu_use.read_text().split()
            return int(words[1]) / 1e6 if words[0] == "usage_usec" else int(words[0]) / 1e9
        except OSError:
            return None

    def add(self, process_id: int) -> None:
        """Move a process, and thus all its future children, into the group."""
        self._process_id = process_id
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(process_id))

    async def remove(self) -> None:
        """Kill remaining processes and remove the group; after two seconds, leave it to the next start."""
        while self._oom_events:
            if (counter := self._oom_events.pop()) is not None:
                os.close(counter)
        for folder in self._folders:
            with anyio.move_on_after(2):
                while not _is_removed(folder):  # noqa: ASYNC110  the kernel sends no event when the last process ends
                    await anyio.sleep(0.002)


@asynccontextmanager
async def open_cgroup(limits: SandboxLimits) -> AsyncIterator[Cgroup]:
    """Create a group with the limits that can be set here, possibly none; remove it at the end."""
    try:
        cgroup = Cgroup(available_hierarchies(), limits)
    except OSError:
        cgroup = Cgroup(Hierarchies(), limits)
    try:
        yield cgroup
    finally:
        with anyio.CancelScope(shield=True):
            await cgroup.remove()


@lru_cache(maxsize=1)
def available_hierarchies() -> Hierarchies:
    """Remove groups that killed processes left behind, then return where this process may create groups."""
    try:
        mounts = Path("/proc/mounts").read_text()
        own_groups = Path("/proc/self/cgroup").read_text()
    except OSError:
        return Hierarchies()
    found = find_hierarchies(mounts, own_groups)
    for parent in found.folders:
        _sweep(parent)
    return found


def find_hierarchies(mounts: str, own_groups: str) -> Hierarchies:
    """Return the writable hierarchies, from the contents of ``/proc/mounts`` and ``/proc/self/cgroup``."""
    groups = dict(line.split(":", 2)[1:] for line in own_groups.splitlines())
    memory = processes = cpu = None
    for line in mounts.splitlines():
        _, point, kind, options, *_ = line.split()
        controllers = options.split(",")
        if kind == "cgroup2":
            for parent in _own_and_above(Path(point), groups.get("", "/")):
                if _is_writable(parent) and {"memory", "pids"} <= _delegated(parent):
                    return Hierarchies(parent, parent, parent, is_version_2=True)
        elif kind == "cgroup":
            for controller in {"memory", "pids", "cpuacct"} & set(controllers):
                own = next((path for names, path in groups.items() if controller in names.split(",")), "/")
                parent = next(_own_and_above(Path(point), own))
                if _is_writable(parent):
                    memory = parent if controller == "memory" else memory
                    processes = parent if controller == "pids" else processes
                    cpu = parent if controller == "cpuacct" else cpu
    return Hierarchies(memory, processes, cpu)


def _oom_events(group: Path) -> int | None:
    """Return a counter of how often a group of version 1, or one around it, ran out of memory, or None.

    So a group's own times are those that the group around it does not count. ``memory.failcnt`` also counts a full page
    cache, after which a kill by the host would look like the group's own.
    """
    if sys.platform != "linux":
        return None
    counter = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    try:
        with (
            open(group / "memory.oom_control", "rb") as watched,  # noqa: PTH123
            open(group / "cgroup.event_control", "r+") as control,  # noqa: PTH123  "w" would create it elsewhere
        ):
            control.write(f"{counter} {watched.fileno()}")
    except OSError:
        os.close(counter)
        return None
    return counter


def _cpu_of_descendants_s(process_id: int) -> float:
    """Return the CPU seconds of a process, its descendants, and those of them that were waited for."""
    ticks, left = 0, [process_id]
    while left:
        process = Path("/proc", str(left.pop()))
        try:
            ticks += sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:15]))
            for thread in (process / "task").iterdir():
                left += map(int, (thread / "children").read_text().split())
        except OSError:
            continue  # it has ended
    return ticks / os.sysconf("SC_CLK_TCK")


def _own_and_above(point: Path, own: str) -> Iterator[Path]:
    folder = point / own.lstrip("/")
    if folder.is_dir():
        while folder != point:
            yield folder
            folder = folder.parent
    yield point


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def _delegated(folder: Path) -> set[str]:
    try:
        return set((folder / "cgroup.subtree_control").read_text().split())
    except OSError:
        return set()


def _is_removed(folder: Path) -> bool:
    try:
        for line in (folder / "cgroup.procs").read_text().split():
            _kill(int(line))
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _kill(process_id: int) -> None:
    try:
        os.kill(process_id, 9)
    except ProcessLookupError:
        return


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}-*-*"):
        owner = folder.name.split("-")[-2]
        if not Path("/proc", owner).exists():
            try:
                folder.rmdir()
            except OSError:
                continue
