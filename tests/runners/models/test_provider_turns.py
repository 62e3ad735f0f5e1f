"""Forty turns with reasoning and tools over every wire, through litellm: nothing is lost, and all of it is recorded."""

import hashlib
import io
import json

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from lhaw_record.recorder.events import ArtifactStored, ModelCalled, ModelResponded
from lhaw_record.recorder.events.values import Usage
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.agents.agent_loop import NativeAgent
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.base.conversation.messages import Message, Toolbox, ToolDefinition, ToolResult
from lhaw_record.runners.cli.attempt_text import print_attempt
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.exchanges import WireRecord
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelReply
from lhaw_record.runners.models.provider_state import read_state, with_reasoning
from lhaw_record.runners.models.recorded_replies import load_recorded_replies
from tests.runners.models.gateway.serving import serving
from tests.support.canned_model import CannedModel, MemoryRecording, snapshot_of, text_reply
from tests.support.provider_mimics import AnthropicMimic, ChatMimic, GeminiMimic, MimicServer, ResponsesMimic

pytestmark = pytest.mark.usefixtures("closed_clients")

THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 8000}
WIRES = {
    "messages": ("anthropic/claude-sonnet-4-6", AnthropicMimic, "", THINKING),
    "responses": ("openai/responses/gpt-5", ResponsesMimic, "/v1", {"reasoning_effort": "high"}),
    "gemini": ("gemini/gemini-3-pro-preview", GeminiMimic, "", {"reasoning_effort": "low"}),
    "deepseek": ("deepseek/deepseek-reasoner", ChatMimic, "/v1", {}),
    "sglang": ("Qwen/Qwen3-8B", ChatMimic, "/v1", {"reasoning_effort": "high"}),
    "vllm": ("Qwen/Qwen3-8B", lambda turns: ChatMimic(("reasoning",), turns), "/v1", {}),
    "hosted_vllm": ("hosted_vllm/Qwen/Qwen3-8B", ChatMimic, "/v1", {}),
    "openrouter": (
        "openrouter/openai/gpt-5",
        lambda turns: ChatMimic(("reasoning", "reasoning_details"), turns),
        "/api/v1",
        {},
    ),
}


class Echo(Toolbox):
    """The tool that the mimics call."""

    tools = (
        ToolDefinition(
            name="echo",
            description="Echo.",
            input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        ),
    )

    async def call(self, name, arguments, call_id):
        """Return the text."""
        return ToolResult(text=str(arguments.get("text")))


class OnlyStreams(LitellmModel):
    """A model that is asked for streams, as after a request that got no answer in time."""

    def was_silent(self, messages):
        """Say so of every conversation."""
        return True


async def run_trial(wire, turns, model_class=LitellmModel):
    """Run the native agent against a mimic, and return the mimic, the recording and the ending."""
    name, mimic_class, path, parameters = WIRES[wire]
    mimic, recording = mimic_class(turns=turns), MemoryRecording()
    with MimicServer(mimic) as url:
        model = model_class(name, api_base=url + path, api_key="k")
        caller = ModelCaller(
            model=model,
            recording=recording,
            role="agent",
            thread_id="main",
            parameters={"temperature": 0, **parameters},
        )
        opening = (Message(role="system", content="Be brief."), Message(role="user", content="Do it."))
        agent = NativeAgent(
            caller=caller,
            toolbox=Echo(),
            recording=recording,
            opening=opening,
            ends_on_text=False,
            nudge="Go on.",
            max_turns=turns + 5,
        )
        ending = await agent.run()
    return mimic, recording, ending


async def check_turns(wire, turns, model_class=LitellmModel):
    """Run a trial and check what came back to the mimic, and what was recorded."""
    mimic, recording, ending = await run_trial(wire, turns, model_class)
    assert ending.ended_by == "submitted"
    assert (len(mimic.requests), mimic.lost) == (turns + 1, [])
    replies = [event for event in recording.events if isinstance(event, ModelResponded)]
    assert [reply.wire.sent_sha256 for reply in replies] == mimic.sent_sha256
    assert [reply.wire.received_sha256 for reply in replies] == mimic.received_sha256
    assert replies[0].reasoning.text == "I think 0.0."
    assert replies[0].reasoning.provider_state_json
    assert (replies[0].usage.input_tokens, replies[0].usage.cached_input_tokens, replies[0].usage.output_tokens) == (
        18,
        5,
        20,
    )
    called = [event for event in recording.events if isinstance(event, ModelCalled)]
    rebuilt = rebuild_requests(recording.events)
    assert len(rebuilt[called[-1].call_id]) == called[-1].message_count
    return called, replies


