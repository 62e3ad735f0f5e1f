"""What can be wrong with a model server: each fault is one word, and says how often and how long."""

from typing import Any, Literal

import msgspec

from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.models.protocol import ModelReply, ModelRequest

FaultKind = Literal[
    "rate_limit",  # 429, with retry-after where given
    "out_of_credit",  # 429 that no waiting cures
    "server_error",  # 500
    "overloaded",  # 529
    "unauthorised",  # 401
    "bad_request",  # 400
    "context_window",  # 400, context_length_exceeded
    "hang",  # no byte until the client goes away
    "slow",  # the right reply after ``seconds``
    "drop",  # the connection is cut instead of an answer
    "cut",  # the connection is cut in the middle of the body
    "stall",  # the same, but the connection stays open, without another byte
    "trickle",  # the right reply, byte by byte, over ``seconds``
    "not_http",  # bytes that are no HTTP, such as a TLS alert
    "answer",  # ``status`` with ``body``, whatever they are
    "not_json",  # 200 with a body of prose
    "no_choices",  # 200 with an empty list of choices
    "null_message",  # 200 with a choice without a message
    "nameless_tool_call",  # 200 with a tool call that lacks its function
    "broken_arguments",  # the arguments of the first tool call end too early
    "object_arguments",  # the arguments are an object instead of text
    "unknown_tool",  # the first tool call names a tool that was not offered
    "two_calls",  # the first tool call comes twice
    "equal_ids",  # the same, both with one id
    "no_ids",  # tool calls without ids
    "empty_reply",  # neither text nor tool calls
    "never_submits",  # text in place of every reply that would call ``submit``
]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of misbehaviour for the next ``times`` requests; None means for all that follow."""

    kind: FaultKind
    times: int | None = 1
    retry_after: str | None = None
    seconds: float = 0.0
    status: int = 200
    body: Any = None


def http_error(fault: Fault) -> tuple[int, Any] | None:
    """Return the status and the body of a fault that is an answer of its own, else None."""
    errors: dict[str, tuple[int, str, str | None]] = {
        "rate_limit": (429, "too many requests, wait a little", None),
        "out_of_credit": (429, "the account is empty", "insufficient_quota"),
        "server_error": (500, "something broke in the server", None),
        "overloaded": (529, "overloaded", None),
        "unauthorised": (401, "this key is not known", "invalid_api_key"),
        "bad_request": (400, "a field is not allowed", None),
        "context_window": (400, "This model's maximum context length is 10 tokens", "context_length_exceeded"),
    }
    if fault.kind == "answer":
        return fault.status, fault.body
    if fault.kind not in errors:
        return None
    status, message, code = errors[fault.kind]
    return status, {"error": {"message": message, "type": fault.kind, "code": code}}


def spoiled_reply(fault: Fault, reply: ModelReply, request: ModelRequest) -> ModelReply:
    """Return the model's reply as a fault changes it; unchanged for faults that are not about the reply.

    Faults of tool calls need one: where the model made none, it calls the first tool on offer.
    """
    message = reply.message
    if fault.kind == "empty_reply":
        return _with_message(reply, Message(role="assistant", content=""), "stop")
    if fault.kind == "never_submits":
        if any(call.name == "submit" for call in message.tool_calls):
            return _with_message(reply, Message(role="assistant", content="I will look at it once more."), "stop")
        return reply
    if fault.kind not in ("broken_arguments", "unknown_tool", "two_calls", "equal_ids", "no_ids", "object_arguments"):
        return reply
    calls = message.tool_calls or (ToolCall(call_id="spoiled-1", name=_first_tool(request), arguments_json="{}"),)
    spoiled = msgspec.structs.replace(message, tool_calls=_spoiled_calls(fault.kind, calls))
    return _with_message(reply, spoiled, "tool_calls")


def _spoiled_calls(kind: str, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    first, *others = calls
    replace = msgspec.structs.replace
    if kind == "broken_arguments":
        return replace(first, arguments_json='{"command": "ls'), *others
    if kind == "unknown_tool":
        return replace(first, name="open_the_pod_bay_doors"), *others
    if kind == "two_calls":
        return first, replace(first, call_id=f"{first.call_id}-again"), *others
    if kind == "equal_ids":
        return first, first, *others
    return calls


def _first_tool(request: ModelRequest) -> str:
    return request.tools[0].name if request.tools else "bash"


def _with_message(reply: ModelReply, message: Message, finish_reason: str) -> ModelReply:
    return msgspec.structs.replace(reply, message=message, finish_reason=finish_reason)


def in_band(**choice: Any) -> dict[str, Any]:
    """Return the body of a chat completion whose first choice is no reply, with these fields in it."""
    empty = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ""}}
    head = {"id": "gen-1", "object": "chat.completion", "created": 0, "model": "m"}
    return {**head, "choices": [{**empty, **choice}], "usage": {"prompt_tokens": 1, "completion_tokens": 0}}


IN_BAND = {
    # openrouter.ai/docs/api/reference/errors-and-debugging: what fails after the model has begun comes with status 200
    "choice_error": (
        in_band(finish_reason="error", error={"code": 502, "message": "Upstream idle timeout exceeded"}),
        "server_error",
    ),
    "choice_rate_limit": (in_band(error={"code": 429, "message": "rate-limited upstream"}), "rate_limit"),
    # github.com/maximhq/bifrost/issues/5425: a half reply, and nothing but the finish reason tells it
    "finish_error": (in_band(finish_reason="error", message={"role": "assistant", "content": "half"}), "server_error"),
    "finish_error_native": (in_band(finish_reason="error", native_finish_reason="MALFORMED_CALL"), "server_error"),
    # data/models/endings.toml: words that servers have for their own failures
    "finish_network": (in_band(finish_reason="network_error"), "server_error"),
    "finish_abort": (in_band(finish_reason="abort", message={"role": "assistant", "content": "half"}), "server_error"),
    "finish_resource": (in_band(finish_reason="insufficient_system_resource"), "server_error"),
    "finish_nothing": (in_band(finish_reason=None), "server_error"),
    # github.com/nodetool-ai/nodetool/pull/5755, github.com/UKGovernmentBEIS/inspect_ai/pull/1536
    "top_error": ({"error": {"code": 429, "message": "Rate limit exceeded"}}, "rate_limit"),
    "top_error_beside_choices": ({**in_band(), "error": {"code": 503, "message": "no provider"}}, "server_error"),
    "top_error_words": ({"error": {"code": "rate_limit_exceeded", "message": "slow down"}}, "rate_limit"),
    "top_error_text": ({"error": "model is loading"}, "server_error"),
    # docs.anthropic.com/en/api/errors, behind a proxy that speaks chat completions
    "top_error_anthropic": ({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, "server_error"),
}
"""Errors that come as a reply: bodies of HTTP 200, and the kind of failure that each one is."""
