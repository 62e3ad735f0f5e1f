"""A real HTTP server that speaks OpenAI's chat completions for any model, and can be told to misbehave.

In tests ``async with chat_server(model, faults=[...]) as url``; by hand, for the real command line:
``python -m tests.support.chat_server --model scripted/balanced --port 8080 --fault rate_limit:2``.
"""

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Self

import msgspec
from anyio.from_thread import start_blocking_portal

from lhaw_record.runners.base.conversation.messages import ToolDefinition, from_wire, to_wire
from lhaw_record.runners.models.protocol import Model, ModelReply, ModelRequest
from tests.support.faults import Fault, http_error, spoiled_reply
from tests.support.limits import Dialect, RequestLimit

NOT_PARAMETERS = ("model", "messages", "tools", "stream")
_TLS_HANDSHAKE = b"\x16"
JSON_HEADERS = {"content-type": "application/json"}


class ChatServer:
    """Serves a model on a free loopback port.

    Args:
        model: The model that answers, or a function that makes one from the request's ``seed`` (0 without one).
        faults: Misbehaviour, used up in this order: each request consumes one time of the first fault left.
        port: The port, 0 for a free one.
        limit: How many requests are accepted.
    """

    def __init__(
        self,
        model: Model | Callable[[int], Model],
        faults: Sequence[Fault] = (),
        port: int = 0,
        limit: RequestLimit | None = None,
    ) -> None:
        self._model = model
        self._faults = [fault for fault in faults for _ in range(1 if fault.times is None else fault.times)]
        self._port = port
        self._limit = limit
        self._models_of_seeds: dict[int, Model] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.requests: list[dict[str, Any]] = []
        """The bodies of all chat requests so far."""
        self.headers: list[dict[str, str]] = []
        """Their headers, names in lower case."""
        self.has_received = asyncio.Event()
        """Set once the first chat request has arrived."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """The address for ``api_base``."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._serve_connection(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._serve_request(reader, writer):
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away
        finally:
            writer.close()

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request and return whether the connection stays open."""
        start = await reader.readexactly(1)
        if start == _TLS_HANDSHAKE:  # a client that was given https: it gets what a plain server says
            writer.write(b"HTTP/1.1 400 -\r\n\r\n")
            return False
        head = (start + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request_line, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if not request_line.startswith("POST ") or "/chat/completions" not in request_line:
            writer.write(_written(200 if "/models" in request_line else 404, {"object": "list", "data": []}))
            return True
        wire = json.loads(body)
        self.requests.append(wire)
        self.headers.append(headers)
        self.has_received.set()
        if self._limit is not None:
            await self._answer_limited(self._limit, writer, wire)
            return True
        fault = self._next_fault()
        if fault is not None and fault.kind == "drop":
            writer.transport.abort()
            return False
        if fault is not None and fault.kind == "hang":
            await reader.read(1)  # returns when the client gives up
            return False
        if fault is not None and fault.kind == "not_http":
            writer.write(b"\x15\x03\x01\x00\x02\x02\x28")
            return False
        status, answer = await self._answer(wire, fault)
        extra = {"retry-after": fault.retry_after} if fault is not None and fault.retry_after is not None else {}
        if fault is not None and fault.kind in ("cut", "stall", "trickle"):
            return await _write_badly(reader, writer, fault, _written(status, answer, extra))
        writer.write(_written(status, answer, extra))
        return True

    async def _answer_limited(self, limit: RequestLimit, writer: asyncio.StreamWriter, wire: dict[str, Any]) -> None:
        if not limit.enter():
            writer.write(_written(429, limit.refusal(), limit.headers(is_refusal=True)))
            return
        try:
            status, answer = await self._answer(wire, None)
        finally:
            limit.leave()
        writer.write(_written(status, answer, limit.headers(is_refusal=False)))

    def _next_fault(self) -> Fault | None:
        if not self._faults:
            return None
        return self._faults[0] if self._faults[0].times is None else self._faults.pop(0)

    async def _answer(self, wire: dict[str, Any], fault: Fault | None) -> tuple[int, Any]:
        if fault is not None and (error := http_error(fault)) is not None:
            return error
        if fault is not None and fault.kind == "not_json":
            return 200, "The server is having a nice day."
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        request = request_from_wire(wire)
        reply = await self._model_for(int(wire.get("seed") or 0)).respond(request)
        if fault is not None:
            reply = spoiled_reply(fault, reply, request)
        return 200, _spoiled_body(fault, response_to_wire(reply, wire.get("model", "")))

    def _model_for(self, seed: int) -> Model:
        if not callable(self._model):
            return self._model
        return self._models_of_seeds.setdefault(seed, self._model(seed))


def request_from_wire(wire: dict[str, Any]) -> ModelRequest:
    """Return the request of a chat-completions body; everything beside messages and tools is a parameter."""
    return ModelRequest(
        messages=tuple(from_wire(message) for message in wire["messages"]),
        tools=tuple(_tool_from_wire(tool) for tool in wire.get("tools") or ()),
        parameters={name: value for name, value in wire.items() if name not in NOT_PARAMETERS},
    )


def _tool_from_wire(wire: dict[str, Any]) -> ToolDefinition:
    function = wire["function"]
    return ToolDefinition(
        name=function["name"],
        description=function.get("description") or "",
        input_schema=function.get("parameters") or {},
    )


def response_to_wire(reply: ModelReply, model: str) -> dict[str, Any]:
    """Return the body of a chat completion."""
    message = to_wire(reply.message)
    message["content"] = message["content"] or None
    usage = reply.usage
    body = {
        "id": "chatcmpl-local",
        "object": "chat.completion",
        "created": 0,
        "model": reply.served_model or model,
        "choices": [{"index": 0, "finish_reason": reply.finish_reason, "message": message}],
    }
    if usage is not None:  # some servers report none
        body["usage"] = {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        }
    return body


def _spoiled_body(fault: Fault | None, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with the faults that no well-formed reply can express."""
    kind = fault.kind if fault is not None else None
    choice = body["choices"][0]
    if kind == "no_choices":
        body["choices"] = []
    elif kind == "null_message":
        choice["message"] = None
    elif kind == "nameless_tool_call":
        choice["message"]["tool_calls"] = [{"id": "a", "type": "function"}]
    elif kind == "no_ids":
        for call in choice["message"]["tool_calls"]:
            del call["id"]
    elif kind == "object_arguments":
        for call in choice["message"]["tool_calls"]:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return body


