"""One server process of real life, which is noisy, outdated, or dead, as lines.

The library's own transport hides the process. This one knows when it has ended, and what it printed last.
"""

import os
import signal
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import Process, TaskGroup

from lhaw_record.recorder import processes
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import ProcessPlan

_STDERR_LINES = 20
_REAP_SECONDS = 5.0


class ServerProcess:
    """One server process: its standard streams as lines, and what it printed last.

    Args:
        plan: The process to start.
        most_line_bytes: The limit of one line. Parsing takes about twenty times as much memory, and agents read only a
            small part.
    """

    def __init__(self, plan: ProcessPlan, most_line_bytes: int) -> None:
        self._plan = plan
        self._most_line_bytes = most_line_bytes
        self._process: Process | None = None
        self._group: TaskGroup | None = None
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self.is_gone = False

    @property
    def pid(self) -> int | None:
        """The process id of the server, or of its bubblewrap. Ending that process ends the server."""
        return self._process.pid if self._process else None

    def last_words(self) -> str:
        """Return the end of the server's standard error, for an error message."""
        return " | ".join(line for line in self._stderr if line)[-600:]

    async def __aenter__(self) -> Self:
        self._process = await self._started()
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._read_stderr, self._process)
        if self._plan.supervisor:
            await self._send(self._plan.supervisor)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._process is not None
        assert self._group is not None
        with anyio.CancelScope(shield=True):
            await end_process(self._process, ends_by_itself=bool(self._plan.supervisor))
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

    @property
    async def lines(self) -> AsyncIterator[bytes]:
        """The lines of standard output, until it ends."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = bytearray()
        try:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
                async for chunk in self._process.stdout:
                    first, *others = chunk.split(b"\n")
                    line += first
                    for other in others:
                        yield bytes(line)
                        line = bytearray(other)
                    if len(line) > self._most_line_bytes:
                        limit = f"{self._most_line_bytes >> 20} MB (limits.tool_message_mb)"
                        self.break_off(f"a line of more than {limit} on standard output", "server_gone")
                        return
        finally:
            self.is_gone = True

    def break_off(self, reason: str, _: str) -> None:
        """Mark the server as ended. The reason takes the place of what it printed last."""
        self.is_gone = True
        self._stderr.append(reason)

    async def write(self, line: bytes) -> None:
        """Send a line to standard input."""
        await self._send(line + b"\n")

    async def _send(self, content: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            await self._process.stdin.send(content)

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
