"""Laws over random trials: what the model sees grows only at its end, so that providers' prefix caches keep working."""

import copy
import itertools
import json
import random

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhaw_record.recorder.events import ActionFinished, ActionStarted, ClarificationInjected, ModelCalled
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, conversation_digest
from lhaw_record.runners.models.gateway.equality import is_prefix
from lhaw_record.runners.models.gateway.session import TrialSession
from lhaw_record.runners.models.gateway.wires import CHAT, MESSAGES, RESPONSES
from lhaw_record.runners.models.protocol import ModelReply
from tests.runners.models.gateway.rigs import Capturing, injection_after
from tests.runners.models.gateway.shapes import call_item, chat, item, messages, output_item, responses, user
from tests.support.canned_model import CannedModel, MemoryRecording
from tests.support.depth import at_depth

BLUE = "By the way: blue."
LISTS = {"chat": "messages", "messages": "messages", "responses": "input"}
# The replies of a trial: a text, perhaps none, and some calls; what comes after a text alone is a word of the user.
trials = st.lists(st.tuples(st.sampled_from(["", "Hm.", "I see. "]), st.integers(0, 3)), min_size=1, max_size=6).map(
    lambda plan: [(text or "Well.", 0) if calls == 0 else (text, calls) for text, calls in plan]
)


def reply_of(number, text, calls):
    """The reply with a number."""
    made = tuple(
        ToolCall(call_id=f"call_{number}_{each}", name="work", arguments_json=f'{{"a":1,"n":{each}}}')
        for each in range(calls)
    )
    message = Message(role="assistant", content=text, tool_calls=made)
    return ModelReply(message=message, finish_reason="stop", usage=Usage())


def said(wire, reply, chance):
    """The reply as the agent keeps it: ids stay, arguments are written anew, texts lose space, items their ids."""
    message = reply.message
    kept = chance.choice([message.content, message.content.strip()])
    spaced = [
        json.dumps(json.loads(call.arguments_json), indent=chance.choice([None, 1])) for call in message.tool_calls
    ]
    if wire.name == "chat":
        made = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": text}}
            for call, text in zip(message.tool_calls, spaced, strict=True)
        ]
        return [{"role": "assistant", "content": kept or None, **({"tool_calls": made} if made else {})}]
    if wire.name == "messages":
        text = [{"type": "text", "text": kept}] if kept else []
        made = [
            {"type": "tool_use", "id": call.call_id, "name": call.name, "input": json.loads(call.arguments_json)}
            for call in message.tool_calls
        ]
        return [{"role": "assistant", "content": [*text, *made]}]
    text = [item("assistant", kept)] if kept else []
    return [
        *text,
        *(call_item(call.call_id, arguments=new) for call, new in zip(message.tool_calls, spaced, strict=True)),
    ]


def answered(wire, reply):
    """What the agent adds to a reply: its results, or a word of the user."""
    ids = [call.call_id for call in reply.message.tool_calls]
    if not ids:
        return [item("user", "Go on.") if wire.name == "responses" else user("Go on.")]
    if wire.name == "chat":
        return [{"role": "tool", "tool_call_id": call_id, "content": f"did {call_id}"} for call_id in ids]
    if wire.name == "messages":
        blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": f"did {call_id}"} for call_id in ids]
        return [{"role": "user", "content": blocks}]
    return [output_item(call_id, f"did {call_id}") for call_id in ids]


def marked(wire, history, chance):
    """The history with what agents change from call to call: cache marks at the end, strings or parts."""
    history = copy.deepcopy(history)
    for each in history:
        content = each.get("content")
        if isinstance(content, str) and each.get("role") == "user" and chance.random() < 0.5:
            kind = "input_text" if wire.name == "responses" else "text"
            each["content"] = [{"type": kind, "text": content}]
    last = history[-1].get("content")
    if isinstance(last, list) and wire.name != "responses":
        last[-1]["cache_control"] = {"type": "ephemeral"}
    return history


