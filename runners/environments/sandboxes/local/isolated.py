"""Open an isolated sandbox on this machine: what bubblewrap and plain namespaces have in common."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from lhaw_record.runners.environments.sandboxes.driven import DrivenSandbox
from lhaw_record.runners.environments.sandboxes.driver_config import driver_config
from lhaw_record.runners.environments.sandboxes.local import layout
from lhaw_record.runners.environments.sandboxes.local.cgroups import Cgroup, open_cgroup
from lhaw_record.runners.environments.sandboxes.local.launch import DriverStart, running_driver
from lhaw_record.runners.environments.sandboxes.local.layout import (
    NOTHING,
    PYTHON_DIR,
    USER_ID,
    WAY_SOCKET,
    WORK_DIR,
    Extra,
    Step,
    sandbox_layout,
)
from lhaw_record.runners.environments.sandboxes.protocol import Sandbox, SandboxLimits, Way
from lhaw_record.runners.environments.sandboxes.python_home import PythonHome, current_python_home
from lhaw_record.runners.environments.sandboxes.seccomp import system_call_filter


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox to open: its Python, the steps that build its file system, and whether root builds it."""

    home: PythonHome
    steps: list[Step]
    is_root: bool


class IsolatedSandboxProvider:
    """Opens sandboxes of one isolated kind; a subclass says how the driver of such a sandbox is started."""

    kind: str

    def start(self, plan: Plan, stack: AsyncExitStack) -> DriverStart:
        """Return how a planned sandbox is started; whatever that opens is closed by the stack."""
        raise NotImplementedError

    @asynccontextmanager
    async def open(
        self, files: Path | None, limits: SandboxLimits, way: Way | None = None, extra: Extra = NOTHING
    ) -> AsyncIterator[Sandbox]:
        """Open a sandbox whose work directory starts as a copy of ``files``. ``extra`` stands beside it."""
        is_root = is_real_root()
        home = current_python_home()
        steps = sandbox_layout(home, limits.memory_mb << 20, way, extra, is_root=is_root)
        async with AsyncExitStack() as stack:
            cgroup = await stack.enter_async_context(open_cgroup(limits))
            is_counted_by_user = not cgroup.has_processes and not is_root and _counts_users_by_namespace()
            start = self.start(Plan(home=home, steps=steps, is_root=is_root), stack)
            config = driver_config(
                limits,
                work_dir=WORK_DIR,
                python_dir=PYTHON_DIR,
                temporary_dir="/tmp",  # noqa: S108  inside the sandbox, private to it
                members_path="",
                user_id=USER_ID if is_root else None,
                memory_limits=cgroup.memory_limits(is_for_programs=way is not None),
                own_processes=limits.processes + 1 if is_counted_by_user else None,
                way_socket=WAY_SOCKET if way else "",
                system_calls=system_call_filter(),
            )
            channel = await stack.enter_async_context(running_driver(start, config, cgroup))
            weak_limits = (*_weak_limits(cgroup, is_counted_by_user=is_counted_by_user), *start.weak_limits)
            sandbox = DrivenSandbox(self.kind, WORK_DIR, weak_limits, limits, channel, cgroup.times_met)
            await sandbox.prepare(files, way, home=layout.HOME, environment=config["environment"])
            yield sandbox


def is_real_root() -> bool:
    """Return whether we are root and may become the agent's user, whose id a user namespace may lack."""
    if os.geteuid() != 0:
        return False
    ranges = [[int(word) for word in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return any(first <= USER_ID < first + count for first, _, count in ranges)


def _counts_users_by_namespace() -> bool:
    """Return whether the limit of processes per user counts within the user namespace only (since Linux 5.14)."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor)) >= (5, 14)


def _weak_limits(cgroup: Cgroup, *, is_counted_by_user: bool) -> tuple[str, ...]:
    weak = []
    if not cgroup.has_memory:
        weak.append("memory: limited for each process, not for all together (no writable memory control group)")
    if not cgroup.has_processes and not is_counted_by_user:
        weak.append("processes: ended only between commands when they are too many (no writable pids control group)")
    if system_call_filter() is None:
        weak.append("system calls: not filtered (no list of them for this kind of processor)")
    return tuple(weak)