def essence(reply, *, has_state):
    """A recorded reply without its times and digests, and perhaps without the provider's state."""
    reasoning = reply.reasoning
    if not has_state:
        reasoning = msgspec.structs.replace(reasoning, provider_state_json=None)
    return msgspec.structs.replace(reply, latency_ms=None, wire=None, reasoning=reasoning)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("wire", WIRES)
async def test_reasoning_comes_back_and_is_recorded(wire):
    """Every shape of reply comes back as the provider issued it; reasoning, state and what was sent are recorded.

    A stream, which a model is asked for after a silence, is recorded as the whole reply is. Only Gemini divides the
    signed parts of a stream otherwise.
    """
    whole, streamed = [await check_turns(wire, 7, model_class) for model_class in (LitellmModel, OnlyStreams)]
    is_gemini = wire == "gemini"
    assert [essence(each, has_state=not is_gemini) for each in streamed[1]] == [
        essence(each, has_state=not is_gemini) for each in whole[1]
    ]
    if not is_gemini:
        assert [each.request_digest for each in streamed[0]] == [each.request_digest for each in whole[0]]
    changes = json.loads(streamed[1][0].wire.changes_json or "{}")
    assert changes.get("stream") is (None if is_gemini else True)


@pytest.mark.thorough
@pytest.mark.parametrize("wire", WIRES)
async def test_forty_turns_lose_nothing(wire):
    """The same over forty turns, where each request repeats all reasoning so far."""
    await check_turns(wire, 40)
    await check_turns(wire, 40, OnlyStreams)


async def test_numbers_of_reasoning_and_caches_are_recorded():
    """Reasoning tokens, cache writes and the provider's cost are those that it reported, and else unknown."""
    _, (reply, *_) = await check_turns("openrouter", 1)
    assert (reply.usage.reasoning_tokens, reply.usage.cache_write_tokens, reply.usage.provider_cost_usd) == (
        12,
        3,
        0.25,
    )
    called, (reply, *_) = await check_turns("messages", 1)
    assert (reply.usage.reasoning_tokens, reply.usage.cache_write_tokens, reply.usage.provider_cost_usd) == (
        None,
        3,
        None,
    )
    assert json.loads(called[0].parameters_json) == {**THINKING, "dropped_parameters": {"temperature": 0}}


async def test_what_litellm_changes_on_the_way_is_recorded():
    """Litellm puts a provider's words in place of ours; the event has the parameters as the server got them."""
    mimic, recording = AnthropicMimic(turns=0), MemoryRecording()
    with MimicServer(mimic) as url:
        model = LitellmModel("anthropic/claude-haiku-4-5", api_base=url, api_key="k")
        parameters = {"reasoning_effort": "low", "temperature": 0}
        caller = ModelCaller(model=model, recording=recording, role="agent", thread_id="main", parameters=parameters)
        await caller.call([Message(role="user", content="Do it.")], Echo.tools)
    called, reply = recording.events
    asked = json.loads(called.parameters_json)
    assert asked == {"reasoning_effort": "low", "max_tokens": 64000, "dropped_parameters": {"temperature": 0}}
    del asked["dropped_parameters"]
    changes = json.loads(reply.wire.changes_json)
    sent = {name: value for name, value in {**asked, **changes}.items() if value is not None}
    assert sent == {name: mimic.requests[0][name] for name in ("max_tokens", "thinking")}
    assert changes["reasoning_effort"] is None


async def test_bodies_are_kept_as_they_went_over_the_wire():
    """With ``full``, a call keeps the bytes that the server received and sent, before its reply is recorded."""
    mimic, recording, kept = AnthropicMimic(turns=0), MemoryRecording(), {}

    def keep(content):
        sha256 = hashlib.sha256(content).hexdigest()
        kept[sha256] = content
        return sha256, len(content)

    with MimicServer(mimic) as url:
        model = LitellmModel("anthropic/claude-sonnet-4-6", api_base=url, api_key="k")
        options = {
            "role": "agent",
            "thread_id": "main",
            "parameters": THINKING,
            "wire_record": WireRecord("full", keep),
        }
        await ModelCaller(model=model, recording=recording, **options).call([Message(role="user", content="Do it.")])
    stored = [event for event in recording.events if isinstance(event, ArtifactStored)]
    assert [(each.role, each.name) for each in stored] == [("wire_request", "main.1"), ("wire_reply", "main.1")]
    assert [each.sha256 for each in stored] == [*mimic.sent_sha256, *mimic.received_sha256]
    assert json.loads(kept[stored[0].sha256]) == mimic.requests[0]
    assert isinstance(recording.events[-1], ModelResponded)


