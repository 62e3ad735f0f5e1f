"""Replies that arrive broken: bytes on a real connection, through litellm and through the gateway, on four wires.

What is a whole reply is judged by the providers' documented last events, not by the code that joins them: with
``message_stop`` (Anthropic), ``response.completed`` (OpenAI's Responses) and ``finishReason`` (Gemini), and in chat
completions with ``finish_reason``, after which only the usage and the mark ``[DONE]`` follow.
"""

import itertools
import json

import anyio
import pytest
from openai._streaming import SSEDecoder

from lhaw_record.recorder.events import ModelFailed, ModelResponded
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelError, ModelRequest
from lhaw_record.runners.models.streams.chat import ChatStream
from lhaw_record.runners.models.streams.joining import EventReader, add_to, joined_reply
from tests.runners.models.gateway.rigs import Rig
from tests.runners.models.gateway.shapes import TASK, chat, messages, responses, user
from tests.runners.models.gateway.streams import BASES, PATHS, STREAMS
from tests.support.provider_mimics import AnthropicMimic, ChatMimic, GeminiMimic, ResponsesMimic
from tests.support.raw_server import RawServer

pytestmark = pytest.mark.usefixtures("closed_clients", "new_doors")

MODELS = {
    "chat": ("openai/real", "/v1"),
    "messages": ("anthropic/claude-sonnet-4-6", ""),
    "responses": ("openai/responses/gpt-5", "/v1"),
    "gemini": ("gemini/gemini-3-pro-preview", ""),
}
BODIES = {
    "chat": chat(user(TASK), stream=True),
    "messages": messages(user(TASK), stream=True),
    "responses": responses(user(TASK), stream=True),
    "gemini": {"contents": [{"role": "user", "parts": [{"text": TASK}]}]},
}
MAY_BE_MISSING = {"chat": 2, "messages": 0, "responses": 0, "gemini": 0}
"""The events at the end of a stream that a whole reply does not need."""
MIMICS = {"chat": ChatMimic, "messages": AnthropicMimic, "responses": ResponsesMimic, "gemini": GeminiMimic}
ROUTES = ("native", "gateway")


def stream_of(wire):
    """The events of a stream, as bytes."""
    return [piece.encode() for part in STREAMS[wire](["Let ", "me."]) for piece in part]


async def outcome(route, wire, address, *, is_streamed=True):
    """Ask once. Returns the kind of failure, or the text, reasoning, calls and finish reason of the reply."""
    if route == "native":
        name, base = MODELS[wire]
        model = LitellmModel(name, address + base, "key")
        model.was_silent = lambda _: is_streamed
        request = ModelRequest(messages=(Message(role="user", content="Do it."),), timeout_s=300.0)
        try:
            reply = await model.respond(request)
        except ModelError as error:
            return error.kind if error.is_retryable else f"{error.kind}, for good"
        calls = [(call.name, json.loads(call.arguments_json)) for call in reply.message.tool_calls]
        return reply.message.content, reply.reasoning_text, calls, reply.finish_reason
    name, base = BASES[wire]
    rig = Rig(LitellmUpstream(LitellmModel(name, address + base, "key")))
    body, path = BODIES[wire], PATHS[wire]
    if not is_streamed:
        body = {name: value for name, value in body.items() if name != "stream"}
        path = path.replace(":streamGenerateContent?alt=sse", ":generateContent")
    async with rig.client() as client:
        answer = await client.post(path, json=body)
    if failed := rig.of(ModelFailed):
        assert not rig.of(ModelResponded)
        assert answer.status_code == 502 or "error" in answer.text
        return failed[0].error_kind
    assert rig.session.failure is None
    (reply,) = rig.of(ModelResponded)
    calls = [(call.name, json.loads(call.arguments_json)) for call in reply.tool_calls]
    return reply.text, reply.reasoning and reply.reasoning.text, calls, reply.finish_reason


