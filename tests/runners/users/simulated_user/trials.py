"""A trial's ask_user server on a real loopback port, its clients, and simulators that wait; for the tests here."""

import contextlib
import json

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette

from lhaw_record.recorder.events import QuestionAnswered, QuestionAsked
from lhaw_record.runners.models.gateway.calls import PendingCall
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.ask_user.serving import AskUserServer
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator
from tests.runners.models.gateway.serving import serving
from tests.runners.users.simulated_user.people import NAME, MemoryStream, knowing

KEY = "key-of-the-trial"
TOKEN = "token-of-the-trial"
JSON = "application/json"
SSE = "text/event-stream"


class SlowSimulator(ExactSimulator):
    """Answers when it is let."""

    def __init__(self):
        super().__init__()
        self.is_asked = anyio.Event()
        self.may_answer = anyio.Event()

    async def answer(self, question, context, knowledge):
        """Wait, then answer."""
        self.is_asked.set()
        await self.may_answer.wait()
        return await super().answer(question, context, knowledge)


def pending_call(call_id, arguments, *, name="mcp__user__ask_user", action_index=3):
    """A tool call that the model made and whose result is not known yet."""
    return PendingCall(call_id=call_id, name=name, arguments_json=json.dumps(arguments), action_index=action_index)


class Trial:
    """One trial at a server."""

    def __init__(self, base, server, simulator=None, key=KEY, token=TOKEN, tool_name="ask_user", before_append=None):
        self.stream = MemoryStream(before_append) if before_append else MemoryStream()
        self.handler = RecordedUser(simulator or ExactSimulator(), knowing(NAME), self.stream)
        self.pending = []
        self.url = f"{base}/t/{key}/mcp"
        self.key, self.token = key, token
        self._server, self._tool_name = server, tool_name

    @property
    def asked(self):
        """The questions that were recorded."""
        return [event for event in self.stream.events if isinstance(event, QuestionAsked)]

    @property
    def answered(self):
        """The answers that were recorded."""
        return [event for event in self.stream.events if isinstance(event, QuestionAnswered)]

    async def open(self):
        """Open it at its server."""
        pending = lambda: tuple(self.pending)  # noqa: E731
        await self._server.open(self.key, self.token, self.handler, pending, self._tool_name)
        return self

    def http(self, **headers):
        """A raw client with the trial's token."""
        return httpx2.AsyncClient(headers={"Authorization": f"Bearer {self.token}", **headers}, timeout=None)

    @contextlib.asynccontextmanager
    async def client(self, mode="auto"):
        """A real MCP client."""
        async with (
            self.http() as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode) as client,
        ):
            yield client


@contextlib.asynccontextmanager
async def listening(**options):
    """A server on a free port; gives its address and itself."""
    server = AskUserServer(**options)
    async with server, serving(Starlette(routes=server.routes)) as base:
        yield base, server


@contextlib.asynccontextmanager
async def trial_with(simulator=None, *, progress_every_s=10.0, **options):
    """One open trial on a port of its own."""
    async with listening(progress_every_s=progress_every_s) as (base, server):
        yield await Trial(base, server, simulator, **options).open()
        await server.close(options.get("key", KEY))


def request(method, params=None, request_id=1):
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}


def call(question, request_id=1, name="ask_user", **meta):
    """A request that calls the tool."""
    params = {"name": name, "arguments": {"question": question}}
    return request("tools/call", {**params, **({"_meta": meta} if meta else {})}, request_id)


def opening(version):
    """The request that opens a session."""
    client = {"name": "raw", "version": "1"}
    return request("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client}, 0)


def messages_of(response):
    """The JSON-RPC messages in an answer, whatever its shape."""
    if response.headers["content-type"].startswith(SSE):
        lines = response.content.split(b"\n")
        return [json.loads(line[5:]) for line in lines if line.startswith(b"data:") and line[5:].strip()]
    found = response.json()
    return found if isinstance(found, list) else [found]


def text_of(response):
    """The text of the tool's result in an answer."""
    (result,) = (each["result"] for each in messages_of(response) if "result" in each)
    assert not result.get("isError"), result
    assert "structuredContent" not in result
    (part,) = result["content"]
    return part["text"]
