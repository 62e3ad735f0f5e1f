"""Sandboxes on this machine: isolated by namespaces or by bubblewrap, or a plain process."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.runners.base.host.scratch import scratch_folder
from lhaw_record.runners.environments.sandboxes.driven import DrivenSandbox
from lhaw_record.runners.environments.sandboxes.driver_program import INSIDE_MODULES, driver_command, driver_config
from lhaw_record.runners.environments.sandboxes.inside.forwarder import PORT
from lhaw_record.runners.environments.sandboxes.local import layout
from lhaw_record.runners.environments.sandboxes.local.cgroups import Cgroup, open_cgroup
from lhaw_record.runners.environments.sandboxes.local.launch import INFO_DESCRIPTOR, DriverStart, running_driver
from lhaw_record.runners.environments.sandboxes.local.layout import NOTHING, USER_ID, Extra, Step, sandbox_layout
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess, Sandbox, SandboxLimits
from lhaw_record.runners.environments.sandboxes.python_home import PythonHome, current_python_home, lay_out
from lhaw_record.runners.environments.sandboxes.seccomp import system_call_filter


class SandboxPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox to open: its Python, the steps that build its file system, and whether root builds it."""

    home: PythonHome
    steps: list[Step]
    is_root: bool


class IsolatedSandboxProvider:
    """Opens sandboxes of one isolated kind; a subclass defines how the driver is started."""

    kind: str

    def start(self, plan: SandboxPlan, stack: AsyncExitStack) -> DriverStart:
        """Return how to start the driver of a planned sandbox; resources that this opens are closed by ``stack``."""
        raise NotImplementedError

    @asynccontextmanager
    async def open(
        self, files: Path | None, limits: SandboxLimits, access: ProgramAccess | None = None, extra: Extra = NOTHING
    ) -> AsyncIterator[Sandbox]:
        """Open a sandbox whose work directory starts as a copy of ``files``; add ``extra`` to its file system."""
        is_root = is_real_root()
        home = current_python_home()
        steps = sandbox_layout(home, limits.memory_mb << 20, access, extra, is_root=is_root)
        async with AsyncExitStack() as stack:
            cgroup = await stack.enter_async_context(open_cgroup(limits))
            is_counted_by_user = not cgroup.has_processes and not is_root and _counts_users_by_namespace()
            start = self.start(SandboxPlan(home=home, steps=steps, is_root=is_root), stack)
            config = driver_config(
                limits,
                work_dir=layout.WORK_DIR,
                python_dir=layout.PYTHON_DIR,
                user_id=USER_ID if is_root else None,
                memory_limits=cgroup.memory_limits(is_for_programs=access is not None),
                own_processes=limits.processes + 1 if is_counted_by_user else None,
                listener_socket=layout.LISTENER_SOCKET if access else "",
                system_calls=system_call_filter(),
            )
            weak_limits = (*_weak_limits(cgroup, is_counted_by_user=is_counted_by_user), *start.weak_limits)
            sandbox = await _driven(stack, start, config, cgroup, limits, self.kind, weak_limits)
            await sandbox.prepare(files, access, home=layout.HOME)
            yield sandbox


class NamespaceSandboxProvider(IsolatedSandboxProvider):
    """Opens sandboxes equal to bubblewrap's with only the kernel (Linux 5.12) and this Python."""

    kind = "namespaces"

    def start(self, plan: SandboxPlan, stack: AsyncExitStack) -> DriverStart:
        """Return how the driver is started: it builds the sandbox around itself."""
        del stack  # nothing to close
        user = None if plan.is_root else USER_ID
        return DriverStart(
            command=[*driver_command(plan.home.executable), INFO_DESCRIPTOR],
            modules=(*INSIDE_MODULES, "namespaces"),
            config={"steps": plan.steps, "host_name": layout.HOST_NAME, "namespace_user": user},
        )


class ProcessSandboxProvider:
    """Opens work directories without isolation, for scripted models or if the user has allowed it."""

    kind = "process"

    @asynccontextmanager
    async def open(
        self, files: Path | None, limits: SandboxLimits, access: ProgramAccess | None = None
    ) -> AsyncIterator[Sandbox]:
        """Open a sandbox whose work directory starts as a copy of ``files``."""
        home = current_python_home()
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(scratch_folder())
            for name in ("work", "temporary", "home"):
                (folder / name).mkdir()
            lay_out(home, folder / "python")
            cgroup = await stack.enter_async_context(open_cgroup(limits))
            config = driver_config(
                limits,
                work_dir=str(folder / "work"),
                python_dir=str(folder / "python"),
                temporary_dir=str(folder / "temporary"),
                members_path=cgroup.members_path,
                memory_limits=cgroup.memory_limits(is_for_programs=access is not None),
            )
            start = DriverStart(command=driver_command(home.executable))
            sandbox = await _driven(stack, start, config, cgroup, limits, self.kind, _weak_process_limits(cgroup))
            await sandbox.prepare(files, access, home=str(folder / "home"), port=access.port if access else PORT)
            yield sandbox


async def _driven(
    stack: AsyncExitStack,
    start: DriverStart,
    config: dict[str, Any],
    cgroup: Cgroup,
    limits: SandboxLimits,
    kind: str,
    weak_limits: tuple[str, ...],
) -> DrivenSandbox:
    channel = await stack.enter_async_context(running_driver(start, config, cgroup))
    return DrivenSandbox(kind, config, weak_limits, limits, channel, cgroup.times_met, cgroup.cpu_s)


def is_real_root() -> bool:
    """Return whether we are root and may become the agent's user, whose id may be unmapped in a user namespace."""
    if os.geteuid() != 0:
        return False
    try:
        mapped = Path("/proc/self/uid_map").read_text()
    except FileNotFoundError:  # macOS
        return False
    ranges = [[int(word) for word in line.split()] for line in mapped.splitlines()]
    return any(first <= USER_ID < first + count for first, _, count in ranges)


def _counts_users_by_namespace() -> bool:
    """Return whether the limit of processes per user counts within the user namespace only (since Linux 5.14)."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor)) >= (5, 14)


def _weak_limits(cgroup: Cgroup, *, is_counted_by_user: bool) -> tuple[str, ...]:
    weak = _weak_memory(cgroup)
    if not cgroup.has_processes and not is_counted_by_user:
        weak.append("processes: counted only between commands, and ended if too many (no writable pids control group)")
    if system_call_filter() is None:
        weak.append("system calls: not filtered (no list of them for this kind of processor)")
    return tuple(weak)


def _weak_process_limits(cgroup: Cgroup) -> tuple[str, ...]:
    weak = [
        "isolation: none, a command can do and see whatever this user can",
        "files: their total size is not limited",
        *_weak_memory(cgroup),
    ]
    if not cgroup.has_processes:
        weak.append("processes: not limited (no writable pids control group)")
    return tuple(weak)


def _weak_memory(cgroup: Cgroup) -> list[str]:
    if cgroup.has_memory:
        return []
    return ["memory: limited for each process, not for all together (no writable memory control group)"]
