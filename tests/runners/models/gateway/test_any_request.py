"""Whatever JSON an agent sends, it gets a reply or is refused; a trial does not end by what a client writes."""

import json
import threading

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.models.gateway import app
from lhaw_record.runners.models.gateway.app import read
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.wires import WIRES
from tests.runners.models.gateway.rigs import canned, injection_after
from tests.support.canned_model import text_reply, tool_reply
from tests.support.depth import at_depth

WORDS = [
    *("user", "assistant", "system", "tool", "developer", "text", "input_text", "output_text", "image", "refusal"),
    *("tool_use", "tool_result", "function", "custom", "namespace", "message", "function_call", "function_call_output"),
    *(
        "custom_tool_call",
        "reasoning",
        "web_search",
        "web_search_call",
        "item_reference",
        "thinking",
        "a",
        "b",
        "",
        "{}",
    ),
]
NAMES = [
    *("role", "content", "type", "text", "id", "call_id", "tool_call_id", "tool_use_id", "name", "namespace", "input"),
    *("arguments", "output", "tool_calls", "function", "custom", "tools", "parameters", "input_schema", "is_error"),
]
TOP = [
    *("messages", "input", "tools", "system", "instructions", "stream", "stream_options", "previous_response_id"),
    *("tool_choice", "reasoning", "store", "stop", "max_tokens", "model", "client_metadata", "parallel_tool_calls"),
]
leaves = st.one_of(st.none(), st.booleans(), st.integers(-1, 3), st.sampled_from(WORDS))
objects = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)
turns = st.lists(st.dictionaries(st.sampled_from(NAMES), objects, min_size=1, max_size=5), min_size=1, max_size=4)
bodies = st.fixed_dictionaries(
    {}, optional={name: (turns | objects) if name in ("messages", "input", "tools") else objects for name in TOP}
)


@settings(max_examples=at_depth(80, 400))
@given(st.sampled_from(WIRES), st.lists(bodies, min_size=1, max_size=3))
def test_every_request_is_answered_or_refused(wire, requests):
    """No body raises anything but a refusal of ours, every reply can be written, and the record is whole."""

    async def run():
        rig, _ = canned(
            tool_reply(("a", "work", "{}"), ("b", "work", "{")), text_reply("a"), injection=injection_after(1)
        )
        for body in requests:
            try:
                request = read(wire.requests.read, json.dumps(body).encode())
                served = await rig.session.respond(wire, request)
            except GatewayRefusal as refusal:
                statuses.add(refusal.status)
                continue
            assert json.dumps(served.body)
            assert b"".join(wire.replies.events(served.body, request))
        await rig.session.close("submitted")
        assert rig.session.failure is None
        rebuild_requests(rig.events)

    statuses = set()
    anyio.run(run)
    assert statuses <= {400}


def _is_object(raw):
    try:
        return isinstance(json.loads(raw), dict)
    except ValueError:
        return False


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
@given(st.binary(max_size=30).filter(lambda raw: not _is_object(raw) or raw == b"{}"))
@example(b"{}")
def test_bytes_that_are_no_request_are_refused(wire, raw):
    """Nothing but a refusal leaves the reader; not even an empty object is a request."""
    with pytest.raises(GatewayRefusal):
        read(wire.requests.read, raw)


@pytest.mark.parametrize(
    ("rest", "is_read"),
    [
        ("[" * 90_000 + "]" * 90_000, True),
        ("[" * 110_000 + "]" * 110_000, False),
        ("[" + "{}," * 110_000 + "1]", False),
        (json.dumps("[{" * 110_000), True),
    ],
)
async def test_a_request_of_very_many_parts_is_refused(rest, is_read):
    """Each costs time of the event loop, which serves all trials. Brackets in a text are not meant."""
    rig, _ = canned(text_reply("Done."))
    body = '{"model": "m", "messages": [{"role": "user", "content": "hello"}], "metadata": ' + rest + "}"
    async with rig.client() as client:
        answer = await client.post("v1/chat/completions", content=body)
    assert answer.status_code == (200 if is_read else 413)


async def test_a_long_request_is_read_beside_the_event_loop(monkeypatch):
    """The client chooses what that costs."""
    threads = []
    monkeypatch.setattr(app, "decoded", lambda raw: threads.append(threading.get_ident()) or json.loads(raw))
    rig, _ = canned(text_reply("Done."))
    async with rig.client() as client:
        for length in (10, 100_000):
            messages = [{"role": "user", "content": "a" * length}]
            await client.post("v1/chat/completions", json={"model": "m", "messages": messages})
    assert threads[0] == threading.get_ident() != threads[1]
