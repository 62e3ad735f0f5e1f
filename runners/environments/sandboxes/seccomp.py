"""System call filters for isolated sandboxes, and a stricter one for graders, assembled here as classic BPF.

A sandbox's filter denies what Docker's default profile denies to a container without capabilities, and also: calls
newer than this list, calls of another architecture on the same machine (32-bit programs), and every socket family
except unix, IPv4, IPv6 and netlink. So the agent cannot reach the kernel's keyrings, which all processes of a user
share; a hypervisor's sockets (AF_VSOCK), which network namespaces do not isolate; or the kernel features with the most
vulnerabilities: new namespaces, mounts, bpf, io_uring, userfaultfd, performance counters, modules and kexec.

Tracing is allowed, as in Docker: debuggers need it, and it cannot reach processes outside the sandbox's namespace. A
grader, which reads what an agent left behind, has no network either, and cannot start or reach another process.
"""

import errno
import platform
import sys
from collections.abc import Mapping
from functools import lru_cache

import msgspec

_DENIED: dict[str, tuple[int, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "get_kernel_syms": (177, None),
    "get_mempolicy": (239, 236),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "lsm_get_self_attr": (459, 459),
    "lsm_list_modules": (461, 461),
    "lsm_set_self_attr": (460, 460),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "query_module": (178, None),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
_CONDITIONAL = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "ioctl": (16, 29),
    "personality": (135, 92),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "unshare": (272, 97),
}
_DENIED_TO_GRADERS: dict[str, tuple[int, int | None]] = {
    "alarm": (37, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "kill": (62, 129),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "setitimer": (38, 103),
    "setrlimit": (160, 164),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "timer_create": (222, 107),
    "tkill": (200, 130),
    "unshare": (272, 97),
    "vfork": (58, None),
}
_CONDITIONAL_FOR_GRADERS = {"clone": (56, 220), "fcntl": (72, 25), "prlimit64": (302, 261), "tgkill": (234, 131)}
_NEWEST = 466  # removexattrat; the list above knows every call up to it
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By machine: the column of the numbers above, and the kernel's AUDIT_ARCH."""

_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_THREAD = 0x10000  # CLONE_THREAD
_NEW_TIME = 0x80  # CLONE_NEWTIME, which clone cannot take
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)  # as in Docker's profile; the last one only queries
_SIGNAL_OF_DESCRIPTOR = (10,)  # F_SETSIG
_ABORT = (6,)  # SIGABRT
_TERMINAL_REQUESTS = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX insert text into a terminal's input

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06  # of a word, with a constant, a constant
_IF_EQUAL, _IF_GREATER = 0x15, 0x25
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_AT, _SECOND_AT, _THIRD_AT = (
    0,
    4,
    16,
    24,
    32,
)  # in seccomp_data; low words, little-endian
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_PERMISSION, _MISSING, _NO_FAMILY = (_ERROR | each for each in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))


class SystemCallFilter(msgspec.Struct, frozen=True):
    """The BPF program that the driver installs, and the number of keyctl, which the driver calls once before that."""

    program: bytes
    keyctl: int


@lru_cache(maxsize=4)
def system_call_filter(machine: str | None = None) -> SystemCallFilter | None:
    """Return the filter for a machine (as in ``uname -m``; by default this one), or None if it is unsupported."""
    found = _architecture(machine)
    if found is None:
        return None
    column, _ = found
    number = {name: columns[column] for name, columns in _CONDITIONAL.items()}
    rules = [
        *_beginning(*found),
        *_rule(number["clone"], _unless_bits(_FIRST_AT, _NAMESPACES)),
        *_rule(number["unshare"], _unless_bits(_FIRST_AT, _NAMESPACES | _NEW_TIME)),
        *_rule(number["socket"], _only_if(_FIRST_AT, _FAMILIES, _NO_FAMILY)),
        *_rule(number["socketpair"], _only_if(_FIRST_AT, _FAMILIES, _NO_FAMILY)),
        *_rule(number["personality"], _only_if(_FIRST_AT, _PERSONALITIES, _PERMISSION)),
        *_rule(number["ioctl"], _unless_equal(_SECOND_AT, _TERMINAL_REQUESTS)),
    ]
    rules += [*_denials(column, _DENIED), _statement(_RETURN, _ALLOW)]
    keyctl = _DENIED["keyctl"][column]
    assert keyctl is not None
    return SystemCallFilter(b"".join(rules), keyctl)


