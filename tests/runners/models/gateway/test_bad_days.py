"""What goes wrong between an agent and the gateway: clients that leave, readers that dawdle, models that wait."""

import asyncio
import json
from contextlib import AsyncExitStack

import anyio
import anyio.lowlevel
import httpx
import pytest

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.events import ModelCalled, ModelFailed, ModelResponded
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.models.endpoints.door import Door
from lhaw_record.runners.models.gateway.app import Gateway
from lhaw_record.runners.models.gateway.calls import CLIENT_GONE, HUNG_UP, PATIENCE_S
from lhaw_record.runners.models.gateway.delivery import Patience
from lhaw_record.runners.models.protocol import ModelError
from tests.runners.models.gateway.rigs import KEY, canned, until
from tests.runners.models.gateway.serving import serving
from tests.runners.models.gateway.shapes import TASK, calls, chat, messages, result, user
from tests.runners.models.gateway.tiny_agents import events_of
from tests.support.canned_model import text_reply, tool_reply

CHAT = f"/t/{KEY}/v1/chat/completions"
MESSAGES = f"/t/{KEY}/v1/messages"


class Hands:
    """A clock that moves when it is told."""

    now_s = 0.0

    def __call__(self):
        """The time."""
        return self.now_s


class Held:
    """Makes a canned model wait until it is let go."""

    def __init__(self, model):
        self.answer = model.respond
        self.is_asked, self.is_free = anyio.Event(), anyio.Event()
        model.respond = self.respond

    async def respond(self, request):
        """Wait, then answer."""
        self.is_asked.set()
        await self.is_free.wait()
        return await self.answer(request)


async def raw_request(url, path, body):
    """Send a request over a bare connection, so that the test decides when to read and when to leave."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 16)
    payload = json.dumps(body).encode()
    writer.write(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(payload)}\r\n\r\n".encode() + payload)
    await writer.drain()
    return reader, writer


def is_undelivered(rig):
    """Whether the reply to the only thread's last call was recorded and did not arrive."""
    return rig.of(ModelResponded) and rig.session._state.threads["t1"].last_state == "failed"


async def test_a_client_that_leaves_while_it_waits_ends_the_call():
    """The model is not asked any longer, the failure is recorded, and the same conversation again is a retry."""
    rig, model = canned(text_reply("Done."))
    held = Held(model)
    async with serving(rig.gateway.app()) as url, httpx.AsyncClient(base_url=url, timeout=None) as client:
        _, writer = await raw_request(url, CHAT, chat(user(TASK)))
        await held.is_asked.wait()
        writer.close()
        await until(lambda: rig.of(ModelFailed))
        held.is_free.set()
        assert (await client.post(CHAT, json=chat(user(TASK)))).status_code == 200
    assert [event.error_kind for event in rig.of(ModelFailed)] == [HUNG_UP]
    assert rig.kinds() == [("t1", "main"), ("t1", "retry")]
    assert len(rig.of(ModelResponded)) == 1
    rig.check_conversations()


@pytest.mark.parametrize(("waited_s", "kind"), [(PATIENCE_S - 1, HUNG_UP), (PATIENCE_S + 1, CLIENT_GONE)])
async def test_who_gives_up_too_early_pays_for_the_time(waited_s, kind):
    """A client that a silent server may have discouraged has waited; one that left at once spent its own time."""
    hands = Hands()
    clock = TrialClock(now_s=hands)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.bound, anyio.sleep_forever)
        await anyio.wait_all_tasks_blocked()
        rig, model = canned(text_reply("Done."), trial_clock=clock, clock_ns=lambda: int(hands.now_s * 1e9))
        held = Held(model)
        async with serving(rig.gateway.app()) as url:
            _, writer = await raw_request(url, CHAT, chat(user(TASK)))
            await held.is_asked.wait()
            hands.now_s += waited_s
            writer.close()
            await until(lambda: rig.of(ModelFailed))
        hands.now_s += 5.0
        is_own = kind == HUNG_UP
        assert [event.error_kind for event in rig.of(ModelFailed)] == [kind]
        assert (clock.charged_s, clock.waited_s) == ((waited_s + 5.0, 0.0) if is_own else (0.0, waited_s + 5.0))
        tasks.cancel_scope.cancel()


