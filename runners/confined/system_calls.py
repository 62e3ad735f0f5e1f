"""The filter of system calls: no network, no program, no process, no other process, nothing of the kernel's.

Each is refused with "operation not permitted", which Python turns into an exception. Threads stay possible.
"""

import errno
import platform
import struct
from functools import cache

_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENT_AT = 0, 4, 16  # offsets in struct seccomp_data; low halves, little-endian
_CLONE_THREAD = 0x10000
_X32_BIT = 0x40000000

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_REFUSED = {  # from the kernel's syscall tables (arch/x86/entry/syscalls/syscall_64.tbl, asm-generic/unistd.h)
    "x86_64": {
        "socket": 41,
        "socketpair": 53,
        "fork": 57,
        "vfork": 58,
        "execve": 59,
        "kill": 62,
        "ptrace": 101,
        "rt_sigqueueinfo": 129,
        "pivot_root": 155,
        "chroot": 161,
        "mount": 165,
        "umount2": 166,
        "reboot": 169,
        "init_module": 175,
        "tkill": 200,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "unshare": 272,
        "rt_tgsigqueueinfo": 297,
        "perf_event_open": 298,
        "open_by_handle_at": 304,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "finit_module": 313,
        "bpf": 321,
        "execveat": 322,
        "userfaultfd": 323,
    },
    "aarch64": {
        "umount2": 39,
        "mount": 40,
        "pivot_root": 41,
        "chroot": 51,
        "unshare": 97,
        "init_module": 105,
        "ptrace": 117,
        "kill": 129,
        "tkill": 130,
        "rt_sigqueueinfo": 138,
        "reboot": 142,
        "socket": 198,
        "socketpair": 199,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "execve": 221,
        "rt_tgsigqueueinfo": 240,
        "perf_event_open": 241,
        "open_by_handle_at": 265,
        "setns": 268,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "finit_module": 273,
        "bpf": 280,
        "execveat": 281,
        "userfaultfd": 282,
    },
}
_REFUSED_EVERYWHERE = {  # numbers from 424 on are the same on every architecture
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "pidfd_open": 434,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
}
_CLONE3 = 435
_CLONE = {"x86_64": 56, "aarch64": 220}
_TGKILL = {"x86_64": 234, "aarch64": 131}
_PRLIMIT = {"x86_64": 302, "aarch64": 261}


def filter_program(process_id: int) -> bytes | None:
    """Return the instructions for a process, which may send signals to itself only; None for unknown processors."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        return None
    clone, tgkill, prlimit = _CLONE[machine], _TGKILL[machine], _PRLIMIT[machine]
    return b"".join(
        (
            _head(machine),
            _instruction(_JUMP_EQUAL, _CLONE3, 0, 1),
            _refusal(errno.ENOSYS),  # the library then uses clone, whose flags can be seen
            _when_argument(clone, _JUMP_ANY_BIT, _CLONE_THREAD),
            _when_argument(tgkill, _JUMP_EQUAL, process_id),
            _when_argument(prlimit, _JUMP_EQUAL, 0),
            _instruction(_RETURN, _ALLOW),
        )
    )


@cache
def _head(machine: str) -> bytes:
    """Another architecture's calls end the process; calls on the list are refused."""
    return b"".join(
        (
            _instruction(_LOAD, _ARCHITECTURE_AT),
            _instruction(_JUMP_EQUAL, _ARCHITECTURES[machine], 1, 0),
            _instruction(_RETURN, _KILL),
            _instruction(_LOAD, _NUMBER_AT),
            _instruction(_JUMP_AT_LEAST, _X32_BIT, 0, 1),
            _refusal(errno.EPERM),
            *(
                _instruction(_JUMP_EQUAL, number, 0, 1) + _refusal(errno.EPERM)
                for number in (*_REFUSED[machine].values(), *_REFUSED_EVERYWHERE.values())
            ),
        )
    )


def _when_argument(number: int, test: int, value: int) -> bytes:
    """Allow a call if its first argument passes a test, and refuse it otherwise."""
    return b"".join(
        (
            _instruction(_JUMP_EQUAL, number, 0, 4),
            _instruction(_LOAD, _ARGUMENT_AT),
            _instruction(test, value, 0, 1),
            _instruction(_RETURN, _ALLOW),
            _refusal(errno.EPERM),
        )
    )


def _refusal(number: int) -> bytes:
    return _instruction(_RETURN, 0x00050000 | number)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)
