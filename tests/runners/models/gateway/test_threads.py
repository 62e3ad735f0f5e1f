"""Which thread a request belongs to, from what agents really send; the reason is recorded with every call."""

import anyio
import pytest

from lhaw_record.recorder.events import ModelCalled, ModelFailed
from lhaw_record.runners.models.gateway.declarations import ClientIds, client_ids_of
from lhaw_record.runners.models.protocol import ModelError
from tests.runners.models.gateway.rigs import canned
from tests.runners.models.gateway.shapes import (
    TASK,
    call_item,
    calls,
    chat,
    item,
    output_item,
    responses,
    result,
    says,
    system,
    user,
)
from tests.support.canned_model import text_reply, tool_reply

CHAT = "v1/chat/completions"
BROKEN = ModelError("m: server error", kind="server_error", is_retryable=True, http_status=503)
SUMMARY = "The boats were counted and painted blue in the harbour of the north.\nThe report still lacks its last part."


def work(call_id):
    """A reply with one call."""
    return tool_reply((call_id, "work", "{}"))


def turn(call_id, text="done"):
    """What an agent makes of that reply and of its result."""
    return [calls((call_id, "work")), result(call_id, text)]


async def sent(rig, *requests):
    """Send requests one after another; each is a body, or a body and headers."""
    async with rig.client() as client:
        for request in requests:
            body, headers = request if isinstance(request, tuple) else (request, {})
            await client.post("v1/responses" if "input" in body else CHAT, json=body, headers=headers)
    rig.check_conversations()
    return rig.kinds()


def reasons(rig):
    """Why each call is of its kind."""
    return [event.kind_reason for event in rig.of(ModelCalled)]


async def test_side_calls_come_first_and_do_not_hide_the_main_thread():
    """A title that quotes the task is a side call; the conversation with tools is the main one, whatever came first."""
    rig, _ = canned(text_reply("A title"), text_reply("hello"), work("a"), work("b"))
    title = chat(system("Write a title."), user(TASK), tools=())
    probe = chat(user("say hello"), tools=(), max_tokens=1)
    kinds = await sent(rig, title, probe, chat(user(TASK)), chat(user(TASK), *turn("a")))
    assert kinds == [("t1", "side"), ("t2", "side"), ("t3", "main"), ("t3", "main")]
    assert rig.actions() == [("tool", "work", "{}")]
    assert all(reasons(rig))


async def test_equal_texts_of_two_threads_are_told_apart_by_what_they_answer():
    """A title and an answer may be one and the same word; the main thread goes on by its own."""
    rig, _ = canned(text_reply("Boats."), text_reply("Boats."), text_reply("Done."))
    kinds = await sent(
        rig,
        chat(system("Write a title."), user("A title, please."), tools=()),
        chat(user(TASK)),
        chat(user(TASK), says("Boats."), user("More.")),
    )
    assert kinds == [("t1", "side"), ("t2", "main"), ("t2", "main")]
    assert rig.session.action_count == 1


async def test_side_calls_at_the_end_of_a_trial_are_no_actions():
    """A commit message, a summary of the whole history without tools, a token that keeps the cache: none is a turn."""
    rig, _ = canned(work("a"), text_reply("Done."), text_reply("fix: boats"), text_reply(SUMMARY), text_reply("I"))
    history = [user(TASK), *turn("a")]
    message = chat(user("Write a commit message for this diff: +blue"), tools=())
    whole = chat(*history, says("Done."), user("Summarise this conversation."), tools=())
    ping = chat(*history, max_tokens=1)
    kinds = await sent(rig, chat(user(TASK)), chat(*history), message, whole, ping)
    assert kinds == [("t1", "main"), ("t1", "main"), ("t2", "side"), ("t3", "side"), ("t4", "side")]
    await rig.session.close("submitted")
    assert rig.session.action_count == 2


@pytest.mark.parametrize(
    ("main", "other"),
    [
        ({"thread-id": "1", "session-id": "1"}, {"x-v-parent-thread-id": "1", "thread-id": "2", "session-id": "1"}),
        ({"session-id": "1"}, {"session-id": "1", "x-v-subagent": "review"}),
        ({"x-v-session-id": "1"}, {"x-v-session-id": "1", "x-v-agent-id": "7"}),
        ({"x-session-id": "1"}, {"x-session-id": "2", "x-parent-session-id": "1"}),
        ({"x-v-session-id": "1", "x-v-agent-id": "1"}, {"x-v-session-id": "1", "x-v-agent-id": "2"}),
    ],
    ids=["parent thread", "sub-agent", "agent id", "parent session", "agent ids on both"],
)
async def test_headers_name_sub_agents(main, other):
    """A sub-agent with headers of a known family is its own thread, even if its history is a copy of the parent's."""
    rig, _ = canned(work("a"), work("s"), work("t"), work("b"))
    copy = [user(TASK), *turn("a"), user("Only count the boats.")]
    kinds = await sent(
        rig,
        (chat(user(TASK)), main),
        (chat(*copy), other),
        (chat(*copy, *turn("s")), other),
        (chat(user(TASK), *turn("a")), main),
    )
    assert kinds == [("t1", "main"), ("t2", "sub_agent"), ("t2", "sub_agent"), ("t1", "main")]
    assert rig.session.action_count == 1


