"""Run one program in a running container, and end it together with every process that it has started."""

import math
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio
import msgspec

from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.errors import SandboxBoundaryError, ungrouped
from lhaw_record.runners.environments.sandboxes.channel import IMAGE_UNFIT
from lhaw_record.runners.environments.sandboxes.docker.attach import why_it_ended
from lhaw_record.runners.environments.sandboxes.docker.engine import asked

if TYPE_CHECKING:
    from aiodocker.containers import DockerContainer
    from aiodocker.execs import Exec

_END_ALL = ("/bin/sh", "-c", "for each in 1 2 3 4 5 6 7 8 9; do kill -9 -1 2> /dev/null || break; done; exit 0")
_MARK = "LHAW_RECORD_PROGRAM"
_END_MARKED = (
    "/bin/sh",
    "-c",
    'for each in /proc/[0-9]*; do grep -qs "$0" "$each/environ" && kill -9 "${each#/proc/}"; done; exit 0',
)
# Kills the program's descendants that carry the mark. A child of process 1 was left behind on purpose, as a service.
# They are stopped first (a stopped process cannot fork), until no new one appears.
_END_ATTACHED = (
    "/bin/sh",
    "-c",
    """
parent() {
  while read -r key value; do [ "$key" = PPid: ] && echo "$value" && return; done < "/proc/$1/status"
  echo 1
}
attached() {
  for each in /proc/[0-9]*; do
    grep -qs "$0" "$each/environ" || continue
    up="${each#/proc/}"
    while [ "$up" -gt 1 ]; do up="$(parent "$up" 2>/dev/null)"; done
    [ "$up" = 0 ] && echo "${each#/proc/}"
  done
}
before=
while found="$(attached)"; [ -n "$found" ] && [ "$found" != "$before" ]; do kill -STOP $found; before="$found"; done
[ -z "$found" ] || kill -9 $found
exit 0
""",
)
_END_S = 15.0
_NEWS_S = 3.0
_STDERR = 2


class ExecResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended, and the beginning of its output.

    ``exit_code`` is None after a timeout or a stop. ``is_out_of_memory`` means that the kernel killed a process of the
    container for lack of memory during the run, and ``is_out_of_processes`` that it refused to create a process. A
    program may succeed in spite of either.
    """

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    is_timeout: bool = False
    is_out_of_memory: bool = False
    is_out_of_processes: bool = False


class ContainerProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program, its limits and its environment, for :meth:`machine.DockerMachine.run`.

    ``ends_others`` says whether a timeout kills every process of the container except the main process, or only those
    that the program started with its environment intact. ``clock`` replaces ``timeout_s`` with a clock that can be
    paused.
    """

    argv: Sequence[str]
    timeout_s: float
    output_bytes: int = 1 << 20
    user: str = ""
    work_dir: str | None = None
    environment: Mapping[str, str] | None = None
    ends_others: bool = True
    clock: TrialClock | None = None
    stop: anyio.Event | None = None


async def execute(container: "DockerContainer", program: ContainerProgram) -> ExecResult:
    """Run a program to its end. After a timeout or a cancellation, kill it and, by default, all but the main process.

    Closing the connection would not end the program, and its children may have left its process group and session, so
    all processes of the container except the main process are killed.
    """
    mark = f"{_MARK}={secrets.token_hex(8)}"
    end = (*(_END_ATTACHED if program.stop else _END_MARKED), mark)
    execution = await _prepared(container, program, mark)
    kept = {1: bytearray(), _STDERR: bytearray()}
    exit_code = None

    async def ended() -> int:
        async with asked(f"{program.argv[0]} cannot be run", timeout_s=math.inf):
            await _listen(execution, program.output_bytes, kept)
            return await _exit_code(execution)

    try:
        exit_code = await (program.clock or TrialClock(program.timeout_s)).bound(_unless(program.stop, ended))
    finally:
        if exit_code is None:
            with anyio.CancelScope(shield=True):
                await _end(container, execution, _END_ALL if program.ends_others else end)
    if exit_code is not None:
        await _check_alive(container)
    return ExecResult(
        exit_code=exit_code,
        stdout=bytes(kept[1]),
        stderr=bytes(kept[_STDERR]),
        is_timeout=exit_code is None,
    )


