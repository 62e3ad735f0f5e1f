"""The file system of an isolated sandbox, as a list of steps that bubblewrap and namespaces both perform.

A step is a tuple of plain values that starts with its name; later steps are mounted over earlier ones:

    folder PATH MODE               a folder; its parents exist already
    memory PATH MODE BYTES         a file system in memory, of that size
    read PATH SOURCE IS_NEEDED     a host path, read-only; if it is missing, the step fails only if it is needed
    socket PATH SOURCE             a host socket
    link PATH TEXT                 a symbolic link
    file PATH TEXT                 a file with that content
    mask PATH                      an empty folder that nobody can write to
    hide PATH                      /dev/null in place of a file
    proc PATH, dev PATH            the processes of the sandbox, and the harmless devices
    seal PATH                      read-only from now on, except for file systems mounted below it
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess
from lhaw_record.runners.environments.sandboxes.python_home import PythonHome

WORK_DIR = "/workspace"
PYTHON_DIR = "/opt/agent/python"
HOME = "/home/agent"
LISTENER_SOCKET = "/opt/agent/listener.sock"
HOST_NAME = "sandbox"
USER_ID = 61000
"""The agent's user and group: outside every range that systems assign, so it owns nothing on any host."""

_SYSTEM_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_USR_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "share")
_ETC_ENTRIES = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "magic", "mime.types")
CERTIFICATES = (
    *(f"/etc/ssl/{name}" for name in ("certs", "cert.pem", "ca-bundle.pem", "openssl.cnf")),
    *(f"/etc/pki/{name}" for name in ("tls/certs", "tls/cert.pem", "tls/openssl.cnf", "ca-trust/extracted")),
    "/etc/ca-certificates/extracted",
    "/etc/crypto-policies",
    "/usr/local/share/ca-certificates",
)
"""Where distributions keep the certificates of authorities and what refers to them. Private keys lie beside them."""
HIDDEN_KERNEL_FILES = ("/proc/keys", "/proc/key-users")
"""Files that would also list the host user's keys."""
_ETC_FILES = {
    "/etc/passwd": f"root:x:0:0:root:/root:/bin/bash\nagent:x:{USER_ID}:{USER_ID}:agent:{WORK_DIR}:/bin/bash\n",
    "/etc/group": f"root:x:0:\nagent:x:{USER_ID}:\n",
    "/etc/hosts": f"127.0.0.1 localhost {HOST_NAME}\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}

Step = tuple[str | int | bool, ...]


class Extra(msgspec.Struct, frozen=True, kw_only=True):
    """What one task needs in the file system in addition to the work directory.

    Attributes:
        links: Symbolic links by path, such as another name of the work directory.
        shown: Read-only host folders by their path in the sandbox.
        writable: Folders in memory.
    """

    links: Mapping[str, str] = {}
    shown: Mapping[str, str] = {}
    writable: tuple[str, ...] = ()


NOTHING = Extra()


def sandbox_layout(
    home: PythonHome, memory_bytes: int, access: ProgramAccess | None, extra: Extra = NOTHING, *, is_root: bool
) -> list[Step]:
    """Return the steps that build the file system of a sandbox."""
    files = {**_ETC_FILES, f"{PYTHON_DIR}/pyvenv.cfg": home.config_text}
    steps = _own_folders(memory_bytes, access, is_root=is_root)
    packages = [f"{PYTHON_DIR}/{home.site_packages}/{name}" for name, _ in home.packages]
    targets = [*extra.links, *extra.shown, *extra.writable]
    certificates = [path for path in CERTIFICATES if Path(path).exists()]
    steps += _parents([*certificates, *files, home.executable, *packages, *(access.mounts if access else ()), *targets])
    steps += [*_system(), *(("read", path, path, False) for path in certificates)]
    steps += _python(home)
    if access is not None:
        steps.append(("socket", LISTENER_SOCKET, access.socket))
        # Our own files, including graders and answers, stay hidden even if an entry mounts a folder above them.
        # Sorted, so that an outer mount comes before the mounts inside it.
        steps += [("read", mount, mount, True) for mount in sorted(access.mounts)]
        steps += _masks(home, access.mounts)
    steps += [("file", path, text) for path, text in files.items()]
    steps += [("link", path, text) for path, text in extra.links.items()]
    steps += [("read", path, source, True) for path, source in extra.shown.items()]
    steps += [("memory", path, 0o777 if is_root else 0o755, memory_bytes // 4) for path in extra.writable]
    return [*steps, ("seal", "/dev"), ("seal", "/")]


def _own_folders(memory_bytes: int, access: ProgramAccess | None, *, is_root: bool) -> list[Step]:
    """Return the sandbox's own folders, which come first because mounting them later would hide their contents."""
    steps: list[Step] = [
        ("memory", "/tmp", 0o1777, memory_bytes // 4),  # noqa: S108  inside the sandbox
        ("memory", WORK_DIR, 0o755, memory_bytes // 2),
    ]
    if access is not None:
        steps.append(("memory", HOME, 0o777 if is_root else 0o755, memory_bytes // 4))
    steps += [("proc", "/proc"), ("dev", "/dev")]
    steps += [("hide", path) for path in HIDDEN_KERNEL_FILES if Path(path).exists()]
    return [*steps, ("memory", "/dev/shm", 0o1777, memory_bytes // 16)]  # noqa: S108


def _parents(targets: list[str]) -> list[Step]:
    """Return the parent folders of the targets, readable by all: bubblewrap would create them for root only.

    Existing folders keep their mode, and system folders are mounted whole.
    """
    system = (*_SYSTEM_FOLDERS, *(f"/usr/{name}" for name in _USR_FOLDERS))
    parents = {parent for target in targets for parent in Path(target).parents if parent != Path("/")}
    parents |= {Path("/usr"), Path(PYTHON_DIR, "bin")}
    return [("folder", str(each), 0o755) for each in sorted(parents) if not any(map(each.is_relative_to, system))]


def _system() -> list[Step]:
    steps: list[Step] = [("read", f"/usr/{name}", f"/usr/{name}", False) for name in _USR_FOLDERS]
    for folder in map(Path, _SYSTEM_FOLDERS):
        if folder.is_symlink():
            steps.append(("link", str(folder), str(folder.readlink())))
        else:
            steps.append(("read", str(folder), str(folder), False))
    return steps + [("read", f"/etc/{entry}", f"/etc/{entry}", False) for entry in _ETC_ENTRIES]


def _python(home: PythonHome) -> list[Step]:
    """Return the interpreter at its own path, and its packages at a fixed one."""
    steps = interpreter(home, [f"/usr/{name}" for name in _USR_FOLDERS])
    steps += [("link", f"{PYTHON_DIR}/bin/python3", home.executable), ("link", f"{PYTHON_DIR}/bin/python", "python3")]
    return steps + [("read", f"{PYTHON_DIR}/{home.site_packages}/{name}", path, True) for name, path in home.packages]


def interpreter(home: PythonHome, shown: list[str]) -> list[Step]:
    """Return an interpreter with its library at its own path, and empty masks over our own files."""
    bound = [*shown]
    steps: list[Step] = []
    for path in (home.executable, f"{home.base_prefix}/lib", f"{home.base_prefix}/lib64"):
        if not Path(path).exists() or any(map(Path(path).is_relative_to, bound)):
            continue
        if _is_below(path, bound):  # mounted at its real path, so a link suffices and the masks still apply
            steps.append(("link", path, os.path.realpath(path)))
        else:
            steps.append(("read", path, path, True))
            bound.append(path)
    return steps + _masks(home, bound)


def _masks(home: PythonHome, bound: Iterable[str]) -> list[Step]:
    """Return empty folders that cover our own files in mounted folders."""
    return [("mask", path) for path in home.masks({path: path for path in bound})]


def _is_below(path: str, folders: list[str]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in folders)