def test_headers_are_known_by_their_families():
    """No vendor's name matters; empty values, and a parent that is the thread itself, say nothing."""
    body = {"client_metadata": {"session_id": "s", "x-any-parent-thread-id": "p"}}
    assert client_ids_of([("Thread-Id", "t"), ("X-Stainless-Retry-Count", "1")], body) == ClientIds(
        thread="t", session="s", parent="p", is_retry=True
    )
    assert client_ids_of(
        [("x-any-subagent", "false"), ("x-any-agent-id", ""), ("x-stainless-retry-count", "0")], {}
    ) == (ClientIds())
    assert client_ids_of([("x-session-id", "1"), ("x-parent-session-id", "1")], {}) == ClientIds(session="1")


async def test_sub_agents_without_headers_are_known_by_their_conversation():
    """Another opening with tools is a sub-agent; interleaved with the main thread, each goes on by its own replies."""
    rig, _ = canned(work("a"), work("s"), work("b"), work("t"))
    inner = [system("You count."), user("Count the boats.")]
    kinds = await sent(
        rig,
        chat(user(TASK)),
        chat(*inner),
        chat(user(TASK), *turn("a")),
        chat(*inner, *turn("s")),
    )
    assert kinds == [("t1", "main"), ("t2", "sub_agent"), ("t1", "main"), ("t2", "sub_agent")]
    assert rig.session.action_count == 1


async def test_equal_ids_of_two_threads_are_made_distinct():
    """A server that numbers calls anew in each conversation does not mix up the threads."""
    rig, model = canned(work("call_1"), work("call_1"))
    async with rig.client() as client:
        main = (await client.post(CHAT, json=chat(user(TASK)))).json()
        inner = (await client.post(CHAT, json=chat(user("Count.")))).json()
        ids = [reply["choices"][0]["message"]["tool_calls"][0]["id"] for reply in (main, inner)]
        assert ids[0] == "call_1" != ids[1]
        await client.post(CHAT, json=chat(user("Count."), *turn(ids[1])))
    assert [thread for thread, _ in rig.kinds()] == ["t1", "t2", "t2"]
    assert len(model.requests) == 3
    assert rig.session.action_count == 0


async def test_a_fork_beside_a_waiting_call_is_another_thread():
    """Two requests that continue one reply at once: the first is the thread, the second a fork of it."""
    rig, model = canned(work("a"), work("b"), work("c"), work("d"))
    held, is_asked = anyio.Event(), anyio.Event()

    async def slow(request, answer=model.respond):
        if len(model.requests) == 1:
            is_asked.set()
            reply = await answer(request)
            await held.wait()
            return reply
        return await answer(request)

    model.respond = slow
    history = [user(TASK), *turn("a")]
    async with rig.client() as client, anyio.create_task_group() as group:
        await client.post(CHAT, json=chat(user(TASK)))
        group.start_soon(lambda: client.post(CHAT, json=chat(*history)))
        await is_asked.wait()
        await client.post(CHAT, json=chat(*history, user("Beside this, count.")))
        held.set()
    async with rig.client() as client:
        await client.post(CHAT, json=chat(*history, *turn("b")))
        await client.post(CHAT, json=chat(*history, user("Beside this, count."), *turn("c")))
    assert rig.kinds() == [("t1", "main"), ("t1", "main"), ("t2", "sub_agent"), ("t1", "main"), ("t2", "sub_agent")]
    rig.check_conversations()
    assert rig.session.action_count == 2


async def test_the_same_conversation_after_a_failure_is_a_retry():
    """Also without a header, and with cache marks moved; what was answered before is not counted twice."""
    rig, _ = canned(work("a"), BROKEN, BROKEN, text_reply("Done."))
    again = chat(user(TASK), *turn("a"))
    marked = chat(user([{"type": "text", "text": TASK, "cache_control": {"type": "ephemeral"}}]), *turn("a"))
    kinds = await sent(rig, chat(user(TASK)), again, (again, {"x-stainless-retry-count": "1"}), marked)
    assert kinds == [("t1", "main"), ("t1", "main"), ("t1", "retry"), ("t1", "retry")]
    assert len(rig.of(ModelFailed)) == 2
    assert rig.session.action_count == 1
    assert rig.session.last_failure is None


