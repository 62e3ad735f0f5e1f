"""The filter of system calls, judged by the kernel and by libseccomp's own list of their numbers."""

import ctypes
import errno
import platform
import struct
import subprocess
import sys

import pytest

from lhaw_record.runners.environments.sandboxes.seccomp import (
    _CONDITIONAL,
    _CONDITIONAL_FOR_GRADERS,
    _DENIED,
    _DENIED_TO_GRADERS,
    _NEWEST,
    grader_filter,
    system_call_filter,
)

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED = "read write openat execve futex mmap mprotect clone ptrace prctl seccomp bind connect kill wait4 membarrier"
NEW_USER, NEW_PID, THREAD = 0x10000000, 0x20000000, 0x3D0F00

_UNDER_THE_FILTER = """
import ctypes, os, sys
from lhaw_record.runners.environments.sandboxes.inside.confine import install_filter
from lhaw_record.runners.environments.sandboxes.seccomp import system_call_filter
library = ctypes.CDLL(None, use_errno=True)
assert library.prctl(38, 1, 0, 0, 0) == 0
install_filter(system_call_filter().program)
def attempt(*words):
    ctypes.set_errno(0)
    library.syscall(*(ctypes.c_long(word) for word in words))
    return ctypes.get_errno()
{code}
"""


def under_the_filter(code: str) -> list[str]:
    """Run code in a child that has installed this machine's filter; return the words it printed."""
    script = _UNDER_THE_FILTER.format(code=code)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Run a filter as the kernel's manual describes it; return 0 where it allows, else the error that it gives."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    accumulator = at = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, at * 8)
        at += 1
        match code:
            case 0x20:
                accumulator = struct.unpack_from("=I", data, value)[0]
            case 0x54:
                accumulator &= value
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x25:
                at += if_true if accumulator > value else if_false
            case 0x06:
                return 0 if value == 0x7FFF0000 else value & 0xFFFF
            case _:
                raise AssertionError(f"no instruction of a filter: {code:#x}")


@pytest.fixture(scope="module")
def number_of():
    """The numbers of libseccomp; a package manager's sandbox needs it, so nearly every system has it."""
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("libseccomp is not installed; to try this: apt-get install libseccomp2")
    resolve = library.seccomp_syscall_resolve_name_arch
    return lambda machine, call: resolve(ctypes.c_uint32(MACHINES[machine]), call.encode())


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_the_kernels(number_of, machine):
    """Every call of the list has the number that libseccomp knows for this machine, or does not exist there."""
    column = list(MACHINES).index(machine)
    listed = (_DENIED, _CONDITIONAL, _DENIED_TO_GRADERS, _CONDITIONAL_FOR_GRADERS)
    for name, numbers in (call for calls in listed for call in calls.items()):
        known = number_of(machine, name)
        if known == -1:
            continue  # newer than this libseccomp
        assert numbers[column] == (known if known >= 0 else None), name


