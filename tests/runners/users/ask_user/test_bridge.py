"""The bridge: a stdio client reaches a trial's server over HTTP, with nothing but a Python beside it."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from mcp import Client, StdioServerParameters

from lhaw_record.runners.users.ask_user import bridge
from lhaw_record.runners.users.ask_user.calls import Questions
from lhaw_record.runners.users.simulated_user.answers import answer_with
from tests.runners.users.simulated_user.people import NAME, NAME_QUESTION
from tests.runners.users.simulated_user.trials import SlowSimulator, call, opening, request, trial_with

ANSWER = answer_with([NAME])
ALONE = [sys.executable, "-I", "-S", str(Path(bridge.__file__))]
"""Without the packages of this environment, and without its variables."""


def parameters(trial):
    """How a client starts the bridge."""
    return StdioServerParameters(command=ALONE[0], args=[*ALONE[1:], trial.url, trial.token])


class Talk:
    """A bridge that is talked to line by line."""

    def __init__(self, process):
        self._process = process
        self._read = b""

    async def say(self, *messages):
        """Write messages."""
        await self.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))

    async def write(self, text):
        """Write anything."""
        await self._process.stdin.send(text)

    async def hear(self):
        """Read the next message."""
        while b"\n" not in self._read:
            self._read += await self._process.stdout.receive()
        line, _, self._read = self._read.partition(b"\n")
        return json.loads(line)

    async def rest(self):
        """Read every other message, to the end of its output."""
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                self._read += await self._process.stdout.receive()
        return self._read.splitlines()

    async def hang_up(self):
        """End its input, and return its exit code when it has ended."""
        await self._process.stdin.aclose()
        return await self._process.wait()


@contextlib.asynccontextmanager
async def talking(url, token="", **options):
    """Start a bridge; it is killed at the end if it still runs."""
    with anyio.fail_after(600):
        async with await anyio.open_process([*ALONE, url, token], stderr=subprocess.DEVNULL, **options) as process:
            try:
                yield Talk(process)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_real_client_asks_over_stdio(mode):
    """In both eras: the tool is listed, the answer is plain text, progress comes through, one question is recorded."""
    simulator = SlowSimulator()
    heard = []

    async def progressed(progress, total, message):
        heard.append(progress)
        simulator.may_answer.set()

    with anyio.fail_after(600):
        async with (
            trial_with(simulator, progress_every_s=0.05) as trial,
            Client(parameters(trial), mode=mode) as client,
        ):
            assert [tool.name for tool in (await client.list_tools()).tools] == ["ask_user"]
            result = await client.call_tool("ask_user", {"question": NAME_QUESTION}, progress_callback=progressed)
    assert [part.text for part in result.content] == [ANSWER]
    assert heard[0] == 1
    assert len(trial.asked) == len(trial.answered) == 1


async def test_messages_without_a_session_pass_too():
    """A client that never opens one is answered, also in a batch; each line is a whole message."""
    async with trial_with() as trial, talking(trial.url, trial.token) as talk:
        await talk.say(call(f"{NAME_QUESTION} \u2028 ä", 7))
        assert (await talk.hear())["result"]["content"][0]["text"] == ANSWER
        await talk.say([request("tools/list", request_id=8), request("ping", request_id=9)])
        assert {each["id"] for each in await talk.hear()} == {8, 9}
        assert await talk.hang_up() == 0
    assert trial.asked[0].question == f"{NAME_QUESTION} \u2028 ä"


async def test_questions_do_not_wait_for_each_other():
    """While one question is open, other requests pass."""
    simulator = SlowSimulator()
    async with trial_with(simulator) as trial, talking(trial.url, trial.token) as talk:
        await talk.say(opening("2025-06-18"), call(NAME_QUESTION, 1))
        assert (await talk.hear())["id"] == 0
        await simulator.is_asked.wait()
        await talk.say(request("ping", request_id=2))
        assert (await talk.hear())["id"] == 2
        simulator.may_answer.set()
        assert (await talk.hear())["id"] == 1


async def test_it_ends_when_its_input_ends(monkeypatch):
    """What is under way is answered within two seconds, or given up; the session that was opened first is ended."""
    simulator = SlowSimulator()
    sessions = []
    answer = Questions.answer

    async def noted(self, asked):
        sessions.append(asked.session_id)
        return await answer(self, asked)

    monkeypatch.setattr(Questions, "answer", noted)
    async with trial_with(simulator) as trial, talking(trial.url, trial.token) as talk:
        await talk.say(opening("2025-06-18"), call(NAME_QUESTION, 1))
        await simulator.is_asked.wait()
        assert await talk.hang_up() == 0
        async with trial.http(**{"Mcp-Session-Id": sessions[0]}) as http:
            assert (await http.post(trial.url, json=request("ping"))).status_code == 404
        simulator.may_answer.set()
    assert len(trial.answered) == 1


async def test_what_was_asked_before_the_end_of_input_is_answered():
    """A script that writes its lines and closes gets its answers."""
    async with trial_with() as trial, talking(trial.url, trial.token) as talk:
        await talk.say(call(NAME_QUESTION, 1))
        assert await talk.hang_up() == 0
        assert (await talk.hear())["result"]["content"][0]["text"] == ANSWER


@pytest.mark.parametrize("session", [[], [opening("2025-06-18")]])
async def test_a_cancelled_request_is_not_answered(session):
    """The client hears nothing of it any more, and the next request has its answer."""
    simulator = SlowSimulator()
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    async with trial_with(simulator) as trial, talking(trial.url, trial.token) as talk:
        await talk.say(*session, call(NAME_QUESTION, 1))
        await simulator.is_asked.wait()
        await talk.say(cancelled, request("ping", request_id=2))
        ids = [(await talk.hear())["id"] for _ in range(len(session) + 1)]
        simulator.may_answer.set()
        await talk.hang_up()
        ids += [json.loads(line)["id"] for line in await talk.rest()]
    assert ids == [*(0 for _ in session), 2]


async def test_a_broken_connection_is_mended():
    """The bridge sends the request again, and the user is asked once."""
    simulator = SlowSimulator()
    breaks = []

    async def pipe(source, target):
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for piece in source:
                await target.send(piece)
            await target.send_eof()

    async def relay(client):
        async with client, await anyio.connect_tcp("127.0.0.1", port) as server, anyio.create_task_group() as group:
            group.start_soon(pipe, client, server)
            group.start_soon(pipe, server, client)
            if not breaks:
                breaks.append(port)
                await simulator.is_asked.wait()
                group.cancel_scope.cancel()
                simulator.may_answer.set()

    relayed = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with trial_with(simulator) as trial, relayed, anyio.create_task_group() as group:
        port = urlsplit(trial.url).port
        group.start_soon(relayed.serve, relay)
        url = trial.url.replace(str(port), str(relayed.extra(anyio.abc.SocketAttribute.local_port)))
        async with talking(url, trial.token) as talk:
            await talk.say(call(NAME_QUESTION, 1))
            assert (await talk.hear())["result"]["content"][0]["text"] == ANSWER
        group.cancel_scope.cancel()
    assert len(breaks) == len(trial.asked) == len(trial.answered) == 1


@pytest.mark.thorough
async def test_a_server_that_is_not_there_is_an_error_with_a_reason(free_tcp_port):
    """A client that waits gets a reply in any case; a wrong token is not tried again."""
    async with trial_with() as trial, talking(trial.url, "wrong") as talk:
        await talk.say(call(NAME_QUESTION, 1))
        assert "HTTP status 404" in (await talk.hear())["error"]["message"]
        await talk.say("no message", {"jsonrpc": "2.0", "method": "notifications/initialized"}, request("ping"))
        assert (await talk.hear())["id"] == 1
        await talk.write(b"{\n\n")
        assert (await talk.hear())["error"]["code"] == -32700
    async with talking(f"http://127.0.0.1:{free_tcp_port}/t/x/mcp") as talk:
        await talk.say(request("ping", request_id="a"))
        reply = await talk.hear()
    assert reply["id"] == "a"
    assert "ConnectionRefusedError" in reply["error"]["message"]


def test_it_says_how_it_is_used():
    """Without an address it ends with its usage."""
    ended = subprocess.run(ALONE, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "usage: python3 bridge.py URL [TOKEN [ATTEMPTS]]" in ended.stderr
