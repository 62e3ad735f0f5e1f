"""What counts as an action: one table, and the three who count by it."""

import pytest

from lhaw_record.recorder.events import ActionFinished, ActionStarted
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.agents.agent_loop import NativeAgent
from lhaw_record.runners.base.conversation.actions import action_count_of, actions_of
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition, ToolResult, to_wire
from lhaw_record.runners.imports.trajectory import events_of_turns, turns_of
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.gateway.upstream import ModelUpstream
from lhaw_record.runners.models.protocol import ModelReply
from tests.runners.models.gateway.rigs import Rig
from tests.support.canned_model import CannedModel, MemoryRecording

WORK = ToolDefinition(name="work", description="Work.", input_schema={"type": "object"})


def said(text, *calls):
    """An assistant turn with calls given as (id, arguments)."""
    made = tuple(ToolCall(call_id=call_id, name="work", arguments_json=given) for call_id, given in calls)
    return Message(role="assistant", content=text, tool_calls=made)


CASES = {
    "one call": (said("", ("a", '{"n":1}')), [("tool", "work", '{"n":1}')]),
    "text beside a call is not counted": (said("I begin.", ("a", '{"n":1}')), [("tool", "work", '{"n":1}')]),
    "each call of a batch": (
        said("", ("a", '{"n":1}'), ("b", '{"n":2}')),
        [("tool", "work", '{"n":1}'), ("tool", "work", '{"n":2}')],
    ),
    "equal calls count each": (said("", ("a", "{}"), ("b", "{}")), [("tool", "work", "{}")] * 2),
    "arguments in canonical form": (said("", ("a", '{ "b": 1,\n"a": 2 }')), [("tool", "work", '{"a":2,"b":1}')]),
    "no text means no arguments": (said("", ("a", "")), [("tool", "work", "{}")]),
    "malformed arguments": (said("", ("a", '{"n":')), [("malformed", "work", '{"n":')]),
    "arguments that are a list": (said("", ("a", "[1]")), [("malformed", "work", "[1]")]),
    "arguments that are null": (said("", ("a", "null")), [("malformed", "work", "null")]),
    "half a surrogate pair": (said("", ("a", '{"n":"\ud83d"}')), [("malformed", "work", '{"n":"\ud83d"}')]),
    "text alone": (said("What next?"), [("text", "message", "{}")]),
    "an empty reply": (said(""), [("text", "message", "{}")]),
}


@pytest.mark.parametrize(("reply", "expected"), CASES.values(), ids=CASES.keys())
def test_what_counts(reply, expected):
    """The table: kind, name and recorded arguments of each action, and as many as are counted."""
    found = actions_of(reply)
    assert [(action.kind, action.name, action.arguments_json) for action in found] == expected
    assert action_count_of(reply) == len(expected)
    assert all((action.arguments is None) == (action.kind == "malformed") for action in found)


def as_served(replies):
    """The replies as a model gives them."""
    return [ModelReply(message=each, finish_reason="stop", usage=Usage(cost_usd=0.0)) for each in replies]


async def by_native_loop(replies):
    """The events of the native agent's actions."""

    class Toolbox:
        tools = (WORK,)

        async def call(self, name, arguments, call_id):
            return ToolResult(text="done")

    recording = MemoryRecording()
    model = CannedModel(as_served(replies))
    caller = ModelCaller(model=model, recording=recording, role="agent", thread_id="main", parameters={})
    opening = (Message(role="user", content="Do it."),)
    agent = NativeAgent(
        caller=caller,
        toolbox=Toolbox(),
        recording=recording,
        opening=opening,
        ends_on_text=False,
        nudge="Go on.",
        max_turns=len(replies),
    )
    await agent.run()
    return recording.events


async def by_gateway(replies):
    """The events of the actions of an unmodified agent that plays the same conversation."""
    rig = Rig(ModelUpstream(CannedModel(as_served(replies))))
    wire = [{"role": "user", "content": "Do it."}]
    tools = [{"type": "function", "function": {"name": "work", "parameters": WORK.input_schema}}]
    async with rig.client() as client:
        for _ in replies:
            answer = await client.post("v1/chat/completions", json={"messages": wire, "model": "m", "tools": tools})
            message = answer.json()["choices"][0]["message"]
            results = [
                {"role": "tool", "tool_call_id": call["id"], "content": "done"}
                for call in message.get("tool_calls") or ()
            ]
            wire = [*wire, message, *(results or [{"role": "user", "content": "Go on."}])]
    await rig.session.close("submitted")
    return rig.events


async def by_import(replies):
    """The events of the actions of the same conversation in a foreign file."""
    messages = [Message(role="user", content="Do it.")]
    for reply in replies:
        messages += [reply, *(Message(role="tool", content="done", tool_call_id=c.call_id) for c in reply.tool_calls)]
    turns = turns_of([to_wire(message) for message in messages])
    return events_of_turns(turns, model="m", has_channel=False)


@pytest.mark.parametrize("name", [name for name in CASES if "surrogate" not in name])  # which no transport carries
async def test_every_consumer_counts_alike(name):
    """The native loop, the gateway and an import record the same actions, numbered from 1, each finished once."""
    replies = [said("", ("first", '{"n":0}')), CASES[name][0], said("", ("last", '{"n":9}'))]
    expected = [("tool", "work", '{"n":0}'), *CASES[name][1], ("tool", "work", '{"n":9}')]
    for consumer in (by_native_loop, by_gateway, by_import):
        events = await consumer(replies)
        started = [event for event in events if isinstance(event, ActionStarted)]
        assert [(each.kind, each.name, each.arguments_json) for each in started] == expected, consumer
        numbers = list(range(1, len(expected) + 1))
        assert [each.action_index for each in started] == numbers
        assert sorted(each.action_index for each in events if isinstance(each, ActionFinished)) == numbers