def _written(status: int, body: Any, headers: dict[str, str] | None = None) -> bytes:
    payload = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    fields = {**JSON_HEADERS, **(headers or {}), "content-length": str(len(payload))}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} -\r\n{head}\r\n".encode() + payload


async def _write_badly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault, answer: bytes) -> bool:
    """Write half an answer and cut the connection or fall silent, or write all of it slowly."""
    middle = (answer.index(b"\r\n\r\n") + 4 + len(answer)) // 2
    writer.write(answer[:middle])
    await writer.drain()
    if fault.kind == "trickle":
        for piece in range(middle, len(answer), 64):
            await asyncio.sleep(fault.seconds * 64 / (len(answer) - middle))
            writer.write(answer[piece : piece + 64])
        return True
    if fault.kind == "stall":
        await reader.read(1)  # returns when the client gives up
    writer.transport.abort()
    return False


@contextlib.asynccontextmanager
async def chat_server(
    model: Model | Callable[[int], Model], faults: Sequence[Fault] = (), port: int = 0
) -> AsyncIterator[str]:
    """Serve a model while the block runs and give the address for ``api_base``."""
    async with ChatServer(model, faults, port) as server:
        yield server.url


@contextlib.contextmanager
def server_beside(
    model: Model | Callable[[int], Model], faults: Sequence[Fault] = (), limit: RequestLimit | None = None
) -> Iterator[ChatServer]:
    """Serve a model from a thread while the block runs, for a program that has this one's loop."""
    made = ChatServer(model, faults, limit=limit)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(made) as server:
        yield server


def parse_limit(text: str) -> RequestLimit:
    """Return the limit of ``PER_SECOND`` or ``PER_SECOND:BURST:DIALECT``."""
    per_s, _, rest = text.partition(":")
    burst, _, dialect = rest.partition(":")
    return RequestLimit(float(per_s), int(burst or "1"), msgspec.convert(dialect or "bare", Dialect))


def parse_fault(text: str) -> Fault:
    """Return the fault of ``KIND``, ``KIND:TIMES`` or ``KIND:always``."""
    kind, _, times = text.partition(":")
    return msgspec.convert({"kind": kind, "times": None if times == "always" else int(times or "1")}, Fault)


async def _main(arguments: argparse.Namespace) -> None:
    from lhaw_record.runners.agents.scripted import ScriptedModel

    def model(seed: int) -> Model:
        return ScriptedModel(arguments.model, seed)

    async with ChatServer(model, arguments.fault, arguments.port, arguments.limit) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        try:
            await asyncio.Event().wait()
        finally:
            if arguments.limit is not None:
                sys.stderr.write(f"{arguments.limit.accepted} accepted, {arguments.limit.refused} refused\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="scripted/balanced")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--fault", type=parse_fault, action="append", default=[], metavar="KIND[:TIMES|:always]")
    parser.add_argument("--limit", type=parse_limit, metavar="PER_SECOND[:BURST:DIALECT]")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(parser.parse_args()))
    sys.exit(130)