def _unless(stop: anyio.Event | None, work: Callable[[], Awaitable[int]]) -> Callable[[], Awaitable[int | None]]:
    """Return the result of the work, or None as soon as the event is set."""
    if stop is None:
        return work

    async def stopped_or_done() -> int | None:
        done: int | None = None

        async def wait() -> None:
            await stop.wait()
            tasks.cancel_scope.cancel()

        with ungrouped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                done = await work()
                tasks.cancel_scope.cancel()
        return done

    return stopped_or_done


async def end_all(container: "DockerContainer") -> None:
    """End every process of a container but the main one, as often as new ones have been forked.

    Raises:
        SandboxBoundaryError: They could not be ended, so that they may write what is read next.
    """
    await run_shell(container, _END_ALL[-1], _END_S)


async def run_shell(container: "DockerContainer", script: str, timeout_s: float) -> ExecResult:
    """Run one of our scripts as root, which has to succeed.

    Raises:
        SandboxBoundaryError: The container runs no shell, as when it has as many processes as it may have.
    """
    argv = ("/bin/sh", "-c", script)
    result = await execute(container, ContainerProgram(argv=argv, timeout_s=timeout_s, user="0", work_dir="/"))
    if result.exit_code != 0:
        await check_end(container)
        raise SandboxBoundaryError(
            "a container does not even run a shell; it may have reached its limit of processes", kind="exec_failed"
        )
    return result


async def check_end(container: "DockerContainer") -> None:
    """Raise if the container ends within a few seconds. Docker may report it after the programs in it have ended."""
    with anyio.move_on_after(_NEWS_S):
        while True:
            await _check_alive(container)
            await anyio.sleep(0.05)


async def _prepared(container: "DockerContainer", program: ContainerProgram, mark: str) -> "Exec":
    environment = dict(program.environment or {})
    if not program.ends_others:
        name, _, value = mark.partition("=")
        environment[name] = value
    try:
        async with asked(f"{program.argv[0]} cannot be run"):
            return await container.exec(
                list(program.argv),
                user=program.user,
                workdir=program.work_dir,
                environment=environment or None,
            )
    except SandboxBoundaryError as error:
        if error.kind == "engine_error":
            await _check_alive(container)
        raise


async def _listen(execution: "Exec", output_bytes: int, kept: dict[int, bytearray]) -> None:
    async with execution.start(detach=False) as stream:
        while (message := await stream.read_out()) is not None:
            kept[message.stream] += message.data[: output_bytes - len(kept[message.stream])]


async def _exit_code(execution: "Exec") -> int:
    """Return the exit code once the program has ended, which may be long after it closed its output."""
    pause_s = 0.01
    while (state := await execution.inspect())["Running"]:
        await anyio.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.5)
    return int(state["ExitCode"])


async def _check_alive(container: "DockerContainer") -> None:
    """Check that a container is running."""
    async with asked("the container cannot be inspected"):
        try:
            is_running = (await container.show())["State"]["Running"]
        except Exception:  # noqa: BLE001  the check below gives a better error
            is_running = False
    if not is_running:
        reason, kind = await why_it_ended(container)
        raise SandboxBoundaryError(f"the container is gone: {reason}", kind=kind, is_retry_owed=kind != IMAGE_UNFIT)


async def _end(container: "DockerContainer", execution: "Exec", command: Sequence[str]) -> None:
    """Repeat a command that kills processes, until the program has ended. If that fails, kill the container."""
    try:
        with anyio.fail_after(_END_S):
            while True:
                killer = await container.exec(list(command), user="0")
                async with killer.start(detach=False) as stream:
                    while await stream.read_out() is not None:
                        pass
                if not (await execution.inspect())["Running"]:
                    return
                await anyio.sleep(0.02)
    except Exception as error:
        await _check_alive(container)
        async with asked("a container whose program does not end cannot be ended either"):
            await container.kill()
        raise SandboxBoundaryError(
            f"a program did not end, so its container was ended: {error}", kind="exec_undead"
        ) from error
