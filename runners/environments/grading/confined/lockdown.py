"""Confine the current process: memory and time by limits, files by Landlock, system calls by a filter.

Limits of time and files work everywhere, that of memory on every Linux. Landlock (Linux 5.13) and the filter (x86-64,
arm64) need neither privileges nor packages.
If the kernel lacks one of them, the call runs without it, and only the limits and the host's checks of the reply
protect the result.
"""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from lhaw_record.runners.environments.sandboxes.inside.confine import install_filter
from lhaw_record.runners.environments.sandboxes.seccomp import grader_filter

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_CAPABILITY_VERSION_3 = 0x20080522
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446  # the same on every architecture
_LANDLOCK_CREATE_VERSION, _LANDLOCK_RULE_PATH_BENEATH = 1, 1
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_FILE_RIGHTS_OF_VERSION = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
_HARD_CPU_SECONDS = 2  # between SIGXCPU, which code may catch, and SIGKILL


class ConfinedLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one call: its own memory and CPU time, and a wall time that guards against a stuck host.

    ``memory_mb`` is the memory that the child may allocate beyond the loaded code, enforced by RLIMIT_AS.
    ``cpu_seconds`` is enforced by RLIMIT_CPU, so a busy machine does not shorten it.
    """

    memory_mb: int = 512
    cpu_seconds: int = 20
    wall_seconds: float = 300.0
    reply_mb: int = 64


def lock_down(limits: ConfinedLimits, readable: Iterable[str]) -> None:
    """Confine this process permanently."""
    if sys.platform != "linux":
        _set_limits(limits)
        return
    library = _library()
    library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _die_first()
    _set_limits(limits)
    _restrict_files(library, readable)
    library.capset((ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)())
    _filter_system_calls()


def prepare() -> None:
    """Do once, in the fork server, the setup that every child would otherwise repeat."""
    _library()
    grader_filter(0)


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _die_first() -> None:
    """Make the kernel kill this process, not the run, if the host runs out of memory."""
    with suppress(FileNotFoundError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("1000")


def _set_limits(limits: ConfinedLimits) -> None:
    bounds = {
        resource.RLIMIT_CPU: (limits.cpu_seconds, limits.cpu_seconds + _HARD_CPU_SECONDS),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_NOFILE: (64, 64),
    }
    with suppress(FileNotFoundError):  # macOS, which has no limit of memory either
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        bounds[resource.RLIMIT_AS] = (pages * resource.getpagesize() + (limits.memory_mb << 20),) * 2
    for kind, (soft, hard) in bounds.items():
        highest = resource.getrlimit(kind)[1]
        allowed = [each if highest == resource.RLIM_INFINITY else min(each, highest) for each in (soft, hard)]
        resource.setrlimit(kind, (allowed[0], allowed[1]))


def _restrict_files(library: ctypes.CDLL, readable: Iterable[str]) -> None:
    """Deny all file access except reading the given paths, if the kernel has Landlock."""
    if sys.platform != "linux":
        return
    version = library.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_CREATE_VERSION)
    if version < 1:
        return
    rights = _FILE_RIGHTS_OF_VERSION[min(version, 5)]
    handled = rights.to_bytes(8, "little")
    rules = library.syscall(_LANDLOCK_CREATE, handled, len(handled), 0)
    if rules < 0:
        return
    for path in readable:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        allowed = _READ_FILE | (_READ_FOLDER if Path(path).is_dir() else 0)
        rule = allowed.to_bytes(8, "little") + descriptor.to_bytes(4, "little")
        library.syscall(_LANDLOCK_ADD, rules, _LANDLOCK_RULE_PATH_BENEATH, rule, 0)
        os.close(descriptor)
    library.syscall(_LANDLOCK_RESTRICT, rules, 0)
    os.close(rules)


def _filter_system_calls() -> None:
    program = grader_filter(os.getpid())
    if program is not None:
        with suppress(OSError):  # a kernel without seccomp: the limits and the host's checks remain
            install_filter(program)
