"""Each trial has a server of its own: nobody else gets in, a question is recorded once, and the end waits for it."""

import json

import anyio
import httpx2
import pytest
from starlette.applications import Starlette

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.runners.base.errors import UserSimulatorError
from lhaw_record.runners.users.ask_user import streamable_http
from lhaw_record.runners.users.ask_user.server import AnswerDelivery
from lhaw_record.runners.users.ask_user.serving import AskUserServer
from lhaw_record.runners.users.simulated_user.answers import answer_with
from lhaw_record.runners.users.simulated_user.llm import LlmSimulator
from tests.runners.models.gateway.rigs import canned
from tests.runners.models.gateway.serving import serving
from tests.runners.models.gateway.shapes import chat, item, messages, responses, says, user
from tests.runners.users.simulated_user.people import NAME, NAME_QUESTION, OTHER_QUESTION, ToldModel
from tests.runners.users.simulated_user.trials import (
    JSON,
    KEY,
    SSE,
    SlowSimulator,
    Trial,
    call,
    listening,
    messages_of,
    opening,
    pending_call,
    text_of,
    trial_with,
)
from tests.support.canned_model import text_reply, tool_reply

ANSWER = answer_with([NAME])
BOTH = f"{JSON}, {SSE}"
PROMPT = "Write the report."


async def test_trials_cannot_reach_each_other():
    """A key that is not open and a wrong token look alike, also those of another trial."""
    async with listening() as (base, server):
        first = await Trial(base, server, key="first", token="one").open()
        second = await Trial(base, server, key="second", token="two").open()
        async with httpx2.AsyncClient(timeout=None) as http:
            wrong = [{}, *({"Authorization": each} for each in ("Bearer two", "Basic one", "one"))]
            refused = [
                await http.post(url, json=call(NAME_QUESTION), headers=headers)
                for url in (first.url, f"{base}/t/third/mcp")
                for headers in wrong
            ]
        assert {(each.status_code, each.text) for each in refused} == {(404, refused[0].text)}
        async with second.http(Accept=JSON) as http:
            assert text_of(await http.post(second.url, json=call(NAME_QUESTION))) == ANSWER
    assert (len(first.asked), len(second.asked)) == (0, 1)


async def test_a_session_of_another_trial_is_unknown():
    """Sessions belong to their trial."""
    async with listening() as (base, server):
        first = await Trial(base, server, key="first").open()
        second = await Trial(base, server, key="second").open()
        async with first.http(Accept=BOTH) as http:
            session = (await http.post(first.url, json=opening("2025-06-18"))).headers["mcp-session-id"]
            answer = await http.post(second.url, json=call(NAME_QUESTION), headers={"Mcp-Session-Id": session})
    assert answer.status_code == 404
    assert first.asked == second.asked == []


async def test_a_trial_may_ask_for_no_token():
    """Some clients cannot send one; the key alone is the secret then."""
    async with trial_with(token=None) as trial, httpx2.AsyncClient(timeout=None) as http:
        assert text_of(await http.post(trial.url, json=call(NAME_QUESTION))) == ANSWER


async def test_a_key_is_taken_once_and_free_after_its_end():
    """Two trials never share an address; a trial that was closed can be closed again."""
    async with listening() as (base, server):
        trial = await Trial(base, server).open()
        with pytest.raises(ValueError, match="use a new random key"):
            await trial.open()
        await server.close(KEY)
        await server.close(KEY)
        async with trial.http() as http:
            assert (await http.post(trial.url, json=call(NAME_QUESTION))).status_code == 404
        await trial.open()
        async with trial.http() as http:
            assert text_of(await http.post(trial.url, json=call(NAME_QUESTION))) == ANSWER


async def test_the_gateway_is_reached_beside_it_and_knows_the_call():
    """Both live at the trial's address; a question is joined to the call that the gateway served, and to its action."""
    arguments = {"question": NAME_QUESTION, "context": "Nearly done."}
    rig, _ = canned(tool_reply(("c1", "bash", '{"command": "ls"}'), ("c2", "user_ask_user", json.dumps(arguments))))
    server = AskUserServer()
    async with server, serving(Starlette(routes=[*server.routes, *rig.gateway.routes])) as base:
        trial = Trial(base, server, key="key-of-the-trial")
        await server.open(trial.key, trial.token, trial.handler, rig.session.pending_calls)
        async with httpx2.AsyncClient(timeout=None) as http:
            await http.post(f"{base}/t/{trial.key}/v1/chat/completions", json=chat(user("Work."), tools=("bash",)))
        async with trial.client() as client:
            await client.call_tool("ask_user", arguments)
    (asked,) = trial.asked
    assert (asked.call_id, asked.action_index) == ("c2", 2)


