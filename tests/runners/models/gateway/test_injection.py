"""The injection into agents that do not know of it: at the right moment, in the right place, and there for good."""

import pytest

from lhaw_record.recorder.events import AnchorLost, ClarificationInjected, InjectionReapplied, ModelCalled
from lhaw_record.runners.base.conversation.messages import Message
from tests.runners.models.gateway.rigs import canned, injection_after
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
    system,
    user,
    uses,
)
from tests.support.canned_model import text_reply, tool_reply

BLUE = "By the way: blue."
PATHS = {"messages": "v1/chat/completions", "input": "v1/responses", "max_tokens": "v1/messages"}
SUMMARY = "The boats were counted and painted in the harbour of the north.\nThe report still lacks its last part."


def work(*ids, text=""):
    """A reply with calls."""
    return tool_reply(*((call_id, "work", "{}") for call_id in ids), text=text)


async def sent(rig, *bodies):
    """Send requests one after another and return the bodies that went to the provider."""
    async with rig.client() as client:
        for body in bodies:
            path = next(path for field, path in reversed(PATHS.items()) if field in body)
            assert (await client.post(path, json=body)).status_code == 200
    rig.check_conversations()
    return rig.session.upstream.bodies


def injections(rig):
    """Status and place of each injection event."""
    return [(event.status, event.after_action) for event in rig.of(ClarificationInjected)]


async def test_chat_gets_a_user_message_after_the_last_result_of_the_batch():
    """Due after action 1 of a parallel batch of two, it stands after both results, and in each later request too."""
    rig, model = canned(work("a", "b"), work("c"), text_reply("Done."), injection=injection_after(1))
    batch = [calls(("a", "work"), ("b", "work")), result("a", "A"), result("b", "B")]
    one, two, three = await sent(
        rig,
        chat(user(TASK)),
        chat(user(TASK), *batch),
        chat(user(TASK), *batch, calls(("c", "work")), result("c")),
    )
    assert one["messages"] == [user(TASK)]
    assert two["messages"] == [user(TASK), *batch, user(BLUE)]
    assert three["messages"] == [*two["messages"], calls(("c", "work")), result("c")]
    assert injections(rig) == [("injected", 2)]
    assert model.requests[1].messages[-1] == Message(role="user", content=BLUE)
    assert rig.of(InjectionReapplied) == []


async def test_an_incomplete_batch_is_waited_for():
    """A request that shows one of two results is no clean boundary; the next one is."""
    rig, _ = canned(work("a", "b"), work("c"), text_reply("Done."), injection=injection_after(1))
    both = calls(("a", "work"), ("b", "work"))
    _, two, three = await sent(
        rig,
        chat(user(TASK)),
        chat(user(TASK), both, result("a")),
        chat(user(TASK), both, result("a"), result("b")),
    )
    assert user(BLUE) not in two["messages"]
    assert three["messages"][-1] == user(BLUE)
    assert injections(rig) == [("injected", 2)]


@pytest.mark.parametrize("wire", ["chat", "messages"])
async def test_no_word_comes_between_results_where_the_agent_merges_two_replies(wire):
    """The calls of two replies in one turn have their results in a row; the message stands behind all of them."""
    rig, _ = canned(work("a"), work("b"), text_reply("Done."), injection=injection_after(1))
    if wire == "chat":
        merged = [calls(("a", "work"), ("b", "work")), result("a"), result("b")]
        first = chat(user(TASK), calls(("a", "work")), result("a"))
        bodies = await sent(rig, chat(user(TASK)), first, chat(user(TASK), *merged))
        assert bodies[2]["messages"] == [user(TASK), *merged, user(BLUE)]
    else:
        first = messages(user(TASK), uses(("a", "work")), gives(("a", "A")))
        merged = [uses(("a", "work"), ("b", "work")), gives(("a", "A"), ("b", "B"))]
        bodies = await sent(rig, messages(user(TASK)), first, messages(user(TASK), *merged))
        assert [each["type"] for each in bodies[2]["messages"][-1]["content"]] == ["tool_result", "tool_result", "text"]
    assert injections(rig) == [("injected", 1)]