async def test_recalled_replies_keep_their_reasoning():
    """A reply that an earlier run paid for comes back from the store with its reasoning, state and numbers."""
    mimic, recording = ChatMimic(turns=0), MemoryRecording()
    ask = (Message(role="user", content="Do it."),)
    options = {"role": "extractor", "thread_id": "extract-t", "parameters": {}}
    with MimicServer(mimic) as url:
        model = LitellmModel("local", api_base=url + "/v1")
        first = await ModelCaller(model=model, recording=recording, **options).call(ask)
        recorded = load_recorded_replies(snapshot_of(recording))
        again = await ModelCaller(model=model, recording=MemoryRecording(), recorded=recorded, **options).call(ask)
    assert len(mimic.requests) == 1
    assert (again.message, again.reasoning_text, again.usage) == (first.message, "I think 0.0.", first.usage)
    assert again.message.provider_state_json


async def test_show_folds_the_reasoning(tmp_path):
    """``show`` prints the first line of each reply's reasoning with its size, and all of it on request."""
    store = create_store(tmp_path / "store")
    reply = text_reply("Done.")
    thoughts = msgspec.structs.replace(reply, reasoning_text="Which file?\nI could ask the user.")
    async with StoreRecorder(store, "e") as recorder:
        stream = recorder.attempt("t", 1)
        model = CannedModel([thoughts])
        caller = ModelCaller(model=model, recording=stream, role="agent", thread_id="main", parameters={})
        await caller.call([Message(role="user", content="Do it.")])
    folded, whole = io.StringIO(), io.StringIO()
    print_attempt(store.root, "t", folded)
    print_attempt(store.root, "t", whole, has_reasoning=True)
    assert "\n[reasoning: unknown tokens, 33 characters: Which file?…]\nDone.\n" in folded.getvalue()
    assert "I could ask the user." not in folded.getvalue()
    assert "\nWhich file?\nI could ask the user.\n[end of reasoning]\nDone.\n" in whole.getvalue()


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Ask?"}]}
CONTENTS = [  # what a server sends, its text natively, and its reasoning
    ([{"type": "text", "text": "Do"}, {"type": "text", "text": "ne."}], "Done.", None),
    ([THOUGHT, {"type": "text", "text": "Done."}], "Done.", "Ask?"),
    ("<think>Ask?</think>\n\nDone.", "Done.", "Ask?"),
    ("Done.", "Done.", None),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["own", "openai/own"])
@pytest.mark.parametrize(("content", "text", "reasoning"), CONTENTS)
async def test_content_comes_back_as_it_came(name, content, text, reasoning):
    """A list of parts and a text with its reasoning are read natively, paid once, and sent back unchanged."""
    bodies = []

    async def answer(request):
        bodies.append(await request.json())
        choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
        head = {"id": "1", "object": "chat.completion", "created": 1, "model": "own"}
        return JSONResponse({**head, "choices": [choice], "usage": usage})

    recording = MemoryRecording()
    async with serving(Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])) as url:
        model = LitellmModel(name, f"{url}/v1", "k")
        caller = ModelCaller(model=model, recording=recording, role="agent", thread_id="main", parameters={})
        ask = [Message(role="user", content="Do it.")]
        reply = await caller.call(ask)
        await caller.call([*ask, reply.message, Message(role="user", content="Again.")])
    assert (reply.message.content.strip(), reply.reasoning_text, reply.usage.input_tokens) == (text, reasoning, 9)
    assert [len(bodies), bodies[1]["messages"][1]["content"]] == [2, content]
    kinds = [type(event).__name__ for event in recording.events]
    assert kinds == ["ModelCalled", "ModelResponded"] * 2


def test_half_a_surrogate_pair_is_the_same_everywhere():
    """What UTF-8 cannot hold is U+FFFD in reasoning and state, as the gateway writes it into requests."""
    body = {"choices": [{"message": {"content": "Hm.", "reasoning_content": "so \ud83d"}}]}
    state = read_state(body)
    assert json.loads(state.provider_state_json)["chat"]["fields"] == {"reasoning_content": "so \ufffd"}
    reply = ModelReply(message=Message(role="assistant", content="Hm."), finish_reason="stop", usage=Usage())
    assert with_reasoning(reply, body).reasoning_text == "so \ufffd"
