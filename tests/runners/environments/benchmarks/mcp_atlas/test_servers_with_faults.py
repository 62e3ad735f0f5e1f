"""Servers as bad as real ones: what the agent may see stays a result, what is broken fails the trial at ``tool``."""

import base64
import json
import os
import resource
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from lhaw_record.recorder.events.values import Checkpoint, Task
from lhaw_record.runners.base.errors import ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import unconfined
from lhaw_record.runners.environments.benchmarks.mcp_atlas.environment import (
    MAX_RESULT_BYTES,
    McpAtlasEnvironment,
    ServedTool,
    offered_tools,
)
from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import Row
from lhaw_record.runners.environments.benchmarks.mcp_atlas.server import ServerPlan, running_servers
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import catalog
from lhaw_record.runners.environments.benchmarks.mcp_lines import shown_result, whole_result
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

PATIENT = SandboxLimits(tool_start_seconds=600.0, command_seconds=600.0)
OFFICIAL = """
import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, ListToolsResult, Tool
async def listed(context, params):
    return ListToolsResult(tools=[Tool(name="tell", input_schema={"type": "object"})])
async def called(context, params):
    return CallToolResult.model_validate_json(BODIES[params.arguments["n"]])
async def main():
    server = Server("o", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
anyio.run(main)
"""
"""A server of the protocol's own library, which answers with one of BODIES."""


def _coded(content):
    return base64.b64encode(content).decode()


FAKE = str(Path(__file__).with_name("fake_server.py"))


@pytest.fixture
def plan_of(tmp_path):
    """Make the plan of a fake server; time limits are short only where a test waits for one."""

    def plan(fault, connect_seconds=600.0, call_seconds=600.0):
        process = unconfined([sys.executable, FAKE, fault], {}, tmp_path)
        limits = SandboxLimits(tool_start_seconds=connect_seconds, command_seconds=call_seconds)
        return ServerPlan(name=fault, process=process, limits=limits)

    return plan


def is_running(pid):
    """Return whether a process exists and is no zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def running_fakes():
    """Return the process ids of fake servers."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if FAKE.encode() in path.read_bytes() and is_running(path.parent.name):
                found.add(path.parent.name)
    return found


async def test_noise_on_standard_output_is_skipped(plan_of):
    """Lines that are not messages, broken JSON and JSON of another shape are counted and never stop a call."""
    async with running_servers([plan_of("noisy")]) as (server,):
        answer = await server.call("echo", {"a": 1})
        assert (answer.text, answer.is_error) == ('{"a": 1}', False)
        assert server.noise_lines == 4


async def test_an_output_schema_that_strict_clients_refuse_is_no_obstacle(plan_of):
    """A server whose outputSchema is not of type object lists and runs its tools."""
    async with running_servers([plan_of("strange")]) as (server,):
        assert [tool.name for tool in server.tools] == ["echo"]
        assert (await server.call("echo", {})).text == "{}"


@pytest.mark.parametrize("fault", ["halves", "bytes"])
async def test_text_that_is_none_is_replaced_wherever_it_comes(plan_of, fault):
    """In a description, a schema, a result and an error: UTF-8 can write what is recorded and what a model gets."""
    async with running_servers([plan_of(fault)]) as (server,):
        (tool,) = server.tools
        texts = [tool.description, *tool.input_schema["properties"]]
        texts += [(await server.call("echo", arguments)).text for arguments in ({}, {"fail": True})]
    assert texts == ["Repeat. \ufffd", "a \ufffd", "{} \ufffd", "that argument is wrong \ufffd"]


