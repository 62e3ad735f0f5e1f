"""Configuration of our containers for the Docker Engine, and the driver program that the main process runs."""

import marshal
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from lhaw_record.runners.environments.sandboxes.driver_program import (
    INSIDE,
    INSIDE_MODULES,
    READ_PROGRAM,
    driver_config,
)
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess, SandboxLimits
from lhaw_record.runners.environments.sandboxes.python_home import current_python_home

WORK_DIR = "/workspace"
AGENT_HOME = "/home/agent"
_PYTHON_DIR = "/opt/agent/python"
_TEMPORARY_DIR = "/tmp"  # noqa: S108  inside the container, private to it
_LISTENER_SOCKET = "/run/lhaw-record/listener.sock"
_USER_ID = 61000  # as in bubblewrap: outside every range that systems assign
_DRIVER_CAPABILITIES = ("CHOWN", "SETGID", "SETUID")  # the driver drops them before the agent runs anything
_MACHINE_DROPS = ("AUDIT_WRITE", "MKNOD", "NET_RAW")
CAPABILITY_NUMBERS = {"NET_RAW": 13}
# Version 2, then version 1, which counts no failures where swap has the same limit, as here: any kill is its own.
MEMORY_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


ATTACHED: dict[str, Any] = {
    "OpenStdin": True,
    "StdinOnce": True,
    "AttachStdin": True,
    "AttachStdout": True,
    "AttachStderr": True,
    "StopSignal": "SIGKILL",
    "Healthcheck": {"Test": ["NONE"]},
}
"""Settings of a container whose main process we talk to, and which ends when its standard input is closed."""


class DockerImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image, and what agents may do in its containers.

    Args:
        name: The image name with a tag or a digest. Empty in a run whose tasks have their own images.
        cpus: The number of CPUs that a container may use, or None for all.
        is_own_machine: If true, the agent is root in the unchanged image and may write everywhere, and ``work_dir`` is
            a folder of the image. This is for benchmarks with one image per task. If false, the agent is an ordinary
            user who may write only to the work directory and to temporary folders, all in memory. Its Python is the
            image's with our packages, as in every other kind of sandbox.
        network: The name of a Docker network, or ``none``.
        setup_capabilities: Capabilities that our containers normally lack, for programs run from outside, such as an
            image's init script. The agent drops them before its first command. Own machines only.
        shared_folders: Folders of the image that are shared with its sidecars (see
            :func:`lhaw_record.runners.environments.sandboxes.docker.sidecar.open_sidecar`). Own machines only.
    """

    name: str
    cpus: float | None = None
    work_dir: str = WORK_DIR
    is_own_machine: bool = False
    network: str = "none"
    setup_capabilities: tuple[Literal["NET_RAW"], ...] = ()
    shared_folders: tuple[str, ...] = ()

    @property
    def weak_limits(self) -> tuple[str, ...]:
        """The limits that are not fully enforced."""
        if self.is_own_machine:
            return ("files: their total size is not limited (the container may write to the engine's disk)",)
        return ()


def container_config(image: DockerImage, limits: SandboxLimits, access: ProgramAccess | None) -> dict[str, Any]:
    """Return the engine's configuration of a container whose main process is the driver, read from standard input.

    The engine closes that input as soon as this process closes the connection, even if this process is killed.
    """
    memory_bytes = limits.memory_mb << 20
    shown = {path: path for path in access.mounts} if access else {}
    if access and not image.is_own_machine:
        shown = {_LISTENER_SOCKET: access.socket, **shown}
    host = {
        **limited(image, limits),
        "ReadonlyRootfs": not image.is_own_machine,
        "ShmSize": memory_bytes // 16,
        "Mounts": read_only_mounts(shown),
    }
    if not image.is_own_machine:
        host |= {
            "CapDrop": ["ALL"],
            "CapAdd": list(_DRIVER_CAPABILITIES),
            "Tmpfs": _memory_folders(image, limits, access),
        }
    return {
        "Image": image.name,
        "Entrypoint": list(BOOT_COMMAND),
        "Cmd": [],
        "User": "0",
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Volumes": {folder: {} for folder in image.shared_folders},
        **ATTACHED,
        "HostConfig": host,
    }


def limited(image: DockerImage, limits: SandboxLimits) -> dict[str, Any]:
    """Return the limits that all our containers have, in the engine's format."""
    memory_bytes = limits.memory_mb << 20
    return {
        "Memory": memory_bytes,
        "MemorySwap": memory_bytes,  # equal to Memory: no swap
        "NanoCpus": round(image.cpus * 1e9) if image.cpus else 0,
        "PidsLimit": limits.processes + 2,  # besides the agent's: the first process and its helper
        "NetworkMode": image.network,
        "IpcMode": "private",
        "CapDrop": [name for name in _MACHINE_DROPS if name not in image.setup_capabilities],
        "SecurityOpt": ["no-new-privileges"],
        "LogConfig": {"Type": "none", "Config": {}},  # logs would fill the engine's disk
        "RestartPolicy": {"Name": "no"},
        "Init": False,
    }