TEXTS = [f"```bash\nask {number}\n```" for number in (1, 2)]
IN_TEXTS = {
    "v1/chat/completions": lambda said: chat(user(PROMPT), *said, tools=()),
    "v1/messages": lambda said: messages(user(PROMPT), *said, tools=()),
    "v1/responses": lambda said: responses(
        *(item(each["role"], each["content"]) for each in (user(PROMPT), *said)), tools=()
    ),
}


@pytest.mark.parametrize("path", IN_TEXTS)
async def test_a_question_of_an_agent_that_acts_in_texts_has_the_number_of_its_text(path):
    """A command in a block of code asks while it is executed, in the first text too."""
    rig, _ = canned(*map(text_reply, ("Title", *TEXTS)), prompt=PROMPT)
    server = AskUserServer()
    async with server, serving(Starlette(routes=[*server.routes, *rig.gateway.routes])) as base:
        trial = Trial(base, server)
        await server.open(trial.key, trial.token, trial.handler, rig.session.pending_calls)
        async with httpx2.AsyncClient(timeout=None) as http, trial.client() as client:

            async def call_model(body):
                assert (await http.post(f"{base}/t/{trial.key}/{path}", json=body)).status_code == 200

            await call_model({**chat(user("A title?"), tools=()), **responses(item("user", "A title?"), tools=())})
            said = []
            for text in TEXTS:
                await call_model(IN_TEXTS[path](said))
                await client.call_tool("ask_user", {"question": f"{text}: {NAME_QUESTION}"})
                said += [says(text), user("the answer")]
    await rig.session.close("submitted")
    assert [(each.call_id, each.action_index) for each in trial.asked] == [(None, 1), (None, 2)]
    assert rig.actions() == [("text", "message", "{}")] * 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_questions_at_the_same_time_are_answered_each_once(mode):
    """Ten at once over one connection, by one client."""
    async with trial_with() as trial, trial.client(mode) as client:
        texts = []

        async def ask(number):
            result = await client.call_tool("ask_user", {"question": f"{number}. {NAME_QUESTION}"})
            texts.extend(part.text for part in result.content)

        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(ask, number)
    assert texts == [ANSWER] * 10
    assert sorted(event.question_id for event in trial.answered) == sorted(event.question_id for event in trial.asked)
    assert len({event.question for event in trial.asked}) == 10


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_cancelled_question_is_still_answered(mode):
    """A client that gives up leaves a record that is whole, and the same call gets the answer later."""
    simulator = SlowSimulator()
    async with trial_with(simulator) as trial, trial.client(mode) as client:
        meta = {"callId": "c1"}
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.call_tool("ask_user", {"question": NAME_QUESTION}, meta=meta))
            await simulator.is_asked.wait()
            group.cancel_scope.cancel()
        simulator.may_answer.set()
        result = await client.call_tool("ask_user", {"question": NAME_QUESTION}, meta=meta)
        assert [part.text for part in result.content] == [ANSWER]
    assert len(trial.asked) == len(trial.answered) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("accept", [BOTH, JSON])
@pytest.mark.parametrize("has_session", [True, False])
async def test_a_request_is_sent_again_after_its_connection_broke(has_session, accept, monkeypatch):
    """The second one waits for the same answer, and the user is asked once."""
    simulator = SlowSimulator()
    is_lost, has_returned = anyio.Event(), anyio.Event()

    class Noted(AnswerDelivery):
        def __init__(self):
            super().__init__()
            if is_lost.is_set():
                has_returned.set()

        def end(self, state):
            super().end(state)
            if self.state == "lost":
                is_lost.set()

    monkeypatch.setattr(streamable_http, "AnswerDelivery", Noted)
    async with trial_with(simulator) as trial, trial.http(Accept=accept) as http:
        headers = {}
        if has_session:
            opened = await http.post(trial.url, json=opening("2025-06-18"))
            headers = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: http.post(trial.url, json=call(NAME_QUESTION), headers=headers))
            await simulator.is_asked.wait()
            group.cancel_scope.cancel()
        await is_lost.wait()  # the server learns of it in its own time
        async with anyio.create_task_group() as group:
            answers = []

            async def again():
                answers.append(await http.post(trial.url, json=call(NAME_QUESTION), headers=headers))

            group.start_soon(again)
            await has_returned.wait()
            simulator.may_answer.set()
    assert text_of(answers[0]) == ANSWER
    assert len(trial.asked) == len(trial.answered) == 1


