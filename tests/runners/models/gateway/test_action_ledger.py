"""Actions behind the gateway: replies that were served and that a later request contains, in whatever form."""

import json

import pytest

from lhaw_record.recorder.events import ActionFinished, ActionStarted, ModelCalled
from lhaw_record.runners.models.gateway.wires import CHAT, MESSAGES, RESPONSES
from tests.runners.models.gateway.rigs import canned
from tests.runners.models.gateway.shapes import (
    TASK,
    block,
    call_item,
    calls,
    chat,
    gives,
    item,
    messages,
    output_item,
    responses,
    result,
    says,
    user,
    uses,
)
from tests.support.canned_model import text_reply, tool_reply

CHAT_PATH, RESPONSES_PATH, MESSAGES_PATH = (f"v1/{wire.path}" for wire in (CHAT, RESPONSES, MESSAGES))
BATCH = tool_reply(("a", "read", '{"path":"x"}'), ("b", "work", '{"n":1}'))
READ, WORK = ("tool", "read", '{"path":"x"}'), ("tool", "work", '{"n":1}')
SAID = ("text", "message", "{}")


async def send(rig, path, *bodies):
    """Send requests one after another."""
    async with rig.client() as client:
        for body in bodies:
            response = await client.post(path, json=body)
            assert response.status_code == 200, response.text


BATCHES = {
    "chat, as it was served": (
        CHAT_PATH,
        [user(TASK)],
        [calls(("a", "read", '{"path":"x"}'), ("b", "work", '{"n":1}')), result("a", "A"), result("b", "B")],
    ),
    "chat, arguments written again": (
        CHAT_PATH,
        [user(TASK)],
        [calls(("a", "read", '{ "path" : "x" }'), ("b", "work", '{"n": 1}')), result("a", "A"), result("b", "B")],
    ),
    "chat, split into two turns": (
        CHAT_PATH,
        [user(TASK)],
        [calls(("a", "read", '{"path":"x"}')), result("a", "A"), calls(("b", "work", '{"n":1}')), result("b", "B")],
    ),
    "chat, split with both results at the end": (
        CHAT_PATH,
        [user(TASK)],
        [calls(("a", "read")), calls(("b", "work")), result("a", "A"), result("b", "B")],
    ),
    "chat, results in another order": (
        CHAT_PATH,
        [user(TASK)],
        [calls(("a", "read"), ("b", "work")), result("b", "B"), result("a", [{"type": "text", "text": "A"}])],
    ),
    "messages": (
        MESSAGES_PATH,
        [user(TASK)],
        [uses(("a", "read", {"path": "x"}), ("b", "work", {"n": 1})), gives(("a", "A"), ("b", [block("B")]))],
    ),
    "messages, split": (
        MESSAGES_PATH,
        [user(TASK)],
        [uses(("a", "read")), gives(("a", "A")), uses(("b", "work")), gives(("b", "B"))],
    ),
    "responses": (
        RESPONSES_PATH,
        [item("user", TASK)],
        [call_item("a", "read"), call_item("b"), output_item("a", "A"), output_item("b", "B")],
    ),
    "responses, each call with its result": (
        RESPONSES_PATH,
        [item("user", TASK)],
        [
            {"type": "reasoning", "summary": [], "encrypted_content": "zz"},
            call_item("a", "read"),
            output_item("a", [{"type": "input_text", "text": "A"}]),
            call_item("b"),
            output_item("b", "B"),
        ],
    ),
    "chat, calls rewritten as text, one observation": (
        CHAT_PATH,
        [user(TASK)],
        [says("Calling tools: [{'id': 'a-call', 'name': 'read'}]"), user("Observation: A and B")],
    ),
}
MAKE = {CHAT_PATH: chat, MESSAGES_PATH: messages, RESPONSES_PATH: responses}


