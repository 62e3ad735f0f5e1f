"""Replies in Anthropic's Messages format: reading, writing, and splitting into stream events."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from lhaw_record.runners.models.costs import reported_usage, usage_in
from lhaw_record.runners.models.endings import with_ending, word_of
from lhaw_record.runners.models.failures import in_band_error
from lhaw_record.runners.models.gateway.wires.common import event, object_of, said_in
from lhaw_record.runners.models.gateway.wires.messages_requests import assistant_message
from lhaw_record.runners.models.gateway.wires.protocol import Body, WireRequest
from lhaw_record.runners.models.protocol import ModelReply

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def read(body: Body) -> ModelReply:
    """Parse a provider's reply."""
    if body.get("type") == "error" or body.get("error"):
        raise in_band_error(body.get("error"))
    message = said_in(body.get("content"), "content", assistant_message)
    reply = ModelReply(
        message=message,
        finish_reason="",
        usage=reported_usage(message, usage_in(body)),
        served_model=body.get("model") or None,
    )
    return with_ending(reply, body)


def with_call_ids(body: Body, ids: Sequence[str]) -> Body:
    left = list(ids)
    content = [{**block, "id": left.pop(0)} if block.get("type") == "tool_use" else block for block in body["content"]]
    return {**body, "content": content}


def written(reply: ModelReply, request: WireRequest, reply_id: str, created_s: int) -> Body:
    content: list[Body] = [{"type": "text", "text": reply.message.content}] if reply.message.content else []
    content += [
        {"type": "tool_use", "id": call.call_id, "name": call.name, "input": object_of(call.arguments_json)}
        for call in reply.message.tool_calls
    ]
    usage = reply.usage
    return {
        "id": f"msg_{reply_id}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": word_of("messages", reply.finish_reason),
        "stop_sequence": None,
        "usage": {
            "input_tokens": (usage.input_tokens or 0)
            - (usage.cached_input_tokens or 0)
            - (usage.cache_write_tokens or 0),
            "cache_creation_input_tokens": usage.cache_write_tokens or 0,
            "cache_read_input_tokens": usage.cached_input_tokens or 0,
            "output_tokens": usage.output_tokens or 0,
        },
    }


def presented(body: Body, request: WireRequest, reply_id: str) -> Body:
    """Return a provider's reply with the requested model name."""
    return {**body, "id": body.get("id") or f"msg_{reply_id}", "model": request.model or body.get("model")}


def present_event(data: Body, request: WireRequest, reply_id: str) -> bool:
    """Set the requested model name in the message."""
    message = data.get("message") if data.get("type") == "message_start" else None
    if not isinstance(message, dict) or not request.model or message.get("model") == request.model:
        return False
    message["model"] = request.model
    return True


def events(body: Body, request: WireRequest) -> Iterator[bytes]:
    usage = body.get("usage") or {}
    begun = {**body, "content": [], "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 0}}
    yield _event("message_start", message=begun)
    for index, block in enumerate(body["content"]):
        empty, deltas = _cut(block)
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ending = {"stop_reason": body.get("stop_reason"), "stop_sequence": body.get("stop_sequence")}
    yield _event("message_delta", delta=ending, usage=usage)
    yield _event("message_stop")


def error(status: int, kind: str, message: str) -> Body:
    """Write the error body. Some clients recognise a context overflow only by this exact wording."""
    words = f"prompt is too long: {message}" if kind == "context_window" else message
    return {"type": "error", "error": {"type": _error_type(status), "message": words}}


def error_event(status: int, kind: str, message: str) -> bytes:
    return event(error(status, kind, message), "error")


def _error_type(status: int) -> str:
    return _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def _event(name: str, **data: Any) -> bytes:
    return event({"type": name, **data}, name)


def _cut(block: Body) -> tuple[Body, list[Body]]:
    """Split a block into an empty block and the deltas that fill it. Other kinds of block are sent whole."""
    kind = block.get("type")
    if kind == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block.get("text", "")}]
    if kind == "tool_use":
        partial = msgspec.json.encode(block.get("input") or {}).decode()
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": partial}]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": block.get("thinking", "")}]
        if block.get("signature"):
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {**block, "thinking": "", "signature": ""}, deltas
    return block, []
