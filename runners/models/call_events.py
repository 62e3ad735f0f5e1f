"""The events of a model call's outcome, its parameters as they are recorded, and sums of usage."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from lhaw_record.recorder.events import ModelFailed, ModelResponded, Reasoning, RepliedToolCall
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.model import Role
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.conversation.messages import ToolDefinition, tool_to_wire
from lhaw_record.runners.models.protocol import Model, ModelError, ModelReply
from lhaw_record.runners.models.text_calls import call_in_text
from lhaw_record.runners.models.wire import changed_parameters, wire_digests, with_call_in_text

Number = TypeVar("Number", int, float)


@runtime_checkable
class DropsParameters(Protocol):
    """A model that drops the generation parameters that its provider does not accept."""

    async def dropped_parameters(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the parameters that are not sent."""
        ...


@runtime_checkable
class CompletesParameters(Protocol):
    """A model that needs further generation parameters."""

    async def completed_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with those that the model needs besides."""
        ...


NO_USAGE = Usage(cost_usd=0.0, reasoning_tokens=0, cache_write_tokens=0, provider_cost_usd=0.0)
"""The usage of no call, from which sums begin."""


def responded(
    call_id: str,
    role: Role,
    reply: ModelReply,
    tools: Sequence[ToolDefinition],
    *,
    latency_ms: float,
    parameters_json: str | None = None,
) -> ModelResponded:
    """Return the event for a reply."""
    wire = wire_digests(reply.exchange)
    if wire is not None and reply.exchange is not None and parameters_json is not None:
        changes = changed_parameters(msgspec.json.decode(parameters_json), reply.exchange.sent)
        wire = msgspec.structs.replace(wire, changes_json=canonical_json(changes).decode() if changes else None)
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
        wire=with_call_in_text(wire, call_in_text(reply.message, tools)),
    )


def failed(call_id: str, role: Role, error: ModelError, *, latency_ms: float, is_retried: bool) -> ModelFailed:
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
        wire=wire_digests(error.exchange),
        usage=error.usage,
    )


def add_usage(left: Usage, right: Usage) -> Usage:
    """Return the sum of two usages. A sum is unknown if one of its parts is unknown."""
    return Usage(
        input_tokens=_sum(left.input_tokens, right.input_tokens),
        output_tokens=_sum(left.output_tokens, right.output_tokens),
        cached_input_tokens=_sum(left.cached_input_tokens, right.cached_input_tokens),
        cost_usd=_sum(left.cost_usd, right.cost_usd),
        reasoning_tokens=_sum(left.reasoning_tokens, right.reasoning_tokens),
        cache_write_tokens=_sum(left.cache_write_tokens, right.cache_write_tokens),
        provider_cost_usd=_sum(left.provider_cost_usd, right.provider_cost_usd),
    )


def _sum(left: Number | None, right: Number | None) -> Number | None:
    return None if left is None or right is None else left + right


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
