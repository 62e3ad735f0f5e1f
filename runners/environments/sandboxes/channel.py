"""The host's end of the control socket to a sandbox: one reply per request, and a time limit on every wait."""

import asyncio
from collections import deque
from collections.abc import Callable

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.inside.pipes import FRAME_LIMIT_BYTES, pack, unpack

OUT_OF_MEMORY = "sandbox_out_of_memory"
"""The error kind if the agent used up the sandbox's memory, so that the kernel killed the driver itself."""
IMAGE_UNFIT = "image_unfit"
"""The error kind for an image in which a sandbox can never start."""


class Channel(asyncio.Protocol):
    """Our end of the standard streams of a driver, or of a program in a container."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def break_off(self, reason: str, kind: str) -> None:
        """End the channel, with the reason and the error kind."""
        raise NotImplementedError


class ControlChannel(Channel):
    """Sends requests to the driver and waits for its replies.

    If a caller is cancelled while a command runs, the driver is told to end the command, and the next request first
    discards the outstanding reply. The work directory can therefore still be read and graded.

    Args:
        describe_end: Called when the socket has closed. Returns why the sandbox ended, and the error kind.
    """

    def __init__(self, describe_end: Callable[[], tuple[str, str]]) -> None:
        super().__init__()
        self._describe_end = describe_end
        self._replies: deque[list[bytes]] = deque()
        self._arrival = asyncio.Event()
        self._turn = asyncio.Lock()
        self._unread_replies = 0
        self._broken: SandboxBoundaryError | None = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if end > FRAME_LIMIT_BYTES:
                self.break_off("its driver sent a reply that is larger than any limit", "sandbox_protocol")
                return
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[4:end])
            del self._buffer[:end]
            try:
                self._replies.append(unpack(body))
            except ValueError:
                self.break_off("its driver sent a broken reply", "sandbox_protocol")
                return
            self._arrival.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake every waiting caller, because the driver is gone."""
        self.break_off(*self._describe_end())

    def close(self) -> None:
        """Close the socket, which ends the driver and every process that it started."""
        if self._transport is not None:
            self._transport.abort()

    def send_program(self, program: bytes) -> None:
        """Send the program that the bootstrap code is waiting to read."""
        assert self._transport is not None
        self._transport.write(len(program).to_bytes(4, "big") + program)

    def interrupt(self) -> None:
        """Tell the driver to end the running command, whose request still gets its reply."""
        self._write((b"cancel",))

    async def ask(self, *fields: bytes, timeout_s: float) -> list[bytes]:
        """Send one request and return the fields of its reply.

        Raises:
            SandboxBoundaryError: The driver died, sent an invalid reply, or was too slow. Later requests fail in the
                same way.
        """
        async with self._turn:
            try:
                async with asyncio.timeout(timeout_s):
                    while self._unread_replies:
                        await self._next_reply()
                        self._unread_replies -= 1
                    self._write(fields)
                    return await self._reply_or_cancel()
            except TimeoutError:
                self.break_off(f"no answer from its driver in {timeout_s:.0f} s", "sandbox_hung")
                assert self._broken is not None
                raise self._broken from None

    async def _reply_or_cancel(self) -> list[bytes]:
        try:
            return await self._next_reply()
        except asyncio.CancelledError:
            self._unread_replies += 1
            self._write((b"cancel",))
            raise

    async def _next_reply(self) -> list[bytes]:
        while not self._replies:
            if self._broken is not None:
                raise self._broken
            self._arrival.clear()
            await self._arrival.wait()
        return self._replies.popleft()

    def _write(self, fields: tuple[bytes, ...]) -> None:
        if self._broken is None and self._transport is not None:
            self._transport.write(pack(*fields))

    def break_off(self, reason: str, kind: str) -> None:
        """Fail all waiting and all later requests; if called again, keep the first reason."""
        if self._broken is None:
            is_abuse = kind == OUT_OF_MEMORY
            is_retry_owed = kind != IMAGE_UNFIT
            self._broken = SandboxBoundaryError(
                f"the sandbox is gone: {reason}", kind=kind, is_retry_owed=is_retry_owed, is_abuse=is_abuse
            )
        self._arrival.set()
        self.close()
