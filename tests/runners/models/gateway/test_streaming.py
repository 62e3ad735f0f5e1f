"""Streams from a provider to the agent: what flows at once, what waits for the record, and what a broken one costs."""

import asyncio
import contextlib
import hashlib
import json
from types import SimpleNamespace

import anyio
import httpx
import pytest

from lhaw_record.recorder.events import ModelCalled, ModelFailed, ModelResponded, Reasoning
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models import litellm_model
from lhaw_record.runners.models.endpoints.door import Door
from lhaw_record.runners.models.gateway.app import Gateway
from lhaw_record.runners.models.gateway.delivery import Patience
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.gateway.relay import OPEN, StreamRelay
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.streams.joining import StreamedEvent, StreamStep
from tests.runners.models.gateway.rigs import KEY, Rig
from tests.runners.models.gateway.serving import serving
from tests.runners.models.gateway.shapes import TASK, chat, messages, responses, user
from tests.runners.models.gateway.streams import BASES, PATHS, STREAMS, StreamingProvider, sse
from tests.runners.models.gateway.tiny_agents import events_of

pytestmark = pytest.mark.usefixtures("closed_clients")

STREAM = {"stream": True}
BODIES = {
    "chat": chat(user(TASK), **STREAM),
    "messages": messages(user(TASK), **STREAM),
    "responses": responses(user(TASK), **STREAM),
    "gemini": {"contents": [{"role": "user", "parts": [{"text": TASK}]}]},
}
PRICE = Price(input_usd_per_million_tokens=2.0, output_usd_per_million_tokens=10.0)


def test_what_a_page_shows_of_a_long_reply_begins_with_a_whole_word():
    """The rest of a secret would not be known as one."""
    relay = StreamRelay(None, chat(user(TASK)), "", lambda _: True)
    for text in ("sk-" + "a" * 3_990, "b" * 20 + " the", " end"):
        relay.add(StreamedEvent(b"", "", {"delta": text}), StreamStep(has_token=True))
    assert relay.written == "the end"


@contextlib.asynccontextmanager
async def streamed_through(wire, provider, **options):
    """A rig before a provider, and a client at its address, both over real connections."""
    patience, price = options.pop("patience", None), options.pop("price", PRICE)
    clocks = {name: options.pop(name) for name in ("clock_ns",) if name in options}
    name, base = BASES[wire]
    async with serving(provider.app) as url:
        upstream = LitellmUpstream(LitellmModel(name, f"{url}{base}", "key", price), **options)
        rig = Rig(upstream, gateway=Gateway(patience=patience), **clocks)
        async with (
            serving(rig.gateway.app()) as address,
            httpx.AsyncClient(base_url=f"{address}/t/{KEY}/", timeout=None) as client,
        ):
            yield rig, client


def events_in(text):
    """What an agent reads in a stream, the model's and the response's own names left out."""
    return [(name, json.loads(data)) for name, data in events_of(text) if data != "[DONE]"]


def _as_sent(data):
    """An event without what the gateway may change: the model's name and the id of a response."""
    own = dict.fromkeys(["model", "id", "previous_response_id"])
    inner = {name: {**data[name], **own} for name in ("response", "message") if name in data}
    return {**data, **inner, "model": None}


class Tap:
    """What the relay lets out to the agent, as it lets it out."""

    def __init__(self, session):
        self.headers, self.text, self.is_abandoned = None, "", False
        respond = session.respond

        def tapped(wire, request, headers, outlet):
            self._outlet = outlet
            return respond(wire, request, headers, self)

        session.respond = tapped

    def begin(self, headers):
        """Note the headers, and pass them on."""
        self.headers = headers
        self._outlet.begin(headers)

    def put(self, piece):
        """Note a piece, and pass it on."""
        self.text += piece.decode()
        self._outlet.put(piece)


