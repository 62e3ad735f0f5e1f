"""A stdio transport that copes with real MCP servers: noisy, outdated, or dead.

The library's own transport hides the process, reports every stray line as an error, and refuses tool lists that other
clients accept. This one starts the process itself, skips lines that are not JSON-RPC, and knows when the process is
gone.
"""

import os
import signal
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import ByteReceiveStream, Process, TaskGroup

from lhaw_record.recorder import processes
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import ProcessPlan
from lhaw_record.runners.environments.benchmarks.mcp_lines import parse_line

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

MAX_MESSAGE_BYTES = 16 << 20
"""The size limit of one line. Parsing takes about twenty times as much memory, and agents read only a small part."""
MAX_NOISE_BYTES, MAX_NOISE_LINES = 64 << 20, 100_000
"""Limits on output that is not a message. A server that prints forever would use up the time of every trial."""
_STDERR_LINES = 20
_REAP_SECONDS = 5.0


class ServerTransport:
    """One server process and the two streams of a client session. Used as ``Client(ServerTransport(plan))``."""

    def __init__(self, plan: ProcessPlan) -> None:
        self._plan = plan
        self._process: Process | None = None
        self._group: TaskGroup | None = None
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._inbox: MemoryObjectSendStream[SessionMessage | Exception] | None = None
        self.is_gone = False
        self.noise_lines = 0
        self.output_schemas: dict[str, Any] = {}
        """What tools state about the form of their results, by the tools' names."""

    @property
    def pid(self) -> int | None:
        """The process id of the server, or of its bubblewrap. Ending that process ends the server."""
        return self._process.pid if self._process else None

    def last_words(self) -> str:
        """Return the end of the server's standard error, for an error message."""
        return " | ".join(line for line in self._stderr if line)[-600:]

    async def __aenter__(
        self,
    ) -> "tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]":
        from mcp.shared.message import SessionMessage

        self._process = await self._started()
        self._inbox, reader = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writer, outbox = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (self._inbox, reader, writer, outbox)
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._read_stdout, self._process, self._inbox)
        self._group.start_soon(self._write_stdin, self._process, outbox)
        self._group.start_soon(self._read_stderr, self._process)
        return reader, writer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._process is not None
        assert self._group is not None
        with anyio.CancelScope(shield=True):
            await end_process(self._process, ends_by_itself=bool(self._plan.supervisor))
            for stream in self._streams:
                stream.close()
        self._group.cancel_scope.cancel()
        return await self._group.__aexit__(kind, error, trace)

    async def _started(self) -> Process:
        while True:
            process = await anyio.open_process(
                self._plan.command,
                env=self._plan.environment,
                cwd=self._plan.directory,
                start_new_session=True,
            )
            if processes.has_run(process.pid, process.returncode):
                return process
            await process.aclose()

    async def _read_stdout(self, process: Process, inbox: "MemoryObjectSendStream[Any]") -> None:
        assert process.stdout is not None
        try:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
                await self._read_messages(process.stdout, inbox)
        finally:
            self.is_gone = True
            inbox.close()  # pending requests end with an error instead of waiting forever

    async def _read_messages(self, stdout: ByteReceiveStream, inbox: "MemoryObjectSendStream[Any]") -> None:
        line = bytearray()
        noise_bytes = 0
        async for chunk in stdout:
            first, *others = chunk.split(b"\n")
            line += first
            for other in others:
                message = parse_line(bytes(line), self.output_schemas)
                if message is not None:
                    await inbox.send(message)
                elif line.strip():
                    self.noise_lines += 1
                    noise_bytes += len(line)
                line = bytearray(other)
            if len(line) > MAX_MESSAGE_BYTES:
                self._stderr.append(f"a line of more than {MAX_MESSAGE_BYTES} bytes on standard output")
                return
            if noise_bytes > MAX_NOISE_BYTES or self.noise_lines > MAX_NOISE_LINES:
                self._stderr.append(f"{self.noise_lines} lines on standard output that are not messages")
                return

    async def _write_stdin(self, process: Process, outbox: "MemoryObjectReceiveStream[SessionMessage]") -> None:
        assert process.stdin is not None
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            if self._plan.supervisor:
                await process.stdin.send(self._plan.supervisor)
            async for item in outbox:
                await process.stdin.send(
                    item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                )

    async def _read_stderr(self, process: Process) -> None:
        assert process.stderr is not None
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            async for chunk in process.stderr:
                self._stderr.extend(chunk.decode(errors="replace")[-4096:].splitlines())


async def end_process(process: Process, *, ends_by_itself: bool = False) -> None:
    """End a server and every process that it started. Wait for a limited time until it has ended."""
    assert process.stdin is not None
    if ends_by_itself:
        with suppress(OSError):
            await process.stdin.aclose()
        await _has_ended(process)
    if process.returncode is None or not ends_by_itself:  # the group may outlive the process that gave it its number
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    await _has_ended(process)
    with anyio.move_on_after(_REAP_SECONDS):
        await process.aclose()


async def _has_ended(process: Process) -> None:
    """Wait for a limited time for a process to end.

    The process's own wait() would also wait for pipes that surviving children keep open.
    """
    with anyio.move_on_after(_REAP_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(0.002)