async def test_messages_gets_a_block_of_text_after_the_results():
    """In the same message of the user, before what the agent itself put behind the results; nothing else changes."""
    rig, _ = canned(work("a"), work("b"), text_reply("Done."), injection=injection_after(1))
    reminder = block("Remember to be brief.", cache_control={"type": "ephemeral"})
    first = [user(TASK), uses(("a", "work")), gives(("a", "A"), after=[reminder])]
    later = [user(TASK), uses(("a", "work")), gives(("a", [block("A")]))]
    _, two, three = await sent(
        rig,
        messages(user(TASK), system=[block("rules", cache_control={"type": "ephemeral"})]),
        messages(*first),
        messages(*later, uses(("b", "work")), gives(("b", "B"))),
    )
    assert two["messages"][-1]["content"] == [first[-1]["content"][0], block(BLUE), reminder]
    assert three["messages"][2]["content"] == [later[-1]["content"][0], block(BLUE)]
    assert three["messages"][:2] == two["messages"][:2] == first[:2]


async def test_responses_gets_an_item_after_the_last_output():
    """Between the output and the reasoning of the next reply, which the provider gets back unchanged."""
    rig, _ = canned(work("a"), work("b"), text_reply("Done."), injection=injection_after(1))
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "zz"}
    history = [item("user", TASK), reasoning, call_item("a"), output_item("a")]
    _, two, three = await sent(
        rig,
        responses(item("user", TASK)),
        responses(*history),
        responses(*history, reasoning, call_item("b"), output_item("b")),
    )
    assert two["input"] == [*history, item("user", BLUE)]
    assert three["input"] == [*two["input"], reasoning, call_item("b"), output_item("b")]


async def test_previous_response_id_keeps_the_message_where_it_is():
    """The agent sends new items only; what the model sees is the whole chain with the message at its place."""
    rig, model = canned(work("a"), work("b"), text_reply("Done."), injection=injection_after(1))
    async with rig.client() as client:
        first = (await client.post("v1/responses", json=responses(item("user", TASK)))).json()
        second = responses(output_item("a", "A"), previous_response_id=first["id"])
        second = (await client.post("v1/responses", json=second)).json()
        third = responses(output_item("b", "B"), previous_response_id=second["id"])
        assert (await client.post("v1/responses", json=third)).status_code == 200
    one, two, three = (request.messages for request in model.requests)
    assert [message.content for message in three] == [TASK, "", "A", BLUE, "", "B"]
    assert two == three[: len(two)]
    assert one == two[: len(one)]
    assert injections(rig) == [("injected", 1)]
    rig.check_conversations()


async def test_an_agent_without_tools_is_anchored_on_its_text():
    """After the message that answers the text, also where the agent rewrites the user's messages later on."""
    rig, _ = canned(text_reply("ls"), text_reply("ls"), text_reply("Done."), injection=injection_after(2))
    opening = [system("One command."), user(TASK)]
    first, second = [says("ls"), user("boats")], [says("ls"), user("boats, still")]
    _, two, three, four = await sent(
        rig,
        chat(*opening, tools=()),
        chat(*opening, *first, tools=()),
        chat(*opening, *first, *second, tools=()),
        chat(*opening, says("ls"), user("(cut)"), *second, says("Done."), user("Really?"), tools=()),
    )
    assert user(BLUE) not in two["messages"]
    assert three["messages"] == [*opening, *first, *second, user(BLUE)]
    assert four["messages"][:7] == [*opening, says("ls"), user("(cut)"), *second, user(BLUE)]
    assert injections(rig) == [("injected", 2)]


