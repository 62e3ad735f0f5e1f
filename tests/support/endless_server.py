"""A server of chat completions without a length limit, which never sends a whole reply."""

import asyncio
import contextlib
import json

from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelRequest
from tests.support.canned_model import CannedModel, text_reply
from tests.support.chat_server import chat_server

CHUNK = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "served"}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 2}}


async def warm_up():
    """Let litellm import what its first calls need, which takes longer than the requests may."""
    async with chat_server(CannedModel([text_reply("Hi.")])) as url:
        model = LitellmModel("own", api_base=url)
        await model.respond(ModelRequest(messages=(Message(role="user", content="Hi."),)))


class EndlessServer:
    """A server without a length limit: an unstreamed reply never comes, a streamed one goes on or ends.

    Args:
        deltas: What a stream begins with.
        ends: Whether the stream then ends. Else it repeats a word for ever.
        usage: The usage that the stream reports.
        word: The word. Empty for chunks without a token.
        answers: What a request for a stream gets: a ``stream``; the ``whole`` reply; or that the server ``refuses``,
            and sends a whole reply to the next request.
    """

    def __init__(self, deltas, *, ends, usage=USAGE, word="on ", answers="stream"):
        self.deltas, self.ends, self.usage, self.word, self.answers = deltas, ends, usage, word, answers
        self.raw = []
        self._tasks = []

    async def _serve(self, reader, writer):
        self._tasks.append(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
                self.raw.append(await reader.readexactly(length))
                is_stream = json.loads(self.raw[-1]).get("stream")
                if is_stream and self.answers == "stream":
                    await self._stream(writer)
                elif is_stream and self.answers == "refuses":
                    self.answers = "whole"
                    await self._whole(writer, 400, {"error": {"message": "there are no streams here"}})
                elif self.answers == "whole" and (is_stream or any(json.loads(raw).get("stream") for raw in self.raw)):
                    choice = {"index": 0, "message": self.deltas[0], "finish_reason": "stop"}
                    whole = {**CHUNK, "object": "chat.completion", "choices": [choice], "usage": self.usage}
                    await self._whole(writer, 200, whole)
                else:
                    await reader.read(1)  # until the client gives up
        writer.close()

    async def _stream(self, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for delta in self.deltas:
            self._write(writer, {**CHUNK, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        while not self.ends:
            delta = {"index": 0, "delta": {"content": self.word}, "finish_reason": None}
            self._write(writer, {**CHUNK, "choices": [delta]})
            await writer.drain()
            await asyncio.sleep(0.01)
        self._write(writer, {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": self._reason()}]})
        if self.usage:
            self._write(writer, {**CHUNK, "choices": [], "usage": self.usage})
        done = b"data: [DONE]\n\n"
        writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(done), done))
        await writer.drain()

    def _reason(self):
        return "tool_calls" if any("tool_calls" in delta for delta in self.deltas) else "stop"

    async def _whole(self, writer, status, body):
        raw = json.dumps(body).encode()
        head = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % (status, len(raw)) + raw)
        await writer.drain()

    def _write(self, writer, chunk):
        data = b"data: " + json.dumps(chunk).encode() + b"\n\n"
        writer.write(b"%x\r\n%s\r\n" % (len(data), data))

    @contextlib.asynccontextmanager
    async def serving(self):
        """Serve on a free port and give the address."""
        await warm_up()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks)
            self._tasks.clear()