@pytest.mark.parametrize("wire", STREAMS)
async def test_what_decides_nothing_flows_and_the_end_of_a_call_waits_for_the_record(wire):
    """Text, thinking and arguments arrive, and pages see them, while the provider writes; a call's end once durable."""
    first, call, last = STREAMS[wire](["Let ", "me."])
    may_end, may_record = asyncio.Event(), asyncio.Event()
    provider = StreamingProvider([*first, *call, may_end, *last])
    body = {**BODIES[wire], **({"stream_options": {"include_usage": True}} if wire == "chat" else {})}
    async with streamed_through(wire, provider) as (rig, client):
        tap, append = Tap(rig.session), rig.recording.append
        is_asked = asyncio.Event()

        async def slow(*events):
            if any(isinstance(event, ModelResponded) for event in events):
                is_asked.set()
                await may_record.wait()
            await append(*events)

        rig.recording.append = slow
        text, expected = "", len(events_in("".join([*first, *call])))
        async with client.stream("POST", PATHS[wire], json=body) as response:
            pieces = response.aiter_text()
            while len(events_in(text)) < expected:
                text += await anext(pieces)
            may_end.set()
            await asyncio.wait_for(is_asked.wait(), 120)
            assert (len(events_in(tap.text)), rig.of(ModelResponded)) == (expected, [])
            assert "Let me." in OPEN["", rig.of(ModelCalled)[0].call_id].written
            may_record.set()
            text += "".join([piece async for piece in pieces])
    assert response.headers["content-type"].startswith("text/event-stream")
    shown = {"x-ratelimit-remaining": "7", "request-id": "req_1", "retry-after": "2"}
    assert {name: response.headers.get(name) for name in [*shown, "x-secret"]} == {**shown, "x-secret": None}
    seen, sent = ([_as_sent(data) for _, data in events_in(each)] for each in (text, "".join([*first, *call, *last])))
    assert seen == sent
    (responded,) = rig.of(ModelResponded)
    assert (responded.usage.input_tokens, responded.usage.output_tokens, responded.usage.cost_usd) == (
        10,
        5,
        pytest.approx(7e-5),
    )
    assert (responded.text, responded.served_model, len(responded.tool_calls)) == ("Let me.", "real-1", 1)
    assert responded.reasoning == Reasoning(text="hm")
    assert responded.usage.reasoning_tokens == (None if wire == "messages" else 2)
    assert 0 <= responded.wire.first_token_ms <= responded.latency_ms


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wire", STREAMS)
async def test_a_request_goes_out_as_it_came(wire):
    """Fields that no one has heard of included; only the model's name and what is recorded as added differ."""
    first, call, last = STREAMS[wire](["x"])
    provider = StreamingProvider([*first, *call, *last])
    odd = {"output_config": {"effort": "low"}, "thinking": {"type": "enabled", "budget_tokens": 2000}, "x_new": [1.5]}
    if wire == "gemini":
        odd = {"generationConfig": {"thinkingConfig": {"thinkingBudget": 2000}, "xNew": [1.5]}, "safetySettings": []}
    name = {} if wire == "gemini" else {"model": "what-the-agent-says"}
    body = {**BODIES[wire], **odd, **name}
    async with streamed_through(wire, provider) as (rig, client):
        text = (await client.post(PATHS[wire], json=body)).text
    (called,) = rig.of(ModelCalled)
    recorded = json.loads(called.parameters_json)
    added = recorded.pop("added_parameters", {})
    assert provider.requests == [{**body, **({"model": "real"} if name else {}), **added}]
    assert {name: recorded[name] for name in odd} == odd
    assert recorded["requested_model"] == name.get("model", "m")
    assert set(added) == ({"stream_options"} if wire == "chat" else set())
    assert name.get("model", "real-1") in text
    assert '"prompt_tokens"' not in text
    (responded,) = rig.of(ModelResponded)
    assert responded.usage.output_tokens == 5
    assert responded.wire.sent_sha256 == hashlib.sha256(provider.raw[0]).hexdigest()
    assert responded.wire.received_sha256 == hashlib.sha256("".join([*first, *call, *last]).encode()).hexdigest()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wire", STREAMS)
async def test_a_stream_that_breaks_off_is_a_failure_with_what_it_cost(wire):
    """The agent gets an error event in its dialect after the deltas; tokens that the provider reported are counted."""
    first, call, _ = STREAMS[wire](["Let ", "me."])
    provider = StreamingProvider([*first, *call], cut=True)
    async with streamed_through(wire, provider) as (rig, client):
        text = (await client.post(PATHS[wire], json=BODIES[wire])).text
    (failed,) = rig.of(ModelFailed)
    assert failed.error_kind == "connection"
    assert not rig.of(ModelResponded)
    assert "Let " in text
    name, last = events_in(text)[-1]
    assert {"chat": "error" in last, "messages": name == "error", "responses": name == "response.failed"}.get(
        wire, "error" in last
    )
    if wire in ("messages", "gemini"):  # these report usage before the end
        written = {"messages": 1, "gemini": 5}[wire]
        assert (failed.usage.input_tokens, failed.usage.output_tokens) == (10, written)
        assert failed.usage.cost_usd == rig.session.total_usage.cost_usd == pytest.approx((20 + 10 * written) / 1e6)


