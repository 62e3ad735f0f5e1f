"""What a sandbox is: one long-lived, isolated work directory with a shell and a Python interpreter in it."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import msgspec


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one sandbox. A sandbox says in ``weak_limits`` which of them it cannot enforce fully."""

    memory_mb: int = 1024
    processes: int = 128
    file_mb: int = 256
    output_bytes: int = 65536
    command_seconds: float = 60.0


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a command printed (stdout and stderr in order, cut in the middle at ``output_bytes``) and how it ended.

    ``exit_code`` is None after a timeout.
    """

    output: str
    exit_code: int | None
    is_timeout: bool = False
    is_truncated: bool = False


class Sandbox(Protocol):
    """An open sandbox of one trial. Paths are relative to the work directory, or absolute inside the sandbox.

    Every method may raise SandboxBoundaryError when the sandbox itself is broken; what a command does wrong is a
    result, never an exception.
    """

    kind: str
    work_dir: str
    weak_limits: tuple[str, ...]

    async def run_bash(self, command: str) -> CommandResult:
        """Run a command in the long-lived shell: its directory, variables and functions carry over."""
        ...

    async def run_python(self, code: str) -> CommandResult:
        """Run code in the long-lived Python interpreter: its names carry over; a last expression is printed."""
        ...

    async def read_file(self, path: str) -> bytes:
        """Return a file's bytes.

        Raises:
            OSError: As the system says it (missing, a directory, too large), for the agent to read.
        """
        ...

    async def write_file(self, path: str, content: bytes) -> None:
        """Write a file, making its folders.

        Raises:
            OSError: As the system says it, for the agent to read.
        """
        ...

    async def export(self, destination: Path) -> None:
        """Copy the regular files of the work directory to a host folder, following no links, for grading."""
        ...


class SandboxProvider(Protocol):
    """Opens sandboxes of one kind."""

    kind: str

    def open(self, files: Path | None, limits: SandboxLimits) -> AbstractAsyncContextManager[Sandbox]:
        """Open a sandbox whose work directory starts as a copy of a host folder; closing leaves nothing behind."""
        ...