async def test_a_client_that_leaves_at_the_door_used_no_patience():
    """The hours until its turn are the door's, not the trial's, and they are not in the call's latency."""
    door, hands = Door("m"), Hands()
    clock = TrialClock(patience_s=60.0, now_s=hands)
    rig, model = canned(text_reply("Done."), trial_clock=clock, clock_ns=lambda: int(hands.now_s * 1e9))
    ask = model.respond

    async def respond(request):
        async with door.passage(lambda: "r"):
            return await ask(request)

    model.respond = respond
    async with serving(rig.gateway.app()) as url, AsyncExitStack() as others:
        for _ in range(4):
            await others.enter_async_context(door.passage(lambda: "other"))
        _, writer = await raw_request(url, CHAT, chat(user(TASK)))
        await until(lambda: door.state().waiting)
        hands.now_s += 10_000.0
        writer.close()
        await until(lambda: rig.of(ModelFailed))
    (left,) = rig.of(ModelFailed)
    assert (left.error_kind, left.latency_ms, clock.patience_left_s) == (CLIENT_GONE, 0.0, 60.0)


async def test_a_reply_that_did_not_arrive_whole_is_asked_for_again():
    """The reader leaves in the middle of a long stream: the reply was paid and stays recorded, the next is a retry."""
    rig, _ = canned(text_reply("x" * (8 << 20)), text_reply("Done."))
    async with serving(rig.gateway.app()) as url, httpx.AsyncClient(base_url=url, timeout=None) as client:
        reader, writer = await raw_request(url, CHAT, chat(user(TASK), stream=True))
        await reader.readexactly(1000)
        writer.transport.abort()
        await until(lambda: is_undelivered(rig))
        assert (await client.post(CHAT, json=chat(user(TASK), stream=True))).status_code == 200
    assert rig.kinds() == [("t1", "main"), ("t1", "retry")]
    await rig.session.close("submitted")
    assert rig.session.action_count == 1


async def test_a_slow_reader_gets_everything():
    """A reply of several megabytes, read in small pieces, arrives whole, and nobody else waits for it."""
    text = "Z" * (5 << 20)
    rig, _ = canned(text_reply(text), text_reply("Done."))
    async with serving(rig.gateway.app()) as url, httpx.AsyncClient(base_url=url, timeout=None) as client:
        reader, writer = await raw_request(url, MESSAGES, messages(user(TASK), stream=True))
        received = await reader.readexactly(1000)
        assert (await client.post(CHAT, json=chat(user("Another.")))).status_code == 200
        while not received.endswith(b"0\r\n\r\n"):
            received += await reader.read(50_000)
            await anyio.lowlevel.checkpoint()
        writer.close()
    assert received.count(b"Z") == len(text)


async def test_a_reader_that_never_reads_is_left():
    """After the time that a reply may take, the connection is closed and the reply counts as not delivered."""
    gateway = Gateway(patience=Patience(slow_reader_s=0.05))
    rig, _ = canned(text_reply("x" * (32 << 20)), gateway=gateway)
    async with serving(gateway.app()) as url:
        _, writer = await raw_request(url, CHAT, chat(user(TASK)))
        await until(lambda: is_undelivered(rig))
        writer.close()


async def test_pings_keep_a_stream_alive_until_the_reply_comes():
    """Comments, which every client passes over; then the whole reply."""
    gateway = Gateway(patience=Patience(first_byte_s=0.01, ping_s=0.01))
    _, model = canned(text_reply("Done."), gateway=gateway)
    held, text = Held(model), ""
    async with (
        serving(gateway.app()) as url,
        httpx.AsyncClient(base_url=url, timeout=None) as client,
        client.stream("POST", CHAT, json=chat(user(TASK), stream=True)) as response,
    ):
        async for piece in response.aiter_text():
            text += piece
            if text.count(": ping\n\n") >= 3:
                held.is_free.set()
    assert response.status_code == 200
    assert [json.loads(data)["choices"][0]["delta"].get("content") for _, data in events_of(text)[:-1]] == [
        "Done.",
        None,
    ]


