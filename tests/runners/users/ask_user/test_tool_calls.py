"""A benchmark's own tools over MCP: executed once each, joined to their actions, and cut off with the program."""

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from lhaw_record.runners.base.conversation.messages import ToolDefinition, ToolResult
from lhaw_record.runners.base.errors import ToolBoundaryError
from lhaw_record.runners.users.ask_user.calls import OfferedTools, ToolCalls
from lhaw_record.runners.users.ask_user.server import AnswerDelivery, ToolRequest
from tests.runners.users.simulated_user.trials import listening, pending_call

PATH = {"path": "a.txt"}
TOOLS = tuple(
    ToolDefinition(name=name, description=name, input_schema={"type": "object"}) for name in ("read", "x_read")
)


class Box:
    """Tools that count their calls; ``gone`` breaks and ``hangs`` never answers."""

    tools = TOOLS

    def __init__(self):
        self.called = []
        self.executed = []
        self.offered = OfferedTools(self, lambda index, result, took_ms: self.executed.append((index, result.text)))

    async def call(self, name, arguments, call_id):
        """Execute a call."""
        self.called.append((name, arguments, call_id))
        if "gone" in arguments:
            raise ToolBoundaryError("the server is gone", kind="server_gone")
        if "hangs" in arguments:
            await anyio.sleep_forever()
        return ToolResult(text=f"result {len(self.called)}", server="files")


@pytest.mark.thorough
async def test_a_call_sent_again_is_executed_once_and_equal_calls_are_two():
    """A lost connection repeats the request; two calls of the model with the same arguments are two actions."""
    box = Box()
    async with anyio.create_task_group() as group:
        pending = [pending_call("c1", PATH, name="mcp__user__read", action_index=4)]
        calls = ToolCalls(box.offered, lambda: pending)
        calls.group = group
        for state in ("lost", "done"):
            delivery = AnswerDelivery()
            asked = ToolRequest(name="read", arguments=PATH, request_id=1, delivery=delivery)
            assert (await calls.answer(asked)).text == "result 1"
            delivery.end(state)
        pending[:] = [pending_call("c2", PATH, name="mcp__user__read", action_index=5)]
        assert (await calls.answer(ToolRequest(name="read", arguments=PATH, request_id=2))).text == "result 2"
    assert box.executed == [(4, "result 1"), (5, "result 2")]


@pytest.mark.thorough
async def test_a_name_that_ends_like_another_is_not_that_tool():
    """The pending call of ``x_read`` is none of ``read``; a call of nobody's is executed and is no action."""
    box = Box()
    async with anyio.create_task_group() as group:
        pending = [pending_call("c1", PATH, name="user_x_read", action_index=1)]
        calls = ToolCalls(box.offered, lambda: pending)
        calls.group = group
        await calls.answer(ToolRequest(name="read", arguments=PATH))
        assert box.executed == []
        await calls.answer(ToolRequest(name="x_read", arguments=PATH))
    assert box.executed == [(1, "result 2")]


async def test_the_tools_are_served_without_a_user_and_a_broken_one_fails_the_trial():
    """They are listed alone, executed, and a machinery that breaks is kept for the trial; the end cuts off the rest."""
    async with listening() as (base, server):
        box = Box()
        await server.open("key", None, None, lambda: (), tools=box.offered)
        async with (
            httpx2.AsyncClient(timeout=None) as http,
            Client(streamable_http_client(f"{base}/t/key/mcp", http_client=http)) as client,
        ):
            assert [tool.name for tool in (await client.list_tools()).tools] == ["read", "x_read"]
            told = await client.call_tool("read", PATH)
            assert (told.content[0].text, told.is_error) == ("result 1", False)
            assert "Tools: read, x_read" in (await client.call_tool("ask_user", {"question": "What?"})).content[0].text
            assert (await client.call_tool("read", {"gone": 1})).is_error
            assert box.offered.failed.is_set()
            assert box.offered.failure.kind == "server_gone"
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "read", {"hangs": 1})
                while len(box.called) < 3:  # noqa: ASYNC110  another task's request
                    await anyio.sleep(0.01)
                await server.close("key")
                group.cancel_scope.cancel()
    assert [name for name, *_ in box.called] == ["read"] * 3
