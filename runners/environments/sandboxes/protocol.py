"""The interface of a sandbox: one long-lived, isolated work directory with a shell and a Python interpreter."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import anyio
import msgspec

from lhaw_record.recorder.events.interaction import SandboxLimit


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one sandbox. Each sandbox lists in ``weak_limits`` which of them it cannot fully enforce.

    Those with ``tool`` are of the servers whose tools an agent gets.
    """

    memory_mb: int = 1024
    processes: int = 128
    file_mb: int = 4096
    output_bytes: int = 65536
    command_seconds: float = 60.0
    tool_start_seconds: float = 60.0
    tool_message_mb: int = 16
    tool_result_kb: int | None = None

    def result_bytes(self, usual: int) -> int:
        """Return how much an agent reads of one result of a tool server, in bytes: ``usual`` if nothing is set."""
        return usual if self.tool_result_kb is None else self.tool_result_kb << 10


READ_BYTES = 256 << 20
"""The largest file that ``read_file`` returns, because the content is held in this host's memory."""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a command printed and how it ended.

    ``output`` is stdout and stderr in order, truncated in the middle to ``output_bytes``. ``exit_code`` is None after a
    timeout. ``is_out_of_memory`` says that the kernel killed a process of the sandbox since the previous command
    because all processes together had used up ``memory_mb``; it is known only where a control group reports it.
    ``limit_met`` is the limit that stopped the command or a part of it. ``limits_watched`` are the limits that would
    have been noticed, or None if nothing ran.
    """

    output: str
    exit_code: int | None
    is_timeout: bool = False
    is_truncated: bool = False
    is_out_of_memory: bool = False
    limit_met: SandboxLimit | None = None
    limits_watched: tuple[SandboxLimit, ...] | None = None


class ProgramAccess(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox needs so that a program can be the agent: access to the run's listener, and files to read.

    Args:
        socket: The listener's unix socket on this host.
        port: Its port on this host's loopback interface, for sandboxes that share the interface; None if it has no
            port.
        mounts: Files and folders of this host to show in the sandbox, read-only, at the same paths.
        path: Folders to append to the PATH of programs.
    """

    socket: str
    port: int | None = None
    mounts: tuple[str, ...] = ()
    path: tuple[str, ...] = ()


class ProgramCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How to start a program: ``environment`` overrides the sandbox's variables, ``max_seconds`` is its time limit."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    stdin: bytes
    max_seconds: float


class ProgramEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended and what it printed; each stream is truncated in the middle to ``output_bytes``.

    ``exit_code`` is 128 plus the signal if a signal ended the program, and None if we ended it (told to stop, or timed
    out). ``memory_kill`` says whose memory had run out if the kernel killed one of its processes for that:
    ``memory_limit`` is the sandbox's own, ``memory_outside`` not. ``start_error`` is the system's error message if the
    program could not start; the other fields then have no meaning. ``left`` is the number of processes that outlived a
    program that ended by itself, ``detached`` how many of them had left its session; where programs run in a task's
    own image, neither is counted.
    """

    exit_code: int | None
    memory_kill: str = ""
    left: int = 0
    detached: int = 0
    stdout: str = ""
    stderr: str = ""
    start_error: str | None = None


class ProgramSandbox(Protocol):
    """Where a program can be the agent of a trial. Paths are absolute in the sandbox or relative to the work directory.

    Every method may raise SandboxBoundaryError if the sandbox itself is broken.
    """

    work_dir: str
    home: str
    """The HOME of programs; empty if the sandbox was opened without access."""
    listener_url: str
    """``http://HOST:PORT`` of the listener as seen from inside; empty if the sandbox was opened without access."""

    async def run_bash(self, command: str) -> CommandResult:
        """Run a command in a shell."""
        ...

    async def read_file(self, path: str) -> bytes:
        """Return a file's bytes, at most ``file_mb`` and ``READ_BYTES``.

        Raises:
            OSError: The system's error (missing, a directory, too large), for the agent to read.
        """
        ...

    async def write_file(self, path: str, content: bytes) -> None:
        """Write a file, creating its folders.

        Raises:
            OSError: The system's error, for the agent to read.
        """
        ...

    async def cpu_s(self) -> float | None:
        """Return the CPU seconds that the sandbox's processes have used so far, or None if that is not known."""
        ...

    async def run_program(self, launch: ProgramCommand, stop: anyio.Event) -> ProgramEnd:
        """Run a program in the work directory until it ends, then end every process in the sandbox.

        In a task's own image (harbor), services that the program left running stay for the tests. A program that
        asks a model needs a sandbox that was opened with a :class:`ProgramAccess`. No other method may be called at the
        same time.

        Args:
            launch: How to start it; a name without a slash is looked up in the PATH of its environment.
            stop: Set to end it early.
        """
        ...


class Sandbox(ProgramSandbox, Protocol):
    """An open sandbox of one trial, with our own tools. A failing command is a result, never an exception."""

    kind: str
    weak_limits: tuple[str, ...]

    async def run_bash(self, command: str) -> CommandResult:
        """Run a command in the long-lived shell; its directory, variables and functions persist."""
        ...

    async def run_python(self, code: str) -> CommandResult:
        """Run code in the long-lived Python interpreter; its names persist, and a final expression is printed."""
        ...

    async def export(self, destination: Path) -> None:
        """Copy the regular files and empty folders of the work directory to a host folder, following no links."""
        ...


class SandboxProvider(Protocol):
    """Opens sandboxes of one kind."""

    kind: str

    def open(
        self, files: Path | None, limits: SandboxLimits, access: ProgramAccess | None = None
    ) -> AbstractAsyncContextManager[Sandbox]:
        """Open a sandbox whose work directory starts as a copy of a host folder. Remove everything on exit.

        Args:
            files: The host folder; None for an empty work directory.
            limits: The limits of the sandbox.
            access: What a program as the agent needs; None if the sandbox is used only through our own tools.
        """
        ...