async def test_a_failure_after_pings_is_told_in_the_stream():
    """The status is gone by then; each dialect has an event for it."""
    gateway = Gateway(patience=Patience(first_byte_s=0.01, ping_s=0.01))
    rig, model = canned(ModelError("m: busy", kind="server_error", is_retryable=True, http_status=529), gateway=gateway)
    paths = {
        "chat/completions": lambda name, data: data == "[DONE]" or "busy" in json.loads(data)["error"]["message"],
        "messages": lambda name, data: (name, json.loads(data)["error"]["type"]) == ("error", "overloaded_error"),
        "responses": lambda name, data: (name, json.loads(data)["response"]["status"]) == ("response.failed", "failed"),
    }
    async with serving(gateway.app()) as url, httpx.AsyncClient(base_url=url, timeout=None) as client:
        for path, is_right in paths.items():
            model.respond = type(model).respond.__get__(model)
            held = Held(model)
            text = ""
            body = {"messages": [user(path)], "input": path, "stream": True}
            async with client.stream("POST", f"/t/{KEY}/v1/{path}", json=body) as response:
                async for piece in response.aiter_text():
                    text += piece
                    held.is_free.set()
            assert response.status_code == 200
            assert all(is_right(name, data) for name, data in events_of(text)), text
    assert len(rig.of(ModelFailed)) == 3


async def test_two_requests_of_one_thread_at_once_are_both_answered():
    """Equal ones, which some agents send after losing patience without hanging up: one thread, one action."""
    rig, model = canned(tool_reply(("a", "work", "{}")))
    held = Held(model)
    async with serving(rig.gateway.app()) as url, httpx.AsyncClient(base_url=url, timeout=None) as client:
        replies = []

        async def ask():
            replies.append((await client.post(CHAT, json=chat(user(TASK)))).json())

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await held.is_asked.wait()
            group.start_soon(ask)
            await until(lambda: len(rig.of(ModelCalled)) == 2)
            held.is_free.set()
        ids = [reply["choices"][0]["message"]["tool_calls"][0]["id"] for reply in replies]
        assert len(set(ids)) == 2
        await client.post(CHAT, json=chat(user(TASK), calls((ids[0], "work")), result(ids[0])))
    assert rig.kinds() == [("t1", "main"), ("t1", "retry"), ("t1", "main")]
    assert rig.actions() == [("tool", "work", "{}")]
    rig.check_conversations()


async def test_the_end_of_a_trial_ends_its_calls():
    """A call that waits is cancelled and recorded as failed; its client gets an answer."""
    rig, model = canned(text_reply("Done."))
    held = Held(model)
    statuses = []
    async with serving(rig.gateway.app()) as url, httpx.AsyncClient(base_url=url, timeout=None) as client:

        async def ask():
            statuses.append((await client.post(CHAT, json=chat(user(TASK)))).status_code)

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await held.is_asked.wait()
            await rig.session.close("time_limit")
    assert statuses == [404]
    assert len(rig.of(ModelCalled)) == len(rig.of(ModelFailed)) == 1
    assert rig.session.action_count == 0


async def test_a_failed_recorder_fails_the_trial_and_nothing_is_served():
    """What is not durable never reaches the agent; the error is kept for whoever runs the trial."""
    rig, _ = canned(text_reply("Done."))

    async def append(*events):
        if any(isinstance(event, ModelResponded) for event in events):
            raise RecordingFailed("disk full at /a/secret/place")

    rig.recording.append = append
    async with rig.client() as client:
        response = await client.post("v1/messages", json=messages(user(TASK)))
    assert response.status_code == 500
    assert "secret" not in response.text
    assert isinstance(rig.session.failure, RecordingFailed)


async def test_a_broken_model_of_ours_is_no_reply_and_no_trace():
    """A fault of ours ends the trial by ``failure``; the agent learns nothing of where it happened."""
    rig, model = canned(text_reply("Done."))

    async def respond(request):
        raise ZeroDivisionError("in our own code")

    model.respond = respond
    async with rig.client() as client:
        response = await client.post("v1/messages", json=messages(user(TASK)))
    assert response.status_code == 500
    assert "our own code" not in response.text
    assert isinstance(rig.session.failure, ZeroDivisionError)
