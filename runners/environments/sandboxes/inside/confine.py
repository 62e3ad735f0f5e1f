"""Confine a process in a sandbox before it starts the agent's processes: keyring, user, limits, system calls.

Run as a program (:func:`main`), this module is the supervisor in the sandbox of one tool server.
"""

# pathlib, like ctypes and signal, would cost milliseconds of every start.
import _ctypes
import _signal  # type: ignore[import-not-found]
import os
import resource
import select
import sys

DEFAULTED_SIGNALS = (2, 13, 25)
"""SIGINT, SIGPIPE, SIGXFSZ: Python ignores or catches them, but its children must not."""
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_KEYCTL_JOIN_SESSION_KEYRING = 1
_CAPABILITY_HEADER = (0x20080522).to_bytes(4, sys.byteorder) + bytes(4)  # version 3, this process


def confine(config: dict) -> None:  # type: ignore[type-arg]
    """Become the agent's user, hide this process from its children, and set the limits that they inherit."""
    library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None is this process
    if config["keyctl"] is not None:
        # A new keyring instead of the host's. If the kernel refuses, the filter alone protects it.
        _ctypes.call_function(_ctypes.dlsym(library, "syscall"), (config["keyctl"], _KEYCTL_JOIN_SESSION_KEYRING, None))
    if config["user_id"] is not None:
        os.chown(config["work_dir"], config["user_id"], config["user_id"])
        os.setgroups([])
        os.setgid(config["user_id"])
        os.setuid(config["user_id"])
    if sys.platform == "linux":
        _lock(config, library)
    _set_limits(config)
    if config["filter"]:
        install_filter(config["filter"])


def _lock(config: dict, library: int) -> None:  # type: ignore[type-arg]
    """Hide this process, drop capabilities and bar new privileges."""
    prctl = _ctypes.dlsym(library, "prctl")
    for capability in config["dropped_capabilities"]:
        # Root's children get only the capabilities in the bounding set, not those that this process itself keeps.
        if _ctypes.call_function(prctl, (_PR_CAPBSET_DROP, capability, 0, 0, 0)) != 0:
            raise OSError(f"the capability {capability} cannot be dropped")
    if not config["keeps_capabilities"]:
        _ctypes.call_function(_ctypes.dlsym(library, "capset"), (_CAPABILITY_HEADER, bytes(24)))
    options = {_PR_SET_DUMPABLE: 0, _PR_SET_CHILD_SUBREAPER: 1, _PR_SET_NO_NEW_PRIVS: 1}
    if os.getpid() == 1:
        options[_PR_SET_PDEATHSIG] = 9  # bubblewrap sets it, but changing the user clears it
    for option, value in options.items():
        if _ctypes.call_function(prctl, (option, value, 0, 0, 0)) != 0:
            raise OSError(f"prctl({option}) failed")


def _set_limits(config: dict) -> None:  # type: ignore[type-arg]
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: config["file_bytes"],
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_AS: config["address_space_bytes"],
        resource.RLIMIT_DATA: config["data_bytes"],
        resource.RLIMIT_NPROC: config["own_processes"],
    }
    for limit, value in limits.items():
        if value is not None:
            hard = resource.getrlimit(limit)[1]
            allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (allowed, allowed))


def install_filter(program: bytes) -> None:
    """Filter the system calls of this process and its future children; call it after dropping privileges."""

    class Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]  # ctypes itself is slow to import
        _type_ = "B"

    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None is this process
    code = (Byte * len(program)).from_buffer_copy(program)
    header = (len(program) // 8).to_bytes(8, "little") + _ctypes.addressof(code).to_bytes(8, "little")
    if _ctypes.call_function(prctl, (_PR_SET_SECCOMP, 2, header, 0, 0)) != 0:
        raise OSError("the kernel accepts no filter of system calls (seccomp)")


def start_without(capabilities: str, command: "list[str]") -> None:
    """Execute a program of a container without some of its capabilities."""
    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None is this process
    for number in capabilities.split(","):
        # Root's programs get the capabilities in the bounding set.
        if _ctypes.call_function(prctl, (_PR_CAPBSET_DROP, int(number), 0, 0, 0)) != 0:
            sys.exit(126)
    for ignored in DEFAULTED_SIGNALS[1:]:
        _signal.signal(ignored, _signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606  an agent's program
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)


def main(config: dict, _: bytes) -> None:  # type: ignore[type-arg]
    """Run ``command`` of the configuration (the rest is for :func:`confine`), and exit with its exit code.

    This is process 1 of its namespace. It reads only its own program from standard input; the rest of the input is the
    server's. When the host closes the input or dies, this process ends, and the kernel ends all its descendants.
    """
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    os.umask(0o022)
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    _signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    command = config["command"]
    try:
        confine(config)
        server = os.posix_spawnp(command[0], command, os.environ, setsigmask=(), setsigdef=DEFAULTED_SIGNALS)
    except OSError as error:
        os.write(2, f"{error.filename or command[0]}: {error.strerror or error}\n".encode())
        os._exit(127)
    os.closerange(1, 3)  # the host must see the end of the server's output
    poller = select.poll()
    poller.register(0, 0)  # watch only for the end: the bytes are for the server
    poller.register(wake, select.POLLIN)
    while 0 not in [descriptor for descriptor, _ in poller.poll()]:
        os.read(wake, 4096)
        _collect(server)
    os._exit(0)


def _collect(server: int) -> None:
    """Reap ended children; if the server was among them, end with its exit code."""
    while True:
        try:
            process_id, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if process_id == server:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
        if process_id == 0:
            return