async def test_the_time_at_the_door_is_not_the_models(monkeypatch):
    """A request that waited a minute for its turn has the latency and the first token of one that did not."""
    now_ns, admit = [0], Door._admit

    async def admit_late(door, passage):
        await admit(door, passage)
        now_ns[0] += 60_000_000_000
        passage.held_s = 60.0

    monkeypatch.setattr(Door, "_admit", admit_late)
    first, call, last = STREAMS["chat"](["x"])
    provider = StreamingProvider([*first, *call, *last])
    async with streamed_through("chat", provider, clock_ns=lambda: now_ns[0]) as (rig, client):
        await client.post(PATHS["chat"], json=BODIES["chat"])
    (responded,) = rig.of(ModelResponded)
    assert (responded.latency_ms, responded.wire.first_token_ms) == (0.0, 0.0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("silent_s", "says_nothing", "kind"),
    [(59.0, False, "endless_reply"), (61.0, False, "timeout"), (61.0, True, "timeout")],
)
@pytest.mark.parametrize("wire", STREAMS)
async def test_a_provider_that_falls_silent_is_no_model_that_never_ends(
    wire, silent_s, says_nothing, kind, monkeypatch
):
    """Whose fault it is depends on when the last token came before the time was up, not on whether one ever came.

    Deltas without text, which come until the end, are no tokens.
    """
    now_ns, limits = [0], []

    @contextlib.contextmanager
    def fail_after(seconds):
        with anyio.CancelScope() as scope:
            limits.append(scope)
            yield scope
        if scope.cancelled_caught:
            raise TimeoutError

    monkeypatch.setattr(litellm_model, "anyio", SimpleNamespace(fail_after=fail_after))
    first, _, _ = STREAMS[wire](["Let ", "me."])
    is_late, without_words = asyncio.Event(), STREAMS[wire]([])[0]
    empty = [piece for piece in STREAMS[wire]([""])[0] if piece not in without_words] if says_nothing else []
    provider = StreamingProvider([*first, is_late, *empty, asyncio.Event()])
    async with streamed_through(wire, provider, clock_ns=lambda: now_ns[0]) as (rig, client):
        text, expected = "", len(events_in("".join(first)))
        async with client.stream("POST", PATHS[wire], json=BODIES[wire]) as response:
            async for piece in response.aiter_text():
                text += piece
                if len(events_in(text)) == expected:
                    now_ns[0] = int(silent_s * 1e9)
                    is_late.set()
                if len(events_in(text)) == expected + len(empty):
                    limits[0].cancel()
    assert [event.error_kind for event in rig.of(ModelFailed)] == [kind]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("wire", "data"),
    [
        ("chat", {"choices": 5}),
        ("chat", {"choices": [{"index": "x", "delta": {}}]}),
        ("chat", {"choices": [{"index": 0, "delta": {"tool_calls": 5}}]}),
        ("responses", {"type": "response.output_item.added", "output_index": "x", "item": {}}),
        ("responses", {"type": "response.completed", "response": {"output": 5}}),
        ("gemini", {"candidates": 5}),
        ("gemini", {"candidates": [{"index": "x", "content": {"parts": [{"text": "a"}]}}]}),
    ],
)
async def test_a_stream_of_another_shape_than_documented_is_the_providers_failure(wire, data):
    """Whatever a provider's proxy makes of a stream: the call failed as a malformed reply, and the trial goes on."""
    async with streamed_through(wire, StreamingProvider([sse(data, data.get("type"))])) as (rig, client):
        await client.post(PATHS[wire], json=BODIES[wire])
    assert [event.error_kind for event in rig.of(ModelFailed)] == ["malformed_reply"]
    assert rig.session.failure is None


