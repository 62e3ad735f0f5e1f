"""Confine a server process in bubblewrap with a private copy of the data at ``/data``, or start it plainly."""

import hashlib
import os
import re
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.runners.base.errors import SandboxUnfit
from lhaw_record.runners.base.host.scratch import scratch_folder
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import SYSTEM_FOLDERS
from lhaw_record.runners.environments.sandboxes.driver_program import SERVER_MODULES, driver_command, driver_program
from lhaw_record.runners.environments.sandboxes.local.bubblewrap import step_arguments
from lhaw_record.runners.environments.sandboxes.local.layout import CERTIFICATES, HIDDEN_KERNEL_FILES, interpreter
from lhaw_record.runners.environments.sandboxes.python_home import current_python_home
from lhaw_record.runners.environments.sandboxes.seccomp import system_call_filter

DATA_MOUNT = "/data"
_SYSTEM_FILES = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime")
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", *CERTIFICATES)
_PATH = "/usr/local/bin:/usr/bin:/bin"


class ProcessPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A process to execute: its command line, its environment, and the host folder it starts in.

    ``supervisor`` is written to standard input first. If it is not empty, the process ends when its standard input is
    closed, and must not be killed before that: killing bubblewrap while it starts leaves a child that waits forever.
    """

    command: list[str]
    environment: dict[str, str]
    directory: Path
    supervisor: bytes = b""


def has_bubblewrap() -> bool:
    """Return whether bubblewrap is installed."""
    return shutil.which("bwrap") is not None


def confined(
    command: list[str],
    variables: dict[str, str],
    data: Path,
    readable: list[Path],
    file_mb: int,
    *,
    has_network: bool = False,
) -> ProcessPlan:
    """Return a plan that runs a server in bubblewrap.

    The server has no network by default. It can read only the system and ``readable``, and can write only to its data
    and to an empty scratch folder. It gets the same keyring and system call filter as an agent's sandbox. It ends when
    its standard input is closed, so it ends with this process. Variables are passed in the environment, because every
    user of the machine could read them on the command line.
    """
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxUnfit(
            "bubblewrap (bwrap) is not installed, so MCP servers cannot be confined; install it, or set "
            "`allow_unconfined = true` under [benchmark] to run them as plain processes",
            kind="bubblewrap_missing",
        )
    plan = [bwrap, "--unshare-all", "--new-session", "--as-pid-1", "--cap-drop", "ALL"]
    plan += ["--share-net"] if has_network else []
    for folder in SYSTEM_FOLDERS:
        path = Path(folder)
        if path.is_symlink():
            plan += ["--symlink", str(path.readlink()), folder]
        elif path.is_dir():
            plan += ["--ro-bind", folder, folder]
    for file in (*_SYSTEM_FILES, *(_NETWORK_FILES if has_network else ())):
        plan += ["--ro-bind-try", file, file]
    plan += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home"]  # noqa: S108
    for file in filter(os.path.exists, HIDDEN_KERNEL_FILES):
        plan += step_arguments(("hide", file))
    plan += ["--bind", str(data), DATA_MOUNT]
    # After the empty folders, because servers may be installed below them.
    for root in dict.fromkeys(str(path) for path in readable):
        if not Path(root).is_relative_to("/usr"):
            plan += ["--ro-bind", root, root]
    home = current_python_home()
    for step in interpreter(home, ["/usr", *(str(path) for path in readable)]):
        plan += step_arguments(step)
    plan += ["--remount-ro", "/", "--chdir", DATA_MOUNT]
    inside = {"PATH": _PATH, "HOME": "/home", "LANG": "C.UTF-8", "TMPDIR": "/tmp", **variables}  # noqa: S108
    return ProcessPlan(
        command=[*plan, "--", *driver_command(home.executable)],
        environment=inside,
        directory=data,
        supervisor=_supervisor(command, file_mb),
    )


def unconfined(command: list[str], variables: dict[str, str], data: Path) -> ProcessPlan:
    """Return a plan that runs a server as a plain process. ``/data`` is replaced by the path of the private copy."""
    inside = {name: value.replace(DATA_MOUNT, str(data)) for name, value in variables.items()}
    environment = {"PATH": os.environ.get("PATH", _PATH), "HOME": str(data.parent), "LANG": "C.UTF-8", **inside}
    arguments = [str(data) if argument == DATA_MOUNT else argument for argument in command]
    return ProcessPlan(command=arguments, environment=environment, directory=data)


def _supervisor(command: list[str], file_mb: int) -> bytes:
    system_calls = system_call_filter()
    config = {
        "command": command,
        "file_bytes": file_mb << 20,
        "filter": system_calls.program if system_calls else b"",
        "keyctl": system_calls.keyctl if system_calls else None,
        "keeps_capabilities": False,
        "dropped_capabilities": [],
        **dict.fromkeys(("user_id", "address_space_bytes", "data_bytes", "own_processes")),
    }
    program = driver_program(config, SERVER_MODULES)
    return len(program).to_bytes(4, "big") + program


MOUNTED = re.compile(rf"(?<![\w./-]){re.escape(DATA_MOUNT)}(?![\w.-])")


def data_digest(folder: Path) -> str:
    """Return the SHA-256 over the sorted relative paths and contents of a folder's files."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return whole.hexdigest()


@asynccontextmanager
async def private_copy(folder: Path) -> AsyncIterator[Path]:
    """Create a writable copy of the data, and remove it at the end, even if a server changed its permissions."""
    with scratch_folder() as root:
        copy = root / "data"
        await anyio.to_thread.run_sync(copy_writable, folder, copy)
        yield copy


def copy_writable(source: Path, target: Path) -> None:
    """Copy a folder tree and make the copy writable for its owner, because servers run without root permissions."""
    target.mkdir()
    for entry in sorted(source.iterdir()):
        to = target / entry.name
        if entry.is_symlink():
            to.symlink_to(entry.readlink())
        elif entry.is_dir():
            copy_writable(entry, to)
        elif entry.is_file():
            shutil.copy2(entry, to)
            to.chmod(to.stat().st_mode | stat.S_IRUSR | stat.S_IWUSR)


def translated(value: Any, old: re.Pattern[str], new: str) -> Any:
    """Return JSON data with a path replaced in every string, for servers whose data cannot be mounted at ``/data``."""
    if isinstance(value, str):
        return old.sub(lambda _: new, value)
    if isinstance(value, dict):
        return {key: translated(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [translated(item, old, new) for item in value]
    return value
