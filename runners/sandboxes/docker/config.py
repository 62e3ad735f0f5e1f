"""What a container may do and sees, as the engine and the driver in it are told."""

from typing import Any

import msgspec

from runners.sandboxes.docker import boot
from runners.sandboxes.docker.owners import MEMORY
from runners.sandboxes.protocol import SandboxLimits, Way
from runners.sandboxes.settings import driver_config

WORK_DIR = "/workspace"
AGENT_HOME = "/home/agent"
_PYTHON_DIR = "/opt/agent/python"
_TEMPORARY_DIR = "/tmp"  # noqa: S108  inside the container, private to it
_WAY_SOCKET = "/run/lhaw-record/listener.sock"
_USER_ID = 61000  # as in bubblewrap: in no range that systems hand out
_DRIVER_CAPABILITIES = ("CHOWN", "SETGID", "SETUID")  # it gives them up before anything of the agent runs
_MACHINE_DROPS = ("AUDIT_WRITE", "MKNOD", "NET_RAW")
_MEMORY_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")  # version 2, version 1


class DockerImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image, and how agents find themselves in it.

    Args:
        name: With a tag or a digest; empty in a run whose tasks bring their own images.
        cpus: How many processors a container may use; None for all.
        work_dir: Where the agent works.
        is_own_machine: The agent is root in the image as it is: its environment, its Python, its files, which it may
            change everywhere; ``work_dir`` is a folder of the image. For benchmarks with an image for every task.
            Otherwise it is an ordinary user, nothing but work directory and temporary folders takes writes, they are in
            memory, and its Python is the image's with our packages: as in every other kind of sandbox.
        network: The engine's network, or ``none``.
    """

    name: str
    cpus: float | None = None
    work_dir: str = WORK_DIR
    is_own_machine: bool = False
    network: str = "none"

    @property
    def weak_limits(self) -> tuple[str, ...]:
        """Which limits are not enforced fully."""
        if self.is_own_machine:
            return ("files: their total size is not limited (the container may write to the engine's disk)",)
        return ()


def container_config(image: DockerImage, limits: SandboxLimits, way: Way | None) -> dict[str, Any]:
    """Return a container as the engine is asked to make it; its first process is the driver, fed by standard input.

    The input is closed by the engine as soon as this process no longer holds the connection, also when it was killed.
    """
    memory_bytes = limits.memory_mb << 20
    host = {
        **limited(image, limits),
        "ReadonlyRootfs": not image.is_own_machine,
        "ShmSize": memory_bytes // 16,
        "Mounts": _way_mounts(way) if way else [],
    }
    if not image.is_own_machine:
        host |= {"CapDrop": ["ALL"], "CapAdd": list(_DRIVER_CAPABILITIES), "Tmpfs": _memory_folders(image, limits, way)}
    return {
        "Image": image.name,
        "Entrypoint": list(boot.COMMAND),
        "Cmd": [],
        "User": "0",
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": {MEMORY: str(limits.memory_mb)},
        "HostConfig": host,
    }


def limited(image: DockerImage, limits: SandboxLimits) -> dict[str, Any]:
    """Return the limits that every container of ours has, in the engine's words."""
    memory_bytes = limits.memory_mb << 20
    return {
        "Memory": memory_bytes,
        "MemorySwap": memory_bytes,  # with the same number there is none
        "NanoCpus": round(image.cpus * 1e9) if image.cpus else 0,
        "PidsLimit": limits.processes + 2,  # the first process, and what it needs
        "NetworkMode": image.network,
        "IpcMode": "private",
        "CapDrop": list(_MACHINE_DROPS),
        "SecurityOpt": ["no-new-privileges"],
        "LogConfig": {"Type": "none", "Config": {}},  # what it prints would fill the engine's disk
        "RestartPolicy": {"Name": "no"},
        "Init": False,
    }


def agent_config(
    image: DockerImage, limits: SandboxLimits, way: Way | None, container_environment: dict[str, str]
) -> dict[str, Any]:
    """Return the driver's configuration.

    Args:
        image: The image.
        limits: The limits.
        way: What a program needs.
        container_environment: The variables that the image sets.
    """
    config = driver_config(
        limits,
        work_dir=image.work_dir,
        python_dir=_PYTHON_DIR,
        temporary_dir=_TEMPORARY_DIR,
        members_path="",
        address_space_bytes=None,
        own_processes=None,
        user_id=None if image.is_own_machine else _USER_ID,
        memory_events=_MEMORY_EVENTS,
        keeps_capabilities=image.is_own_machine,
        way_socket=_WAY_SOCKET if way else "",
    )
    if not image.is_own_machine:
        return {**config, "python_dir": _PYTHON_DIR}
    own = {**config["environment"], "HOME": "/root", "LOGNAME": "root", "USER": "root"}
    own["PATH"] = own["PATH"].removeprefix(f"{_PYTHON_DIR}/bin:")
    return {**config, "python_dir": "", "environment": {**own, **container_environment}}


def _memory_folders(image: DockerImage, limits: SandboxLimits, way: Way | None) -> dict[str, str]:
    """Return the folders in memory, with sizes as in bubblewrap."""
    memory_bytes = limits.memory_mb << 20
    options = "rw,exec,nosuid,nodev"
    return {
        image.work_dir: f"{options},mode=0755,size={memory_bytes // 2}",
        _TEMPORARY_DIR: f"{options},mode=1777,size={memory_bytes // 4}",
        _PYTHON_DIR: f"{options},mode=0755,size={16 << 20}",
        "/var/tmp": f"{options},mode=0755,size=4096",  # noqa: S108  open to everyone in most images
        **({AGENT_HOME: f"{options},mode=0777,size={memory_bytes // 4}"} if way else {}),
    }


def _way_mounts(way: Way) -> list[dict[str, Any]]:
    shown = [(way.socket, _WAY_SOCKET), *((path, path) for path in way.mounts)]
    return [{"Type": "bind", "Source": source, "Target": target, "ReadOnly": True} for source, target in shown]
