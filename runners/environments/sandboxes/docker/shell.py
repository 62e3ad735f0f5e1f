"""Commands and files in a container of any image, as one of its users; the image needs only bash and coreutils."""

import secrets
from collections.abc import Mapping

import anyio
import msgspec

from lhaw_record.runners.environments.sandboxes.command_output import cut_text, decode_output
from lhaw_record.runners.environments.sandboxes.docker.execution import ExecResult
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine

_ROOT = "0"
_MARGIN = 100
# The size of the output, its head and its tail; the first line is the size.
_SHOW = (
    'size=$(wc -c < "$0"); echo $size; if [ $size -le $1 ]; then cat "$0"; '
    'else head -c $(($1 / 2)) "$0"; tail -c $(($1 / 2)) "$0"; fi; rm -f "$0"'
)


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """The user (empty for the image's), variables, and time limit in seconds for a command."""

    user: str
    environment: Mapping[str, str]
    timeout_s: float


class MachineShell:
    """Runs commands in a container, each with a new shell.

    Args:
        work_dir: Where commands run, or None for the image's own folder.
        variables: Environment variables that every command has in addition to the image's.
    """

    def __init__(self, machine: DockerMachine, work_dir: str | None, variables: Mapping[str, str]) -> None:
        self.machine = machine
        self._work_dir = work_dir
        self._variables = variables

    def root(self, timeout_s: float) -> Phase:
        """Return the phase for our own commands."""
        return Phase(user=_ROOT, environment={}, timeout_s=timeout_s)

    async def bash(
        self,
        command: str,
        phase: Phase,
        *argv: str,
        output_bytes: int = 1 << 20,
        stop: anyio.Event | None = None,
    ) -> ExecResult:
        """Run a command. A timeout ends the command, but not the services of the entry point."""
        return await self.machine.run(
            ("bash", "-c", command, *argv),
            timeout_s=phase.timeout_s,
            output_bytes=output_bytes,
            user=phase.user,
            work_dir=self._work_dir,
            environment={**self._variables, **phase.environment},
            ends_others=False,
            stop=stop,
        )

    async def printed(self, path: str, phase: Phase, limit_bytes: int) -> str:
        """Return a command's output from a file, cut in the middle, and remove the file."""
        half = limit_bytes // 2
        shown = await self.bash(_SHOW, phase, path, str(2 * half), output_bytes=(1 << 20) + _MARGIN)
        first, _, printed = shown.stdout.partition(b"\n")
        total = int(first) if first.strip().isdigit() else len(printed)
        return decode_output(printed) if total <= 2 * half else cut_text(printed[:half], printed[half:], total)

    async def read(self, path: str, phase: Phase, limit_bytes: int) -> bytes:
        """Return the beginning of a file, as the phase's user sees it."""
        done = await self.bash('cat -- "$0" | head -c "$1"', phase, path, str(limit_bytes), output_bytes=limit_bytes)
        if done.stderr:
            raise OSError(0, _reason(done), path)
        return done.stdout

    async def write(self, path: str, content: bytes, phase: Phase) -> None:
        """Write a file as the phase's user, creating its folders."""
        given = new_path()
        await self.machine.put("/", {given.lstrip("/"): content})
        done = await self.bash('mkdir -p -- "$(dirname -- "$0")" && cat "$1" > "$0"', phase, path, given)
        await self.bash(f"rm -f {given}", self.root(phase.timeout_s))
        if done.exit_code != 0:
            raise OSError(0, _reason(done), path)


def new_path() -> str:
    """Return a path for one of our temporary files in a container."""
    return f"/tmp/.lhaw-record-{secrets.token_hex(6)}"  # noqa: S108  in the container


def last_line(result: ExecResult) -> str:
    lines = (result.stderr + result.stdout).decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else "it printed nothing"


def _reason(done: ExecResult) -> str:
    return last_line(done).rpartition(": ")[2]
