"""Run a program as the agent in a container of a task's own image, which needs only bash."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio

from lhaw_record.runners.base.errors import SandboxBoundaryError, SandboxUnfit, ungrouped
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine
from lhaw_record.runners.environments.sandboxes.docker.provider import DockerSandboxProvider
from lhaw_record.runners.environments.sandboxes.docker.shell import MachineShell, Phase, new_path
from lhaw_record.runners.environments.sandboxes.docker.sidecar import RELAY_LIMITS, LineChannel, open_relay, relay_end
from lhaw_record.runners.environments.sandboxes.driver_program import source_of
from lhaw_record.runners.environments.sandboxes.inside import confine
from lhaw_record.runners.environments.sandboxes.inside.forwarder import PORT
from lhaw_record.runners.environments.sandboxes.protocol import (
    CommandResult,
    ProgramAccess,
    ProgramCommand,
    ProgramEnd,
    SandboxLimits,
)

_LOOK_S = 60.0
# A user of an image may have no HOME, or one that only root may write to.
_ABOUT = (
    '[ -d "$HOME" ] && [ -w "$HOME" ] || HOME=/tmp/.lhaw-record-home; mkdir -p "$HOME" && '
    'printf "%s\\n" "$PWD" "$HOME" "$PATH"'
)
_START = 'out="$1" err="$2"; shift 2; exec "$@" < "$0" > "$out" 2> "$err"'


class ImageProgramSandbox:
    """Runs programs as a user of the image, with that user's HOME; implements ``ProgramSandbox``.

    Args:
        user: The agent's user, as in :class:`lhaw_record.runners.environments.sandboxes.docker.shell.Phase`.
        limits: The limits of output and files.
        dropped_capabilities: The numbers of the container's capabilities that the program drops. This needs python3 in
            the image.
    """

    def __init__(
        self,
        shell: MachineShell,
        user: str,
        limits: SandboxLimits,
        relay: LineChannel,
        dropped_capabilities: Sequence[int],
    ) -> None:
        self.work_dir = self.home = ""
        self.listener_url = f"http://127.0.0.1:{PORT}"
        self._path = ""
        self._shell = shell
        self._user = user
        self._limits = limits
        self._relay = relay
        dropped = [str(number) for number in dropped_capabilities]
        program = f"{source_of(confine)}\nstart_without(sys.argv[1], sys.argv[2:])\n"
        self._launcher = ("python3", "-I", "-S", "-c", program, ",".join(dropped)) if dropped else ()

    async def prepare(self, path: Sequence[str]) -> None:
        """Find the HOME of the agent's user."""
        about = await self._shell.bash(_ABOUT, self._phase(_LOOK_S))
        lines = about.stdout.decode("utf-8", "replace").splitlines()
        if about.exit_code != 0 or len(lines) != 3:
            words = (about.stderr + about.stdout).decode("utf-8", "replace").strip()
            raise SandboxUnfit(f"the agent's user {self._user!r} cannot run a command: {words}", kind="image_unfit")
        self.work_dir, self.home, own_path = lines
        self._path = ":".join((own_path, *path))

    async def run_bash(self, command: str) -> CommandResult:
        ran = await self._shell.bash(command, self._phase(self._limits.command_seconds))
        output = (ran.stdout + ran.stderr).decode("utf-8", "replace")
        return CommandResult(output=output, exit_code=ran.exit_code, is_timeout=ran.is_timeout)

    async def read_file(self, path: str) -> bytes:
        return await self._shell.read(path, self._phase(_LOOK_S), self._limits.file_mb << 20)

    async def write_file(self, path: str, content: bytes) -> None:
        await self._shell.write(path, content, self._phase(_LOOK_S))

    async def cpu_s(self) -> float | None:
        machine = self._shell.machine
        return await machine.cpu_s() if isinstance(machine, DockerMachine) else None

    async def run_program(self, launch: ProgramCommand, stop: anyio.Event) -> ProgramEnd:
        """Run a program to its end; see the protocol. Services that it started keep running for the graders."""
        stdin, stdout, stderr = new_path(), new_path(), new_path()
        await self._shell.write(stdin, launch.stdin, self._phase(_LOOK_S))
        phase = self._phase(launch.max_seconds, {"HOME": self.home, "PATH": self._path, **launch.environment})
        argv = (*self._launcher, *launch.argv)
        broken: list[SandboxBoundaryError] = []

        async def watch() -> None:
            broken.append(await relay_end(self._relay))
            stop.set()

        with ungrouped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                ran = await self._shell.bash(_START, phase, stdin, stdout, stderr, *argv, stop=stop)
                tasks.cancel_scope.cancel()
        if broken:
            raise broken[0]
        phase, limit_bytes = self._phase(_LOOK_S), self._limits.output_bytes
        printed = [await self._shell.printed(path, phase, limit_bytes) for path in (stdout, stderr)]
        memory_kill = "memory_limit" if ran.is_out_of_memory else ""
        return ProgramEnd(exit_code=ran.exit_code, memory_kill=memory_kill, stdout=printed[0], stderr=printed[1])

    def _phase(self, timeout_s: float, environment: Mapping[str, str] | None = None) -> Phase:
        return Phase(user=self._user, environment=environment or {}, timeout_s=timeout_s)


@asynccontextmanager
async def room_of_trial(
    provider: DockerSandboxProvider, memory_mb: int, access: ProgramAccess | None
) -> AsyncIterator[DockerSandboxProvider]:
    """Hold the memory of a trial's containers, including the relay, and yield a provider that draws on it.

    All of it is held at once, because trials that each hold a part would deadlock.
    """
    total_mb = memory_mb + (RELAY_LIMITS.memory_mb if access else 0)
    async with provider.room.hold(total_mb):
        yield provider.within(total_mb)


@asynccontextmanager
async def open_program_sandbox(
    provider: DockerSandboxProvider,
    shell: MachineShell,
    limits: SandboxLimits,
    access: ProgramAccess,
    *,
    user: str = "",
    dropped_capabilities: Sequence[int] = (),
) -> AsyncIterator[ImageProgramSandbox]:
    """Open the relay of a container with ``access.mounts``, and yield the container as a sandbox for programs."""
    assert isinstance(shell.machine, DockerMachine)
    async with open_relay(access.socket, provider.image.name, provider.room, shell.machine) as channel:
        sandbox = ImageProgramSandbox(shell, user, limits, channel, dropped_capabilities)
        await sandbox.prepare(access.path)
        yield sandbox