async def test_the_mark_at_the_end_of_a_stream_ends_a_reply_without_a_reason():
    """A server that leaves ``finish_reason`` out says with it that its reply is whole, but not without a word."""
    first, _, _ = STREAMS["chat"](["Let ", "me."])
    done = "data: [DONE]\n\n"
    for pieces, text in ([*first, done], "Let me."), ([first[0], first[1], done], None):
        async with streamed_through("chat", StreamingProvider(pieces)) as (rig, client):
            await client.post(PATHS["chat"], json=BODIES["chat"])
        said = [(event.text, event.finish_reason) for event in rig.of(ModelResponded)]
        assert said == ([(text, "stop")] if text else [])
        assert [event.error_kind for event in rig.of(ModelFailed)] == ([] if text else ["connection"])


@pytest.mark.parametrize("is_cut", [True, False])
async def test_a_stream_that_only_the_gateway_asked_for_is_paid_for(is_cut):
    """A request after silence is repeated as a stream: what it used is counted, and the agent gets a whole reply."""
    first, call, last = STREAMS["messages"](["Let ", "me."])
    pieces = [*first, *call] if is_cut else [*first, *call, *last]
    async with streamed_through("messages", StreamingProvider(pieces, cut=is_cut)) as (rig, client):
        rig.session.upstream._model.was_silent = lambda _: True
        response = await client.post(PATHS["messages"], json=messages(user(TASK)))
    assert response.headers["content-type"] == "application/json"
    assert response.status_code == (502 if is_cut else 200)
    assert rig.session.total_usage.input_tokens > 0
    assert rig.session.total_usage.cost_usd > 0
    assert [event.usage.input_tokens for event in rig.of(ModelFailed)] == [
        rig.session.total_usage.input_tokens
    ] * is_cut


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wire", STREAMS)
async def test_unknown_price_of_a_broken_stream_stays_unknown(wire):
    """Tokens that a provider reported at an unknown price make the trial's cost unknown; no tokens add nothing."""
    first, call, _ = STREAMS[wire](["Let ", "me."])
    async with streamed_through(wire, StreamingProvider([*first, *call], cut=True), price=None) as (rig, client):
        await client.post(PATHS[wire], json=BODIES[wire])
    is_reported = wire in ("messages", "gemini")
    assert rig.of(ModelFailed)[0].usage.cost_usd is None
    assert rig.session.total_usage.cost_usd == (None if is_reported else 0.0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wire", STREAMS)
async def test_a_call_id_that_comes_again_is_renamed_before_it_leaves(wire):
    """A provider that repeats its ids: every event of the second call bears the id under which it is recorded."""
    streams = [["".join([*first, *call, *last])] for first, call, last in (STREAMS[wire](["a"], "same"),) * 2]
    async with streamed_through(wire, StreamingProvider(*streams)) as (rig, client):
        texts = [
            (await client.post(PATHS[wire], json={**BODIES[wire], **more})).text
            for more in ({}, {"toolConfig" if wire == "gemini" else "temperature": None})
        ]
    one, other = (event.tool_calls[0].call_id for event in rig.of(ModelResponded))
    assert one == "same" != other
    assert '"same"' in texts[0]
    assert '"same"' not in texts[1]
    assert texts[1].count(f'"{other}"') == {"responses": 3}.get(wire, 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wire", STREAMS)
async def test_a_silent_stream_gives_signs_of_life(wire):
    """While the provider is silent, before its first event and between two: idle timers of clients see events."""
    first, call, last = STREAMS[wire](["x"])
    gates = [asyncio.Event(), asyncio.Event()]
    provider = StreamingProvider([gates[0], *first, gates[1], *call, *last])
    patience = Patience(first_byte_s=0.01, ping_s=0.01)
    ping = {"chat": ": ping", "messages": "event: ping", "responses": "event: keepalive"}.get(wire, ": ping")
    async with streamed_through(wire, provider, patience=patience) as (rig, client):
        text = ""
        async with client.stream("POST", PATHS[wire], json=BODIES[wire]) as response:
            async for piece in response.aiter_text():
                text += piece
                if not gates[0].is_set() and text.count(ping) >= 2:
                    gates[0].set()
                    text = ""
                elif len(events_in(text)) == len(events_in("".join(first))) and text.count(ping) >= 3:
                    gates[1].set()
    assert len(provider.requests) == len(rig.of(ModelResponded)) == 1
