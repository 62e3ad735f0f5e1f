"""Sandboxes that isolate nothing: the driver as a plain process in a private temporary directory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lhaw_record.runners.base.host.scratch import scratch_folder
from lhaw_record.runners.environments.sandboxes.driven import DrivenSandbox
from lhaw_record.runners.environments.sandboxes.driver_config import driver_config
from lhaw_record.runners.environments.sandboxes.inside_programs import driver_command
from lhaw_record.runners.environments.sandboxes.local.cgroups import Cgroup, open_cgroup
from lhaw_record.runners.environments.sandboxes.local.launch import DriverStart, running_driver
from lhaw_record.runners.environments.sandboxes.protocol import Sandbox, SandboxLimits, Way
from lhaw_record.runners.environments.sandboxes.python_home import current_python_home, lay_out


class ProcessSandboxProvider:
    """Opens work directories without isolation, for scripted models or where the user has allowed it."""

    kind = "process"

    @asynccontextmanager
    async def open(self, files: Path | None, limits: SandboxLimits, way: Way | None = None) -> AsyncIterator[Sandbox]:
        """Open a sandbox whose work directory starts as a copy of ``files``."""
        with scratch_folder() as folder:
            work, temporary, programs_home = (_made(folder / name) for name in ("work", "temporary", "home"))
            async with open_cgroup(limits) as cgroup:
                home = current_python_home()
                lay_out(home, folder / "python")
                config = driver_config(
                    limits,
                    work_dir=work,
                    python_dir=str(folder / "python"),
                    temporary_dir=temporary,
                    members_path=cgroup.members_path,
                    user_id=None,
                    memory_limits=cgroup.memory_limits(is_for_programs=way is not None),
                )
                start = DriverStart(command=driver_command(home.executable))
                async with running_driver(start, config, cgroup) as channel:
                    sandbox = DrivenSandbox(self.kind, work, _weak_limits(cgroup), limits, channel, cgroup.times_met)
                    port = way.port if way else None
                    await sandbox.prepare(files, way, home=programs_home, environment=config["environment"], port=port)
                    yield sandbox


def _made(folder: Path) -> str:
    folder.mkdir()
    return str(folder)


def _weak_limits(cgroup: Cgroup) -> tuple[str, ...]:
    weak = [
        "isolation: none, a command can do and see whatever this user can",
        "files: their total size is not limited",
    ]
    if not cgroup.has_memory:
        weak.append("memory: limited for each process, not for all together (no writable memory control group)")
    if not cgroup.has_processes:
        weak.append("processes: not limited (no writable pids control group)")
    return tuple(weak)
