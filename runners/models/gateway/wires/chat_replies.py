"""Replies in OpenAI's chat completions format: reading, writing, and splitting into chunks."""

from collections.abc import Iterator, Sequence
from typing import Any

from lhaw_record.runners.base.conversation.messages import ToolCall
from lhaw_record.runners.models.chat_completions import read_chat
from lhaw_record.runners.models.endings import refusal_in, word_of
from lhaw_record.runners.models.gateway.wires.common import event, input_of, openai_error
from lhaw_record.runners.models.gateway.wires.protocol import Body, WireRequest
from lhaw_record.runners.models.protocol import ModelReply
from lhaw_record.runners.models.streams.joining import fields

_HEAD = ("id", "created", "model", "system_fingerprint", "service_tier")
DONE = b"data: [DONE]\n\n"
read, error = read_chat, openai_error


def with_call_ids(body: Body, ids: Sequence[str]) -> Body:
    """Return the reply with these ids in the tool calls of its first choice, in order."""
    first, *others = body["choices"]
    calls = [{**call, "id": call_id} for call, call_id in zip(first["message"]["tool_calls"], ids, strict=True)]
    return {**body, "choices": [{**first, "message": {**first["message"], "tool_calls": calls}}, *others]}


def written(reply: ModelReply, request: WireRequest, reply_id: str, created_s: int) -> Body:
    custom = {tool.own_name for tool in request.tools if tool.kind == "custom"}
    message: dict[str, Any] = {"role": "assistant", "content": reply.message.content or None}
    if reply.message.tool_calls:
        message["tool_calls"] = [_call(call, is_custom=call.name in custom) for call in reply.message.tool_calls]
    usage = reply.usage
    reason = word_of("chat", reply.finish_reason)
    return {
        "id": f"chatcmpl-{reply_id}",
        "object": "chat.completion",
        "created": created_s,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": usage.input_tokens or 0,
            "completion_tokens": usage.output_tokens or 0,
            "total_tokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
            "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens or 0},
        },
    }


def presented(body: Body, request: WireRequest, reply_id: str) -> Body:
    """Return a provider's reply with the requested model name and a ``content`` field in every message."""
    choices = [
        {**choice, "message": {"content": None, "refusal": refusal_in(choice["message"]), **choice["message"]}}
        if isinstance(choice.get("message"), dict)
        else choice
        for choice in body["choices"]
    ]
    own = {"id": body.get("id") or f"chatcmpl-{reply_id}", "model": request.model or body.get("model")}
    return {**body, **own, "choices": choices}


def present_event(data: Body, request: WireRequest, reply_id: str) -> bool:
    """Set the requested model name in a chunk, and an id if it has none."""
    has_model = not request.model or data.get("model") == request.model
    if has_model and data.get("id"):
        return False
    data["model"] = request.model or data.get("model")
    data["id"] = data.get("id") or f"chatcmpl-{reply_id}"
    return True


def events(body: Body, request: WireRequest) -> Iterator[bytes]:
    """Split a reply into chunks: for each choice its text, each of its calls, and its finish reason."""
    head: dict[str, Any] = {name: body[name] for name in _HEAD if name in body}
    head["object"] = "chat.completion.chunk"
    is_usage_wanted = bool(fields(request.body.get("stream_options")).get("include_usage"))
    null_usage = {"usage": None} if is_usage_wanted else {}

    def chunk(index: int, delta: dict[str, Any], reason: str | None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        return event({**head, "choices": [choice], **null_usage})

    for choice in body["choices"]:
        index, message = choice.get("index", 0), choice["message"]
        yield chunk(index, {name: value for name, value in message.items() if name != "tool_calls"}, None)
        for position, call in enumerate(message.get("tool_calls") or ()):
            yield chunk(index, {"tool_calls": [{**call, "index": position}]}, None)
        yield chunk(index, {}, choice.get("finish_reason") or "stop")
    if is_usage_wanted:
        yield event({**head, "choices": [], "usage": body.get("usage")})
    yield DONE


def error_event(status: int, kind: str, message: str) -> bytes:
    return event(error(status, kind, message)) + DONE


def _call(call: ToolCall, *, is_custom: bool) -> dict[str, Any]:
    if is_custom:
        custom = {"name": call.name, "input": input_of(call.arguments_json)}
        return {"id": call.call_id, "type": "custom", "custom": custom}
    function = {"name": call.name, "arguments": call.arguments_json}
    return {"id": call.call_id, "type": "function", "function": function}