@pytest.mark.parametrize("machine", MACHINES)
def test_each_call_gets_its_answer(number_of, machine):
    """Ordinary calls pass, listed ones do not, and the flags of a new process or socket decide about it."""
    found = system_call_filter(machine)
    assert found is not None

    def answer(call: str, *arguments: int) -> int:
        return verdict(found.program, MACHINES[machine], number_of(machine, call), *arguments)

    assert {answer(call) for call in ALLOWED.split()} == {0}
    for call, numbers in _DENIED.items():
        if numbers[list(MACHINES).index(machine)] is not None and number_of(machine, call) >= 0:
            assert answer(call) == errno.EPERM
    assert (answer("clone", THREAD), answer("clone", 17), answer("unshare", 0x400)) == (0, 0, 0)
    assert {answer("clone", NEW_USER | 17), answer("clone", NEW_PID), answer("unshare", 0x80)} == {errno.EPERM}
    assert answer("clone3") == errno.ENOSYS
    assert [answer("socket", family) for family in (1, 2, 10, 16)] == [0] * 4
    assert {answer("socket", family) for family in (17, 38, 40, 44)} == {errno.EAFNOSUPPORT}
    assert (answer("ioctl", 0, 0x5401), answer("ioctl", 0, 0x5412)) == (0, errno.EPERM)
    assert (answer("personality", 0xFFFFFFFF), answer("personality", 0x400000)) == (0, errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_grader_is_refused_more(number_of, machine):
    """It reads, computes and starts threads; it has no network, no other program, and no other process to reach."""
    program = grader_filter(4321, machine)
    assert program is not None

    def answer(call: str, *arguments: int) -> int:
        return verdict(program, MACHINES[machine], number_of(machine, call), *arguments)

    assert {answer(call) for call in ["read", "openat", "futex", "mmap", "mprotect", "exit_group"]} == {0}
    for call, numbers in {**_DENIED, **_DENIED_TO_GRADERS}.items():
        if numbers[list(MACHINES).index(machine)] is not None and number_of(machine, call) >= 0:
            assert answer(call) == errno.EPERM
    assert (answer("clone", THREAD), answer("clone", 17), answer("clone3")) == (0, errno.EPERM, errno.ENOSYS)
    assert [answer("tgkill", *words) for words in ((4321, 0, 6), (4321, 0, 9), (1, 0, 6))] == [
        0,
        errno.EPERM,
        errno.EPERM,
    ]
    assert [answer("prlimit64", *words) for words in ((0, 7, 0), (0, 7, 64), (1,))] == [0, errno.EPERM, errno.EPERM]
    assert answer("prlimit64", 0, 7, 1 << 32) == errno.EPERM, "a pointer of which the low word is 0"
    assert (answer("fcntl", 3, 3), answer("fcntl", 3, 10)) == (0, errno.EPERM)
    assert verdict(program, 0x40000003, 20) == errno.ENOSYS
    assert grader_filter(1, "pdp11") is None


def test_what_is_newer_or_foreign_is_missing():
    """A call after the newest that we know, and every one of a 32-bit program, is answered as by an old kernel."""
    found = system_call_filter("x86_64")
    assert found is not None
    assert verdict(found.program, MACHINES["x86_64"], _NEWEST) == 0
    for number in (_NEWEST + 1, 0x40000000, 0xFFFFFFFF):
        assert verdict(found.program, MACHINES["x86_64"], number) == errno.ENOSYS
    assert verdict(found.program, 0x40000003, 20) == errno.ENOSYS  # getpid of i386
    assert system_call_filter("pdp11") is None


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no filter for this kind of processor")
def test_the_kernel_holds_to_it():
    """A child under the filter is refused what is listed, whatever its arguments."""
    column = list(MACHINES).index(platform.machine())
    numbers = [columns[column] for columns in _DENIED.values() if columns[column] is not None]
    assert set(under_the_filter(f"print(*(attempt(each, -1, -1, -1, -1) for each in {numbers}))")) == {"1"}
    clone, clone3, unshare = (_CONDITIONAL[name][column] for name in ("clone", "clone3", "unshare"))
    code = f"print(attempt({clone}, {NEW_USER | 17}, 0), attempt({clone3}, 0, 0), attempt({unshare}, {NEW_USER}))"
    assert under_the_filter(code) == [str(each) for each in (errno.EPERM, errno.ENOSYS, errno.EPERM)]
    vsock = f"print(attempt({_CONDITIONAL['socket'][column]}, 40, 1, 0))"
    assert under_the_filter(vsock) == [str(errno.EAFNOSUPPORT)]


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no filter for this kind of processor")
def test_ordinary_programs_work_under_it():
    """Threads, processes, pipes, sockets, temporary files and a shell do what they do elsewhere."""
    code = (
        "import multiprocessing, socket, subprocess, tempfile, threading\n"
        "thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()\n"
        "with multiprocessing.get_context('fork').Pool(1) as pool: print(pool.apply(abs, (-3,)), flush=True)\n"
        "subprocess.run('echo shell | tr a-z A-Z', shell=True, check=True)\n"
        "with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "    socket.create_connection(server.getsockname()).close()\n"
        "with tempfile.NamedTemporaryFile() as file: os.chmod(file.name, 0o600)\n"
        "print('files')"
    )
    assert under_the_filter(code) == ["thread", "3", "SHELL", "files"]
