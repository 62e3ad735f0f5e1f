"""Writes a trial as OpenTelemetry spans in OTLP's JSON encoding: the agent, its model calls and its tool calls.

Ids are hashes of the recorded ids, so exporting a trial again gives the same spans.

Source: OTLP 1.10 (JSON encoding: hexadecimal ids, 64-bit numbers as text); semantic conventions for generative AI 1.41,
which are in development, so names may change.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    CheckpointScored,
    ClarificationInjected,
    Envelope,
    ModelCalled,
    ModelFailed,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
    TrialFailed,
    TrialFinished,
    TrialStarted,
)
from lhaw_record.recorder.events.values import Usage

INTERNAL, CLIENT = 1, 3
ERROR = 2
UNFINISHED = ("unfinished", "the attempt ended before the call did")
PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""Provider names in the conventions that differ from the prefix of our model names."""

SCOPE = {"name": "lhaw-record"}
SCHEMA = "https://opentelemetry.io/schemas/1.41.0"


def is_timed_trial(stream: Sequence[Envelope]) -> bool:
    """Return whether a stream is an ended attempt that was recorded, not imported."""
    started, ended = stream[0].event, stream[-1].event
    is_ended = isinstance(ended, TrialFinished | TrialFailed)
    return isinstance(started, TrialStarted) and started.origin == "recorded" and is_ended


def trace_of(stream: Sequence[Envelope]) -> dict[str, Any]:
    """Return an ``ExportTraceServiceRequest`` with the trace of one attempt."""
    spans = _Spans(stream)
    resource = {"service.name": "lhaw-record", "lhaw.experiment_id": stream[0].experiment_id}
    scoped = {"scope": SCOPE, "spans": spans.all(), "schemaUrl": SCHEMA}
    return {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scoped]}]}


class _Spans:
    """The spans of one attempt."""

    def __init__(self, stream: Sequence[Envelope]) -> None:
        self._stream = stream
        self._began_ns = stream[0].began_at_us * 1000
        self._name = stream[0].stream_id
        self._root_id = self._id("trial", "")
        started = stream[0].event
        assert isinstance(started, TrialStarted)
        self._started = started

    def all(self) -> list[dict[str, Any]]:
        """Return the agent's span, then the spans of its calls in start order."""
        opened: dict[str, Envelope] = {}
        closed: list[tuple[Envelope, Envelope | None]] = []
        for each in self._stream:
            if (key := _begins(each)) is not None:
                opened[key] = each
            elif (key := _ends(each)) is not None and key in opened:
                closed.append((opened.pop(key), each))
        closed += [(begin, None) for begin in opened.values()]
        closed.sort(key=lambda pair: pair[0].sequence)
        return [self._agent(), *(self._call(begin, end) for begin, end in closed)]

    def _agent(self) -> dict[str, Any]:
        started, ended = self._started, self._stream[-1].event
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": _provider(started.model),
            "gen_ai.agent.name": started.agent,
            "gen_ai.agent.version": started.program,
            "gen_ai.conversation.id": self._name,
            "gen_ai.request.model": started.model,
            "gen_ai.request.seed": started.seed,
            "lhaw.trial_id": self._stream[0].trial_id,
            "lhaw.attempt": self._stream[0].attempt,
            "lhaw.benchmark": started.benchmark,
            "lhaw.task_id": started.task_id,
            "lhaw.variant_id": started.variant_id,
            "lhaw.condition": started.condition,
            "lhaw.trial_index": started.trial_index,
            "lhaw.instruments": started.instruments,
        }
        error = None
        if isinstance(ended, TrialFinished):
            attributes |= {"lhaw.is_success": ended.is_success, "lhaw.ended_by": ended.ended_by}
        elif isinstance(ended, TrialFailed):
            attributes |= {"lhaw.failed_boundary": ended.boundary}
            error = ended.error_kind, ended.message
        span = self._span(f"invoke_agent {started.agent}", INTERNAL, self._root_id, attributes, error)
        events = [found for each in self._stream if (found := self._event(each)) is not None]
        return {**span, **self._times(self._stream[0], self._stream[-1]), "events": events}

    def _event(self, each: Envelope) -> dict[str, Any] | None:
        """Return a span event for a question, an answer, an injection or a grader result."""
        event = each.event
        attributes: dict[str, Any]
        if isinstance(event, QuestionAsked):
            said = {"lhaw.question": event.question, "lhaw.action_index": event.action_index}
            name, attributes = "lhaw.question_asked", {"lhaw.question_id": event.question_id, **said}
            attributes |= {"lhaw.medium": event.medium, "lhaw.question_context": event.context or None}
            attributes |= {"lhaw.options": tuple(each.label for each in event.options) or None}
            attributes |= {"lhaw.batch_id": event.batch_id}
        elif isinstance(event, QuestionAnswered):
            name = "lhaw.question_answered"
            attributes = {"lhaw.question_id": event.question_id, "lhaw.answer": event.answer}
            attributes |= {"lhaw.response_state": event.response_state, "lhaw.simulator": event.simulator}
            attributes |= {"lhaw.picked": event.picked or None}
        elif isinstance(event, ClarificationInjected):
            name = "lhaw.clarification_injected"
            attributes = {"lhaw.status": event.status, "lhaw.message": event.message}
            attributes |= {"lhaw.after_action": event.after_action}
        elif isinstance(event, CheckpointScored):
            name = "gen_ai.evaluation.result"
            attributes = {"gen_ai.evaluation.name": event.checkpoint_id, "gen_ai.evaluation.score.value": event.score}
            attributes |= {"gen_ai.evaluation.explanation": event.details, "lhaw.total": event.total}
        else:
            return None
        return {"timeUnixNano": str(self._at(each)), "name": name, "attributes": _attributes(attributes)}

    def _call(self, begin: Envelope, end: Envelope | None) -> dict[str, Any]:
        """Return the span of a call, which lasts until the end of the attempt if the call has no end."""
        called, ended = begin.event, end.event if end else None
        if isinstance(called, ModelCalled):
            name, kind, span_id = f"chat {called.model}", CLIENT, self._id("model", called.call_id)
            attributes, error = _of_model(called, ended)
            attributes["gen_ai.conversation.id"] = self._name
        else:
            assert isinstance(called, ActionStarted)
            name, kind = f"execute_tool {called.name}", INTERNAL
            span_id = self._id("action", str(called.action_index))
            attributes, error = _of_tool(called, ended)
        span = self._span(name, kind, span_id, attributes, error)
        return {**span, "parentSpanId": self._root_id, **self._times(begin, end or self._stream[-1])}

    def _span(
        self, name: str, kind: int, span_id: str, attributes: dict[str, Any], error: tuple[str, str] | None
    ) -> dict[str, Any]:
        status = {"status": {"code": ERROR, "message": error[1]}} if error else {}
        more = {"error.type": error[0]} if error else {}
        return {
            "traceId": sha256(self._name.encode()).hexdigest()[:32],
            "spanId": span_id,
            "name": name,
            "kind": kind,
            "attributes": _attributes({**attributes, **more}),
            **status,
        }

    def _id(self, kind: str, call_id: str) -> str:
        return sha256(f"{self._name}\n{kind}\n{call_id}".encode()).hexdigest()[:16]

    def _times(self, begin: Envelope, end: Envelope) -> dict[str, str]:
        return {"startTimeUnixNano": str(self._at(begin)), "endTimeUnixNano": str(self._at(end))}

    def _at(self, each: Envelope) -> int:
        return self._began_ns + each.elapsed_ns


