"""The addresses of a trial: where the wires are found, what is refused, and in whose dialect."""

import json
import threading
from functools import partial
from typing import ClassVar

import anyio
import pytest

from lhaw_record.recorder.events import ModelCalled, ModelFailed
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.models.gateway import app, session, upstream
from lhaw_record.runners.models.gateway.app import BodyMemory, Gateway
from lhaw_record.runners.models.gateway.calls import SessionLimits
from lhaw_record.runners.models.gateway.upstream import ModelUpstream, RoutingTable
from lhaw_record.runners.models.protocol import ModelError
from tests.runners.models.gateway.rigs import Rig, canned, until
from tests.runners.models.gateway.serving import serving
from tests.runners.models.gateway.shapes import TASK, chat, item, messages, responses, user
from tests.runners.models.gateway.tiny_agents import events_of
from tests.support.canned_model import CannedModel, text_reply

BODIES = {
    "chat/completions": chat(user(TASK)),
    "responses": responses(item("user", TASK)),
    "messages": messages(user(TASK)),
}


def message_of(answer):
    """The sentence of an error, which every dialect has at the same place."""
    return answer["error"]["message"]


@pytest.mark.parametrize("address", ["{}", "v1/{}", "v1/v1/{}", "v1/{}/", "v1/{}?beta=true&x=1"])
@pytest.mark.parametrize("path", BODIES)
async def test_every_wire_is_found_under_every_spelling(path, address):
    """With and without the version, which some agents add to a base URL that has it, and with any query."""
    rig, _ = canned(text_reply("Done."))
    async with rig.client() as client:
        response = await client.post(address.format(path), json=BODIES[path])
    assert response.status_code == 200
    assert len(rig.of(ModelCalled)) == 1


async def test_routed_models_are_listed_under_names_that_reach_them():
    """A pattern that is a name is one. Of another it is the model's own name, if the pattern has it."""
    own, exact, bare, other = (ModelUpstream(CannedModel([], name)) for name in ("own", "a/b", "x/haiku-4", "y/tiny"))
    table = RoutingTable(own, [("gpt-5-mini", exact), ("haiku-*", bare), ("gpt-*", other)])
    rig = Rig(own, routing=table)
    async with rig.client() as client:
        listing = (await client.get("v1/models")).json()
    assert [each["id"] for each in listing["data"]] == ["own", "gpt-5-mini", "haiku-4"]
    assert [each["name"] for each in listing["models"]] == ["models/own", "models/gpt-5-mini", "models/haiku-4"]
    assert [table(name) for name in ("gpt-5-mini", "haiku-4", "gpt-4", "else")] == [exact, bare, other, own]


async def test_models_are_listed_in_both_shapes_and_probes_find_something():
    """Agents ask for the list, for one model, or only whether anybody is there."""
    rig, _ = canned(text_reply("Done."))
    async with rig.client() as client:
        listing = (await client.get("v1/models?limit=1000")).json()
        assert [model["id"] for model in listing["data"]] == ["canned"]
        assert (listing["object"], listing["has_more"]) == ("list", False)
        assert (await client.get("v1/models/any-name")).json()["id"] == "any-name"
        assert (await client.head("v1/models")).status_code == 200
        assert (await client.head("")).status_code == 404
        assert (await client.get("v1/nowhere")).status_code == 404
        assert (await client.delete("v1/models")).status_code == 405


@pytest.mark.parametrize("path", ["v1/messages/count_tokens?beta=true", "v1/responses/input_tokens"])
async def test_tokens_are_counted_without_asking_a_model(path):
    """The longer request has more tokens; nothing is recorded."""
    rig, model = canned(text_reply("Done."))
    make = messages if "messages" in path else responses
    async with rig.client() as client:
        counts = [
            (await client.post(path, json=make(user(text)))).json()["input_tokens"] for text in ("short", "long " * 100)
        ]
    assert 0 < counts[0] < counts[1] - 100
    assert (model.requests, rig.events) == ([], [])


async def test_a_websocket_probe_is_told_to_use_http():
    """426 at once; anything else costs some agents six attempts and seconds of waiting."""
    import httpx

    rig, _ = canned(text_reply("Done."))
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "eA==",
    }
    async with serving(rig.gateway.app()) as url, httpx.AsyncClient(timeout=None) as client:
        response = await client.get(f"{url}/t/{'key-of-the-trial'}/v1/responses", headers=upgrade)
        assert response.status_code == 426
        plain = await client.get(f"{url}/t/{'key-of-the-trial'}/v1/responses")
        assert plain.status_code == 404


