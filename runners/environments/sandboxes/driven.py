"""The host side of every sandbox method, for all kinds of sandbox; a driver inside does the work."""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import msgspec

from lhaw_record.recorder.errors import refusal
from lhaw_record.recorder.events.encoding import valid_text
from lhaw_record.recorder.events.interaction import SandboxLimit
from lhaw_record.runners.base.errors import SandboxBoundaryError, SandboxUnfit, ungrouped
from lhaw_record.runners.environments.sandboxes.channel import ControlChannel
from lhaw_record.runners.environments.sandboxes.command_output import command_result, program_end
from lhaw_record.runners.environments.sandboxes.inside.forwarder import PORT
from lhaw_record.runners.environments.sandboxes.inside.pipes import CHUNK_BYTES
from lhaw_record.runners.environments.sandboxes.inside.processes import memory_kill
from lhaw_record.runners.environments.sandboxes.protocol import (
    READ_BYTES,
    CommandResult,
    ProgramAccess,
    ProgramCommand,
    ProgramEnd,
    SandboxLimits,
)

Watch = Callable[[], dict[str, int]]
"""Returns ``limit_counts`` of the sandbox's group, as far as this host can read them."""
_WATCHED: Mapping[str, SandboxLimit] = {"oom_kill": "memory_mb", "processes": "processes"}
_ANSWER_S = 30.0
_KILLED = b"137"
_LACKING = (errno.EAGAIN, errno.ENOMEM, errno.ENFILE, errno.EMFILE, errno.EIO)
_COMMAND_LIMIT_BYTES = 4 << 20


class DrivenSandbox:
    """An open sandbox behind a control channel; implements
    :class:`lhaw_record.runners.environments.sandboxes.protocol.Sandbox`.
    """

    def __init__(
        self,
        kind: str,
        config: Mapping[str, Any],
        weak_limits: tuple[str, ...],
        limits: SandboxLimits,
        channel: ControlChannel,
        watch: Watch = dict,
        cpu_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self.kind = kind
        self.work_dir: str = config["work_dir"]
        self.weak_limits = weak_limits
        self.home = ""
        self.listener_url = ""
        self._environment: Mapping[str, str] = config["environment"]
        self._limits = limits
        self._channel = channel
        self._watch = watch
        self._cpu_s = cpu_s
        self._seen = watch()

    async def prepare(
        self, files: Path | None, access: ProgramAccess | None, *, home: str, port: int | None = PORT
    ) -> None:
        """Finish opening: fill the work directory, and prepare for programs if ``access`` is given."""
        if access is not None:
            self.home, self.listener_url = home, f"http://127.0.0.1:{port}"
            self._environment = {
                **self._environment,
                "HOME": home,
                "PATH": ":".join((self._environment["PATH"], *access.path)),
            }
        if files is not None:
            await self._load(files)

    async def run_bash(self, command: str) -> CommandResult:
        if "\0" in command:
            return CommandResult(output="a shell command cannot hold a NUL byte", exit_code=2)
        return await self._run(b"bash", command)

    async def run_python(self, code: str) -> CommandResult:
        return await self._run(b"python", code)

    async def read_file(self, path: str) -> bytes:
        name = os.fsencode(path)
        content = bytearray()
        while True:
            size, chunk = await self._chunk(b"read", name, len(content), path)
            content += chunk
            if not chunk or (size and len(content) >= size):
                return bytes(content)
            if len(content) > READ_BYTES:  # it grew while it was read
                return bytes(content)

    async def write_file(self, path: str, content: bytes) -> None:
        name = os.fsencode(path)
        for entry in _file_entries(b"w", name, content):
            _raise_os_error(await self._channel.ask(b"put", *entry, timeout_s=_ANSWER_S), path)

    async def export(self, destination: Path) -> None:
        """Copy the regular files and empty folders of the work directory to a host folder; see the protocol.

        The driver lists and opens files without following links, and no path of the agent is opened on the host. At
        most half of ``memory_mb`` is copied, which is also the capacity of a work directory in memory.
        """
        limit_bytes = self._limits.memory_mb << 19
        reply = await self._channel.ask(b"list", b"%d" % limit_bytes, timeout_s=_ANSWER_S)
        if reply[0] == b"too_large":
            raise SandboxBoundaryError(
                f"the work directory cannot be exported: it has {reply[1].decode()}",
                kind="export_too_large",
                is_retry_owed=False,
                is_abuse=True,
            )
        _raise_os_error(reply, str(destination))
        destination.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  a local folder
        left_bytes = limit_bytes
        for path, size, kind in zip(reply[1::3], reply[2::3], reply[3::3], strict=True):
            if kind == b"d":
                _target(destination, path).mkdir(parents=True, exist_ok=True)
                continue
            left_bytes -= await self._export_file(path, int(size), kind == b"x", destination, left_bytes)

    async def cpu_s(self) -> float | None:
        return self._cpu_s()

    async def run_program(self, launch: ProgramCommand, stop: anyio.Event) -> ProgramEnd:
        environment = {**self._environment, **launch.environment}
        words = [*(word for item in environment.items() for word in item), *launch.argv]
        request = [b"%.3f" % launch.max_seconds, launch.stdin, b"%d" % len(environment), *map(os.fsencode, words)]

        async def stop_when_told() -> None:
            await stop.wait()
            self._channel.interrupt()
            await anyio.sleep(_ANSWER_S)
            self._channel.break_off(f"its driver has not ended the program in {_ANSWER_S:.0f} s", "sandbox_hung")

        with ungrouped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop_when_told)
                reply = await self._channel.ask(b"program", *request, timeout_s=launch.max_seconds + _ANSWER_S)
                tasks.cancel_scope.cancel()
        if reply[0] == b"error":
            return ProgramEnd(exit_code=None, start_error=os.strerror(int(reply[1])))
        end = program_end(reply)
        met = self._limits_met(is_killed=end.exit_code == int(_KILLED))
        return msgspec.structs.replace(end, memory_kill=end.memory_kill or "".join(set(met) - {"process_refused"}))

    async def _load(self, files: Path) -> None:
        """Copy a host folder into the work directory, then set all modification times in it to one fixed value."""
        batch: list[bytes] = []
        batch_bytes = 0
        for entry in _folder_entries(files):
            batch += entry
            batch_bytes += len(entry[2]) + len(entry[1])
            if batch_bytes > CHUNK_BYTES:
                _raise_load_error(await self._channel.ask(b"put", *batch, timeout_s=_ANSWER_S), files)
                batch, batch_bytes = [], 0
        _raise_load_error(await self._channel.ask(b"put", *batch, timeout_s=_ANSWER_S), files)
        _raise_load_error(await self._channel.ask(b"settle", timeout_s=_ANSWER_S), files)

    async def _run(self, operation: bytes, text: str) -> CommandResult:
        request = valid_text(text).encode()
        if len(request) > _COMMAND_LIMIT_BYTES:
            return CommandResult(output="the command is longer than 4 MB; write it to a file first", exit_code=2)
        timeout_s = self._limits.command_seconds + _ANSWER_S
        reply = await self._channel.ask(operation, request, timeout_s=timeout_s)
        if reply[0] == b"error":
            return _not_started(int(reply[1]), self.work_dir)
        is_killed = reply[1] == _KILLED
        watched = tuple(limit for name, limit in _WATCHED.items() if name in self._seen)
        return command_result(reply, self._limits, self._limits_met(is_killed=is_killed), watched)

    def _limits_met(self, *, is_killed: bool) -> tuple[str, ...]:
        """Return notes on the limits that the kernel enforced since the last call.

        Without a group, only the kills of the whole host are known, so that what ended must have been killed.
        """
        before, self._seen = self._seen, self._watch()
        killed = memory_kill(before, self._seen)
        if is_killed and self._seen.get("host_kills", 0) > before.get("host_kills", 0):
            killed = "memory_outside"
        is_refused = self._seen.get("processes", 0) > before.get("processes", 0)
        return (*filter(None, (killed, "process_refused" if is_refused else "")),)

    async def _export_file(self, path: bytes, size: int, is_executable: bool, root: Path, left_bytes: int) -> int:
        target = _target(root, path)
        copied = 0
        while copied < size or copied == 0:
            reply = await self._channel.ask(b"export", path, b"%d" % copied, timeout_s=_ANSWER_S)
            if reply[0] == b"error":
                return copied  # it was removed or replaced by a link after it was listed
            chunk = reply[2][: size - copied]
            if copied == 0:
                target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab" if copied else "wb") as file:
                file.write(chunk)
            copied += len(chunk)
            if copied > left_bytes:
                raise SandboxBoundaryError(
                    "the work directory grew beyond its limit while it was exported",
                    kind="export_too_large",
                    is_retry_owed=False,
                    is_abuse=True,
                )
            if not chunk:
                break
        if is_executable:
            target.chmod(0o755)
        return copied

    async def _chunk(self, operation: bytes, name: bytes, offset: int, path: str) -> tuple[int, bytes]:
        reply = await self._channel.ask(operation, name, b"%d" % offset, timeout_s=_ANSWER_S)
        _raise_os_error(reply, path)
        return int(reply[1]), reply[2]