def agent_config(
    image: DockerImage, limits: SandboxLimits, access: ProgramAccess | None, container_environment: dict[str, str]
) -> dict[str, Any]:
    config = driver_config(
        limits,
        work_dir=image.work_dir,
        python_dir=_PYTHON_DIR,
        user_id=None if image.is_own_machine else _USER_ID,
        memory_events=MEMORY_EVENTS,
        keeps_capabilities=image.is_own_machine,
        dropped_capabilities=[CAPABILITY_NUMBERS[name] for name in image.setup_capabilities],
        listener_socket=_LISTENER_SOCKET if access else "",
    )
    if not image.is_own_machine:
        return {**config, "python_dir": _PYTHON_DIR}
    own = {**config["environment"], "HOME": "/root", "LOGNAME": "root", "USER": "root"}
    own["PATH"] = own["PATH"].removeprefix(f"{_PYTHON_DIR}/bin:")
    return {**config, "python_dir": "", "environment": {**own, **container_environment}}


def _memory_folders(image: DockerImage, limits: SandboxLimits, access: ProgramAccess | None) -> dict[str, str]:
    """Return the in-memory folders, with the same sizes as in bubblewrap."""
    memory_bytes = limits.memory_mb << 20
    options = "rw,exec,nosuid,nodev"
    return {
        image.work_dir: f"{options},mode=0755,size={memory_bytes // 2}",
        _TEMPORARY_DIR: f"{options},mode=1777,size={memory_bytes // 4}",
        _PYTHON_DIR: f"{options},mode=0755,size={16 << 20}",
        "/var/tmp": f"{options},mode=0755,size=4096",  # noqa: S108  open to everyone in most images
        **({AGENT_HOME: f"{options},mode=0777,size={memory_bytes // 4}"} if access else {}),
    }


def read_only_mounts(shown: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return read-only mounts of this machine's paths, given as host path by container path.

    Folders with our own files, including graders and answers, are hidden by empty ones.
    """
    covered = current_python_home().masks(shown)
    seen = {target: source for target, source in shown.items() if target not in covered}  # one mount for each path
    return [
        *({"Type": "bind", "Source": source, "Target": target, "ReadOnly": True} for target, source in seen.items()),
        *({"Type": "tmpfs", "Target": folder, "TmpfsOptions": {"SizeBytes": 4096}} for folder in covered),
    ]


OLDEST_PYTHON = (3, 9)

_BOOT = (
    f"""\
import sys
if sys.version_info < {OLDEST_PYTHON}:
    sys.exit("its python3 is %s, and the sandbox needs {".".join(map(str, OLDEST_PYTHON))}" % sys.version.split()[0])
"""
    + READ_PROGRAM.format(0)
    + """\
import __future__
sources, cell, config, packages = marshal.loads(take(int.from_bytes(take(4), "big")))
for name, source in sources:
    sys.modules[name] = module = type(sys)(name)
    exec(compile(source, name, "exec", __future__.annotations.compiler_flag, True, 2), module.__dict__)
module.main(config, cell, packages)
"""
)

BOOT_COMMAND = ("python3", "-I", "-S", "-c", _BOOT)
"""The main process of the container: the image's Python, which reads its program from standard input."""


def boot_program(config: dict[str, Any], *, has_packages: bool) -> bytes:
    """Return the program that the main process reads."""
    sources, cell = _sources()
    # Version 2 of the format is the same for every Python version. It holds only text and bytes, no code.
    return marshal.dumps((sources, cell, config, _packages() if has_packages else []), 2)


@lru_cache(maxsize=1)
def _sources() -> tuple[list[tuple[str, str]], str]:
    folder = Path(__file__).parents[1] / "inside"
    sources = [
        (f"{INSIDE}.{name}", (folder / f"{name}.py").read_text(encoding="utf-8"))
        for name in (*INSIDE_MODULES, "container")
    ]
    return sources, (folder / "cell.py").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _packages() -> list[tuple[str, bytes, int]]:
    """Return the files of the agent's packages; compiled ones save a second if the Python versions match."""
    found = []
    for name, path in current_python_home().packages:
        root = Path(path)
        for file in sorted(root.rglob("*")):
            if file.suffix in (".py", ".pyc", ".json") and file.is_file():
                changed_s = int(file.stat().st_mtime)
                found.append((f"{name}/{file.relative_to(root).as_posix()}", file.read_bytes(), changed_s))
    return found