@pytest.mark.parametrize("shape", [name for name in BATCHES if "rewritten" not in name])
async def test_a_batch_is_its_calls_in_the_order_of_the_reply(shape):
    """Two calls of one reply are two actions with their own results, however the agent writes its history."""
    path, before, after = BATCHES[shape]
    rig, _ = canned(BATCH, text_reply("Done."))
    make = MAKE[path]
    await send(rig, path, make(*before, tools=("read", "work")), make(*before, *after, tools=("read", "work")))
    assert rig.actions() == [READ, WORK]
    assert rig.results() == ["A", "B"]
    called = rig.of(ModelCalled)[0].call_id
    assert {event.model_call_id for event in rig.of(ActionStarted)} == {called}
    assert [event.call_id for event in rig.of(ActionStarted)] == ["a", "b"]
    rig.check_conversations()


async def test_calls_rewritten_as_text_are_the_calls_that_were_served():
    """The agent's account has no ids; the reply is known by its place, and what follows is the result."""
    path, before, after = BATCHES["chat, calls rewritten as text, one observation"]
    rig, _ = canned(BATCH, text_reply("Done."))
    await send(rig, path, chat(*before), chat(*before, *after), chat(*before, *after, says("Done."), user("More?")))
    assert rig.actions() == [READ, WORK, SAID]
    assert rig.results() == [None, "Observation: A and B", ""]
    assert [kind for _, kind in rig.kinds()] == ["main"] * 3
    rig.check_conversations()


async def test_made_up_turns_are_no_actions():
    """An agent's first request may hold turns that no model ever wrote; none of them is counted."""
    rig, _ = canned(tool_reply(("a", "work", "{}")))
    opening = [user(TASK), says("I will help."), calls(("x", "read")), result("x"), user("Go on.")]
    await send(rig, CHAT_PATH, chat(*opening), chat(*opening, calls(("a", "work")), result("a", "A")))
    assert rig.actions() == [("tool", "work", "{}")]
    assert rig.results() == ["A"]


async def test_a_dropped_reply_is_no_action():
    """A reply that the agent throws away after asking again never counts; the one that it takes up does."""
    rig, _ = canned(text_reply("not what was asked"), tool_reply(("a", "work", "{}")), text_reply("Done."))
    complaint = [says("not what was asked"), user("Call a tool.")]
    await send(
        rig,
        CHAT_PATH,
        chat(user(TASK)),
        chat(user(TASK), user("Please call a tool.")),
        chat(user(TASK), calls(("a", "work")), result("a")),
    )
    assert rig.actions() == [("tool", "work", "{}")]
    rig, _ = canned(text_reply("not what was asked"), tool_reply(("a", "work", "{}")), text_reply("Done."))
    await send(
        rig,
        CHAT_PATH,
        chat(user(TASK)),
        chat(user(TASK), *complaint),
        chat(user(TASK), calls(("a", "work")), result("a")),
    )
    assert rig.actions() == [SAID, ("tool", "work", "{}")]  # it was in the request that followed


async def test_a_call_that_the_agent_left_out_is_no_action():
    """Of two calls of a reply the agent took up one; the other one never happened."""
    rig, _ = canned(BATCH, text_reply("Done."))
    await send(rig, CHAT_PATH, chat(user(TASK)), chat(user(TASK), calls(("b", "work")), result("b", "B")))
    assert rig.actions() == [WORK]
    assert rig.results() == ["B"]


async def test_broken_arguments_are_a_malformed_action_with_an_error():
    """What is no JSON object is recorded as the model wrote it, and counts as an error."""
    rig, _ = canned(tool_reply(("a", "work", '{"n": ')), text_reply("Done."))
    await send(rig, CHAT_PATH, chat(user(TASK)), chat(user(TASK), calls(("a", "work", '{"n": ')), result("a", "bad")))
    assert rig.actions() == [("malformed", "work", '{"n": ')]
    assert [event.is_error for event in rig.of(ActionFinished)] == [True]


async def test_errors_are_told_where_the_wire_tells_them():
    """Messages marks results that are errors; the other wires do not, and nothing is guessed."""
    rig, _ = canned(tool_reply(("a", "work", "{}")), tool_reply(("b", "work", "{}")), text_reply("Done."))
    first = [user(TASK), uses(("a", "work")), gives(("a", "A"))]
    failed = gives(("b", "broken"))
    failed["content"][0]["is_error"] = True
    await send(
        rig, MESSAGES_PATH, messages(user(TASK)), messages(*first), messages(*first, uses(("b", "work")), failed)
    )
    assert [event.is_error for event in rig.of(ActionFinished)] == [False, True]
    rig, _ = canned(tool_reply(("a", "work", "{}")), text_reply("Done."))
    await send(rig, CHAT_PATH, chat(user(TASK)), chat(user(TASK), calls(("a", "work")), result("a")))
    assert [event.is_error for event in rig.of(ActionFinished)] == [None]


