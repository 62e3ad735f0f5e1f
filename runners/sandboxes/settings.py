"""What every kind of sandbox gives an agent: a fixed environment, and the configuration of the driver."""

from typing import Any

from runners.sandboxes.cgroups import Cgroup
from runners.sandboxes.launch import CELL_BOOT
from runners.sandboxes.protocol import SandboxLimits

_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def agent_environment(work_dir: str, python_dir: str, temporary_dir: str) -> dict[str, str]:
    """Return the whole environment of the agent's processes: nothing comes from the host."""
    return {
        "HOME": work_dir,
        "LANG": "C.UTF-8",
        "LOGNAME": "agent",
        "PATH": f"{python_dir}/bin:{_PATH}",
        "PWD": work_dir,
        "PYTHONDONTWRITEBYTECODE": "1",  # no __pycache__ in a work directory that is graded
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "TMPDIR": temporary_dir,
        "TZ": "UTC",
        "USER": "agent",
    }


def driver_config(
    limits: SandboxLimits,
    *,
    work_dir: str,
    python_dir: str,
    temporary_dir: str,
    members_path: str,
    address_space_bytes: int | None,
    own_processes: int | None,
    user_id: int | None,
) -> dict[str, Any]:
    """Return the driver's configuration.

    Args:
        limits: The limits of the sandbox.
        work_dir: As the agent sees it, like the next two.
        python_dir: The virtual environment.
        temporary_dir: For temporary files.
        members_path: The list of the control group, empty where the driver is process 1 of its namespace.
        address_space_bytes: Limit of each single process, where the memory of all cannot be limited.
        own_processes: Limit per user, where it counts this sandbox's processes only.
        user_id: The user to become before anything of the agent runs, or None to stay who we are.
    """
    return {
        "environment": agent_environment(work_dir, python_dir, temporary_dir),
        "bash": "/bin/bash",
        "python": f"{python_dir}/bin/python3",
        "cell_boot": CELL_BOOT,
        "work_dir": work_dir,
        "members_path": members_path,
        "file_bytes": limits.file_mb << 20,
        "output_bytes": limits.output_bytes,
        "command_seconds": limits.command_seconds,
        "processes": limits.processes,
        "address_space_bytes": address_space_bytes,
        "own_processes": own_processes,
        "user_id": user_id,
    }


def address_space_bytes(limits: SandboxLimits, cgroup: Cgroup) -> int | None:
    """Return the limit for each single process, or None where the group limits the memory of all."""
    return None if cgroup.has_memory else limits.memory_mb << 20
