"""The supervisor inside the sandbox of one tool server: confined like a driver, and ended with its host.

It is process 1 of its namespace. It reads only its program from standard input; the rest of the input is the server's.
When the host closes the input, or dies, the supervisor ends, and with it everything that the server has started.
"""

# pathlib, like ctypes and signal, would cost milliseconds of every start.
import _signal  # type: ignore[import-not-found]
import os
import select

from lhaw_record.runners.environments.sandboxes.inside.confine import DEFAULTED_SIGNALS, confine


def main(config: dict, _: bytes) -> None:  # type: ignore[type-arg]
    """Run ``command`` of the configuration (the rest is for :func:`confine`), and end with its exit code."""
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
    poller.register(0, 0)  # only its end: the bytes are for the server
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