async def test_a_websocket_scope_is_refused_with_426_where_the_server_can():
    """A server that knows WebSockets hands them over as such; the refusal is the same."""
    rig, _ = canned(text_reply("Done."))
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(event):
        sent.append(event)

    scope = {"type": "websocket", "path": "/t/key-of-the-trial/v1/responses", "headers": [], "query_string": b""}
    await rig.gateway.app()({**scope, "extensions": {"websocket.http.response": {}}}, receive, send)
    assert (sent[0]["type"], sent[0]["status"]) == ("websocket.http.response.start", 426)
    sent.clear()
    await rig.gateway.app()(scope, receive, send)
    assert sent[0]["type"] == "websocket.close"


@pytest.mark.parametrize("key", ["another-key", "key-of-the-tria", "", "key-of-the-trial%00", "../key-of-the-trial"])
@pytest.mark.parametrize("path", BODIES)
async def test_a_forged_key_finds_nothing(path, key):
    """404 in the dialect of the wire, without a word about the trials there are; nothing is recorded."""
    rig, model = canned(text_reply("Done."))
    async with rig.client() as client:
        response = await client.post(f"http://gateway/t/{key}/v1/{path}", json=BODIES[path])
    assert response.status_code == 404
    assert "key-of-the-trial" not in response.text
    assert (model.requests, rig.events) == ([], [])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("?key=secret", 200),
        ("?key=secrets", 404),
        ({"authorization": "Bearer secret"}, 200),
        ({"authorization": "bearer secret"}, 200),
        ({"x-api-key": "secret"}, 200),
        ({"api-key": "secret"}, 200),
        ({"x-goog-api-key": "secret"}, 200),
        ({"x-api-key": "secret", "authorization": "Bearer other"}, 200),
        ({"authorization": "Bearer secrets"}, 404),
        ({"authorization": "Basic secret"}, 404),
        ({"x-api-key": ""}, 404),
        ({"api-key": "secrets"}, 404),
        ({"x-goog-api-key": ""}, 404),
        ({}, 404),
    ],
)
async def test_a_token_is_asked_for_where_one_is_set(headers, status):
    """As a bearer token, or where Anthropic, Azure and Google have it; a wrong one is as good as a missing trial."""
    rig, _ = canned(text_reply("Done."), token="secret")
    path, body, given = "v1/chat/completions", BODIES["chat/completions"], {"headers": headers}
    if isinstance(headers, str):  # Google's clients may put it into the address
        path, given = f"v1beta/models/m:generateContent{headers}", {}
        body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    async with rig.client() as client:
        response = await client.post(path, json=body, **given)
    assert response.status_code == status


async def test_trials_do_not_reach_each_other():
    """Each key leads to its own trial; a closed one leads nowhere, and a key is taken once."""
    one, _ = canned(text_reply("one"))
    two, _ = canned(text_reply("two"), gateway=one.gateway, key="another-key")
    async with one.client() as client:
        await client.post(f"{two.base}v1/chat/completions", json=BODIES["chat/completions"])
        assert (len(one.events), len(two.events)) == (0, 2)
        with pytest.raises(ValueError, match="key"):
            one.gateway.open("another-key", one.session)
        one.gateway.close("another-key")
        response = await client.post(f"{two.base}v1/chat/completions", json=BODIES["chat/completions"])
    assert response.status_code == 404


