"""Sandboxes of bubblewrap: namespaces without network, a read-only system, a work directory in memory."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache
from pathlib import Path

import anyio

from runners.sandboxes.cgroups import Cgroup, open_cgroup
from runners.sandboxes.driven import DrivenSandbox
from runners.sandboxes.inside.forwarder import PORT
from runners.sandboxes.launch import INFO_DESCRIPTOR, driver_command, start_driver
from runners.sandboxes.protocol import Sandbox, SandboxLimits, Way
from runners.sandboxes.python_home import PythonHome, current_python_home
from runners.sandboxes.seccomp import system_call_filter
from runners.sandboxes.settings import driver_config, each_process_bytes, program_environment

WORK_DIR = "/workspace"
_PYTHON_DIR = "/opt/agent/python"
_HOME = "/home/agent"
_WAY_SOCKET = "/opt/agent/listener.sock"
_SYSTEM_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_USR_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "share")
_ETC_ENTRIES = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "magic", "mime.types")
_HIDDEN_KERNEL_FILES = ("/proc/keys", "/proc/key-users")  # they list the keys of the user outside too
_USER_ID = 61000  # in no range that systems hand out, so it owns nothing on any host
_ETC_FILES = {
    "/etc/passwd": f"root:x:0:0:root:/root:/bin/bash\nagent:x:{_USER_ID}:{_USER_ID}:agent:{WORK_DIR}:/bin/bash\n",
    "/etc/group": f"root:x:0:\nagent:x:{_USER_ID}:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


class BubblewrapSandboxProvider:
    """Opens sandboxes in which the agent sees the system's programs, an interpreter, and its own work directory."""

    kind = "bubblewrap"

    def __init__(self, executable: str | None = None) -> None:
        self._executable = executable or shutil.which("bwrap") or "bwrap"

    @asynccontextmanager
    async def open(self, files: Path | None, limits: SandboxLimits, way: Way | None = None) -> AsyncIterator[Sandbox]:
        """Open a sandbox whose work directory starts as a copy of ``files``.

        Raises:
            SandboxBoundaryError: It does not start.
        """
        cgroup = open_cgroup(limits)
        is_root = is_real_root()
        is_counted_by_user = not cgroup.has_processes and not is_root and _counts_users_by_namespace()
        config = driver_config(
            limits,
            work_dir=WORK_DIR,
            python_dir=_PYTHON_DIR,
            temporary_dir="/tmp",  # noqa: S108  inside the sandbox, private to it
            members_path="",
            address_space_bytes=None if way else each_process_bytes(limits, cgroup),
            data_bytes=each_process_bytes(limits, cgroup) if way else None,
            own_processes=limits.processes + 1 if is_counted_by_user else None,
            user_id=_USER_ID if is_root else None,
            way_socket=_WAY_SOCKET if way else "",
            system_calls=system_call_filter(),
        )
        home = current_python_home()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(_shielded_remove, cgroup)
            contents = {**_ETC_FILES, f"{_PYTHON_DIR}/pyvenv.cfg": home.config_text}
            copies = {target: _memory_file(stack, text) for target, text in contents.items()}
            options = _supported_options(self._executable)
            arguments = _arguments(home, limits, options, copies, way, is_root=is_root)
            command = [self._executable, *arguments, "--", *driver_command(home.executable)]
            driver = await start_driver(command, tuple(copies.values()), config, cgroup)
            try:
                weak_limits = _weak_limits(cgroup, options, is_counted_by_user=is_counted_by_user)
                sandbox = DrivenSandbox(self.kind, WORK_DIR, weak_limits, limits, driver.channel)
                if way is not None:
                    environment = program_environment(config["environment"], _HOME, way)
                    sandbox.offer_programs(f"http://127.0.0.1:{PORT}", environment)
                if files is not None:
                    await sandbox.load(files)
                yield sandbox
            finally:
                with anyio.CancelScope(shield=True):
                    await driver.end()


