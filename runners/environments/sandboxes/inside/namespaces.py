"""The first process of a namespaces sandbox: leave the host's namespaces, build new ones, then be the driver."""

# pathlib, like ctypes and signal, would cost milliseconds of every start.
# ruff: noqa: PTH123
import fcntl
import os
import socket
import sys

from lhaw_record.runners.environments.sandboxes.inside.driver import main as drive
from lhaw_record.runners.environments.sandboxes.inside.mounts import build, system

# Of files, cgroups, host names, message queues, process ids and networks; then of users and capabilities.
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
_NEW_USERS = 0x10000000
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_SET_INTERFACE_FLAGS = 0x8914  # SIOCSIFFLAGS
_UP = b"lo".ljust(16, b"\0") + (0x49).to_bytes(2, "little") + bytes(22)  # struct ifreq: up, loopback, running


def main(config: dict, cell_program: bytes) -> None:  # type: ignore[type-arg]
    """Become two processes: one that waits outside, and the driver, process 1 of its namespaces."""
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
    """Leave every namespace of the host; without root, also become one user of a new user namespace.

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
    """Set up the new namespaces as the agent sees them, and drop what is not needed to become its user."""
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
            return  # after the last one that this kernel knows


def _wait_outside(process_id: int) -> None:
    """Wait for the driver's end, with nothing open meanwhile except standard error."""
    os.closerange(0, 2)
    os.closerange(3, 65536)
    os.waitpid(process_id, 0)
    os._exit(0)