BAD = {
    "no JSON": b'{"messages": [',
    "no object": b"[1, 2]",
    "nothing": b"",
    "no messages": b'{"model": "m"}',
    "messages is text": b'{"messages": "hi", "input": 5}',
    "a message is a number": b'{"messages": [1], "input": [1]}',
    "a role that is none": b'{"messages": [{"role": "king"}], "input": [{"role": "king"}]}',
    "a tool is text": b'{"messages": [{"role": "user", "content": "x"}], "input": "x", "tools": ["x"]}',
    "a schema is none": b'{"messages":[{"role":"user"}], "input":3, "tools":[{"function":1,"input_schema":1}]}',
    "deep": b'{"messages":' + b"[" * 100_000,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
@pytest.mark.parametrize("path", BODIES)
async def test_a_bad_request_is_refused_and_the_trial_goes_on(path, content):
    """400 in the dialect of the wire, so that no client asks again; nothing is recorded, and the next request works."""
    rig, _ = canned(text_reply("Done."))
    if path == "responses" and content == BAD["no messages"]:
        content = b'{"model": "m", "input": {"a": 1}}'
    async with rig.client() as client:
        response = await client.post(f"v1/{path}", content=content)
        assert response.status_code == 400, response.text
        assert message_of(response.json())
        assert (response.json().get("type") == "error") == (path == "messages")
        assert rig.events == []
        assert (await client.post(f"v1/{path}", json=BODIES[path])).status_code == 200
    assert rig.session.failure is None


async def test_half_a_character_does_not_end_a_trial():
    """Clients that cut a text in the middle of a pair send what no UTF-8 can hold; it is replaced."""
    rig, model = canned(text_reply("Done."))
    content = json.dumps(chat(user("a \ud83d b"))).encode()
    async with rig.client() as client:
        assert (await client.post("v1/chat/completions", content=content)).status_code == 200
    assert model.requests[0].messages[0].content == "a \ufffd b"
    rig.check_conversations()


MANY = {
    "messages": b'{"role":"user","content":"x"},' * 250_000,
    "texts": b'"",' * 600_000,
    "numbers": b"0," * 5_000_000,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("many", MANY.values(), ids=MANY)
async def test_a_request_of_more_parts_than_anybody_needs_is_refused(many):
    """The status is the one for a request that is too large, in what is read block by block."""
    rig, _ = canned(text_reply("Done."))
    async with rig.client() as client:
        content = b'{"model": "m", "messages": [' + many + b"0]}"
        assert (await client.post("v1/chat/completions", content=content)).status_code == 413
    assert rig.events == []


@pytest.mark.parametrize("is_refused", [False, True], ids=["answered", "refused"])
async def test_what_a_large_request_means_is_found_beside_the_loop(monkeypatch, is_refused):
    """Its thread, its actions, its events and its pictures: what each costs is the client's choice."""
    threads = {}

    def noted(function, *arguments):
        threads[function.__name__] = threading.current_thread()
        return function(*arguments)

    for module, name in ((session, "decide"), (session, "events_of"), (upstream, "pictures_in")):
        monkeypatch.setattr(module, name, partial(noted, getattr(module, name)))
    rig, _ = canned(text_reply("Done."), limits=SessionLimits(max_turns=0 if is_refused else None))
    async with rig.client() as client:
        body = chat(*(user(f"Message {number}") for number in range(3_000)))
        assert (await client.post("v1/chat/completions", json=body)).status_code == (403 if is_refused else 200)
    assert threads.keys() == ({"decide"} if is_refused else {"decide", "events_of", "pictures_in"})
    assert threading.main_thread() not in threads.values()


async def test_large_and_compressed_requests():
    """20 MB are a request like any other; what exceeds the limit, and what is compressed, is refused."""
    rig, model = canned(text_reply("Done."))
    text = "x" * (20 << 20)
    async with rig.client() as client:
        assert (await client.post("v1/messages", json=messages(user(text)))).status_code == 200
        packed = await client.post("v1/messages", content=b"x", headers={"content-encoding": "gzip"})
        assert packed.status_code == 415
    assert len(model.requests[0].messages[0].content) == 20 << 20
    small, _ = canned(text_reply("Done."), gateway=Gateway(max_body_bytes=1000))

    async def in_pieces():
        for _ in range(20):
            yield b"x" * 100

    async with small.client() as client:
        for content in (b"x" * 2000, in_pieces()):
            response = await client.post("v1/messages", content=content)
            assert (response.status_code, response.json()["error"]["type"]) == (413, "request_too_large")


FAILURES = {
    "rate limit": (
        ModelError("m: wait", kind="rate_limit", is_retryable=True, http_status=429, retry_after_s=2.5),
        429,
    ),
    "overloaded": (ModelError("m: busy", kind="server_error", is_retryable=True, http_status=529), 529),
    "server error": (ModelError("m: broke", kind="server_error", is_retryable=True, http_status=500), 500),
    "refused": (ModelError("m: no such field", kind="bad_request", is_retryable=False, http_status=400), 400),
    "too long": (ModelError("m: exceeds", kind="context_window", is_retryable=False, http_status=400), 400),
    "cut": (ModelError("m: no connection", kind="connection", is_retryable=True), 502),
    "late": (ModelError("m: no reply in time", kind="timeout", is_retryable=True), 504),
    "nonsense": (ModelError("m: malformed reply", kind="malformed_reply", is_retryable=True), 502),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("name", FAILURES)
async def test_failures_behind_the_gateway_keep_their_status(name, path, is_streamed):
    """In the dialect of the wire, before a stream begins; recorded once, with the provider's wish to wait passed on."""
    error, status = FAILURES[name]
    rig, _ = canned(error)
    async with rig.client() as client:
        response = await client.post(f"v1/{path}", json={**BODIES[path], "stream": is_streamed})
    assert response.status_code == status
    assert str(error) in message_of(response.json())
    assert response.headers.get("retry-after") == ("2.5" if name == "rate limit" else None)
    (failed,) = rig.of(ModelFailed)
    assert (failed.error_kind, failed.is_retried) == (error.kind, False)
    assert rig.session.last_failure == failed
    if name == "too long" and path == "messages":
        assert message_of(response.json()).startswith("prompt is too long")
    elif name == "too long":
        assert response.json()["error"]["code"] == "context_length_exceeded"
    elif path == "messages" and name in ("rate limit", "overloaded"):
        assert response.json()["error"]["type"] == {"rate limit": "rate_limit_error"}.get(name, "overloaded_error")


async def test_a_trial_that_is_over_answers_no_more():
    """404, also while its address is still there."""
    rig, _ = canned(text_reply("Done."))
    await rig.session.close("submitted")
    async with rig.client() as client:
        response = await client.post("v1/messages", json=BODIES["messages"])
    assert response.status_code == 404
    assert "over" in message_of(response.json())


async def test_streams_are_streams():
    """The content type says so, and nothing in between may hold them back."""
    rig, _ = canned(text_reply("Done."))
    async with rig.client() as client:
        response = await client.post("v1/messages", json={**BODIES["messages"], "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert events_of(response.text)[0][0] == "message_start"


class Waiting(ModelUpstream):
    """A model that answers when it is told to; it counts the requests that have arrived."""

    arrived: ClassVar[list[str]]
    answers: ClassVar[anyio.Event]

    async def send(self, outgoing, relay=None):
        """Wait, then answer."""
        self.arrived.append(outgoing.request.model)
        await self.answers.wait()
        return await super().send(outgoing, relay)


@pytest.mark.thorough
async def test_large_requests_of_all_trials_share_a_bounded_memory():
    """Beyond it a body is not even read, small requests go on, the wait is nobody's, and at last all are answered."""
    gateway, read_bytes = Gateway(max_body_bytes=1 << 20), 0
    Waiting.arrived, Waiting.answers = [], anyio.Event()
    models = [Waiting(CannedModel([text_reply("Done.")] * 2)) for _ in range(12)]
    rigs = [Rig(model, gateway=gateway, key=f"trial-{number}") for number, model in enumerate(models)]

    async def body(size):
        nonlocal read_bytes
        text = json.dumps(messages(user("x" * size))).encode()
        for start in range(0, len(text), 65536):
            read_bytes += len(text[start : start + 65536])
            yield text[start : start + 65536]

    async def post(rig, size, statuses):
        async with rig.client() as client:
            length = len(json.dumps(messages(user("x" * size))))
            headers = {"content-length": str(length)} if size % 2 else {}
            answer = await client.post("v1/messages", content=body(size), headers=headers, timeout=None)
            statuses.append(answer.status_code)

    statuses = []
    async with anyio.create_task_group() as tasks:
        for rig in rigs[:8]:
            for size in (700_001, 700_000):
                tasks.start_soon(post, rig, size, statuses)
        for rig in rigs[8:]:
            tasks.start_soon(post, rig, 1001, statuses)
        await until(lambda: len(Waiting.arrived) >= 4 + 4)  # large bodies are read by threads, which no task shows
        await anyio.wait_all_tasks_blocked()
        assert len(Waiting.arrived) == 4 + 4, "what fits of the large requests, and every small one"
        assert read_bytes < 4 << 20
        waiting = [rig.session.trial_clock for rig in rigs[:8]]
        Waiting.answers.set()
    assert statuses == [200] * 20
    assert all(not clock._open for clock in waiting)


async def test_a_request_that_leaves_while_it_waits_keeps_nothing():
    """Whoever is cancelled at any moment gives its memory back, and the next one has its turn."""
    memory, clock, order = BodyMemory(100), TrialClock(), []

    async def hold(name, size, until=None):
        async with memory.hold(name, size, clock):
            order.append(name)
            if until is not None:
                await until.wait()

    async with anyio.create_task_group() as tasks:
        done = anyio.Event()
        for name in "abc":
            tasks.start_soon(hold, name, 100, done)
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.01):
            await hold("d", 100)
        tasks.start_soon(hold, "e", 100)
        tasks.start_soon(hold, "f", 2)
        tasks.start_soon(hold, "a", 1)
        await anyio.wait_all_tasks_blocked()
        assert order == ["a", "b", "c", "f"], "small ones pass, unless their own trial has its share"
        done.set()
    assert sorted(order) == sorted("abcfea")
    assert memory._requests == []


async def test_a_body_that_does_not_arrive_is_refused(monkeypatch):
    """Its memory is not kept from others for ever; clients repeat a request after this status."""
    monkeypatch.setattr(app, "_ARRIVAL_S", 0.05)
    rig, _ = canned(text_reply("Done."))

    async def never():
        yield b"{"
        await anyio.sleep_forever()

    async with rig.client() as client:
        response = await client.post("v1/messages", content=never())
    assert response.status_code == 408
    assert "did not arrive" in response.json()["error"]["message"]
