"""Every dialect of streamable HTTP that clients speak: versions, sessions or none, streams or JSON, batches."""

import anyio
import mcp.client.session
import pytest
import sse_starlette
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from lhaw_record.runners.users.simulated_user.answers import answer_with
from lhaw_record.runners.users.simulated_user.protocol import UserAnswer
from tests.runners.users.simulated_user.people import NAME, NAME_QUESTION
from tests.runners.users.simulated_user.trials import (
    JSON,
    SSE,
    SlowSimulator,
    call,
    messages_of,
    opening,
    request,
    text_of,
    trial_with,
)

BOTH = f"{JSON}, {SSE}"
ANSWER = answer_with([NAME])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_a_real_client_of_an_older_version(version, monkeypatch):
    """The library's client agrees on each version since the first, and gets a plain answer."""
    monkeypatch.setattr(mcp.client.session, "LATEST_HANDSHAKE_VERSION", version)
    async with trial_with() as trial, trial.client("legacy") as client:
        assert client.protocol_version == version
        assert [tool.name for tool in (await client.list_tools()).tools] == ["ask_user"]
        result = await client.call_tool("ask_user", {"question": NAME_QUESTION})
    assert [part.text for part in result.content] == [ANSWER]
    assert result.structured_content is None
    assert len(trial.asked) == len(trial.answered) == 1


@pytest.mark.parametrize("mode", ["auto", *MODERN_PROTOCOL_VERSIONS])
async def test_a_real_client_of_the_current_version(mode):
    """The library's client of today needs no session."""
    async with trial_with() as trial, trial.client(mode) as client:
        assert client.protocol_version == MODERN_PROTOCOL_VERSIONS[-1]
        result = await client.call_tool("ask_user", {"question": NAME_QUESTION})
    assert [part.text for part in result.content] == [ANSWER]
    assert len(trial.asked) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("accept", [BOTH, JSON, "*/*"])
@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_a_session_from_its_opening_to_its_end(version, accept):
    """Opened, used, a stream of its own, ended by DELETE and gone; the answer has the shape that the client reads."""
    async with trial_with() as trial, trial.http(Accept=accept) as http:
        opened = await http.post(trial.url, json=opening(version))
        assert messages_of(opened)[0]["result"]["protocolVersion"] == version
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Mcp-Protocol-Version": version}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await http.post(trial.url, json=ready, headers=session)).status_code == 202
        answer = await http.post(trial.url, json=call(NAME_QUESTION), headers=session)
        assert text_of(answer) == ANSWER
        assert answer.headers["content-type"].startswith(SSE if accept == BOTH else JSON)
        async with http.stream("GET", trial.url, headers={**session, "Accept": SSE}) as stream:
            assert stream.status_code == 200
            assert stream.headers["content-type"].startswith(SSE)
        assert (await http.delete(trial.url, headers=session)).status_code == 200
        assert (await http.post(trial.url, json=call(NAME_QUESTION, 2), headers=session)).status_code == 404
    assert len(trial.asked) == 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize("accept", [BOTH, JSON, "*/*"])
@pytest.mark.parametrize("version", [None, *HANDSHAKE_PROTOCOL_VERSIONS])
async def test_no_session_is_needed(version, accept):
    """A client that only ever sends single requests is answered, in the shape that it reads."""
    headers = {"Accept": accept, **({"Mcp-Protocol-Version": version} if version else {})}
    async with trial_with() as trial, trial.http(**headers) as http:
        listed = await http.post(trial.url, json=request("tools/list"))
        assert [tool["name"] for tool in messages_of(listed)[0]["result"]["tools"]] == ["ask_user"]
        answer = await http.post(trial.url, json=call(NAME_QUESTION))
        assert text_of(answer) == ANSWER
        assert answer.headers["content-type"].startswith(SSE if accept == BOTH else JSON)
        assert (await http.get(trial.url)).status_code == 405
        assert (await http.delete(trial.url)).status_code == 405


async def test_a_slash_at_the_end_is_no_other_address():
    """Some clients add it."""
    async with trial_with() as trial, trial.http(Accept=JSON) as http:
        assert text_of(await http.post(f"{trial.url}/", json=call(NAME_QUESTION))) == ANSWER


