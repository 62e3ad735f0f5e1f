"""Connect a container's standard streams to a control channel, and find out why they ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.channel import IMAGE_UNFIT, Channel
from lhaw_record.runners.environments.sandboxes.docker.engine import asked

if TYPE_CHECKING:
    from aiodocker.containers import DockerContainer
    from aiodocker.stream import Stream

_STDERR = 2
_LAST_WORDS_BYTES = 4096
_OTHER_PROCESSOR = "is not made for this machine's processor; get one that is"
_NOT_EXECUTED = (1, 255)  # exit codes that engines report if the kernel could not execute the main process
_DIAGNOSIS_S = 5.0
_LAST_OUTPUT_S = 0.2


class Attachment(asyncio.Transport):
    """Carries a channel's requests into a container, and the replies back.

    Args:
        container: A container with open standard input.
        channel: Receives the replies and the reason for the container's end.
    """

    def __init__(self, container: "DockerContainer", stream: "Stream", channel: Channel) -> None:
        super().__init__()
        self._container = container
        self._stream = stream
        self._channel = channel
        self._last_words = bytearray()
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        channel.connection_made(self)

    def watch(self) -> None:
        """Start watching for the container's end. Call this after the container has started.

        The end of its streams is not enough: the engine keeps them open while requests wait for a process that has
        ended.
        """
        self._tasks.append(asyncio.create_task(self._wait_for_end()))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Queue bytes for the container."""
        self._requests.put_nowait(bytes(data))

    def abort(self) -> None:
        """Cancel all tasks. The container's input ends only when the stream is closed."""
        for task in self._tasks:
            task.cancel()

    async def end(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        self.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        response = self._stream._resp
        if response is not None and response.connection is not None and response.connection.transport is not None:
            response.connection.transport.abort()  # the library would wait for requests that are no longer read
        await self._stream.close()

    async def _read(self) -> None:
        from aiohttp import ClientError

        try:
            while (message := await self._stream.read_out()) is not None:
                if message.stream != _STDERR:
                    self._channel.data_received(message.data)
                elif len(self._last_words) < _LAST_WORDS_BYTES:
                    self._last_words += message.data
        except (ClientError, OSError):
            pass  # the engine is gone; the next call asks it why
        await self._say_why()

    async def _wait_for_end(self) -> None:
        from aiodocker import DockerError
        from aiohttp import ClientError

        try:
            await self._container.wait()
        except (DockerError, ClientError, OSError):
            return  # the reading side says why
        await asyncio.sleep(_LAST_OUTPUT_S)
        await self._say_why()

    async def _say_why(self) -> None:
        words = self._last_words.decode("utf-8", "replace").strip()
        reason, kind = await why_it_ended(self._container, words)
        self._channel.break_off(reason, kind)

    async def _write(self) -> None:
        from aiohttp import ClientError

        try:
            while True:
                await self._stream.write_in(await self._requests.get())
        except (ClientError, OSError, AssertionError):
            return  # the reading side says why


@asynccontextmanager
async def started(container: "DockerContainer", channel: Channel, what: str) -> AsyncIterator[None]:
    """Attach a channel to a container, then start it. On exit, end the attachment but not the container."""
    stream = container.attach(stdin=True, stdout=True, stderr=True)
    async with asked(what):
        await stream.__aenter__()
    attachment = Attachment(container, stream, channel)
    try:
        async with asked(what):
            await container.start()
        attachment.watch()
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await attachment.end()


async def why_it_ended(container: "DockerContainer", last_words: str = "") -> tuple[str, str]:
    """Return why a container's streams ended, and the error kind."""
    try:
        state = await _final_state(container)
        if await _is_for_another_processor(container, state, last_words):
            return f"its image {_OTHER_PROCESSOR}", IMAGE_UNFIT
    except SandboxBoundaryError as error:
        if error.kind == "engine_error" and "no such container" in str(error).lower():
            return "its container was removed from outside", "container_removed"
        return str(error), error.kind
    if state["Running"] and not state["Paused"]:
        return "the connection to the Docker Engine broke", "engine_away"
    if state["OOMKilled"] and state["ExitCode"] == 137:
        return "the driver itself was killed for lack of memory", "sandbox_out_of_memory"
    if state["ExitCode"] == 137:
        return "its container was killed from outside (exit code 137)", "container_killed"
    return last_words or state["Error"] or f"its driver ended with exit code {state['ExitCode']}", "sandbox_died"


async def _is_for_another_processor(container: "DockerContainer", state: dict[str, Any], last_words: str) -> bool:
    """Return whether a main process failed to execute because it was built for another CPU architecture.

    Only an "exec format error" on standard error is certain. If the process failed silently, we conclude it from the
    image's architecture: no emulator has run the process.
    """
    if last_words or state["Running"] or state["ExitCode"] not in _NOT_EXECUTED:
        return last_words.endswith("exec format error")
    async with asked("its image cannot be inspected", timeout_s=_DIAGNOSIS_S):
        image = await container.docker.images.inspect((await container.show())["Image"])
        engine = await container.docker.version()
    return bool(image["Architecture"] != engine["Arch"])


async def _final_state(container: "DockerContainer") -> dict[str, Any]:
    """Return a container's final state, which the engine knows only a moment after the streams have ended."""
    state: dict[str, Any] = {}
    with anyio.move_on_after(_DIAGNOSIS_S):
        while True:
            async with asked("its container cannot be inspected", timeout_s=_DIAGNOSIS_S):
                state = (await container.show())["State"]
            if not state["Running"]:
                return state
            await anyio.sleep(0.05)
    return state or {"Running": True, "Paused": False}
