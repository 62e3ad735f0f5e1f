"""Programs on real MCP servers: they get the row's tools over MCP, and what is recorded is what the servers did."""

import json

import pytest

from lhaw_record.recorder.events import ActionFinished, ActionStarted, TrialFailed, TrialFinished, TrialStarted
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.base.errors import ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.environment import McpAtlasEnvironment
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.preparation import prepare
from lhaw_record.runners.runs.run import run_experiment
from tests.runners.agents.programs.rigs import tiny, toml

FILE = "/data/notes/a.txt"
CALLS = (
    ("filesystem_read_text_file", {"path": FILE}, "The answer is 42.\n"),
    ("filesystem_write_file", {"path": FILE, "content": "42"}, "what no server says"),
    ("filesystem_read_text_file", {"path": FILE}, None),
)
EXPERIMENT = """
name = "atlas"
conditions = ["full"]
trials = 1
concurrency = 2
[benchmark]
name = "mcp_atlas"
rows = "rows.jsonl"
data = "data"
[retry]
max_attempts = 1
"""


async def recorded(folder, agents):
    """Run agents on a row whose reference has three calls; return the events of each trial by agent."""
    (folder / "data" / "notes").mkdir(parents=True)
    (folder / "data" / "notes" / "a.txt").write_text("The answer is 42.\n")
    messages = []
    for number, (name, arguments, result) in enumerate(CALLS):
        function = {"name": name, "arguments": json.dumps(arguments)}
        messages.append({"role": "assistant", "tool_calls": [{"id": f"c{number}", "function": function}]})
        messages += [{"role": "tool", "tool_call_id": f"c{number}", "content": result}] if result else []
    row = {
        "task": "note",
        "prompt": "Put the answer of notes/a.txt alone into that file and say it.",
        "claims": ["The answer is 42."],
        "enabled_tools": ["filesystem_read_text_file", "filesystem_write_file"],
        "required_servers": ["filesystem"],
        "trajectory": messages,
    }
    (folder / "rows.jsonl").write_text(json.dumps(row))
    tables = "".join("\n[[agents]]\n" + "".join(f"{k} = {toml(v)}\n" for k, v in each.items()) for each in agents)
    (folder / "x.toml").write_text(EXPERIMENT + tables)
    await run_experiment(prepare(folder / "x.toml"), folder / "store", Reporter())
    streams = {}
    for envelope in read_envelopes(folder / "store"):
        streams.setdefault(envelope.stream_id, []).append(envelope.event)
    trials = [events for events in streams.values() if isinstance(events[0], TrialStarted)]
    return {events[0].agent: events for events in trials}


def actions(events, *, own_name=lambda name: name):
    """What was executed, and what is known of it but the time and the process."""
    started = {event.action_index: event for event in events if isinstance(event, ActionStarted)}
    return [
        (
            own_name(started[event.action_index].name),
            started[event.action_index].arguments_json,
            event.server,
            event.is_error,
            event.is_same_as_reference,
        )
        for event in events
        if isinstance(event, ActionFinished) and started[event.action_index].kind == "tool"
    ]


def check_alike(theirs, ours):
    """Check that a program did what the native agent did, each action once, on its own servers."""
    for events in (theirs, ours):
        assert isinstance(events[-1], TrialFinished)
        assert events[-1].is_success
    assert actions(theirs, own_name=lambda name: name.removeprefix("mcp__").removeprefix("user").lstrip("_")) == (
        actions(ours)
    )
    assert [same for *_, same in actions(ours)] == [True, False, False]
    assert theirs[-1].action_count == ours[-1].action_count
    executed = [event for event in theirs if isinstance(event, ActionFinished) and event.server]
    assert len({event.server_pid for event in executed}) == 1
    assert all(event.duration_ms > 0 for event in executed)


@pytest.mark.thorough
async def test_a_program_and_the_native_agent_do_the_same(core_servers, tmp_path):
    """With one mind behind both: the same actions on the same servers, with the same facts, and the same grade."""
    agents = [
        {"name": "native", "model": "scripted/replay"},
        {"name": "tiny", "model": "scripted/replay", "program": tiny("messages")},
    ]
    trials = await recorded(tmp_path, agents)
    check_alike(trials["tiny"], trials["native"])


@pytest.mark.thorough
async def test_a_server_that_dies_under_a_program_is_missing_data(core_servers, tmp_path, monkeypatch):
    """The trial fails at the tool, with a retry owed, whatever the program does then."""

    async def call(self, name, arguments):
        raise ToolBoundaryError("the server died", kind="server_gone")

    monkeypatch.setattr(McpAtlasEnvironment, "call", call)
    agents = [{"name": "tiny", "model": "scripted/replay", "program": tiny("chat")}]
    end = (await recorded(tmp_path, agents))["tiny"][-1]
    assert isinstance(end, TrialFailed)
    assert (end.boundary, end.error_kind, end.is_retry_owed) == ("tool", "server_gone", True)
