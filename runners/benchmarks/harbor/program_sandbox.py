"""The container of a Harbor task as the place where a program is the agent; the image needs nothing but bash."""

from collections.abc import Mapping

import anyio

from runners.benchmarks.harbor.container import Phase, TaskContainer, new_path
from runners.errors import SandboxBoundaryError, ungrouped
from runners.sandboxes.docker.relay import relay_end
from runners.sandboxes.docker.sidecar import LineChannel
from runners.sandboxes.inside.forwarder import PORT
from runners.sandboxes.protocol import CommandResult, ProgramCommand, ProgramEnd, SandboxLimits, Way

_LOOK_S = 60.0
# A user of an image may have no HOME, or one that only root may write to.
_ABOUT = (
    '[ -d "$HOME" ] && [ -w "$HOME" ] || HOME=/tmp/.lhaw-record-home; mkdir -p "$HOME" && '
    'printf "%s\\n" "$PWD" "$HOME" "$PATH"'
)
_START = 'out="$1" err="$2"; shift 2; exec "$@" < "$0" > "$out" 2> "$err"'


class HarborProgramSandbox:
    """Runs programs as the agent's user, with its HOME; implements ``runners.sandboxes.protocol.ProgramSandbox``.

    Args:
        container: The agent's container.
        user: The agent's user, as in :class:`runners.benchmarks.harbor.container.Phase`.
        limits: The limits of output and of files.
        relay: The way to the listener.
    """

    def __init__(self, container: TaskContainer, user: str, limits: SandboxLimits, relay: LineChannel) -> None:
        self.work_dir = self.home = ""
        self.listener_url = f"http://127.0.0.1:{PORT}"
        self._path = ""
        self._container = container
        self._user = user
        self._limits = limits
        self._relay = relay

    async def prepare(self, way: Way) -> None:
        """Find out where the agent's user is at home.

        Raises:
            SandboxBoundaryError: The container is gone, or has no such user.
        """
        about = await self._container.bash(_ABOUT, self._phase(_LOOK_S))
        lines = about.stdout.decode("utf-8", "replace").splitlines()
        if about.exit_code != 0 or len(lines) != 3:
            words = (about.stderr + about.stdout).decode("utf-8", "replace").strip()
            raise SandboxBoundaryError(
                f"the agent's user {self._user!r} runs no command: {words}", kind="image_unfit", is_retry_owed=False
            )
        self.work_dir, self.home, path = lines
        self._path = ":".join((path, *way.path))

    async def run_bash(self, command: str) -> CommandResult:
        """Run a command in a shell of its own, in the work directory; see the protocol."""
        ran = await self._container.bash(command, self._phase(self._limits.command_seconds))
        output = (ran.stdout + ran.stderr).decode("utf-8", "replace")
        return CommandResult(output=output, exit_code=ran.exit_code, is_timeout=ran.is_timeout)

    async def read_file(self, path: str) -> bytes:
        """Return a file's bytes; see the protocol."""
        return await self._container.read(path, self._phase(_LOOK_S), self._limits.file_mb << 20)

    async def write_file(self, path: str, content: bytes) -> None:
        """Write a file; see the protocol."""
        await self._container.write(path, content, self._phase(_LOOK_S))

    async def run_program(self, launch: ProgramCommand, stop: anyio.Event) -> ProgramEnd:
        """Run a program to its end; see the protocol. Services that it leaves stay, as in Harbor.

        Raises:
            SandboxBoundaryError: The container, or the way to the listener, is gone.
        """
        stdin, stdout, stderr = new_path(), new_path(), new_path()
        await self._container.write(stdin, launch.stdin, self._phase(_LOOK_S))
        phase = self._phase(launch.max_seconds, {"HOME": self.home, "PATH": self._path, **launch.environment})
        broken: list[SandboxBoundaryError] = []

        async def watch() -> None:
            broken.append(await relay_end(self._relay))
            stop.set()

        with ungrouped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                ran = await self._container.bash(_START, phase, stdin, stdout, stderr, *launch.argv, stop=stop)
                tasks.cancel_scope.cancel()
        if broken:
            raise broken[0]
        printed = [
            await self._container.printed(path, self._phase(_LOOK_S), self._limits.output_bytes)
            for path in (stdout, stderr)
        ]
        return ProgramEnd(exit_code=ran.exit_code, stdout=printed[0], stderr=printed[1])

    def _phase(self, timeout_s: float, environment: Mapping[str, str] | None = None) -> Phase:
        return Phase(user=self._user, environment=environment or {}, timeout_s=timeout_s)
