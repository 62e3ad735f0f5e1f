"""Replies in Gemini's format: reading, writing, and streaming."""

from collections.abc import Iterator, Sequence

from lhaw_record.runners.models.costs import reported_usage, usage_in
from lhaw_record.runners.models.endings import with_ending, word_of
from lhaw_record.runners.models.failures import in_band_error
from lhaw_record.runners.models.gateway.wires.common import event, object_of, said_in
from lhaw_record.runners.models.gateway.wires.gemini_requests import assistant_message
from lhaw_record.runners.models.gateway.wires.protocol import Body, WireRequest
from lhaw_record.runners.models.protocol import ModelReply
from lhaw_record.runners.models.streams.gemini import parts_of
from lhaw_record.runners.models.streams.joining import fields, malformed, object_in

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def read(body: Body) -> ModelReply:
    """Parse a provider's reply. Only the first candidate counts."""
    if body.get("error"):
        raise in_band_error(body["error"])
    candidates = body.get("candidates") or ()
    if not candidates and not fields(body.get("promptFeedback")).get("blockReason"):
        raise malformed("it has no candidates")
    first = object_in(candidates[0], "the first candidate") if candidates else {}
    message = said_in(parts_of(first), "content", assistant_message)
    reply = ModelReply(
        message=message,
        finish_reason="",
        usage=reported_usage(message, usage_in(body)),
        served_model=body.get("modelVersion") or None,
    )
    return with_ending(reply, body)


def with_call_ids(body: Body, ids: Sequence[str]) -> Body:
    left = list(ids)
    first, *others = body["candidates"]
    parts = [
        {**part, "functionCall": {**part["functionCall"], "id": left.pop(0)}} if part.get("functionCall") else part
        for part in parts_of(first)
    ]
    content = {**fields(first.get("content")), "parts": parts}
    return {**body, "candidates": [{**first, "content": content}, *others]}


def written(reply: ModelReply, request: WireRequest, reply_id: str, created_s: int) -> Body:
    parts: list[Body] = [{"text": reply.message.content}] if reply.message.content else []
    parts += [
        {"functionCall": {"id": call.call_id, "name": call.name, "args": object_of(call.arguments_json)}}
        for call in reply.message.tool_calls
    ]
    usage = reply.usage
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": parts},
                "finishReason": word_of("gemini", reply.finish_reason),
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": usage.input_tokens or 0,
            "candidatesTokenCount": usage.output_tokens or 0,
            "cachedContentTokenCount": usage.cached_input_tokens or 0,
            "totalTokenCount": (usage.input_tokens or 0) + (usage.output_tokens or 0),
        },
        "modelVersion": request.model,
        "responseId": reply_id,
    }


def presented(body: Body, request: WireRequest, reply_id: str) -> Body:
    """Return a provider's reply unchanged: it names the model's version, not the requested model."""
    return body


def present_event(data: Body, request: WireRequest, reply_id: str) -> bool:
    return False


def events(body: Body, request: WireRequest) -> Iterator[bytes]:
    """Write a reply as a stream of one chunk."""
    yield event(body)


def error(status: int, kind: str, message: str) -> Body:
    name = _STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": name}}


def error_event(status: int, kind: str, message: str) -> bytes:
    return event(error(status, kind, message))