async def test_a_tool_that_no_model_can_have_is_no_obstacle_for_others(plan_of):
    """It is left out, and its wrong field named; one without a type is made whole; an enabled one fails the trial."""
    async with running_servers([plan_of("tools")]) as (server,):
        server.check()
        assert [tool.name for tool in server.tools] == ["untyped", "echo"]
        assert server.tools[0].input_schema == {"type": "object"}
        assert server.refused_tools == {
            "null": "inputSchema is None, expected an object",
            "list": "inputSchema is [], expected an object",
            "text": "inputSchema.type is 'string', expected 'object'",
            "asked": "inputSchema.properties is [], expected an object",
            "bare": "name is '', expected a text",
            "None": "name is None, expected a text",
            "none": "inputSchema is None, expected an object",
        }
        row = Row(task_id="t", prompt="p", enabled_tools=("tools_echo", "tools_null"), claims=("c",), source="here")
        known = msgspec.structs.replace(catalog(), servers={"tools": next(iter(catalog().servers.values()))})
        with pytest.raises(ToolBoundaryError, match="inputSchema is None") as caught:
            offered_tools(row, known, {"tools": server})
        assert (caught.value.kind, caught.value.is_retry_owed) == ("malformed_tool", False)


PICTURE = b"\x89PNG of no picture"
KINDS = [
    [],
    [TextContent(type="text", text="a text")],
    [TextContent(type="text", text="a"), ImageContent(type="image", data=_coded(PICTURE), mime_type="image/png")],
    [AudioContent(type="audio", data=_coded(b"no sound"), mime_type="audio/wav")],
    [ResourceLink(type="resource_link", uri="file:///a.txt", name="a.txt", description="the first")],
    [EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///b.txt", text="words"))],
    [EmbeddedResource(type="resource", resource=BlobResourceContents(uri="x:y", blob=_coded(b"1"), mime_type="a/b"))],
]
STRUCTURED = [None, {"number": 42}, {"result": 42}, {"result": ["a", 1]}, {"result": None}, {"a": {"b": "ü"}}]


@pytest.mark.thorough
async def test_all_that_the_official_client_gets_is_shown_or_kept(tmp_path):
    """Texts, addresses and names, and what is structured; bytes of pictures, sounds and files are kept."""
    sent = [
        CallToolResult(content=content, structured_content=structured, is_error=is_error)
        for content in KINDS
        for structured in STRUCTURED
        for is_error in (False, True)
    ]
    source, command = tmp_path / "server.py", [sys.executable, str(tmp_path / "server.py")]
    bodies = [each.model_dump_json(by_alias=True, exclude_none=True) for each in sent]
    source.write_text(OFFICIAL.replace("BODIES", repr(bodies)))
    plan = ServerPlan(name="o", process=unconfined(command, {}, tmp_path), limits=PATIENT)
    async with (
        Client(StdioServerParameters(command=command[0], args=command[1:])) as client,
        running_servers([plan]) as (own,),
    ):
        for number in range(len(sent)):
            got, answer = await client.call_tool("tell", {"n": number}), await own.call("tell", {"n": number})
            assert answer.is_error == got.is_error
            assert [told for told in _told(got) if told not in answer.text] == []
            assert [artifact.content for artifact in answer.unshown] == list(_bytes(got))
            if got.structured_content is not None:
                assert json.loads(answer.text.splitlines()[-1]) == got.structured_content


def _told(result):
    """All texts, names and addresses in a result; a file of bytes has its kind told."""
    for part in result.content:
        inner = part.resource if part.type == "resource" else part
        names = ("mime_type",) if hasattr(inner, "blob") else ("text", "name", "description", "uri", "mime_type")
        yield from (str(value) for name in names if (value := getattr(inner, name, None)))


def _bytes(result):
    for part in result.content:
        inner = part.resource if part.type == "resource" else part
        coded = getattr(inner, "blob", None) or getattr(inner, "data", None)
        yield from [base64.b64decode(coded)] if coded else []


async def test_what_is_structured_is_not_told_twice(plan_of):
    """Servers repeat it as text: whole, or without the ``result`` that they wrap a single value in."""
    for texts, structured in [
        (['{"a":  1}'], {"a": 1}),
        (["42"], {"result": 42}),
        (["42"], {"result": "42"}),
        (["a", "b"], {"result": ["a", "b"]}),
        (["before", '{"a": 1}'], {"a": 1}),
    ]:
        content = [{"type": "text", "text": text} for text in texts]
        assert whole_result({"content": content, "structuredContent": structured})["content"] == content
    for alone in ({"a": 1}, {"items": []}):
        said = whole_result({"content": [], "structuredContent": alone})["content"]
        assert [json.loads(part["text"]) for part in said] == [alone]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": "plain"}, "plain"),
        ({"content": {"type": "text", "text": "alone"}}, "alone"),
        ({"content": ["bare"]}, "bare"),
        ({"content": [{"type": "widget", "x": 1}]}, '{"type": "widget", "x": 1}'),
        ({"content": [{"type": "text", "text": None}]}, '{"type": "text", "text": null}'),
        ({"content": [{"type": "image", "mimeType": "image/png"}]}, '{"type": "image", "mimeType": "image/png"}'),
        (
            {"content": [{"type": "image", "data": "aGk="}]},
            "[image content, not shown: application/octet-stream, 2 bytes]",
        ),
        ({"content": [{"type": "text", "text": "x", "annotations": {"priority": "high"}}], "isError": None}, "x"),
        ({"content": [{"type": "text", "text": "x"}], "_meta": "x"}, "x"),
        ({"content": None, "structuredContent": {"a": 1}}, '{"a": 1}'),
    ],
)
def test_a_result_of_another_form_is_completed(result, text):
    """No part is lost, and none ends the trial: an agent reads what it can be shown."""
    shown, _ = shown_result(CallToolResult.model_validate(whole_result(result), by_name=False), "t")
    assert shown == text


