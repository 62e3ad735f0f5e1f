"""The events of a model call's outcome, its parameters as they are recorded, and sums of usage."""

from collections.abc import Mapping, Sequence
from typing import Any

from lhaw_record.recorder.events import ModelFailed, ModelResponded, Reasoning, RepliedToolCall
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.model import Role
from lhaw_record.runners.base.conversation.messages import ToolDefinition, tool_to_wire
from lhaw_record.runners.models.exchanges import wire_facts
from lhaw_record.runners.models.protocol import CompletesParameters, DropsParameters, Model, ModelError, ModelReply


def responded(
    call_id: str,
    role: Role,
    reply: ModelReply,
    tools: Sequence[ToolDefinition],
    *,
    latency_ms: float,
    changes: Mapping[str, Any] | None = None,
    first_token_ms: float | None = None,
) -> ModelResponded:
    """Return the event for a reply. ``changes`` are the parameters that a library changed on the way."""
    notation = call_in_text(reply.message, tools)
    reasoning = Reasoning(text=reply.reasoning_text, provider_state_json=reply.message.provider_state_json)
    return ModelResponded(
        call_id=call_id,
        role=role,
        text=reply.message.content,
        finish_reason=reply.finish_reason,
        latency_ms=latency_ms,
        tool_calls=tuple(
            RepliedToolCall(call_id=call.call_id, name=call.name, arguments_json=call.arguments_json)
            for call in reply.message.tool_calls
        ),
        served_model=reply.served_model,
        usage=reply.usage,
        reasoning=None if reasoning == Reasoning() else reasoning,
        wire=wire_facts(reply.exchange, changes=changes, first_token_ms=first_token_ms, notation=notation),
    )


def failed(
    call_id: str,
    role: Role,
    error: ModelError,
    *,
    latency_ms: float,
    is_retried: bool,
    first_token_ms: float | None = None,
) -> ModelFailed:
    """Return the event for a failed call."""
    return ModelFailed(
        call_id=call_id,
        role=role,
        error_kind=error.kind,
        message=str(error),
        is_retried=is_retried,
        latency_ms=latency_ms,
        http_status=error.http_status,
        retry_after_s=error.retry_after_s,
        wire=wire_facts(error.exchange, first_token_ms=first_token_ms),
        usage=error.usage,
    )


def tools_json(tools: Sequence[ToolDefinition]) -> str:
    """Return a call's tools as they are recorded."""
    return canonical_json([tool_to_wire(tool) for tool in tools]).decode()


async def completed(model: Model, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with those that the model needs besides."""
    return await model.completed_parameters(parameters) if isinstance(model, CompletesParameters) else dict(parameters)


async def parameters_json(model: Model, parameters: Mapping[str, Any]) -> str:
    """Return the parameters as sent, in canonical JSON. Those that the model drops are under ``dropped_parameters``."""
    dropped = await model.dropped_parameters(parameters) if isinstance(model, DropsParameters) else ()
    sent = {name: value for name, value in parameters.items() if name not in dropped}
    if dropped:
        sent["dropped_parameters"] = {name: parameters[name] for name in dropped}
    return canonical_json(sent).decode()