async def test_an_agent_without_tools_acts_in_texts():
    """Each text that it takes up is one action, the message that follows is its result."""
    rig, _ = canned(*(text_reply(f"```run\nls {number}\n```") for number in range(3)))
    history = [system_text := {"role": "system", "content": "Write one command."}, user(TASK)]
    bodies = [chat(*history, tools=())]
    for number in range(2):
        history += [says(f"```run\nls {number}\n```"), user(f"Observation {number}")]
        bodies.append(chat(*history, tools=()))
    await send(rig, CHAT_PATH, *bodies)
    await rig.session.close("submitted")
    assert system_text in bodies[0]["messages"]
    assert rig.actions() == [SAID] * 3
    assert rig.results() == ["Observation 0", "Observation 1", ""]
    assert [kind for _, kind in rig.kinds()] == ["side", "main", "main"]
    rig.check_conversations()


async def test_the_last_reply_counts_when_the_trial_ends():
    """No later request can contain it: a final text, or a call after which the agent stopped, is an action too."""
    rig, _ = canned(tool_reply(("a", "work", "{}")), text_reply("It is done."))
    await send(rig, CHAT_PATH, chat(user(TASK)), chat(user(TASK), calls(("a", "work")), result("a")))
    await rig.session.close("submitted")
    assert rig.actions() == [("tool", "work", "{}"), SAID]
    assert (rig.session.action_count, rig.session.final_text) == (2, "It is done.")
    rig, _ = canned(tool_reply(("a", "finish", "{}")))
    await send(rig, CHAT_PATH, chat(user(TASK)))
    await rig.session.close("submitted")
    assert rig.actions() == [("tool", "finish", "{}")]
    (ended,) = rig.of(ActionFinished)
    assert (ended.result, ended.is_error) == (None, None)
    assert ended.duration_ms > 0


async def test_every_action_that_started_finishes():
    """A result that no request ever showed is an unknown result, not an unfinished action."""
    rig, _ = canned(BATCH, text_reply("Hm."))
    body = chat(user(TASK), calls(("a", "read"), ("b", "work")), result("a", "A"))
    await send(rig, CHAT_PATH, chat(user(TASK)), body)
    assert [event.action_index for event in rig.of(ActionFinished)] == [1]
    await rig.session.close("time_limit")
    assert rig.results() == ["A", None, ""]


async def test_the_time_between_reply_and_results_is_shared_by_the_batch():
    """The gateway does not see which call took how long; together they took what passed until the next request."""
    now_ms = 0
    rig, _ = canned(BATCH, text_reply("Done."), clock_ns=lambda: now_ms * 10**6)
    await send(rig, CHAT_PATH, chat(user(TASK)))
    now_ms = 10
    body = chat(user(TASK), calls(("a", "read"), ("b", "work")), result("a"), result("b"))
    await send(rig, CHAT_PATH, body)
    assert [event.duration_ms for event in rig.of(ActionFinished)] == [5.0, 5.0]


async def test_results_are_stored_once():
    """A request names the action in place of its result's text, also where the agent sends it in parts."""
    rig, _ = canned(tool_reply(("a", "work", "{}")), tool_reply(("b", "work", "{}")), text_reply("Done."))
    first = [user(TASK), calls(("a", "work")), result("a", "a long result")]
    parts = [user(TASK), calls(("a", "work")), result("a", [{"type": "text", "text": "a long result"}])]
    await send(
        rig, CHAT_PATH, chat(user(TASK)), chat(*first), chat(*parts, calls(("b", "work")), result("b", "another"))
    )
    recorded = [event.new_messages_json for event in rig.of(ModelCalled)]
    assert not any("long result" in text or "another" in text for text in recorded)
    assert [len(json.loads(text)) for text in recorded] == [1, 1, 1]
    rig.check_conversations()