async def test_the_same_conversation_after_a_served_reply_is_no_retry_unless_a_header_says_so():
    """Asking again for another reply is the agent's own decision; a counted attempt is not."""
    rig, _ = canned(work("a"), work("b"), work("c"))
    request = chat(user(TASK))
    kinds = await sent(rig, request, request, (request, {"x-stainless-retry-count": "1"}))
    assert [kind for _, kind in kinds] == ["main", "main", "retry"]
    assert len({thread for thread, _ in kinds}) == 1


async def test_a_thread_that_begins_anew_with_a_summary_is_still_the_main_thread():
    """The summary was written by a side call over the whole history, and the new opening holds it."""
    rig, _ = canned(
        work("a"), work("b"), text_reply(f"<summary>\n{SUMMARY}\n</summary>"), work("c"), text_reply("End.")
    )
    history = [user(TASK), *turn("a"), *turn("b")]
    new = [user("Go on from here."), user(f"This happened so far: {SUMMARY}")]
    kinds = await sent(
        rig,
        chat(user(TASK)),
        chat(user(TASK), *turn("a")),
        chat(*history, user("Summarise."), tools=()),
        chat(*new),
        chat(*new, *turn("c")),
    )
    assert [kind for _, kind in kinds] == ["main", "main", "side", "main", "main"]
    assert kinds[3][0] == kinds[0][0]
    assert "summary" in reasons(rig)[3]
    assert [name for _, name, _ in rig.actions()] == ["work"] * 3  # the side call showed that "b" was carried out
    assert [event.thread_change for event in rig.of(ModelCalled)] == [
        None,
        None,
        None,
        "compacted",
        None,
    ]


async def test_what_others_wrote_is_no_summary_of_the_main_thread():
    """A sub-agent may be told what another one found, or what a side call says of a page that was fetched."""
    rig, _ = canned(work("a"), text_reply(SUMMARY), text_reply(SUMMARY.upper() + " A page."), work("s"), work("t"))
    kinds = await sent(
        rig,
        chat(system("You lead."), user(TASK)),
        chat(system("You count."), user("Count.")),
        chat(user("<page>...</page> Say what it is about."), tools=()),
        chat(system("You paint."), user(f"Paint. Another one found: {SUMMARY}")),
        chat(system("You sail."), user(f"Sail. The page says: {SUMMARY.upper()} A page.")),
    )
    assert [kind for _, kind in kinds] == ["main", "sub_agent", "side", "sub_agent", "sub_agent"]
    assert len({thread for thread, _ in kinds}) == 5


async def test_a_thread_that_states_the_task_again_is_still_the_main_thread():
    """Some agents rebuild the conversation from their own store: the task, the same tools, none of our ids."""
    rig, _ = canned(work("a"), work("b"), prompt=TASK)
    opening = [system("rules"), user(f"<task>\n{TASK}\n</task>")]
    new = chat(system("rules"), user("Notes: all is counted."), user(f"The task was: {TASK}"))
    kinds = await sent(rig, chat(*opening), new)
    assert kinds == [("t1", "main"), ("t1", "main")]
    assert "states the task" in reasons(rig)[1]


async def test_what_the_main_thread_said_is_no_sign_of_it_once_it_went_on():
    """A sub-agent that is told what the main thread wrote is still a sub-agent; a summary is no turn of any request."""
    rig, _ = canned(text_reply(SUMMARY), work("a"), work("s"))
    kinds = await sent(
        rig,
        chat(user(TASK)),
        chat(user(TASK), says(SUMMARY), user("Go on.")),
        chat(user(f"Count the boats. So far: {SUMMARY}"), tools=("count",)),
    )
    assert kinds == [("t1", "main"), ("t1", "main"), ("t2", "sub_agent")]


async def test_a_thread_that_waits_does_not_begin_anew():
    """The task stated again with the same tools, while the main thread waits for a reply, is a sub-agent's."""
    rig, model = canned(work("a"), work("s"))
    is_asked, is_free, answer = anyio.Event(), anyio.Event(), model.respond

    async def respond(request):
        if not is_asked.is_set():
            is_asked.set()
            await is_free.wait()
        return await answer(request)

    model.respond = respond
    async with rig.client() as client, anyio.create_task_group() as group:
        group.start_soon(lambda: client.post(CHAT, json=chat(user(TASK))))
        await is_asked.wait()
        await client.post(CHAT, json=chat(user(TASK), user("You are one of many.")))
        is_free.set()
    assert rig.kinds() == [("t1", "main"), ("t2", "sub_agent")]


