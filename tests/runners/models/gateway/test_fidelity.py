"""The same model with the same tools is the same agent behind the gateway as in the native loop, over every wire."""

from operator import attrgetter

import pytest

from lhaw_record.recorder.events import ActionFinished, ActionStarted, ClarificationInjected, ModelResponded
from lhaw_record.runners.agents.agent_loop import SUBMIT, NativeAgent
from lhaw_record.runners.agents.scripted import ScriptedModel
from lhaw_record.runners.agents.scripted.foreign_model import ForeignModel
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.base.conversation.messages import Message, Toolbox, ToolResult
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.gateway.upstream import ModelUpstream
from tests.runners.models.gateway.rigs import Rig, injection_after, tool
from tests.runners.models.gateway.tiny_agents import AGENTS
from tests.support.canned_model import MemoryRecording

PROMPT = next(task.prompt for task in DeskBenchmark().tasks() if task.task_id == "log-triage")
SYSTEM = "You work with tools."
TOOLS = tuple(tool(name) for name in ("bash", "python", "read_file", "write_file", "ask_user"))


def result_of(name, arguments):
    """What every tool gives back: something that depends on the call."""
    return "April, please." if name == "ask_user" else f"{name} did it: {sorted(arguments)}"


class Tools(Toolbox):
    """The tools of the native agent."""

    tools = TOOLS

    async def call(self, name, arguments, call_id):
        """Answer at once."""
        return ToolResult(text=result_of(name, arguments))


async def native(archetype, injection):
    """Run the native agent and return its recording."""
    recording = MemoryRecording()
    caller = ModelCaller(
        model=ScriptedModel(archetype), recording=recording, role="agent", thread_id="main", parameters={"seed": 0}
    )
    opening = (Message(role="system", content=SYSTEM), Message(role="user", content=PROMPT))
    agent = NativeAgent(
        caller=caller,
        toolbox=Tools(),
        recording=recording,
        opening=opening,
        ends_on_text=False,
        nudge="Go on.",
        max_turns=60,
        injection=injection,
    )
    await agent.run()
    return recording.events


async def behind(wire, archetype, injection, *, is_streamed=False):
    """Run a tiny agent behind the gateway and return the rig."""
    rig = Rig(ModelUpstream(ForeignModel(ScriptedModel(archetype)), {"seed": 0}), injection=injection, prompt=PROMPT)

    async def run(name, arguments):
        return result_of(name, arguments)

    async with rig.client() as client:
        agent = AGENTS[wire](client, (*TOOLS, SUBMIT), run, PROMPT, system=SYSTEM, is_streamed=is_streamed)
        await agent.work(60)
    await rig.session.close("submitted")
    return rig


def told(events, kind, *names):
    """Some fields of the events of one type."""
    return [tuple(attrgetter(name)(event) for name in names) for event in events if isinstance(event, kind)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize(
    ("archetype", "target"), [("scripted/balanced", 1), ("scripted/balanced", 9), ("scripted/over_clarifier", 3)]
)
async def test_the_trial_is_recorded_as_the_native_loop_records_it(archetype, target, wire, is_streamed):
    """The same actions, results, replies and tokens, the injection after the same action, the same conversations."""
    injection = injection_after(target, "By the way: the day is 2026-03-14.")
    events = await native(archetype, injection)
    rig = await behind(wire, archetype, injection, is_streamed=is_streamed)
    started = ("action_index", "kind", "name", "arguments_json", "call_id")
    assert len(told(events, ActionStarted, "name")) > 10
    assert told(rig.events, ClarificationInjected, "status") == [("injected",)]
    assert told(rig.events, ActionStarted, *started) == told(events, ActionStarted, *started)
    finished = ("action_index", "result")
    assert told(rig.events, ActionFinished, *finished)[:-1] == told(events, ActionFinished, *finished)[:-1]
    replied = ("text", "tool_calls", "finish_reason", "usage.output_tokens")
    assert told(rig.events, ModelResponded, *replied) == told(events, ModelResponded, *replied)
    placed = ("status", "after_action", "target_action", "message")
    assert told(rig.events, ClarificationInjected, *placed) == told(events, ClarificationInjected, *placed)
    conversations = list(rig.check_conversations().values())
    assert conversations == list(rebuild_requests(events).values())