async def test_calls_rewritten_as_text_keep_their_anchor():
    """The reply is known by its place at first and by the agent's own words from then on."""
    rig, _ = canned(work("a"), work("b"), text_reply("Done."), injection=injection_after(1))
    told = [says("Calling tools: work"), user("Observation: done")]
    _, two, three = await sent(
        rig,
        chat(user(TASK)),
        chat(user(TASK), *told),
        chat(user(TASK), *told, says("Calling tools: work()"), user("x")),
    )
    assert two["messages"] == [user(TASK), *told, user(BLUE)]
    assert three["messages"][:4] == two["messages"]


async def test_side_calls_and_sub_agents_do_not_get_it_unless_they_hold_the_anchor():
    """A title does not know what the main thread was told; a summary of its whole history does."""
    rig, _ = canned(
        work("a"), text_reply("Title"), work("b"), work("s"), text_reply(SUMMARY), injection=injection_after(1)
    )
    history = [user(TASK), calls(("a", "work")), result("a")]
    bodies = await sent(
        rig,
        chat(user(TASK)),
        chat(user(f"Title for: {TASK}"), tools=()),
        chat(*history),
        chat(user("Count the boats.")),
        chat(*history, user("Summarise."), tools=()),
    )
    assert [user(BLUE) in body["messages"] for body in bodies] == [False, False, True, False, True]
    assert bodies[4]["messages"][3:] == [user(BLUE), user("Summarise.")]
    assert injections(rig) == [("injected", 1)]


@pytest.mark.parametrize("has_summary", [True, False], ids=["summary", "task again"])
async def test_a_lost_anchor_is_recorded_and_the_message_goes_to_the_top(has_summary):
    """After a compaction the message stands behind the new opening, once, and stays there; both are recorded once."""
    rig, _ = canned(
        work("a"),
        work("b"),
        text_reply(SUMMARY),
        work("c"),
        text_reply("Done."),
        injection=injection_after(1),
        prompt=TASK,
    )
    history = [user(TASK), calls(("a", "work")), result("a")]
    new = [system("rules"), user(SUMMARY if has_summary else TASK), user("Go on.")]
    bodies = await sent(
        rig,
        chat(user(TASK)),
        chat(*history),
        chat(*history, calls(("b", "work")), result("b"), user("Summarise."), tools=()),
        chat(*new),
        chat(*new, calls(("c", "work")), result("c")),
    )
    assert bodies[3]["messages"] == [*new[:2], user(BLUE), *new[2:]]
    assert bodies[4]["messages"][:4] == bodies[3]["messages"]
    (lost,), (again,) = rig.of(AnchorLost), rig.of(InjectionReapplied)
    fourth = rig.of(ModelCalled)[3]
    assert (lost.anchor_call_id, lost.model_call_id) == (rig.of(ModelCalled)[0].call_id, fourth.call_id)
    assert (again.model_call_id, again.place) == (fourth.call_id, "top")
    assert lost.reason == fourth.kind_reason
    assert injections(rig) == [("injected", 1)]


async def test_a_trial_that_ends_before_leaves_a_skipped_injection():
    """With the reason, never silence."""
    rig, _ = canned(text_reply("Done."), injection=injection_after(5))
    await sent(rig, chat(user(TASK)))
    await rig.session.close("submitted")
    assert injections(rig) == [("skipped", None)]
    assert "submitted" in rig.of(ClarificationInjected)[0].reason


async def test_retries_do_not_inject_twice():
    """The request that first held the message failed; the next attempt holds it at the same place."""
    from lhaw_record.runners.models.protocol import ModelError

    broken = ModelError("m: no", kind="server_error", is_retryable=True)
    rig, _ = canned(work("a"), broken, text_reply("Done."), injection=injection_after(1))
    history = chat(user(TASK), calls(("a", "work")), result("a"))
    async with rig.client() as client:
        statuses = [
            (await client.post("v1/chat/completions", json=body)).status_code
            for body in (chat(user(TASK)), history, history)
        ]
    assert statuses == [200, 502, 200]
    one, two = rig.session.upstream.bodies[1:]
    assert one["messages"] == two["messages"] == [*history["messages"], user(BLUE)]
    assert injections(rig) == [("injected", 1)]
    rig.check_conversations()