async def run(wire, plan, target, chance):
    """Run a whole trial and return the bodies that went out, what the model saw, and the events."""
    replies = [reply_of(number, text, calls) for number, (text, calls) in enumerate(plan)]
    upstream, recording = Capturing(CannedModel([*replies, reply_of(99, "End.", 0)])), MemoryRecording()
    session = TrialSession(recording=recording, upstream=upstream, injection=injection_after(target))
    make = {"chat": chat, "messages": messages, "responses": responses}[wire.name]
    history = [item("user", "Begin.") if wire.name == "responses" else user("Begin.")]
    for reply in [*replies, None]:
        body = make(*marked(wire, history, chance))
        await session.respond(wire, wire.requests.read(body))
        if reply is not None:
            history += [*said(wire, reply, chance), *answered(wire, reply)]
    await session.close("submitted")
    return upstream.bodies, [request.messages for request in upstream._model.requests], recording.events


@settings(max_examples=at_depth(150, 750))
@given(st.sampled_from([CHAT, RESPONSES, MESSAGES]), trials, st.integers(1, 8), st.integers(0, 2**32))
def test_what_the_model_sees_only_grows(wire, plan, target, seed):
    """Every request begins with the whole one before it and its reply, with the message at one and the same place."""
    bodies, seen, events = anyio.run(run, wire, plan, target, random.Random(seed))
    for before, after in itertools.pairwise(seen):
        assert is_prefix(before, after)
    counts = [sum(message.content == BLUE for message in request) for request in seen]
    actions = [calls or 1 for _, calls in plan]
    due = next((at for at in range(len(actions)) if sum(actions[: at + 1]) >= target), None)
    assert counts == [int(due is not None and at > due) for at in range(len(seen))]
    (injected,) = [event for event in events if isinstance(event, ClarificationInjected)]
    assert injected.after_action == (sum(actions[: due + 1]) if due is not None else None)
    assert [json.dumps(body).count(BLUE) for body in bodies] == counts


@pytest.mark.thorough
@settings(max_examples=at_depth(100, 500))
@given(st.sampled_from([CHAT, RESPONSES, MESSAGES]), trials, st.integers(1, 8))
def test_bodies_only_grow_where_the_agent_changes_nothing(wire, plan, target):
    """For an agent that repeats its history to the byte, the list of the body begins with the list before it."""

    class Never(random.Random):
        """Changes nothing."""

        def random(self):
            return 1.0

        def choice(self, options):
            return options[0]

    bodies, _, _ = anyio.run(run, wire, plan, target, Never())
    lists = [
        json.loads(json.dumps(body[LISTS[wire.name]]).replace(', "cache_control": {"type": "ephemeral"}', ""))
        for body in bodies
    ]
    for before, after in itertools.pairwise(lists):
        assert after[: len(before)] == before


@settings(max_examples=at_depth(100, 500))
@given(st.sampled_from([CHAT, RESPONSES, MESSAGES]), trials, st.integers(1, 8), st.integers(0, 2**32))
def test_every_trial_is_whole(wire, plan, target, seed):
    """Actions are numbered without a gap and finish, deltas rebuild to what was sent, and store nothing twice."""
    _, seen, events = anyio.run(run, wire, plan, target, random.Random(seed))
    started = [event.action_index for event in events if isinstance(event, ActionStarted)]
    finished = [event.action_index for event in events if isinstance(event, ActionFinished)]
    assert started == list(range(1, sum(calls or 1 for _, calls in plan) + 2))
    assert sorted(finished) == started
    assert [tuple(messages) for messages in rebuild_requests(events).values()] == [tuple(each) for each in seen]
    called = [event for event in events if isinstance(event, ModelCalled)]
    assert [event.request_digest for event in called] == [conversation_digest(messages) for messages in seen]
    for before, after in itertools.pairwise(called):
        assert after.shared_count == before.message_count + 1
    assert not any("did call" in event.new_messages_json for event in called)
