"""The driver that is sent into a sandbox (``inside/``): its configuration, the agent's environment, and its code."""

import marshal
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from lhaw_record.runners.environments.sandboxes.inside.worker import REQUEST_DESCRIPTOR, STATUS_DESCRIPTOR
from lhaw_record.runners.environments.sandboxes.protocol import READ_BYTES, SandboxLimits
from lhaw_record.runners.environments.sandboxes.seccomp import SystemCallFilter

_SHOWN_IN = ("/tmp", "/dev/shm", "/home/agent")  # noqa: S108  folders inside that hold both mounts and the sandbox's own files
_CLOSED = ("/workspace", "/opt/agent", "/proc", "/dev")
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
NO_MEMORY_LIMITS: Mapping[str, int | None] = {"address_space_bytes": None, "data_bytes": None}


@cache
def source_of(program: ModuleType) -> str:
    """Return the source code of a module that is sent into a container as a program."""
    return Path(str(program.__file__)).read_text(encoding="utf-8")


def agent_environment(work_dir: str, python_dir: str, temporary_dir: str) -> dict[str, str]:
    """Return the whole environment of the agent's processes; nothing is inherited from the host."""
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


def conflicting_folder(mount: str) -> str | None:
    """Return the sandbox's own folder that conflicts with a mount of this machine's path, or None.

    A mount above such a folder would cover it; files mounted in the work directory would count as the agent's work.
    """
    path = Path(mount)
    if any(path != Path(folder) and path.is_relative_to(folder) for folder in _SHOWN_IN):
        return None
    own = (*_CLOSED, *_SHOWN_IN)
    return next((each for each in own if Path(each).is_relative_to(path) or path.is_relative_to(each)), None)


def driver_config(
    limits: SandboxLimits,
    *,
    work_dir: str,
    python_dir: str,
    temporary_dir: str = "/tmp",  # noqa: S108  inside the sandbox, private to it
    members_path: str = "",
    user_id: int | None = None,
    memory_limits: Mapping[str, int | None] = NO_MEMORY_LIMITS,
    own_processes: int | None = None,
    memory_events: tuple[str, ...] = (),
    keeps_capabilities: bool = False,
    dropped_capabilities: Sequence[int] = (),
    listener_socket: str = "",
    system_calls: SystemCallFilter | None = None,
) -> dict[str, Any]:
    return {
        "environment": agent_environment(work_dir, python_dir, temporary_dir),
        "bash": "/bin/bash",
        "python": f"{python_dir}/bin/python3",
        "cell_boot": CELL_BOOT,
        "work_dir": work_dir,
        "members_path": members_path,
        "file_bytes": limits.file_mb << 20,
        "read_bytes": min(limits.file_mb << 20, READ_BYTES),
        "output_bytes": limits.output_bytes,
        "command_seconds": limits.command_seconds,
        "processes": limits.processes,
        **memory_limits,
        "own_processes": own_processes,
        "user_id": user_id,
        "memory_events": list(memory_events),
        "keeps_capabilities": keeps_capabilities,
        "dropped_capabilities": list(dropped_capabilities),
        "listener_socket": listener_socket,
        "filter": system_calls.program if system_calls else b"",
        "keyctl": system_calls.keyctl if system_calls else None,
    }


INSIDE = "lhaw_record.runners.environments.sandboxes.inside"
INSIDE_MODULES = ("pipes", "processes", "confine", "worker", "files", "forwarder", "program", "driver")
"""The modules that are sent into a sandbox, each after its imports."""
SERVER_MODULES = ("confine",)
"""The modules for the supervisor of a tool server, in the same order."""

# Both programs are sent as compiled code through a descriptor: none of our files is mounted or compiled in the sandbox.
READ_PROGRAM = """\
import marshal, os, sys
def take(size):
    data = b""
    while len(data) < size:
        more = os.read({0}, size - len(data))
        if not more:
            os._exit(1)
        data += more
    return data
"""
_DRIVER_BOOT = (
    READ_PROGRAM.format(0)
    + """\
modules, config, cell = marshal.loads(take(int.from_bytes(take(4), "big")))
for name, code in modules:
    sys.modules[name] = module = type(sys)(name)
    exec(code, module.__dict__)
module.main(config, cell)
"""
)
CELL_BOOT = (
    READ_PROGRAM.format(REQUEST_DESCRIPTOR)
    + f"""\
cell = {{"__name__": "cell"}}
exec(marshal.loads(take(int.from_bytes(take(4), "big"))), cell)
cell["serve"]({REQUEST_DESCRIPTOR}, {STATUS_DESCRIPTOR})
"""
)


def driver_command(python: str) -> list[str]:
    """Return the command that starts a driver: an interpreter without site packages, which starts in 10 ms."""
    return [python, "-I", "-S", "-c", _DRIVER_BOOT]


def driver_program(config: dict[str, Any], modules: tuple[str, ...] = INSIDE_MODULES) -> bytes:
    """Return the program that the interpreter of :func:`driver_command` reads first, after its length in 4 bytes."""
    return marshal.dumps((_inside_programs(modules), config, _cell_program()))


@lru_cache(maxsize=4)
def _inside_programs(modules: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((f"{INSIDE}.{name}", _compiled(name)) for name in modules)


@lru_cache(maxsize=1)
def _cell_program() -> bytes:
    return marshal.dumps(_compiled("cell"))


def _compiled(name: str) -> Any:
    path = Path(__file__).parent / "inside" / f"{name}.py"
    return compile(path.read_bytes(), f"<sandbox {name}>", "exec", dont_inherit=True, optimize=2)
