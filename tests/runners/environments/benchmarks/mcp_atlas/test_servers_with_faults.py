"""Servers as bad as real ones: what the agent may see stays a result, what is broken fails the trial at ``tool``."""

import os
import resource
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from lhaw_record.recorder.events.values import Checkpoint, Task
from lhaw_record.runners.base.errors import ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import unconfined
from lhaw_record.runners.environments.benchmarks.mcp_atlas.environment import (
    MAX_RESULT_CHARACTERS,
    McpAtlasEnvironment,
    ServedTool,
)
from lhaw_record.runners.environments.benchmarks.mcp_atlas.server import ServerPlan, running_servers

FAKE = str(Path(__file__).with_name("fake_server.py"))


@pytest.fixture
def plan_of(tmp_path):
    """Make the plan of a fake server; time limits are short only where a test waits for one."""

    def plan(fault, connect_seconds=600.0, call_seconds=600.0):
        process = unconfined([sys.executable, FAKE, fault], {}, tmp_path)
        return ServerPlan(name=fault, process=process, connect_seconds=connect_seconds, call_seconds=call_seconds)

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


async def test_a_malformed_result_fails_at_tool(plan_of):
    """A result that breaks the protocol is the server's fault, not the agent's."""
    async with running_servers([plan_of("malformed")]) as (server,):
        with pytest.raises(ToolBoundaryError, match="malformed result"):
            await server.call("echo", {})


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
        assert len(result.text) < MAX_RESULT_CHARACTERS + 100
        assert "characters left out" in result.text
        assert (result.server, result.server_pid) == ("floods", server.pid)


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
