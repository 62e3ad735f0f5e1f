"""Start a driver, add it to its control group before it serves requests, and end it with all its descendants."""

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import msgspec

from lhaw_record.recorder import processes
from lhaw_record.runners.base.errors import SandboxBoundaryError, SandboxUnfit
from lhaw_record.runners.environments.sandboxes.channel import OUT_OF_MEMORY, ControlChannel
from lhaw_record.runners.environments.sandboxes.command_output import killed_from_outside
from lhaw_record.runners.environments.sandboxes.driver_program import INSIDE_MODULES, driver_program
from lhaw_record.runners.environments.sandboxes.local.cgroups import Cgroup

_OPEN_S = 30.0
_CLOSE_S = 30.0
_LOOK_S = 0.01
INFO_DESCRIPTOR = "INFO_DESCRIPTOR"


class DriverStart(msgspec.Struct, frozen=True, kw_only=True):
    """How a driver is started.

    Args:
        command: Runs the driver, with ``driver_command`` at its end. ``INFO_DESCRIPTOR`` in it becomes a descriptor to
            which the driver's process id is written, as bubblewrap does. If it is absent, the command itself becomes
            the driver.
        descriptors: Open descriptors that the command refers to.
        modules: The modules to send; ``main`` of the last one runs.
        config: Additions to the driver's configuration for this kind of sandbox.
        weak_limits: The limits that this kind does not fully enforce here.
    """

    command: list[str]
    descriptors: tuple[int, ...] = ()
    modules: tuple[str, ...] = INSIDE_MODULES
    config: dict[str, Any] = {}
    weak_limits: tuple[str, ...] = ()


class DriverProcess:
    """A running driver and the channel to it."""

    def __init__(self, process: "subprocess.Popen[bytes]", cgroup: Cgroup) -> None:
        self._process = process
        self._cgroup = cgroup
        self._words = ""
        self.process_id = process.pid
        self.channel = ControlChannel(self._describe_end)

    async def end(self) -> None:
        """Close the channel, which ends the driver, and wait until all its processes have ended."""
        self.channel.close()
        if not await self._has_ended():
            self._process.kill()
            if not await self._has_ended():
                raise SandboxUnfit(f"process {self._process.pid} of a sandbox does not end", kind="sandbox_undead")
        assert self._process.stderr is not None
        self._process.stderr.close()

    async def last_words(self) -> str:
        """Return the standard error of a driver that failed to start."""
        await self._has_ended()
        return self._describe_end()[0]

    async def _has_ended(self) -> bool:
        """Return whether the process ended within the time limit."""
        if self._process.poll() is not None:
            return True
        with anyio.move_on_after(_CLOSE_S):
            await _end_of(self._process)
        return self._process.poll() is not None

    def _describe_end(self) -> tuple[str, str]:
        """Return the end of the process's standard error, and the error kind."""
        assert self._process.stderr is not None
        with suppress(BlockingIOError, ValueError):  # everything has been read, or it is closed
            self._words += os.read(self._process.stderr.fileno(), 4096).decode("utf-8", "replace")
        words = self._words.strip()
        killed = self._cgroup.memory_kill()
        if killed == "memory_outside":
            outside = killed_from_outside("the sandbox")
            return str(outside), outside.kind
        if not words and killed:
            return "the driver itself was killed for lack of memory", OUT_OF_MEMORY
        return words or "its driver ended", "sandbox_died"


async def _end_of(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the end of a process."""
    if not hasattr(os, "pidfd_open"):  # macOS
        while process.poll() is None:  # noqa: ASYNC110  nothing tells it
            await anyio.sleep(_LOOK_S)
        return
    descriptor = os.pidfd_open(process.pid)
    try:
        await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)


@asynccontextmanager
async def running_driver(start: DriverStart, config: dict[str, Any], cgroup: Cgroup) -> AsyncIterator[ControlChannel]:
    """Start a driver, yield the channel to it, and end it with all its descendants."""
    driver = await _started(start, {**config, **start.config}, cgroup)
    try:
        yield driver.channel
    finally:
        with anyio.CancelScope(shield=True):
            await driver.end()


async def _started(start: DriverStart, config: dict[str, Any], cgroup: Cgroup) -> DriverProcess:
    command, descriptors = start.command, start.descriptors
    driver = None
    has_report = INFO_DESCRIPTOR in command
    ours, theirs = socket.socketpair()
    info_read, info_write = os.pipe()
    try:
        try:
            if has_report:
                command = [str(info_write) if word == INFO_DESCRIPTOR else word for word in command]
                # Pass the read end too: bubblewrap must not be killed by SIGPIPE if we stop reading its report.
                descriptors = (*descriptors, info_write, info_read)
            driver = DriverProcess(_spawn(command, theirs, descriptors), cgroup)
        finally:
            theirs.close()
            os.close(info_write)
        await asyncio.get_running_loop().create_unix_connection(lambda: driver.channel, sock=ours)
        driver.channel.send_program(driver_program(config, start.modules))
        process_id = await _reported_process_id(info_read, driver) if has_report else driver.process_id
        # In a thread: moving a process into a group takes the kernel up to 10 ms, in which the driver starts.
        await anyio.to_thread.run_sync(cgroup.add, process_id)
    except BaseException as error:
        ours.close()
        if driver is not None:
            with anyio.CancelScope(shield=True):
                await driver.end()
        if isinstance(error, OSError):
            raise SandboxBoundaryError(f"the sandbox does not start: {error}", kind="sandbox_open") from error
        raise
    finally:
        os.close(info_read)
    return driver


def _spawn(command: list[str], control: socket.socket, descriptors: tuple[int, ...]) -> "subprocess.Popen[bytes]":
    """Start the command in its own session, so that an interrupt typed at the terminal goes only to the host."""
    process = processes.start(
        command,
        stdin=control.fileno(),
        stdout=control.fileno(),
        stderr=subprocess.PIPE,
        env={},
        pass_fds=descriptors,
    )
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), False)
    return process


async def _reported_process_id(info: int, driver: DriverProcess) -> int:
    """Return the driver's process id, which bubblewrap reports as soon as it has created the namespaces.

    The report is read to its end, because bubblewrap writes it in pieces, and closing the pipe early would kill it.
    """
    report = b""
    with anyio.move_on_after(_OPEN_S):
        await anyio.wait_readable(info)
        while more := os.read(info, 4096):
            report += more
            await anyio.wait_readable(info)
    try:
        return int(json.loads(report)["child-pid"])
    except ValueError:  # it ended before the report was complete
        pass
    raise SandboxBoundaryError(f"the sandbox does not start: {await driver.last_words()}", kind="sandbox_open")
