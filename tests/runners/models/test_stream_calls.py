"""Tool calls of streams whose servers number them wrongly or not at all are the calls that clients run."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming._deltas import accumulate_delta

from lhaw_record.recorder.events import ActionStarted, ModelResponded
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.streams.chat import ChatStream
from lhaw_record.runners.models.streams.messages import MessagesStream
from lhaw_record.runners.models.streams.responses import ResponsesStream
from tests.runners.models.gateway.rigs import Rig
from tests.runners.models.gateway.shapes import TASK, chat, user
from tests.runners.models.gateway.streams import sse
from tests.runners.models.test_broken_replies import outcome
from tests.support.raw_server import RawServer


def part(index=None, call_id=None, name=None, arguments=None):
    """One part of a tool call; what is None is left out."""
    written = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    head = {key: value for key, value in (("index", index), ("id", call_id)) if value is not None}
    return {**head, "function": written}


def chunk(delta, reason=None):
    """One chunk of a chat completion."""
    return {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def joined(chunks):
    """The calls (id, name, arguments) of a stream, and what told them apart."""
    stream = ChatStream()
    for parts in chunks:
        stream.add("", chunk({"tool_calls": parts}))
    stream.add("", chunk({}, "tool_calls"))
    calls = stream.body()["choices"][0]["message"]["tool_calls"]
    assert len(stream.calls) == len(calls)
    found = [(call["id"], call["function"]["name"], call["function"].get("arguments", "")) for call in calls]
    return found, stream.calls_split_by


ONE, TWO = '{"a": 1}', '{"a": 2}'
CASES = {
    "no index": ([part(None, "a", "f", ONE), part(None, "b", "f", TWO)], "id"),
    "all 0": ([part(0, "a", "f", ONE), part(0, "b", "f", TWO)], "id"),
    "all 0, in pieces": (
        [part(0, "a", "f", ""), part(0, arguments=ONE), part(0, "b", "f", ""), part(0, arguments=TWO)],
        "id",
    ),
    "no index, in pieces": (
        [part(None, "a", "f", ONE[:3]), part(arguments=ONE[3:]), part(None, "b", "f"), part(arguments=TWO)],
        "id",
    ),
    "no index, side by side": (
        [part(None, "a", "f"), part(None, "b", "f"), part(None, "a", None, ONE), part(None, "b", None, TWO)],
        "id",
    ),
    "an id for each part": (
        [part(0, "a", "f", ""), part(0, "x", None, ONE), part(1, "b", "f", ""), part(1, "y", None, TWO)],
        None,
    ),
    "the head in each part": (
        [*(part(0, "a", "f", piece) for piece in (ONE[:3], ONE[3:])), *(part(1, "b", "f", one) for one in ("", TWO))],
        None,
    ),
    "an index for each part": ([part(0, "a", "f", ""), part(1, "a", None, ONE), part(2, "b", "f", TWO)], None),
    "the index only at first": ([part(0, "a", "f", ONE), part(1, "b", "f", ""), part(None, "b", None, TWO)], None),
    "no index at first": ([part(None, "a", "f", ""), part(0, arguments=ONE), part(1, "b", "f", TWO)], None),
    "the name after the id": (
        [part(0, "a"), part(0, None, "f"), part(0, arguments=ONE), part(1, "b"), part(1, None, "f", TWO)],
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_servers_that_number_calls_in_their_own_way(name):
    """Two calls stay two calls, and the record says where clients that go by the index would see something else."""
    parts, split_by = CASES[name]
    assert joined([[each] for each in parts]) == ([("a", "f", ONE), ("b", "f", TWO)], split_by)


@pytest.mark.parametrize("index", [None, 0])
def test_calls_without_ids_are_told_apart_by_their_heads(index):
    """A further name after whole arguments begins a call."""
    parts = [[part(index, "", "f", ONE)], [part(index, "", "f", TWO)], [part(index, None, "g", ONE)]]
    assert joined(parts) == ([("", "f", ONE), ("", "f", TWO), ("", "g", ONE)], "name")


values = st.recursive(st.none() | st.integers() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3))
calls = st.lists(
    st.tuples(st.sampled_from(["bash", "read"]), st.dictionaries(st.text(max_size=4), values, max_size=3)),
    min_size=1,
    max_size=4,
)


@given(
    calls=calls,
    style=st.sampled_from(["index", "none", "zero"]),
    pieces=st.integers(1, 40),
    is_head_apart=st.booleans(),
    per_chunk=st.integers(1, 3),
)
def test_a_stream_says_the_same_whatever_its_server_numbers(calls, style, pieces, is_head_apart, per_chunk):
    """Ids that differ are enough, in any pieces; by the documented index, openai-python joins the same."""
    parts, expected = [], []
    for number, (name, arguments) in enumerate(calls):
        text = json.dumps(arguments)
        index = {"index": number, "none": None, "zero": 0}[style]
        cut = [text[at : at + pieces] for at in range(0, len(text), pieces)]
        first = "" if is_head_apart else cut.pop(0)
        parts += [part(index, f"id{number}", name, first), *(part(index, None, None, one) for one in cut)]
        expected.append((f"id{number}", name, text))
    chunks = [parts[at : at + per_chunk] for at in range(0, len(parts), per_chunk)]
    assert joined(chunks) == (expected, "id" if style != "index" and len(calls) > 1 else None)
    if style == "index":
        theirs = {}
        for each in parts:  # one at a time: it loses parts of a first chunk that has several
            theirs = accumulate_delta(theirs, json.loads(json.dumps({"tool_calls": [each]})))
        assert [(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in theirs["tool_calls"]] == (
            expected
        )


def test_blocks_of_messages_that_are_all_numbered_0():
    """A block that begins after another is a block of its own."""
    stream = MessagesStream()
    stream.add("", {"type": "message_start", "message": {"content": []}})
    for call_id, text in (("a", ONE), ("b", TWO)):
        block = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
        stream.add("", {"type": "content_block_start", "index": 0, "content_block": block})
        delta = {"type": "input_json_delta", "partial_json": text}
        stream.add("", {"type": "content_block_delta", "index": 0, "delta": delta})
        assert stream.add("", {"type": "content_block_stop", "index": 0}).is_decisive
    assert [(block["id"], block["input"]) for block in stream.body()["content"]] == [("a", {"a": 1}), ("b", {"a": 2})]
    assert stream.calls_split_by == "id"


def test_items_of_responses_without_an_index():
    """The calls of items that no index tells apart are those of their call ids."""
    stream = ResponsesStream()
    for call_id, text in (("a", ONE), ("b", TWO)):
        item = {"type": "function_call", "call_id": call_id, "name": "f", "arguments": ""}
        stream.add("", {"type": "response.output_item.added", "item": item})
        stream.add("", {"type": "response.output_item.done", "item": {**item, "arguments": text}})
    stream.add("", {"type": "response.completed", "response": {"output": []}})
    assert [(each["call_id"], each["arguments"]) for each in stream.body()["output"]] == [("a", ONE), ("b", TWO)]
    assert (len(stream.calls), stream.calls_split_by) == (2, "id")


def stream_of(index):
    """A whole stream with two calls."""
    parts = [part(index, call_id, "work", text) for call_id, text in (("a", '{"n":1}'), ("b", '{"n":2}'))]
    chunks = [*(chunk({"tool_calls": [each]}) for each in parts), chunk({}, "tool_calls")]
    return "".join(map(sse, chunks)).encode() + b"data: [DONE]\n\n"


@pytest.mark.parametrize("index", [None, 0])
@pytest.mark.parametrize("route", ["native", "gateway"])
@pytest.mark.usefixtures("closed_clients", "new_doors")
async def test_native_and_gateway_see_both_calls(route, index):
    """Whoever reads the stream for the record joins it alike."""
    server = RawServer()
    server.body = stream_of(index)
    async with server.serving() as address:
        *_, found, reason = await outcome(route, "chat", address)
    assert (found, reason) == ([("work", {"n": 1}), ("work", {"n": 2})], "tool_calls")


@pytest.mark.parametrize("kept", [("a", "b"), ("a",), ("b",)])
@pytest.mark.usefixtures("closed_clients")
async def test_the_actions_are_those_that_the_client_shows(kept):
    """A client that ran both calls did two actions; one that dropped a call did one; both are marked."""
    server = RawServer()
    server.body = stream_of(0)
    shown = [{"id": each, "type": "function", "function": {"name": "work", "arguments": "{}"}} for each in kept]
    for call in shown:
        call["function"]["arguments"] = {"a": '{"n":1}', "b": '{"n":2}'}[call["id"]]
    turns = [user(TASK), {"role": "assistant", "content": None, "tool_calls": shown}]
    turns += [{"role": "tool", "tool_call_id": each, "content": "done"} for each in kept]
    async with server.serving() as address:
        rig = Rig(LitellmUpstream(LitellmModel("openai/real", f"{address}/v1", "key")))
        async with rig.client() as client:
            await client.post("v1/chat/completions", json=chat(user(TASK), stream=True))
            await client.post("v1/chat/completions", json=chat(*turns, stream=True))
    assert {reply.wire.calls_split_by for reply in rig.of(ModelResponded)} == {"id"}
    assert [event.call_id for event in rig.of(ActionStarted)] == list(kept)
