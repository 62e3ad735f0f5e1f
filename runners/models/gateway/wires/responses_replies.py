"""Replies in OpenAI's Responses format: reading, writing, and splitting into stream events."""

from collections.abc import Iterator, Sequence
from typing import Any

from lhaw_record.runners.base.conversation.messages import ToolCall
from lhaw_record.runners.models.costs import reported_usage, usage_in
from lhaw_record.runners.models.endings import with_ending, word_of
from lhaw_record.runners.models.failures import in_band_error
from lhaw_record.runners.models.gateway.wires.common import event, input_of, openai_error, said_in
from lhaw_record.runners.models.gateway.wires.protocol import Body, RequestTool, WireRequest
from lhaw_record.runners.models.gateway.wires.responses_requests import assistant_message
from lhaw_record.runners.models.protocol import ModelReply

_ECHOED = ("instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "reasoning", "store", "temperature")
error = openai_error


def read(body: Body) -> ModelReply:
    if body.get("status") == "failed" or body.get("error"):
        raise in_band_error(body.get("error") or {})
    message = said_in(body.get("output"), "output", assistant_message)
    reply = ModelReply(
        message=message,
        finish_reason="",
        usage=reported_usage(message, usage_in(body)),
        served_model=body.get("model") or None,
    )
    return with_ending(reply, body)


def with_call_ids(body: Body, ids: Sequence[str]) -> Body:
    left = list(ids)
    output = []
    for item in body["output"]:
        is_call = bool(assistant_message([item]).tool_calls)
        output.append({**item, "call_id": left.pop(0)} if is_call else item)
    return {**body, "output": output}


def written(reply: ModelReply, request: WireRequest, reply_id: str, created_s: int) -> Body:
    tools = {tool.definition.name: tool for tool in request.tools}
    output: list[Body] = []
    if reply.message.content:
        part = {"type": "output_text", "text": reply.message.content, "annotations": []}
        head = {"type": "message", "id": f"msg_{reply_id}", "role": "assistant"}
        output.append({**head, "status": "completed", "content": [part]})
    for number, call in enumerate(reply.message.tool_calls):
        output.append(_item(call, tools.get(call.name), f"{reply_id}_{number}"))
    usage = reply.usage
    reason = word_of("responses", reply.finish_reason)
    return {
        "id": f"resp_{reply_id}",
        "object": "response",
        "created_at": created_s,
        "status": "completed" if reason == "completed" else "incomplete",
        "error": None,
        "incomplete_details": None if reason == "completed" else {"reason": reason},
        "model": request.model,
        "output": output,
        "tool_choice": request.parameters.get("tool_choice", "auto"),
        "tools": request.body.get("tools") or [],
        "previous_response_id": request.previous_id,
        **{name: request.body[name] for name in _ECHOED if request.body.get(name) is not None},
        "usage": {
            "input_tokens": usage.input_tokens or 0,
            "input_tokens_details": {"cached_tokens": usage.cached_input_tokens or 0},
            "output_tokens": usage.output_tokens or 0,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
            "total_tokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
        },
    }


def presented(body: Body, request: WireRequest, reply_id: str) -> Body:
    """Return a provider's reply under a gateway id, because the gateway stores the responses that ids refer to."""
    own = {"id": f"resp_{reply_id}", "previous_response_id": request.previous_id}
    return {**body, **own, "model": request.model or body.get("model")}


def present_event(data: Body, request: WireRequest, reply_id: str) -> bool:
    """Set the response's gateway id, the requested model name, and the id of the response it continues."""
    response = data.get("response")
    if not isinstance(response, dict):
        return False
    response |= {"id": f"resp_{reply_id}", "previous_response_id": request.previous_id}
    response["model"] = request.model or response.get("model")
    return True


def events(body: Body, request: WireRequest) -> Iterator[bytes]:
    begun = {**body, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    last = "response.incomplete" if body.get("status") == "incomplete" else "response.completed"
    stream: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
    ]
    for index, item in enumerate(body["output"]):
        stream.extend(_item_events(item, index))
    stream.append((last, {"response": body}))
    for number, (name, data) in enumerate(stream):
        yield event({"type": name, "sequence_number": number, **data}, name)


def error_event(status: int, kind: str, message: str) -> bytes:
    refusal = openai_error(status, kind, message)["error"]
    response: dict[str, Any] = {"object": "response", "status": "failed", "output": []}
    response["error"] = {"code": refusal["code"] or refusal["type"], "message": message}
    return event({"type": "response.failed", "sequence_number": 0, "response": response}, "response.failed")


def _item(call: ToolCall, tool: RequestTool | None, item_id: str) -> Body:
    name = tool.own_name if tool else call.name
    head = {"call_id": call.call_id, "name": name, "status": "completed"}
    if tool is not None and tool.namespace is not None:
        head["namespace"] = tool.namespace
    if tool is not None and tool.kind == "custom":
        return {"type": "custom_tool_call", "id": f"ctc_{item_id}", **head, "input": input_of(call.arguments_json)}
    return {"type": "function_call", "id": f"fc_{item_id}", **head, "arguments": call.arguments_json}


def _item_events(item: Body, index: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the events for one item: added while empty, filled, and done."""
    where = {"output_index": index, "item_id": item.get("id")}
    inner: list[tuple[str, dict[str, Any]]] = []
    empty: Body = {"status": "in_progress"} if "status" in item else {}
    kind = item.get("type")
    if kind == "message":
        empty["content"] = []
        for number, part in enumerate(item.get("content") or ()):
            inner.extend(_part_events(part, {**where, "content_index": number}))
    elif kind in ("function_call", "custom_tool_call"):
        field, name = (
            ("arguments", "function_call_arguments") if kind == "function_call" else ("input", f"{kind}_input")
        )
        empty[field] = ""
        inner = [
            (f"response.{name}.delta", {**where, "delta": item[field]}),
            (f"response.{name}.done", {**where, field: item[field]}),
        ]
    added = ("response.output_item.added", {"output_index": index, "item": {**item, **empty}})
    done = ("response.output_item.done", {"output_index": index, "item": item})
    return [added, *inner, done]


def _part_events(part: Body, where: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    field, name = ("refusal", "refusal") if part.get("type") == "refusal" else ("text", "output_text")
    extra: dict[str, Any] = {"logprobs": []} if name == "output_text" else {}
    text = part.get(field) or ""
    return [
        ("response.content_part.added", {**where, "part": {**part, field: ""}}),
        (f"response.{name}.delta", {**where, "delta": text, **extra}),
        (f"response.{name}.done", {**where, field: text, **extra}),
        ("response.content_part.done", {**where, "part": part}),
    ]