async def test_a_protocol_error_of_a_living_server_is_a_result(plan_of):
    """Wrong arguments are for the agent to read, whichever way a server reports them."""
    async with running_servers([plan_of("well")]) as (server,):
        answer = await server.call("echo", {"fail": True})
        assert answer.is_error
        assert "that argument is wrong" in answer.text
        assert (await server.call("echo", {"b": 2})).text == '{"b": 2}'


async def test_a_server_that_dies_during_a_call_fails_at_tool(plan_of):
    """The error is of boundary ``tool``, owes a retry, and has the server's last words."""
    async with running_servers([plan_of("dies")]) as (server,):
        with pytest.raises(ToolBoundaryError, match="the disk is on fire") as caught:
            await server.call("echo", {})
        assert (caught.value.boundary, caught.value.kind, caught.value.is_retry_owed) == ("tool", "server_gone", True)
        with pytest.raises(ToolBoundaryError):
            await server.call("echo", {})


async def test_a_killed_server_fails_at_tool(plan_of):
    """SIGKILL to the recorded process is noticed by the next call."""
    async with running_servers([plan_of("well"), plan_of("well")]) as (first, second):
        os.kill(first.pid, signal.SIGKILL)
        with pytest.raises(ToolBoundaryError, match="MCP server well"):
            await first.call("echo", {})
        assert (await second.call("echo", {})).text == "{}"


async def test_a_server_that_hangs_fails_at_tool(plan_of):
    """A call without an answer ends after its time limit with the kind ``server_timeout``."""
    async with running_servers([plan_of("hangs", call_seconds=0.2)]) as (server,):
        with pytest.raises(ToolBoundaryError, match=r"within 0\.2 s") as caught:
            await server.call("echo", {})
        assert caught.value.kind == "server_timeout"


@pytest.mark.parametrize(("fault", "said"), [("crash", "no such configuration"), ("mute", "handshake within")])
async def test_a_server_that_does_not_connect_fails_at_tool(plan_of, fault, said):
    """Ending at once and never answering the handshake are both known when the environment opens."""
    async with running_servers([plan_of(fault, connect_seconds=0.5)]) as (server,):
        with pytest.raises(ToolBoundaryError, match=said):
            server.check()