def _target(root: Path, path: bytes) -> Path:
    """Return the host path for a listed path."""
    parts = path.split(b"/")
    if any(part in (b"", b".", b"..") for part in parts):
        raise SandboxBoundaryError(f"the sandbox listed the path {path!r}", kind="export_escape")
    return root.joinpath(*(os.fsdecode(part) for part in parts))


def _not_started(number: int, work_dir: str) -> CommandResult:
    """Return the agent's result if its changes to the work directory prevent its shell from starting."""
    if number in _LACKING:
        raise SandboxBoundaryError(
            f"the sandbox cannot start a process: {os.strerror(number)}", kind="sandbox_exhausted"
        )
    return CommandResult(output=f"nothing can be started in {work_dir}: {os.strerror(number)}", exit_code=126)


def _raise_os_error(reply: list[bytes], path: str) -> None:
    if reply[0] == b"error":
        number = int(reply[1])
        raise OSError(number, os.strerror(number), path)


def _raise_load_error(reply: list[bytes], files: Path) -> None:
    try:
        _raise_os_error(reply, str(files))
    except OSError as error:
        raise SandboxUnfit(
            f"the files of {files} cannot be copied into the sandbox: {refusal(OSError(error.errno, error.strerror))}",
            kind="sandbox_load",
        ) from error


def _file_entries(kind: bytes, name: bytes, content: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield the entries that write a file, at most one chunk each."""
    yield kind, name, content[:CHUNK_BYTES]
    for start in range(CHUNK_BYTES, len(content), CHUNK_BYTES):
        yield b"a", name, content[start : start + CHUNK_BYTES]


def _folder_entries(folder: Path) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield the entries that copy a folder, in a fixed order. Links are copied as links; special files are skipped."""
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.relative_to(folder))
        if path.is_symlink():
            yield b"l", name, os.fsencode(path.readlink())
        elif path.is_dir():
            yield b"d", name, b""
        elif path.is_file():
            is_executable = bool(path.stat().st_mode & 0o100)
            yield from _file_entries(b"x" if is_executable else b"f", name, path.read_bytes())
