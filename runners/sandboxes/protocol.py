"""What a sandbox is: one long-lived, isolated work directory with a shell and a Python interpreter in it."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import anyio
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

    ``exit_code`` is None after a timeout. ``is_out_of_memory`` says that since the command before the system ended a
    process of the sandbox because all of them together had used up ``memory_mb``; only where that can be seen (docker).
    """

    output: str
    exit_code: int | None
    is_timeout: bool = False
    is_truncated: bool = False
    is_out_of_memory: bool = False


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox must have for a program that is an agent: a way to the run's own listener, and more to read.

    Args:
        socket: The listener's unix socket on this host.
        port: Its port on this host's loopback, for a sandbox that shares it; None where there is none.
        mounts: Files and folders of this host that the sandbox shows, read-only and at their own paths.
        path: Folders at the end of the PATH of programs.
    """

    socket: str
    port: int | None = None
    mounts: tuple[str, ...] = ()
    path: tuple[str, ...] = ()


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How a program is started: ``environment`` goes over the sandbox's own, ``max_seconds`` ends it at last."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    stdin: bytes
    max_seconds: float


class ProgramEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended, and what it printed, each stream cut in the middle at ``output_bytes``.

    ``exit_code`` is 128 and more where a signal ended it, and None where we did (told to stop, or out of time).
    ``start_error`` is the system's word for why it could not be started; then nothing else is known.
    """

    exit_code: int | None
    stdout: str = ""
    stderr: str = ""
    start_error: str | None = None


class Sandbox(Protocol):
    """An open sandbox of one trial. Paths are relative to the work directory, or absolute inside the sandbox.

    Every method may raise SandboxBoundaryError when the sandbox itself is broken; what a command does wrong is a
    result, never an exception.
    """

    kind: str
    work_dir: str
    weak_limits: tuple[str, ...]
    home: str
    """A private folder beside the work directory, the HOME of a program; empty in a sandbox opened without a way."""
    listener_url: str
    """``http://HOST:PORT`` at which programs inside reach the listener; empty in a sandbox opened without a way."""

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

    async def run_program(self, launch: Launch, stop: anyio.Event) -> ProgramEnd:
        """Run a program in the work directory to its end, then end everything that runs in the sandbox.

        Only in a sandbox that was opened with a way; no other method may be called meanwhile.

        Args:
            launch: How it is started; a program without a slash is looked for in the PATH of its environment.
            stop: Ends it early.
        """
        ...


class SandboxProvider(Protocol):
    """Opens sandboxes of one kind."""

    kind: str

    def open(
        self, files: Path | None, limits: SandboxLimits, way: Way | None = None
    ) -> AbstractAsyncContextManager[Sandbox]:
        """Open a sandbox whose work directory starts as a copy of a host folder; closing leaves nothing behind.

        Args:
            files: The folder; None for an empty work directory.
            limits: What the sandbox may use.
            way: What a program that is an agent needs besides; None where only our own tools act in it.
        """
        ...