async def test_a_result_that_is_none_is_shown(plan_of):
    """Whatever a living server answers is for the agent to read; a call with no answer in it ends nothing either."""
    answers = [
        ({"result": {}}, "", False),
        ({"result": {"content": None}}, "", False),
        ({"result": {"content": 5}}, "5", False),
        ({"result": {"toolResult": "older"}}, '{"toolResult": "older"}', False),
        ({"result": {"structuredContent": [1, 2]}}, "[1, 2]", False),
        ({"result": [1, 2]}, "1\n2", False),
        ({"result": "plain"}, "plain", False),
        ({"result": None}, "", False),
        ({}, "", False),
        ({"result": {"content": 5, "isError": True}}, "5", True),
        ({"error": "bad"}, "bad", True),
        ({"error": {"code": "x", "message": 7}}, "7", True),
        ({"error": {}}, "{}", True),
    ]
    async with running_servers([plan_of("odd")]) as (server,):
        for answer, text, is_error in answers:
            found = await server.call("echo", answer)
            assert (found.text, found.is_error) == (text, is_error), answer


async def test_a_flood_is_cut_in_the_middle(plan_of):
    """A result of ten million characters reaches the agent with its beginning, its end and a note between."""
    task = Task(
        benchmark="b",
        benchmark_version="1",
        task_id="t",
        prompt="p",
        checkpoints=(Checkpoint(checkpoint_id="c1", label="x"),),
        environment_digest="e",
    )
    async with running_servers([plan_of("floods")]) as (server,):
        environment = McpAtlasEnvironment(task, {"fake_echo": ServedTool(server, "echo")}, (), None)
        result = await environment.call("fake_echo", {})
        assert len(result.text) < MAX_RESULT_BYTES + 100
        assert "bytes left out" in result.text
        assert (result.server, result.server_pid) == ("floods", server.pid)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("fault", "said"), [("endless", "a line of more than"), ("chatters", "that are not messages")])
async def test_output_without_end_fails_at_tool(plan_of, fault, said):
    """Before it has taken the memory or the time of the other trials."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with running_servers([plan_of(fault)]) as (server,):
        with pytest.raises(ToolBoundaryError, match=said) as caught:
            await server.call("echo", {})
    assert caught.value.kind == "server_gone"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


async def test_garbage_that_is_nested_without_end_is_skipped(plan_of):
    """As any line that is no message; it does not end the session unseen."""
    async with running_servers([plan_of("nests")]) as (server,):
        assert (await server.call("echo", {"a": 1})).text == '{"a": 1}'


async def test_what_the_body_raises_is_not_wrapped(plan_of):
    """Callers classify errors by class, so no exception group may come between."""
    with pytest.raises(KeyError):
        async with running_servers([plan_of("well")]):
            raise KeyError("mine")


async def test_nothing_is_left_after_closing_or_cancelling(plan_of):
    """Servers are gone after a normal end, after a cancelled body, and after a cancelled start."""
    async with running_servers([plan_of("well"), plan_of("hangs")]) as servers:
        pids = [server.pid for server in servers]
    assert not any(is_running(pid) for pid in pids)
    with anyio.CancelScope() as scope:
        async with running_servers([plan_of("well")]) as (server,):
            pids = [server.pid]
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert not any(is_running(pid) for pid in pids)
    before = running_fakes()
    with anyio.move_on_after(0.3):
        async with running_servers([plan_of("mute")]):
            pytest.fail("a mute server connected")
    assert running_fakes() <= before


async def test_an_unconfined_server_sees_its_data_under_the_published_name():
    """Without bubblewrap ``/data`` is translated on the way in and out, and nothing else is touched."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        plan = ServerPlan(name="well", process=unconfined([sys.executable, FAKE, "well"], {}, data))
        task = Task(
            benchmark="b", benchmark_version="1", task_id="t", prompt="p", checkpoints=(), environment_digest="e"
        )
        async with running_servers([plan]) as (server,):
            raw = await server.call("echo", {"path": str(data)})
            environment = McpAtlasEnvironment(task, {"echo": ServedTool(server, "echo")}, (), None, data_at=str(data))
            result = await environment.call(
                "echo", {"path": "/data/a b.csv", "other": "/home/data", "also": "/database"}
            )
        assert str(data) in raw.text
        assert result.text == '{"path": "/data/a b.csv", "other": "/home/data", "also": "/database"}'