SAID = ("Let me.", "hm", [("work", {"n": 1})], "tool_calls")
"""What the prepared streams say."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("wire", STREAMS)
async def test_a_stream_that_was_cut_is_never_a_whole_reply(wire, route):
    """Cut after each event and inside each, by a server that lets nobody notice: no connection, or the whole reply."""
    server, events = RawServer(), stream_of(wire)
    server.ending = "closed"
    first_whole = len(events) - MAY_BE_MISSING[wire]
    async with server.serving() as address:
        for count, event in enumerate(events):
            for part in (b"", event[: len(event) // 2]) if count < first_whole - 1 else (b"", event[:9], event[:-1]):
                server.body = b"".join(events[:count]) + part
                said = await outcome(route, wire, address)
                assert said == ("connection" if count < first_whole else SAID), server.body
        server.body = b"".join(events)
        assert await outcome(route, wire, address) == SAID


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ending", ["cut", "open"])
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("wire", STREAMS)
async def test_a_whole_reply_counts_however_its_connection_ends(wire, route, ending, monkeypatch):
    """A connection that breaks, or stays open in silence, after the last event of a reply costs no second request."""
    server, events = RawServer(), stream_of(wire)

    def read(stream, event):  # aiohttp gives no bytes that it got before it saw the break, so the break comes later
        step = add_to(stream, event)
        if stream.is_whole:
            server.may_end.set()
        return step

    monkeypatch.setattr("lhaw_record.runners.models.streams.joining.LONGEST_REST_S", 0.05)
    monkeypatch.setattr("lhaw_record.runners.models.streams.joining.add_to", read)
    async with server.serving() as address:
        server.body, server.ending = b"".join(events), ending
        server.may_end.clear()
        assert await outcome(route, wire, address) == SAID
        assert server.may_end.is_set()
        server.body, server.ending = b"".join(events[: len(events) - MAY_BE_MISSING[wire] - 1]), "cut"
        assert await outcome(route, wire, address) == "connection"


async def test_a_whole_reply_waits_no_longer_than_its_request_may_take(monkeypatch):
    """Where the time of a request ends before the wait for what may follow a whole reply, the reply is not lost."""
    monkeypatch.setattr("lhaw_record.runners.models.streams.joining.LONGEST_REST_S", 3600.0)
    monkeypatch.setattr("lhaw_record.runners.models.streams.joining.LEFT_S", 299.9)

    async def pieces():
        for event in stream_of("chat"):
            yield event
        await anyio.sleep_forever()

    with anyio.fail_after(300):
        body = await joined_reply(pieces(), ChatStream(), lambda *_: None, model="m")
    assert body["choices"][0]["finish_reason"] == "tool_calls"


NONSENSE = {
    "cut JSON": b'{"choices": [{"index": 0, "delta": {"content": "Hel',
    "prose": b"upstream timed out",
    "page": b"<html><body>502 Bad Gateway</body></html>",
    "list": b"[]",
    "text": b'"stop"',
    "number": b"5",
    "null": b"null",
    "nothing": b"",
    "not a number": b'{"choices": NaN}',
    "not UTF-8": b'{"x": "\xff\xfe"}',
    "two values": b"{}{}",
    "too deep": b'{"a":' * 100_000,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("wire", STREAMS)
async def test_an_event_that_is_no_json_object_spoils_the_reply(wire, route):
    """Whatever stands in its place, and wherever: a malformed reply, and never one without that event."""
    server, events = RawServer(), stream_of(wire)
    places = itertools.cycle(range(len(events)))
    async with server.serving() as address:
        for data in NONSENSE.values():
            place = next(places)
            server.body = b"".join([*events[:place], b"data: " + data + b"\n\n", *events[place + 1 :]])
            assert await outcome(route, wire, address) == "malformed_reply", (place, data)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("wire", STREAMS)
def test_bytes_may_be_cut_anywhere(wire, line_end):
    """Every line end that the standard allows, also in two pieces, and the mark of UTF-8 before the first event."""
    raw = b"\xef\xbb\xbf" + b"".join(stream_of(wire)).replace(b"\n", line_end)
    near_line_ends = [cut for cut in range(len(raw)) if {*raw[cut - 1 : cut + 1]} & {10, 13}]
    cuts = [(raw[:cut], raw[cut:]) for cut in (*range(5), *near_line_ends)] + [[bytes([each]) for each in raw]]
    events = [[(name, data) for name, data in published_events(raw)]]
    for pieces in cuts:
        reader = EventReader()
        events.append([(event.name, event.data) for piece in pieces for event in reader.feed(piece)])
    assert all(each == events[0] for each in events)


def published_events(raw):
    """The events of a stream as the openai package reads them. The mark at the end is named as ours."""
    decoder = SSEDecoder()
    for event in decoder.iter_bytes(iter([raw.removeprefix(b"\xef\xbb\xbf")])):
        is_done = event.data == "[DONE]"
        yield ("[DONE]", None) if is_done else (event.event or "", json.loads(event.data))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("wire", STREAMS)
async def test_small_pieces_make_the_same_reply(wire, route):
    """A stream that comes byte by byte, with the line ends that Gemini writes."""
    server = RawServer()
    server.body, server.piece_bytes = b"".join(stream_of(wire)).replace(b"\n", b"\r\n"), 1
    async with server.serving() as address:
        assert await outcome(route, wire, address) == SAID


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ending", ["closed", "cut"])
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("wire", MIMICS)
async def test_half_a_body_is_no_reply(wire, route, ending):
    """An unstreamed reply that was cut anywhere: malformed where nobody can notice the cut, else no connection."""
    mimic, server = MIMICS[wire](turns=1), RawServer()
    body = json.dumps(mimic.reply([mimic.think("0.0"), mimic.text("0.1"), mimic.call("0.2", "echo")], 0)).encode()
    server.media_type, server.ending = "application/json", ending
    async with server.serving() as address:
        for cut in (0, 1, len(body) // 3, len(body) // 2, len(body) - 1):
            server.body = body[:cut]
            said = await outcome(route, wire, address, is_streamed=False)
            assert said == ("malformed_reply" if ending == "closed" else "connection"), cut
        server.body, server.ending = body, "closed"
        said = await outcome(route, wire, address, is_streamed=False)
        assert (said[1], said[2]) == ("I think 0.0.", [("echo", {"text": "é 0.2"})])