async def test_the_end_waits_for_the_answer_to_a_question():
    """A finished trial has no question without an answer, although its agent did not wait."""
    simulator = SlowSimulator()
    async with listening() as (base, server):
        trial = await Trial(base, server, simulator).open()
        async with trial.http(Accept=BOTH) as http, anyio.create_task_group() as group:
            group.start_soon(lambda: http.post(trial.url, json=call(NAME_QUESTION)))
            await simulator.is_asked.wait()
            group.cancel_scope.cancel()
        async with anyio.create_task_group() as group:
            group.start_soon(server.close, KEY)
            await anyio.wait_all_tasks_blocked()
            assert trial.answered == []
            simulator.may_answer.set()
    assert len(trial.answered) == 1


@pytest.mark.thorough
async def test_an_end_in_haste_gives_the_answer_up():
    """When the run is stopped nobody waits for the user, and nothing is recorded after the end."""
    simulator = SlowSimulator()
    async with listening() as (base, server):
        trial = await Trial(base, server, simulator).open()
        async with trial.http(Accept=BOTH) as http, anyio.create_task_group() as group:
            group.start_soon(lambda: http.post(trial.url, json=call(NAME_QUESTION)))
            await simulator.is_asked.wait()
            with anyio.move_on_after(0):
                await server.close(KEY)
            simulator.may_answer.set()
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        assert (len(trial.asked), len(trial.answered)) == (1, 0)
        await trial.open()


async def test_the_end_of_the_server_ends_what_waits():
    """Nothing hangs when the run stops: waiting clients are let go."""
    simulator = SlowSimulator()
    answers = []
    async with (
        httpx2.AsyncClient(timeout=None) as http,
        anyio.create_task_group() as group,
        listening() as (base, server),
    ):
        trial = await Trial(base, server, simulator, token=None).open()

        async def ask():
            answers.append(await http.post(trial.url, json=call(NAME_QUESTION)))

        group.start_soon(ask)
        await simulator.is_asked.wait()
    assert "error" in messages_of(answers[0])[0]
    assert trial.answered == []


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_simulator_that_fails_fails_the_trial(mode):
    """As for the native agent: the boundary is user_simulator, and the agent sees an error and no invented answer."""
    simulator = LlmSimulator(ToldModel(UserSimulatorError("rate limited", kind="rate_limit")), "told")
    async with trial_with(simulator) as trial, trial.client(mode) as client:
        result = await client.call_tool("ask_user", {"question": NAME_QUESTION})
        assert result.is_error
        assert "rate limited" in result.content[0].text
        await trial.handler.failed.wait()
    assert trial.handler.failure.boundary == "user_simulator"
    assert (len(trial.asked), len(trial.answered)) == (1, 0)


async def test_a_recorder_that_fails_is_kept_for_the_trial():
    """A question that cannot be recorded is not answered, and the agent is told nothing of disks."""

    def fail(events):
        raise RecordingFailed("no space left")

    async with trial_with(before_append=fail) as trial, trial.client() as client:
        result = await client.call_tool("ask_user", {"question": NAME_QUESTION})
        assert [part.text for part in result.content] == ["The user cannot be reached."]
        await trial.handler.failed.wait()
    assert isinstance(trial.handler.failure, RecordingFailed)


async def test_an_alias_counts_the_same():
    """Listed under its alias alone; a question under either name is one, and joined to the model's call."""
    async with trial_with(tool_name="consult") as trial, trial.client() as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["consult"]
        trial.pending = [pending_call("c1", {"question": NAME_QUESTION}, name="mcp__user__consult")]
        await client.call_tool("consult", {"question": NAME_QUESTION})
        trial.pending = [pending_call("c2", {"question": OTHER_QUESTION}, name="ask_user", action_index=9)]
        await client.call_tool("ask_user", {"question": OTHER_QUESTION})
    assert [(each.call_id, each.action_index) for each in trial.asked] == [("c1", 3), ("c2", 9)]


@pytest.mark.parametrize("question", ["", " \n", "?" * 20_001])
async def test_what_is_no_question_is_not_counted(question):
    """An empty or endless one is an error result that says what to do."""
    async with trial_with() as trial, trial.client() as client:
        result = await client.call_tool("ask_user", {"question": question})
    assert result.is_error
    assert "Call ask_user again" in result.content[0].text
    assert trial.stream.events == []
