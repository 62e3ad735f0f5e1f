"""Why a reply ended: each word of the table, as its provider writes it, means the same to both halves of the product.

The replies are bytes of the provider's own wire on a real connection, whole and streamed. What a word means is judged
by the table, whose rows name their source; that the table has all words of a provider is judged by the providers' SDKs
(openai here; the others' lists are copied below with their versions).
"""

import hashlib
import json
import typing

import pytest
from openai.types.chat import chat_completion
from openai.types.responses import response, response_status

from lhaw_record.runners.base.conversation.ending import ended_by_reply
from lhaw_record.runners.models.endings import ending_words, endings_version, finish_reason_in, word_of
from lhaw_record.runners.models.gateway.wires import WIRES
from lhaw_record.runners.models.protocol import ModelError
from tests.runners.models.gateway.streams import sse
from tests.runners.models.test_broken_replies import outcome
from tests.support.raw_server import RawServer

pytestmark = pytest.mark.usefixtures("closed_clients", "new_doors")

ANTHROPIC = {  # anthropic 2.14, types/stop_reason.py and types/beta/beta_stop_reason.py
    *("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "compaction"),
    "model_context_window_exceeded",
}
GEMINI = {  # google-genai 3.6, types.py, FinishReason
    *("FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST"),
    *("PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT"),
    *("IMAGE_OTHER", "NO_IMAGE", "IMAGE_RECITATION", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MODEL_ARMOR"),
    *("MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE", "ESCALATION", "PUP_LIMITED_DISABLED", "CONTINUATION"),
}
BLOCKED = {  # google-genai 3.6, types.py, BlockedReason
    *("BLOCKED_REASON_UNSPECIFIED", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY"),
    *("MODEL_ARMOR", "JAILBREAK"),
}
CHAT = {
    *("stop", "length", "content-filter", "tool-calls", "error"),  # @ai-sdk/provider 3.0.19
    *("stop", "length", "tool_calls", "time_limit", "cancelled", "error"),  # watsonx-ai-node-sdk 1.6
    *("stop", "length", "model_length", "error", "tool_calls"),  # mistralai 3.7, models/chatcompletionchoice.py
    *("tool_calls", "stop", "length", "content_filter", "error"),  # openrouter 1.3, components/chatfinishreasonenum.py
    *("stop", "length", "abort", "error", "repetition"),  # vLLM, v1/engine/__init__.py
    *("stop", "length", "tool_calls", "content_filter", "function_call", "abort"),  # SGLang, openai/protocol.py
    *("stop", "tool_calls", "length", "sensitive", "model_context_window_exceeded", "network_error"),  # docs.z.ai
    *("stop", "length", "content_filter", "tool_calls", "insufficient_system_resource"),  # api-docs.deepseek.com
}


def words_of(wire):
    """The words that the table has for a wire."""
    return {row.word for row in ending_words() if row.wire == wire}


def test_the_table_has_the_words_of_each_provider():
    """None of a provider's list is missing, and a word stands once for a wire."""
    openai = typing.get_args(chat_completion.Choice.model_fields["finish_reason"].annotation)
    incomplete = typing.get_args(response.IncompleteDetails.model_fields["reason"].annotation)[0]
    statuses = {*typing.get_args(response_status.ResponseStatus)}
    assert words_of("chat") >= {*openai} | CHAT
    unread = {"max_messages", "steered"}  # of openai 3.57; 2.54 refuses such a reply, so they stay unknown
    assert words_of("responses") == ({*typing.get_args(incomplete)} | statuses) - unread
    assert (words_of("messages"), words_of("gemini"), words_of("gemini_prompt")) == (ANTHROPIC, GEMINI, BLOCKED)
    keys = [(row.wire, row.word.lower()) for row in ending_words()]
    assert len({*keys}) == len(keys)
    assert all(row.source and row.by for row in ending_words())


def test_the_version_changes_with_a_meaning():
    """Numbers of two versions do not mix: whoever changes a meaning raises the version, and this line."""
    meanings = sorted((row.wire, row.word, row.means) for row in ending_words())
    digest = hashlib.sha256(json.dumps(meanings).encode()).hexdigest()[:12]
    assert (endings_version(), digest) == (4, "3dae1fbee03c")


@pytest.mark.parametrize("wire", [wire.name for wire in WIRES])
def test_each_finish_reason_has_a_word_of_the_wires_own_provider(wire):
    """Whatever provider a reply comes from, its client reads a word that ends a trial in the same way."""
    meanings = {row.word: row.means for row in ending_words() if row.wire == wire}
    for reason in {row.means for row in ending_words() if not row.is_failure}:
        limit = ended_by_reply(reason)
        expected = {limit} if limit != "context_limit" else {"context_limit", "output_limit"}
        assert ended_by_reply(meanings[word_of(wire, reason)]) in expected, reason


def chat(word, text="Hm."):
    """A chat completion, and the same as a stream."""
    head = {"id": "c", "created": 1, "model": "m"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5 if text else 0, "total_tokens": 15}
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": word}
    body = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    chunks = [{"index": 0, "delta": message, "finish_reason": None}, {"index": 0, "delta": {}, "finish_reason": word}]
    head["object"] = "chat.completion.chunk"
    stream = [sse({**head, "choices": [chunk]}) for chunk in chunks]
    return body, [*stream, sse({**head, "choices": [], "usage": usage}), "data: [DONE]\n\n"]


def responses(word, refusal=False):
    """A response, and the same as a stream."""
    part = {"type": "refusal", "refusal": "No."} if refusal else {"type": "output_text", "text": "Hm."}
    said = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
    is_status = word in typing.get_args(response_status.ResponseStatus)
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    body = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "error": None,
        "usage": usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": word if is_status else "incomplete",
        "incomplete_details": None if is_status else {"reason": word},
        "output": [{**said, "content": [{**part, "annotations": []}]}],
    }
    kind = f"response.{body['status']}"
    begun = {**body, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    stream = [sse({"type": "response.created", "sequence_number": 0, "response": begun}, "response.created")]
    return body, [*stream, sse({"type": kind, "sequence_number": 1, "response": body}, kind)]


def messages(word):
    """A message, and the same as a stream."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None, "usage": usage}
    body = {**head, "content": [{"type": "text", "text": "Hm."}], "stop_reason": word}
    events = [
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hm."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": word, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return body, [sse(event, event["type"]) for event in events]


def gemini(word):
    """A reply of Gemini, which as a stream is one chunk."""
    candidate = {"content": {"role": "model", "parts": [{"text": "Hm."}]}, "finishReason": word, "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    body = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}
    return body, [sse(body)]


def gemini_prompt(word):
    """A prompt that Gemini blocked."""
    usage = {"promptTokenCount": 10, "totalTokenCount": 10}
    body = {"promptFeedback": {"blockReason": word}, "usageMetadata": usage, "modelVersion": "m"}
    return body, [sse(body)]


REPLIES = {
    "chat": chat,
    "responses": responses,
    "messages": messages,
    "gemini": gemini,
    "gemini_prompt": gemini_prompt,
}
ROWS = {f"{row.wire}: {row.word}": row for row in ending_words() if row.wire in REPLIES}


async def ends(wire, body, stream):
    """How a reply ends for each half, whole and streamed: the reason, or the kind of failure."""
    server, found = RawServer(), {}
    async with server.serving() as address:
        for is_streamed in (False, True):
            server.media_type = "text/event-stream" if is_streamed else "application/json"
            server.body = "".join(stream).encode() if is_streamed else json.dumps(body).encode()
            for route in ("native", "gateway"):
                said = await outcome(route, wire.partition("_")[0], address, is_streamed=is_streamed)
                found[route, is_streamed] = said.partition(",")[0] if isinstance(said, str) else said[-1]
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ROWS)
async def test_native_agent_and_gateway_end_equally(name):
    """Each row of the table, whole and streamed: a finish reason for both, or the same failure for both."""
    row = ROWS[name]
    found = await ends(row.wire, *REPLIES[row.wire](row.word))
    never_streamed = row.wire == "responses" and row.means == "server_error"
    if never_streamed and row.word in ("in_progress", "queued"):  # a stream of these has not ended
        found = {key: row.means if key[1] and kind == "connection" else kind for key, kind in found.items()}
    assert found == dict.fromkeys(found, row.means), found


@pytest.mark.parametrize("wire", [wire for wire in REPLIES if wire != "gemini_prompt"])
async def test_a_word_that_nobody_knows_is_missing_data(wire):
    """A reply with a text, that ended for a reason from next year: nothing is scored, and the word is told."""
    found = await ends(wire, *REPLIES[wire]("from_next_year"))
    assert found == dict.fromkeys(found, "unknown_ending")


@pytest.mark.parametrize(
    ("word", "means"),
    [
        ("content_filter: RECITATION", "content_filter"),
        ("content_filter: FROM_NEXT_YEAR", "content_filter"),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "malformed_function_call"),
        ("function_call_filter: UNEXPECTED_TOOL_CALL", "unexpected_tool_call"),
        ("function_call_filter: FROM_NEXT_YEAR", "unknown_ending"),
    ],
)
async def test_a_word_of_two_parts_means_what_the_second_does(word, means):
    """Gemini's OpenAI endpoint says so why it stopped."""
    assert {*(await ends("chat", *chat(word))).values()} == {means}


@pytest.mark.parametrize("word", ["content_filter", "content_filter: PROHIBITED_CONTENT"])
async def test_a_filter_may_leave_no_message(word):
    """As on Gemini's OpenAI endpoint."""
    body, stream = chat(word)
    del body["choices"][0]["message"]
    assert {*(await ends("chat", body, stream)).values()} == {"content_filter"}


def test_a_word_that_litellm_took_for_stop_is_not_believed():
    """It keeps the word of a wire that it alone reads, and calls every one that it does not know a stop."""
    for word, means in (("COMPLETE", "stop"), ("ERROR_LIMIT", "model_context_window_exceeded")):
        assert finish_reason_in(_of_litellm(word)) == means
    with pytest.raises(ModelError, match="'FROM_NEXT_YEAR', which is in no table"):
        finish_reason_in(_of_litellm("FROM_NEXT_YEAR"))


def _of_litellm(word):
    fields = {"native_finish_reason": word}
    return {"choices": [{"finish_reason": "stop", "message": {}, "provider_specific_fields": fields}]}


@pytest.mark.parametrize("word", [None, ""])
async def test_a_reply_without_anything_is_missing_data(word):
    """Status 200, no text, no reason and no tokens: a server that gave up, and no agent that is silent."""
    body, stream = chat(word, text="")
    found = await ends("chat", body, stream)
    assert {found["native", False], found["gateway", False]} == {"server_error"}
    assert {found["native", True], found["gateway", True]} <= {"server_error", "connection"}
    assert {*(await ends("chat", *chat("stop", text=""))).values()} == {"stop"}


async def test_a_refusal_on_responses_is_one_for_both():
    """OpenAI's Responses end a refusal as completed; the part of the message says what it is."""
    assert {*(await ends("responses", *responses("completed", refusal=True))).values()} == {"refusal"}


@pytest.mark.parametrize(
    ("reason", "native", "means"),
    [
        ("stop", "MALFORMED_FUNCTION_CALL", "malformed_function_call"),
        ("stop", "refusal", "refusal"),
        ("stop", "network_error", "server_error"),
        ("stop", "a_word_of_the_provider", "stop"),
        ("content_filter", "SAFETY", "content_filter"),
        ("error", "a_word_of_the_provider", "server_error"),
    ],
)
async def test_a_routers_translation_is_made_sharper_by_the_word_behind_it(reason, native, means):
    """OpenRouter's ``native_finish_reason`` decides where it says more than the word that OpenRouter chose for it."""
    body, stream = chat(reason)
    body["choices"][0]["native_finish_reason"] = native
    said = f'"finish_reason": "{reason}"'
    stream[1] = stream[1].replace(said, f'{said}, "native_finish_reason": "{native}"')
    assert {*(await ends("chat", body, stream)).values()} == {means}