def grader_filter(process_id: int, machine: str | None = None) -> bytes | None:
    """Return the filter for a grader, which may start threads, and may abort: no other signal is its own to send."""
    found = _architecture(machine)
    if found is None:
        return None
    number = {name: columns[found[0]] for name, columns in _CONDITIONAL_FOR_GRADERS.items()}
    rules = [
        *_rule(number["clone"], _only_with_bits(_FIRST_AT, _THREAD)),
        *_rule(number["fcntl"], _unless_equal(_SECOND_AT, _SIGNAL_OF_DESCRIPTOR)),
        *_rule(
            number["tgkill"], _only_if(_FIRST_AT, (process_id,), _PERMISSION) + _only_if(_THIRD_AT, _ABORT, _PERMISSION)
        ),
        *_rule(number["prlimit64"], _only_if(_FIRST_AT, (0,), _PERMISSION) + _no_pointer(_THIRD_AT)),
        _statement(_RETURN, _ALLOW),
    ]
    return _grader_beginning(*found) + b"".join(rules)


def _architecture(machine: str | None) -> tuple[int, int] | None:
    return _ARCHITECTURES.get(machine or (platform.machine() if sys.platform == "linux" else ""))


@lru_cache(maxsize=4)
def _grader_beginning(column: int, architecture: int) -> bytes:
    """Return the part of the filter that is the same for every grader; the rest depends on its process id."""
    return b"".join((*_beginning(column, architecture), *_denials(column, _DENIED | _DENIED_TO_GRADERS)))


def _beginning(column: int, architecture: int) -> list[bytes]:
    """Reject other architectures and unknown calls; leave the call's number in the accumulator."""
    return [
        *_only_if(_ARCHITECTURE_AT, (architecture,), _MISSING),
        _statement(_LOAD, _NUMBER_AT),
        *_answer_if(_IF_GREATER, _NEWEST, _MISSING),
        # A filter cannot read its flags, which are behind a pointer; callers fall back to clone.
        *_answer_if(_IF_EQUAL, _CONDITIONAL["clone3"][column], _MISSING),
    ]


def _denials(column: int, calls: Mapping[str, tuple[int, int | None]]) -> list[bytes]:
    numbers = (columns[column] for columns in calls.values())
    return [word for number in numbers if number is not None for word in _answer_if(_IF_EQUAL, number, _PERMISSION)]


def _rule(number: int, block: list[bytes]) -> list[bytes]:
    """Return a block that decides one call: it returns an answer, or falls through to allow the call."""
    return [_jump(_IF_EQUAL, number, 0, len(block) + 1), *block, _statement(_RETURN, _ALLOW)]


def _only_if(offset: int, allowed: tuple[int, ...], answer: int) -> list[bytes]:
    count = len(allowed)
    tests = [_jump(_IF_EQUAL, value, count - index, 0) for index, value in enumerate(allowed)]
    return [_statement(_LOAD, offset), *tests, _statement(_RETURN, answer)]


def _no_pointer(offset: int) -> list[bytes]:
    """Return rules that allow only 0 in a whole argument, of which the other rules read the low word."""
    return _only_if(offset, (0,), _PERMISSION) + _only_if(offset + 4, (0,), _PERMISSION)


def _unless_equal(offset: int, denied: tuple[int, ...]) -> list[bytes]:
    return [
        _statement(_LOAD, offset),
        *(word for value in denied for word in _answer_if(_IF_EQUAL, value, _PERMISSION)),
    ]


def _unless_bits(offset: int, mask: int) -> list[bytes]:
    answer = _statement(_RETURN, _PERMISSION)
    return [_statement(_LOAD, offset), _statement(_AND, mask), _jump(_IF_EQUAL, 0, 1, 0), answer]


def _only_with_bits(offset: int, mask: int) -> list[bytes]:
    answer = _statement(_RETURN, _PERMISSION)
    return [_statement(_LOAD, offset), _statement(_AND, mask), _jump(_IF_EQUAL, 0, 0, 1), answer]


def _answer_if(test: int, value: int, answer: int) -> list[bytes]:
    return [_jump(test, value, 0, 1), _statement(_RETURN, answer)]


def _statement(code: int, value: int) -> bytes:
    return _jump(code, value, 0, 0)


def _jump(code: int, value: int, if_true: int, if_false: int) -> bytes:
    return code.to_bytes(2, "little") + bytes((if_true, if_false)) + value.to_bytes(4, "little")