async def test_a_probe_with_tools_is_not_taken_for_the_main_thread_for_long():
    """Where the task is known, the conversation that states it is the main thread, unless another one went on."""
    rig, _ = canned(work("a"), work("b"), work("c"), prompt=TASK)
    main = [system("rules"), user(f"Do this: {TASK}")]
    kinds = await sent(
        rig,
        chat(user("say hello"), tools=("other",)),
        chat(*main),
        chat(*main, *turn("b")),
        chat(user(f"Count the boats for this task: {TASK}"), tools=("other",)),
    )
    assert kinds == [("t1", "main"), ("t2", "main"), ("t2", "main"), ("t3", "sub_agent")]
    assert rig.session.action_count == 1


async def test_sub_agents_with_one_header_value_are_told_apart_by_their_conversations():
    """A header that only says "sub-agent" does not make two of them one thread."""
    rig, _ = canned(work("a"), work("s"), work("t"), work("u"))
    headers = {"x-v-session-id": "1"}
    inner = {**headers, "x-v-subagent": "worker"}
    kinds = await sent(
        rig,
        (chat(user(TASK)), headers),
        (chat(user("Count.")), inner),
        (chat(user("Paint.")), inner),
        (chat(user("Count."), *turn("s")), inner),
    )
    assert kinds == [("t1", "main"), ("t2", "sub_agent"), ("t3", "sub_agent"), ("t2", "sub_agent")]


async def test_an_agent_without_tools_is_known_when_it_goes_on():
    """Nothing tells its first call from a title; the conversation that is continued is the main thread."""
    rig, _ = canned(text_reply("Title"), text_reply("ls"), text_reply("cat"), text_reply("fix: boats"))
    main = [system("Write one command."), user(TASK)]
    kinds = await sent(
        rig,
        chat(system("Write a title."), user(TASK), tools=()),
        chat(*main, tools=()),
        chat(*main, says("ls"), user("boats"), tools=()),
        chat(user("Write a commit message."), tools=()),
    )
    assert kinds == [("t1", "side"), ("t2", "side"), ("t2", "main"), ("t3", "side")]
    await rig.session.close("submitted")
    assert rig.session.action_count == 2


async def test_one_single_answer_is_the_main_thread_in_the_end():
    """An agent that asks once and answers has acted once."""
    rig, _ = canned(text_reply("It is 42."))
    await sent(rig, chat(system("Answer."), user(TASK), tools=()))
    await rig.session.close("submitted")
    assert rig.session.action_count == 1
    assert rig.session.final_text == "It is 42."


async def test_a_first_system_text_that_changes_hides_nothing():
    """A hash in the first of several blocks is recorded beside the conversation, which stays one and the same."""
    rig, _ = canned(work("a"), work("b"), text_reply("Done."))
    bodies = [
        {
            "model": "m",
            "max_tokens": 9,
            "system": [{"type": "text", "text": f"hash {number}"}, {"type": "text", "text": "rules"}],
            "messages": history,
            "tools": [{"name": "work", "input_schema": {}}],
        }
        for number, history in enumerate(
            [
                [user(TASK)],
                [user(TASK), *used("a")],
                [user(TASK), *used("a"), *used("b")],
            ]
        )
    ]
    async with rig.client() as client:
        for body in bodies:
            await client.post("v1/messages", json=body)
    shared = [event.shared_count for event in rig.of(ModelCalled)]
    assert shared == [0, 4, 6]
    assert ["hash" in event.parameters_json for event in rig.of(ModelCalled)] == [False, True, True]
    rig.check_conversations()


def used(call_id):
    """A call and its result on the wire of Messages."""
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": "work", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "done"}]},
    ]


async def test_threads_do_not_depend_on_the_wire():
    """The same shapes over Responses: a title, the main thread, a sub-agent."""
    rig, _ = canned(text_reply("Title"), work("a"), work("s"), work("b"))
    kinds = await sent(
        rig,
        responses(item("user", TASK), tools=()),
        responses(item("developer", "rules"), item("user", TASK)),
        responses(item("user", "Count.")),
        responses(item("developer", "rules"), item("user", TASK), call_item("a", id="fc_1"), output_item("a")),
    )
    assert kinds == [("t1", "side"), ("t2", "main"), ("t3", "sub_agent"), ("t2", "main")]
