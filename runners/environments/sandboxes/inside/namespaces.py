"""The main process of a namespaces sandbox.

It leaves the host's namespaces, creates new ones, builds their file system from the steps of a layout, and then becomes
the driver.
"""

# pathlib, like ctypes and signal, would cost milliseconds of every start.
# ruff: noqa: PTH102, PTH110, PTH112, PTH118, PTH120, PTH123, PTH211
import _ctypes
import fcntl
import os
import socket
import sys

from lhaw_record.runners.environments.sandboxes.inside.driver import main as drive

_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8  # the same bits for mount and for mount_setattr
_REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 32, 4096, 16384, 1 << 18
_DETACH = 2
_MOUNT_SETATTR = 442  # on every architecture
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1"}
_DEVICE_LINKS |= {"stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx", "core": "/proc/kcore"}
_KERNEL_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus")  # below /proc; root outside could change them
_BYTES_PER_FILE = 4096  # limits the number of files, whose metadata also takes memory
_OLD, _NEW = "/old", "/new"
# Flags of clone(2): mounts, cgroups, host names, message queues, process ids, networks; then users and capabilities.
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
_NEW_USERS = 0x10000000
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_SET_INTERFACE_FLAGS = 0x8914  # SIOCSIFFLAGS
_UP = b"lo".ljust(16, b"\0") + (0x49).to_bytes(2, "little") + bytes(22)  # struct ifreq: up, loopback, running


def main(config: dict, cell_program: bytes) -> None:  # type: ignore[type-arg]
    """Fork into two processes: one that waits outside, and the driver, which is process 1 of its namespaces."""
    report = int(sys.argv[1])
    built_read, built = os.pipe()
    try:
        _leave(config["namespace_user"])
        process_id = os.fork()
        if process_id == 0:
            _enter(config)
            os.write(built, b".")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        os.write(2, f"{where}{error.strerror}\n".encode())
        os._exit(1)
    if process_id == 0:
        drive(config, cell_program)
        os._exit(0)
    os.close(built)
    if os.read(built_read, 1):
        os.write(report, b'{"child-pid": %d}' % process_id)
    _wait_outside(process_id)


