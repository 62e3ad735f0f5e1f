"""Tool arguments that nest without end are the agent's own malformed call on every wire, counted and never owed."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.runners.base.conversation.actions import MOST_LEVELS, tool_action
from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.base.text import fields
from lhaw_record.runners.base.text.fields import shallow_json
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelRequest
from tests.runners.models.gateway.rigs import Rig
from tests.runners.models.gateway.shapes import TASK, calls, chat, result, user
from tests.runners.models.gateway.streams import BASES, PATHS, STREAMS
from tests.runners.models.test_broken_replies import BODIES, MIMICS, MODELS, LitellmUpstream
from tests.support.canned_model import CannedModel, text_reply
from tests.support.raw_server import RawServer

pytestmark = pytest.mark.usefixtures("closed_clients", "new_doors")


def deep(levels):
    """Arguments with this many levels, and brackets in a text that are none."""
    return '{"text": "]}[[\\"", "a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


@pytest.mark.parametrize("levels", [2, MOST_LEVELS, MOST_LEVELS + 1, 900, 1_200, 100_000])
def test_what_nests_too_deep_is_malformed_wherever_it_is_read(levels):
    """The border is a number of levels, not what is left of the call stack; up to it nothing changes."""
    action = tool_action(ToolCall(call_id="c", name="f", arguments_json=deep(levels)))
    assert action.kind == ("tool" if levels <= MOST_LEVELS else "malformed")
    cut = json.loads(shallow_json(deep(levels).encode()))
    assert cut["text"] == ']}[["'
    assert (
        (cut == json.loads(deep(levels)))
        if levels <= 2 * MOST_LEVELS
        else tool_action(ToolCall(call_id="c", name="f", arguments_json=json.dumps(cut))).kind == "malformed"
    )


@given(st.lists(st.sampled_from('[]{}"a,é\\'), max_size=60).map("".join))
def test_where_texts_end_does_not_depend_on_the_size_of_a_block(raw):
    """JSON is read block by block, so that no other thread waits for all of it; a text may go over many blocks."""
    outside = re.sub(r'"(?:[^"\\]|\\.)*+"?', "", raw)
    levels, most = 0, 0
    for each in outside:
        levels += (each in "[{") - (each in "]}")
        most = max(most, levels)
    for size in (1, 2, 7, 1 << 16):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fields, "_BLOCK_BYTES", size)
            assert fields.most_nesting(raw.encode()) == most
            patch.setattr(fields, "MOST_PARTS", 0)
            has_parts = bool(re.search(r'"(?:[^"\\]|\\.)*+"', raw)) or not {*outside}.isdisjoint("[]{},")
            assert fields.has_too_many_parts(raw.encode()) == (has_parts and not {*raw}.isdisjoint('[{",'))


def body_of(wire, levels):
    """A whole reply with one call of deep arguments, written by hand: no library writes it."""
    mimic = MIMICS[wire](turns=1)
    body = json.dumps(mimic.reply([mimic.think("0.0"), mimic.text("0.1"), mimic.call("0.2", "echo")], 0))
    text = json.dumps({"text": "é 0.2"})
    found = json.dumps(text) if json.dumps(text) in body else text
    assert found in body
    return body.replace(found, json.dumps(deep(levels)) if found != text else deep(levels)).encode()


def stream_of(wire, levels):
    """The same as a stream. Gemini's calls come whole, as an object."""
    if wire == "gemini":
        text = "".join(piece for part in STREAMS[wire](["Hm."]) for piece in part)
        return text.replace('{"n": 1}', deep(levels)).encode()
    return "".join(piece for part in STREAMS[wire](["Hm."], arguments=deep(levels)) for piece in part).encode()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("route", ["native", "gateway"])
@pytest.mark.parametrize("wire", MIMICS)
@pytest.mark.parametrize("levels", [900, 1_200])
async def test_a_reply_with_deep_arguments_is_a_malformed_call(wire, route, levels, is_streamed):
    """One request, one reply, one malformed action; the conversation goes on with it."""
    server = RawServer()
    server.media_type = "text/event-stream" if is_streamed else "application/json"
    server.body = (stream_of if is_streamed else body_of)(wire, levels)
    async with server.serving() as address:
        name, base = (MODELS if route == "native" else BASES)[wire]
        model = LitellmModel(name, address + base, "key")
        if route == "native":
            model.was_silent = lambda _: is_streamed
            task = Message(role="user", content="Do it.")
            turn = (await model.respond(ModelRequest(messages=(task,), timeout_s=300.0))).message
            result_turn = Message(role="tool", content="No.", tool_call_id=turn.tool_calls[0].call_id)
            again = await model.respond(ModelRequest(messages=(task, turn, result_turn), timeout_s=300.0))
            kinds = [tool_action(call).kind for call in (*turn.tool_calls, *again.message.tool_calls)]
            assert kinds == ["malformed", "malformed"]
            return
        rig = Rig(LitellmUpstream(model))
        path, body = PATHS[wire], BODIES[wire]
        if not is_streamed:
            body = {key: value for key, value in body.items() if key != "stream"}
            path = path.replace(":streamGenerateContent?alt=sse", ":generateContent")
        async with rig.client() as client:
            assert (await client.post(path, json=body)).status_code == 200
    await rig.session.close("submitted")
    assert (rig.session.failure, [kind for kind, *_ in rig.actions()]) == (None, ["malformed"])


async def test_a_deep_request_of_a_client_is_read():
    """What a client sends back is its own: deep arguments in its history neither end the trial nor the gateway."""
    rig = Rig(_upstream())
    turns = [user(TASK), calls(("c", "read", deep(1_200))), result("c", "No.")]
    body = json.dumps(chat(*turns)).replace('"messages"', '"metadata": ' + deep(1_200) + ', "messages"')
    async with rig.client() as client:
        answer = await client.post(PATHS["chat"], content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, rig.session.failure) == (200, None)


def _upstream():
    from lhaw_record.runners.models.gateway.upstream import ModelUpstream

    return ModelUpstream(CannedModel([text_reply("done")]))