async def test_a_batch_is_answered_as_one():
    """Version 2025-03-26 may send several messages at once; notifications among them have no reply."""
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    async with trial_with() as trial, trial.http(Accept=BOTH) as http:
        both = await http.post(trial.url, json=[call(NAME_QUESTION, 1), note, request("tools/list", request_id=2)])
        assert [each["id"] for each in both.json()] == [1, 2]
        assert (await http.post(trial.url, json=[note])).status_code == 202
        for wrong in ([], [note] * 101):
            assert (await http.post(trial.url, json=wrong)).status_code == 400
    assert len(trial.asked) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("body", [b"", b"{", b"null", b"5", b'{"jsonrpc": "2.0"}', b"[" * 100_000])
async def test_nonsense_is_refused_and_the_trial_goes_on(body):
    """What is no message gets an error, and the next question its answer."""
    async with trial_with() as trial, trial.http(Accept=JSON) as http:
        refused = await http.post(trial.url, content=body, headers={"Content-Type": JSON})
        assert refused.status_code == 400
        assert text_of(await http.post(trial.url, json=call(NAME_QUESTION))) == ANSWER


async def test_a_request_of_many_megabytes_is_refused():
    """It is not even read to its end."""
    async with trial_with() as trial, trial.http(Accept=JSON) as http:
        refused = await http.post(trial.url, content=b" " * (5 << 20), headers={"Content-Type": JSON})
        assert refused.status_code == 413
        assert text_of(await http.post(trial.url, json=call(NAME_QUESTION))) == ANSWER


@pytest.mark.parametrize("accept", [BOTH, JSON])
async def test_separators_of_lines_in_a_text_do_no_harm(accept):
    """U+2028 and its kind are no ends of lines for JSON and event streams."""

    class Echo:
        name = "echo"
        is_person = False

        async def answer(self, question, context, knowledge):
            return UserAnswer(text=question)

    question = "a\u2028b\u2029c\x85d"
    async with trial_with(Echo()) as trial, trial.http(Accept=accept) as http:
        assert text_of(await http.post(trial.url, json=call(question))) == question


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_progress_is_told_to_those_who_asked_for_it(mode):
    """A real client hears of progress while the answer takes long, in rising numbers."""
    simulator = SlowSimulator()
    heard = []

    async def progressed(progress, total, message):
        heard.append(progress)
        if len(heard) == 3:
            simulator.may_answer.set()

    async with trial_with(simulator, progress_every_s=0.01) as trial, trial.client(mode) as client:
        result = await client.call_tool("ask_user", {"question": NAME_QUESTION}, progress_callback=progressed)
    assert [part.text for part in result.content] == [ANSWER]
    assert heard[:3] == [1, 2, 3]


@pytest.mark.parametrize("accept", [BOTH, JSON])
async def test_nobody_else_is_told(accept):
    """Without a progress token, or without a stream, only the answer comes."""
    simulator = SlowSimulator()
    meta = {} if accept == BOTH else {"progressToken": "p"}
    answers = []

    async def ask():
        answers.append(await http.post(trial.url, json=call(NAME_QUESTION, **meta)))

    async with (
        trial_with(simulator, progress_every_s=0.001) as trial,
        trial.http(Accept=accept) as http,
        anyio.create_task_group() as group,
    ):
        group.start_soon(ask)
        await simulator.is_asked.wait()
        await anyio.sleep(0.05)
        simulator.may_answer.set()
    assert [sorted(each) for each in messages_of(answers[0])] == [["id", "jsonrpc", "result"]]


async def test_a_silent_stream_is_kept_alive(monkeypatch):
    """Comments on the stream show that the connection lives."""
    monkeypatch.setattr(sse_starlette.EventSourceResponse, "DEFAULT_PING_INTERVAL", 0.01)
    simulator = SlowSimulator()
    async with (
        trial_with(simulator) as trial,
        trial.http(Accept=BOTH) as http,
        http.stream("POST", trial.url, json=call(NAME_QUESTION)) as stream,
    ):
        seen = b""
        async for piece in stream.aiter_raw():
            seen += piece
            if seen.count(b": ping") == 2:
                simulator.may_answer.set()
    assert ANSWER.encode() in seen