def _leave(user_id: "int | None") -> None:
    """Leave every namespace of the host; if not root, also become the only user of a new user namespace.

    Only children are in the new process namespace.
    """
    outside = (os.geteuid(), os.getegid())
    system("unshare", _NAMESPACES | (_NEW_USERS if user_id is not None else 0))
    if user_id is None:
        return
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user_id} {outside[0]} 1"),
        ("gid_map", f"{user_id} {outside[1]} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _enter(config: dict) -> None:  # type: ignore[type-arg]
    """Set up the new namespaces for the agent, and drop capabilities that are not needed to become its user."""
    system("prctl", _PR_SET_PDEATHSIG, 9, 0, 0, 0)
    build(config["steps"])
    socket.sethostname(config["host_name"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_INTERFACE_FLAGS, _UP)
    _drop_bounding_set()


def _drop_bounding_set() -> None:
    for capability in range(64):
        try:
            system("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
        except OSError:
            return  # past the last one that this kernel knows


def _wait_outside(process_id: int) -> None:
    """Close all but standard error, wait until the driver has ended, and exit."""
    os.closerange(0, 2)
    os.closerange(3, 65536)
    os.waitpid(process_id, 0)
    os._exit(0)


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


def system(name: str, *words: "int | bytes | None") -> None:
    """Call a function of the C library that returns 0."""
    library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None is this process
    if _Function(_ctypes.dlsym(library, name))(*words) != 0:
        number = _ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def build(steps: list) -> None:  # type: ignore[type-arg]
    """Build the file system in our own mount namespace and enter it; afterwards, nothing else is accessible."""
    os.umask(0)
    sources = {step[2]: os.path.realpath(step[2]) for step in steps if step[0] in ("read", "socket")}
    system("mount", None, b"/", None, _RECURSIVE | _PRIVATE, None)
    _mount_memory("/tmp", 0o755, 1 << 20)  # noqa: S108  everybody has it; what lies in it is found below /old
    os.mkdir("/tmp/old")  # noqa: S108
    os.mkdir("/tmp/new")  # noqa: S108
    system("pivot_root", b"/tmp", b"/tmp/old")
    os.chdir("/")
    _mount_memory(_NEW, 0o755, 1 << 20)
    for name, path, *words in steps:
        try:
            _perform(name, path, words, sources)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
    os.chdir(_NEW)
    system("pivot_root", b".", b".")
    system(
        "umount2", b".", _DETACH
    )  # together with the host's mounts below it, because each such call waits for all CPUs
    os.chdir("/")


def _perform(name: str, path: str, words: list, sources: dict) -> None:  # type: ignore[type-arg]
    target = _NEW + path
    if name == "read":
        _bind(sources[words[0]], target, _READ_ONLY | _NO_SUID | _NO_DEVICES, is_needed=words[1])
    elif name == "socket":
        _bind(sources[words[0]], target, _NO_SUID | _NO_DEVICES, is_needed=True)
    elif name == "hide":
        _bind("/dev/null", target, _READ_ONLY | _NO_DEVICES, is_needed=True)
    else:
        _OWN_STEPS[name](target, *words)  # type: ignore[operator]


def _make_memory(target: str, mode: int, size_bytes: int) -> None:
    _make_folder(target, 0o755)
    _mount_memory(target, mode, size_bytes)


def _make_link(target: str, text: str) -> None:
    _make_folder(os.path.dirname(target), 0o755)
    os.symlink(text, target)


def _make_file(target: str, text: str) -> None:
    _make_folder(os.path.dirname(target), 0o755)
    descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def _mask(target: str) -> None:
    _make_memory(target, 0o755, 4096)
    _restrict(target, _READ_ONLY)


def _seal(target: str) -> None:
    """Make this file system read-only, but not the mounts below it."""
    flags = _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEVICES
    system("mount", None, os.fsencode(target), None, flags, None)


def _mount_memory(target: str, mode: int, size_bytes: int) -> None:
    options = f"mode={mode:o},size={size_bytes},nr_inodes={max(64, size_bytes // _BYTES_PER_FILE)}"
    system("mount", b"tmpfs", os.fsencode(target), b"tmpfs", _NO_SUID | _NO_DEVICES, options.encode())


def _bind(source: str, target: str, restrictions: int, *, is_needed: bool) -> None:
    source = _OLD + source
    if not is_needed and not os.path.exists(source):
        return
    if os.path.isdir(source):
        _make_folder(target, 0o755)
    elif not os.path.lexists(target):
        _make_folder(os.path.dirname(target), 0o755)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))
    system("mount", os.fsencode(source), os.fsencode(target), None, _BIND | _RECURSIVE, None)
    _restrict(target, restrictions)


def _restrict(target: str, restrictions: int) -> None:
    """Set flags on a mount and on all mounts below it."""
    attributes = restrictions.to_bytes(8, "little") + bytes(24)
    system("syscall", _MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, len(attributes))


def _mount_processes(target: str) -> None:
    _make_folder(target, 0o755)
    system("mount", b"proc", os.fsencode(target), b"proc", _NO_SUID | _NO_DEVICES | _NO_PROGRAMS, None)
    for name in _KERNEL_SETTINGS:
        path = os.path.join(target, name)
        if os.path.exists(path):
            system("mount", os.fsencode(path), os.fsencode(path), None, _BIND | _RECURSIVE, None)
            _restrict(path, _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_PROGRAMS)


def _mount_devices(target: str) -> None:
    _make_folder(target, 0o755)
    _mount_memory(target, 0o755, 1 << 20)
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"{target}/{name}", _NO_SUID | _NO_PROGRAMS, is_needed=True)
    for name, text in _DEVICE_LINKS.items():
        os.symlink(text, f"{target}/{name}")
    os.mkdir(f"{target}/shm", 0o755)
    os.mkdir(f"{target}/pts", 0o755)
    options = b"newinstance,ptmxmode=0666,mode=620"
    system("mount", b"devpts", f"{target}/pts".encode(), b"devpts", _NO_SUID | _NO_PROGRAMS, options)


def _make_folder(path: str, mode: int) -> None:
    if not os.path.isdir(path):
        _make_folder(os.path.dirname(path), 0o755)
        os.mkdir(path, mode)


_OWN_STEPS = {
    "folder": _make_folder,
    "memory": _make_memory,
    "link": _make_link,
    "file": _make_file,
    "mask": _mask,
    "proc": _mount_processes,
    "dev": _mount_devices,
    "seal": _seal,
}
