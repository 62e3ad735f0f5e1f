"""Run one program under the driver, with its own environment, until it ends or must be ended."""

# pathlib would cost milliseconds of every start.
# ruff: noqa: PTH118
import os
import select
import time

from lhaw_record.runners.environments.sandboxes.inside.confine import DEFAULTED_SIGNALS
from lhaw_record.runners.environments.sandboxes.inside.forwarder import start_forwarder
from lhaw_record.runners.environments.sandboxes.inside.pipes import Output, read_message, read_some
from lhaw_record.runners.environments.sandboxes.inside.processes import Survivors


def run_program(
    config: dict,  # type: ignore[type-arg]
    fields: list[bytes],
    descriptors: tuple[int, int],
    survivors: Survivors,
) -> tuple[bytes, ...]:
    """Run a program to its end, then end all other processes; return the fields of the reply."""
    seconds, stdin, count, *words = fields
    names = 2 * int(count)
    environment = dict(zip(words[:names:2], words[1:names:2]))  # noqa: B905  Python 3.9 in an image lacks strict
    if config["listener_socket"]:
        start_forwarder(config["listener_socket"])
    own = survivors.members()
    try:
        program = RunningProgram(words[names:], environment, stdin, config["output_bytes"])
    except OSError:
        survivors.end_all()
        raise
    program.watch(*descriptors, float(seconds), survivors)
    status = survivors.statuses.get(program.process_id)
    left = (0, 0) if status is None else survivors.left_by(program.process_id, own)
    survivors.end_all()
    program.close()
    survivors.statuses.clear()
    exit_code = b"" if status is None else b"%d" % (status if status >= 0 else 128 - status)
    return (b"ended", exit_code, b"%d %d" % left, *program.outputs[0].fields(), *program.outputs[1].fields())


class RunningProgram:
    """A running program.

    Args:
        argv: The program and its arguments; a name without a slash is looked up in the PATH of its environment.
        environment: Its whole environment.
        stdin: The complete content of its standard input.
        output_bytes: How much of each stream is kept.

    Raises:
        OSError: The program cannot be started.
    """

    def __init__(self, argv: list[bytes], environment: dict[bytes, bytes], stdin: bytes, output_bytes: int) -> None:
        self.outputs = (Output(output_bytes), Output(output_bytes))
        self._pending = stdin
        stdin_read, self._stdin = os.pipe()
        pipes = [os.pipe(), os.pipe()]
        self._ends = [read for read, _ in pipes]
        for descriptor in (self._stdin, *self._ends):
            os.set_blocking(descriptor, False)
        writes = [write for _, write in pipes]
        try:
            self.process_id = os.posix_spawn(
                _found(argv[0], environment.get(b"PATH", b"")),
                argv,
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, stdin_read, 0),
                    (os.POSIX_SPAWN_DUP2, writes[0], 1),
                    (os.POSIX_SPAWN_DUP2, writes[1], 2),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=DEFAULTED_SIGNALS,
            )
        except OSError:
            self.close()
            raise
        finally:
            for descriptor in (stdin_read, *writes):
                os.close(descriptor)

    def watch(self, control: int, wake: int, seconds: float, survivors: Survivors) -> None:
        """Feed it and keep its output until it ends, the host sends a message, or the time is up."""
        deadline = time.monotonic() + seconds
        poller = select.poll()
        for descriptor in (control, wake, *self._ends):
            poller.register(descriptor, select.POLLIN)
        poller.register(self._stdin, select.POLLOUT)
        while True:
            left_ms = (deadline - time.monotonic()) * 1000
            ready = {descriptor for descriptor, _ in poller.poll(left_ms)} if left_ms > 0 else set()
            if not ready:
                return
            if control in ready:
                read_message(control)  # it can only be a stop request or the end of input
                return
            for descriptor in self._move_bytes(ready):
                poller.unregister(descriptor)
            if wake in ready:
                read_some(wake)
                survivors.reap()
                if self.process_id in survivors.statuses:
                    return

    def close(self) -> None:
        """Read the remaining output, and close the pipes."""
        for output, descriptor in zip(self.outputs, self._ends):  # noqa: B905  Python 3.9 in an image lacks strict
            output.drain(descriptor)
            os.close(descriptor)
        if self._stdin >= 0:
            os.close(self._stdin)
        self._ends, self._stdin = [], -1

    def _move_bytes(self, ready: set[int]) -> list[int]:
        """Transfer the available bytes; return the descriptors that are finished."""
        done = []
        if self._stdin in ready:
            try:
                self._pending = self._pending[os.write(self._stdin, self._pending[:65536]) :]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                self._pending = b""
            if not self._pending:
                done.append(self._stdin)
                os.close(self._stdin)  # so that it sees the end of its input
                self._stdin = -1
        for output, descriptor in zip(self.outputs, self._ends):  # noqa: B905  Python 3.9 in an image lacks strict
            if descriptor in ready and not output.take(descriptor):
                done.append(descriptor)
        return done


def _found(program: bytes, path: bytes) -> bytes:
    """Return the path of a program as a shell would find it, or a path that the system will reject."""
    if b"/" in program:
        return program
    candidates = [os.path.join(folder, program) for folder in path.split(b":") if folder]
    return next((each for each in candidates if os.access(each, os.X_OK)), program)