def is_real_root() -> bool:
    """Return whether we are root and can become the agent's user, which a user namespace may not know."""
    if os.geteuid() != 0:
        return False
    ranges = [[int(word) for word in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return any(first <= _USER_ID < first + count for first, _, count in ranges)


def _counts_users_by_namespace() -> bool:
    """Return whether a limit of processes per user counts the user namespace's own only: since Linux 5.14."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor)) >= (5, 14)


def _arguments(
    home: PythonHome,
    limits: SandboxLimits,
    options: frozenset[str],
    copies: dict[str, int],
    way: Way | None,
    *,
    is_root: bool,
) -> list[str]:
    """Return bubblewrap's options; later mounts lie on top of earlier ones."""
    arguments = [*_user_arguments(options, is_root=is_root), "--hostname", "sandbox"]
    # Not --die-with-parent: when this bubblewrap is killed before it has let its child go on, the child waits for ever.
    # The driver ends by itself when the host has closed the control socket, as a killed one does too.
    arguments += ["--new-session", "--as-pid-1", "--info-fd", INFO_DESCRIPTOR]
    arguments += _own_folders(limits.memory_mb << 20, options, way, is_root=is_root)
    if is_root:
        packages = [f"{_PYTHON_DIR}/{home.site_packages}/{name}" for name, _ in home.packages]
        arguments += _open_parents([*copies, home.executable, *packages, *(way.mounts if way else ())])
    arguments += _system_arguments()
    arguments += _python_arguments(home)
    if way is not None:
        arguments += _way_arguments(way, home)
    for target, descriptor in copies.items():
        arguments += ["--file", str(descriptor), target]
    return [*arguments, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORK_DIR]


def _user_arguments(options: frozenset[str], *, is_root: bool) -> list[str]:
    """Return the namespaces and capabilities.

    In a user namespace made by root the agent would stay root for the kernel: without capabilities, but the owner of
    everything under /proc/sys, which is the host's. So root makes none, and the driver becomes an ordinary user.
    """
    if is_root:
        namespaces = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
        capabilities = [word for name in ("CHOWN", "SETGID", "SETUID") for word in ("--cap-add", f"CAP_{name}")]
        return [*namespaces, "--cap-drop", "ALL", *capabilities]
    user = ["--unshare-user", "--uid", str(_USER_ID), "--gid", str(_USER_ID), "--cap-drop", "ALL"]
    return ["--unshare-all", *user, *({"--disable-userns"} & options)]


def _own_folders(memory_bytes: int, options: frozenset[str], way: Way | None, *, is_root: bool) -> list[str]:
    """Return the folders that are the sandbox's own, before all that may lie in them: later ones would hide it."""
    arguments = _memory_folder("/tmp", "1777", memory_bytes // 4, options)  # noqa: S108  inside the sandbox
    arguments += _memory_folder(WORK_DIR, "0755", memory_bytes // 2, options)
    if way is not None:
        arguments += _memory_folder(_HOME, "0777" if is_root else "0755", memory_bytes // 4, options)
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for path in filter(os.path.exists, _HIDDEN_KERNEL_FILES):
        arguments += ["--ro-bind", "/dev/null", path]
    return arguments + _memory_folder("/dev/shm", "1777", memory_bytes // 16, options)  # noqa: S108


def _open_parents(targets: list[str]) -> list[str]:
    """Return the folders above the targets, for all to pass through: bubblewrap would make them for root only.

    Those that are there already keep their mode, and those of the system come whole.
    """
    system = (*_SYSTEM_FOLDERS, *(f"/usr/{name}" for name in _USR_FOLDERS))
    parents = {parent for target in targets for parent in Path(target).parents if parent != Path("/")}
    parents |= {Path("/usr"), Path(_PYTHON_DIR, "bin")}
    new = sorted(str(each) for each in parents if not any(map(each.is_relative_to, system)))
    return [word for folder in new for word in ("--perms", "0755", "--dir", folder)]


def _memory_folder(target: str, mode: str, size_bytes: int, options: frozenset[str]) -> list[str]:
    size = ["--size", str(size_bytes)] if "--size" in options else []
    return ["--perms", mode, *size, "--tmpfs", target]


def _system_arguments() -> list[str]:
    arguments = []
    for name in _USR_FOLDERS:
        arguments += ["--ro-bind-try", f"/usr/{name}", f"/usr/{name}"]
    for folder in _SYSTEM_FOLDERS:
        if Path(folder).is_symlink():
            arguments += ["--symlink", str(Path(folder).readlink()), folder]
        else:
            arguments += ["--ro-bind-try", folder, folder]
    for entry in _ETC_ENTRIES:
        arguments += ["--ro-bind-try", f"/etc/{entry}", f"/etc/{entry}"]
    return arguments


def _python_arguments(home: PythonHome) -> list[str]:
    """Return the mounts of the interpreter at its own place, of the packages in a fixed one, and of empty masks."""
    bound = [f"/usr/{name}" for name in _USR_FOLDERS]
    arguments = []
    for path in (home.executable, f"{home.base_prefix}/lib", f"{home.base_prefix}/lib64"):
        if Path(path).exists() and not _is_below(path, bound):
            arguments += ["--ro-bind", path, path]
            bound.append(path)
    arguments += _masks(home, bound)
    arguments += ["--symlink", home.executable, f"{_PYTHON_DIR}/bin/python3"]
    arguments += ["--symlink", "python3", f"{_PYTHON_DIR}/bin/python"]
    for name, path in home.packages:
        arguments += ["--ro-bind", path, f"{_PYTHON_DIR}/{home.site_packages}/{name}"]
    return arguments


def _masks(home: PythonHome, bound: list[str]) -> list[str]:
    """Return empty folders in place of those with our own files that lie below something that is bound."""
    masked = [folder for folder in home.masked if _is_below(folder, bound)]
    return [word for folder in masked for word in ("--tmpfs", folder, "--remount-ro", folder)]


def _way_arguments(way: Way, home: PythonHome) -> list[str]:
    """Return the mounts of a program: the listener's socket, and what it reads of this machine.

    Our own files stay hidden, graders and answers among them, also where an entry shows a folder above them.
    """
    arguments = ["--bind", way.socket, _WAY_SOCKET]
    for mount in sorted(way.mounts):  # an outer one before what lies in it
        arguments += ["--ro-bind", mount, mount]
    return arguments + _masks(home, [*way.mounts])


def _is_below(path: str, folders: list[str]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in folders)


def _memory_file(stack: AsyncExitStack, text: str) -> int:
    descriptor = os.memfd_create("sandbox")
    stack.callback(os.close, descriptor)
    os.write(descriptor, text.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


@lru_cache(maxsize=4)
def _supported_options(executable: str) -> frozenset[str]:
    """Return which of the newer options this bubblewrap has; without them a limit is weak, and we say so."""
    try:
        done = subprocess.run([executable, "--help"], capture_output=True, text=True, timeout=10, check=False, env={})
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(option for option in ("--size", "--disable-userns") if option in done.stdout)


def _weak_limits(cgroup: Cgroup, options: frozenset[str], *, is_counted_by_user: bool) -> tuple[str, ...]:
    weak = []
    if not cgroup.has_memory:
        weak.append("memory: limited for each process, not for all together (no writable memory control group)")
    if not cgroup.has_processes and not is_counted_by_user:
        weak.append("processes: ended only between commands when they are too many (no writable pids control group)")
    if system_call_filter() is None:
        weak.append("system calls: not filtered (no list of them for this kind of processor)")
    if "--size" not in options:
        weak.append("files: their total size is not limited (this bubblewrap lacks --size)")
    return tuple(weak)


async def _shielded_remove(cgroup: Cgroup) -> None:
    with anyio.CancelScope(shield=True):
        await cgroup.remove()