def _begins(each: Envelope) -> str | None:
    event = each.event
    if isinstance(event, ModelCalled):
        return f"model {event.call_id}"
    return f"action {event.action_index}" if isinstance(event, ActionStarted) and event.kind != "text" else None


def _ends(each: Envelope) -> str | None:
    event = each.event
    if isinstance(event, ModelResponded | ModelFailed):
        return f"model {event.call_id}"
    return f"action {event.action_index}" if isinstance(event, ActionFinished) else None


def _of_model(called: ModelCalled, end: Any) -> tuple[dict[str, Any], tuple[str, str] | None]:
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _provider(called.model),
        "gen_ai.request.model": called.model,
        "lhaw.role": called.role,
        "lhaw.call_kind": called.call_kind,
    }
    if end is None:
        return attributes, UNFINISHED
    if isinstance(end, ModelFailed):
        return attributes | _of_usage(end.usage), (end.error_kind, end.message)
    assert isinstance(end, ModelResponded)
    first_ms = end.wire.first_token_ms if end.wire else None
    attributes |= {
        "gen_ai.response.model": end.served_model,
        "gen_ai.response.finish_reasons": [end.finish_reason] if end.finish_reason else None,
        "gen_ai.response.time_to_first_chunk": None if first_ms is None else first_ms / 1000,
        "gen_ai.output.messages": msgspec.json.encode([_output(end)]).decode(),
    }
    return attributes | _of_usage(end.usage), None


def _of_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "lhaw.cost_usd": usage.cost_usd,
    }


def _output(end: ModelResponded) -> dict[str, Any]:
    reasoning = end.reasoning.text if end.reasoning else None
    parts: list[dict[str, Any]] = [{"type": "reasoning", "content": reasoning}] if reasoning else []
    parts += [{"type": "text", "content": end.text}] if end.text else []
    parts += [
        {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": call.arguments_json}
        for call in end.tool_calls
    ]
    return {"role": "assistant", "parts": parts, "finish_reason": end.finish_reason or ""}


def _of_tool(called: ActionStarted, end: Any) -> tuple[dict[str, Any], tuple[str, str] | None]:
    assert end is None or isinstance(end, ActionFinished)
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": called.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": called.call_id,
        "gen_ai.tool.call.arguments": called.arguments_json,
        "gen_ai.tool.call.result": end.result if end else None,
        "lhaw.action_index": called.action_index,
    }
    if end is None:
        return attributes, UNFINISHED
    return attributes, ("tool_error", "the agent got an error") if end.is_error else None


def _provider(model: str) -> str:
    prefix, slash, _ = model.partition("/")
    return PROVIDERS.get(prefix, prefix) if slash else "_OTHER"


def _attributes(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return attributes in OTLP's format, omitting attributes that are None."""
    return [{"key": key, "value": _value(value)} for key, value in found.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    assert isinstance(value, Iterable)
    return {"arrayValue": {"values": [_value(each) for each in value]}}
