"""The supervisor inside a sandbox: runs commands in one shell and one interpreter, serves files, ends every process.

It is process 1 of its namespace, if there is one, so the agent cannot signal it, and every process ends with it. The
agent's processes inherit none of its descriptors.
"""

# pathlib, like ctypes and signal, would cost milliseconds of every start.
# ruff: noqa: PTH103
import _signal  # type: ignore[import-not-found]
import os
import select
import time

from lhaw_record.runners.environments.sandboxes.inside.confine import confine
from lhaw_record.runners.environments.sandboxes.inside.files import (
    ExportTooLargeError,
    export_chunk,
    list_regular,
    put,
    read_chunk,
    settle,
)
from lhaw_record.runners.environments.sandboxes.inside.pipes import Output, pack, read_message, read_some, write_all
from lhaw_record.runners.environments.sandboxes.inside.processes import MemoryKills, Survivors
from lhaw_record.runners.environments.sandboxes.inside.program import run_program
from lhaw_record.runners.environments.sandboxes.inside.worker import Interpreter

_IDLE_CHECK_MS = 200


class SandboxDriver:
    """Serves one host over one control socket until the socket closes."""

    def __init__(self, config: dict, ends: tuple[int, int], oom_score: int, cell: bytes) -> None:  # type: ignore[type-arg]
        self._config = config
        self._control, self._replies = ends
        self._oom_score = oom_score
        self._own_oom_score = os.pread(oom_score, 16, 0)
        environment = config["environment"]
        boot = len(cell).to_bytes(4, "big") + cell
        self._shell = Interpreter([config["bash"], "--noprofile", "--norc"], environment, b"", is_shell=True)
        self._python = Interpreter(
            [config["python"], "-u", "-c", config["cell_boot"]], environment, boot, is_shell=False
        )
        self._survivors = Survivors(is_init=os.getpid() == 1, members_path=config["members_path"])
        self._memory_kills = MemoryKills(config["memory_events"])
        self._notes: list[bytes] = []
        self._wake, wake_write = os.pipe()
        for descriptor in (self._wake, wake_write):
            os.set_blocking(descriptor, False)
        _signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Answer requests, one at a time, until the host closes the socket or dies; then end every process."""
        try:
            while True:
                self._wait_for_request()
                operation, *fields = read_message(self._control)
                if operation != b"cancel":  # otherwise the command that it refers to has just ended
                    write_all(self._replies, pack(*self._answer(operation, fields)))
        except (EOFError, ConnectionError):
            return
        finally:
            self._survivors.end_all()

    def _wait_for_request(self) -> None:
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        while True:
            has_strays = self._survivors.count() > bool(self._shell.process_id) + bool(self._python.process_id)
            ready = [descriptor for descriptor, _ in poller.poll(_IDLE_CHECK_MS if has_strays else None)]
            self._collect_children()
            self._end_a_runaway()
            if self._control in ready:
                return

    def _answer(self, operation: bytes, fields: list[bytes]) -> tuple[bytes, ...]:
        try:
            if operation in (b"bash", b"python"):
                return self._run(self._shell if operation == b"bash" else self._python, fields[0])
            if operation == b"program":
                return self._run_program(fields)
            return self._serve_files(operation, fields)
        except OSError as error:
            return (b"error", b"%d" % (error.errno or 0))
        except ValueError:  # a path with a NUL byte
            return (b"error", b"22")
        except ExportTooLargeError as error:
            return (b"too_large", str(error).encode())

    def _serve_files(self, operation: bytes, fields: list[bytes]) -> tuple[bytes, ...]:
        work_dir = self._config["work_dir"]
        if operation == b"put":
            for index in range(0, len(fields), 3):
                put(work_dir, *fields[index : index + 3])
            return (b"ok",)
        if operation == b"settle":
            settle(work_dir)
            return (b"ok",)
        if operation == b"read":
            size, data = read_chunk(work_dir, fields[0], int(fields[1]), self._config["read_bytes"])
            return (b"ok", b"%d" % size, data)
        if operation == b"list":
            return (b"ok", *list_regular(work_dir, int(fields[0])))
        size, data = export_chunk(work_dir, fields[0], int(fields[1]))
        return (b"ok", b"%d" % size, data)

    def _run(self, worker: Interpreter, request: bytes) -> tuple[bytes, ...]:
        self._collect_children()
        self._end_a_runaway()
        self._start(worker)
        worker.put_request(request)
        output = Output(self._config["output_bytes"])
        exit_code = self._watch(worker, output)
        self._end_a_runaway()
        self._notes.append(self._memory_kills.since_last().encode())
        if self._memory_kills.is_known:
            self._notes.append(b"memory_watched")
        notes, self._notes = b",".join(self._notes), []
        return (b"done", exit_code, notes, *output.fields())

    def _run_program(self, fields: list[bytes]) -> tuple[bytes, ...]:
        self._end_everything(b"")
        self._notes.clear()
        self._prepare_start()
        self._memory_kills.since_last()
        try:
            ended = run_program(self._config, fields, (self._control, self._wake), self._survivors)
            return (ended[0], ended[1], self._memory_kills.since_last().encode(), *ended[2:])
        finally:
            os.pwrite(self._oom_score, self._own_oom_score, 0)

    def _prepare_start(self) -> None:
        os.makedirs(self._config["work_dir"], exist_ok=True)
        os.chdir(self._config["work_dir"])
        # When memory runs out, the kernel should kill the agent's processes, which inherit this, and spare the driver.
        os.pwrite(self._oom_score, b"1000", 0)

    def _start(self, worker: Interpreter) -> None:
        self._prepare_start()
        try:
            worker.start()
        except BlockingIOError:  # the process limit is reached
            self._end_everything(b"process_limit")
            worker.start()
        finally:
            os.pwrite(self._oom_score, self._own_oom_score, 0)

    def _watch(self, worker: Interpreter, output: Output) -> bytes:
        """Collect output until the request has ended in some way; return the exit code, empty after a timeout."""
        deadline = time.monotonic() + self._config["command_seconds"]
        poller = select.poll()
        for descriptor in (self._control, self._wake, worker.output_end, worker.status_end):
            poller.register(descriptor, select.POLLIN)
        poller.register(worker.request_end, select.POLLOUT)
        while True:
            left_ms = (deadline - time.monotonic()) * 1000
            ready = {descriptor for descriptor, _ in poller.poll(left_ms)} if left_ms > 0 else set()
            if not ready:
                return self._give_up(worker, output, b"timeout")
            if self._control in ready:
                read_message(self._control)  # it can only be a cancellation or the end of input
                return self._give_up(worker, output, b"cancelled")
            for descriptor in _move_bytes(worker, output, ready):
                poller.unregister(descriptor)
            exit_code = self._status_of(worker, output, ready)
            if exit_code:
                return exit_code

    def _status_of(self, worker: Interpreter, output: Output, ready: set[int]) -> bytes:
        """Return the exit code if the request, or the worker itself, has just ended."""
        if worker.status_end in ready:
            status = read_some(worker.status_end)
            exit_code = worker.exit_code_in(status)
            if exit_code:
                output.drain(worker.output_end)
                return exit_code
            if not status:  # it closed its status pipe, so the end of a request cannot be detected
                os.kill(worker.process_id, 9)
        return self._collect_children(worker, output) if self._wake in ready else b""

    def _give_up(self, worker: Interpreter, output: Output, note: bytes) -> bytes:
        had_python = b"_python" if self._python.process_id else b""
        self._survivors.end_all()
        output.drain(worker.output_end)
        self._notes.append(note + had_python)
        self._forget_everything()
        return b""

    def _collect_children(self, worker: Interpreter | None = None, output: Output | None = None) -> bytes:
        """Reap children; return the exit code of the running worker if it was among them."""
        read_some(self._wake)
        self._survivors.reap()
        ended = b""
        for each, name in ((self._shell, b"shell_ended"), (self._python, b"python_ended")):
            if each.process_id in self._survivors.statuses:
                status = self._survivors.statuses[each.process_id]
                code = status if status >= 0 else 128 - status
                self._notes.append(b"%s:%d" % (name, code))
                if each is worker and output is not None:
                    output.drain(each.output_end)
                    ended = b"%d" % code
                each.forget()
        self._survivors.statuses.clear()
        return ended

    def _end_a_runaway(self) -> None:
        """End all processes when their number nears its limit, because soon none could be started."""
        if self._survivors.count() * 10 >= self._config["processes"] * 9:
            self._end_everything(b"process_limit")

    def _end_everything(self, note: bytes) -> None:
        self._survivors.end_all()
        self._notes.append(note)
        self._forget_everything()

    def _forget_everything(self) -> None:
        self._survivors.statuses.clear()
        self._shell.forget()
        self._python.forget()


def _move_bytes(worker: Interpreter, output: Output, ready: set[int]) -> list[int]:
    """Feed the worker and read its output; return the descriptors that are finished."""
    done = []
    if worker.request_end in ready:
        worker.push()
        if not worker.pending:
            done.append(worker.request_end)
    if worker.output_end in ready and not output.take(worker.output_end):
        done.append(worker.output_end)
    return done


def main(config: dict, cell_program: bytes) -> None:  # type: ignore[type-arg]
    """Run the driver; requests come on its standard input, replies go to its standard output."""
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    control, replies = 3, 4
    os.dup2(0, control, inheritable=False)
    os.dup2(1, replies, inheritable=False)
    os.closerange(replies + 1, 65536)  # descriptors that the host left open
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    os.umask(0o022)
    try:
        oom_score = os.open("/proc/self/oom_score_adj", os.O_RDWR)  # it cannot be opened once this process is hidden
    except FileNotFoundError:  # macOS
        oom_score = os.open("/dev/null", os.O_RDWR)
    confine(config)
    os.chdir(config["work_dir"])
    SandboxDriver(config, (control, replies), oom_score, cell_program).serve()
