"""Calls of language models: a request, and its reply or its failure, joined by ``call_id``."""

from typing import Literal

from recorder.events._base import Event
from recorder.values import Value

Role = Literal["agent", "user_simulator", "grader", "judge", "extractor", "rewriter"]
CallKind = Literal["main", "sub_agent", "side", "retry"]


class RepliedToolCall(Value, frozen=True):
    """One tool call of a reply; the arguments as the model wrote them, valid JSON or not."""

    call_id: str
    name: str
    arguments_json: str


class ModelCalled(Event, frozen=True, tag="model_called"):
    """A request was sent. The conversation is a delta: the first ``shared_count`` canonical messages equal
    those of the parent call's request plus reply, then come ``new_messages_json``.

    A message of it that is the result of an action has ``result_of_action`` in place of ``content``: the text stands in
    that action's ``action_finished``, before this event in the same stream.

    ``request_digest`` is the first 128 bits of the SHA-256 of the canonical JSON of the whole message list, contents
    put in. ``tools_json`` stands in the first call of a thread and wherever the tools changed, else None.
    ``parameters_json`` None: unknown. ``kind_reason`` says why a call behind a gateway is of its kind.
    """

    call_id: str
    role: Role
    thread_id: str
    call_kind: CallKind
    model: str
    parameters_json: str | None
    request_digest: str
    shared_count: int
    message_count: int
    new_messages_json: str
    parent_call_id: str | None = None
    tools_json: str | None = None
    kind_reason: str | None = None


class ModelResponded(Event, frozen=True, tag="model_responded"):
    """The reply of a call. Tokens as the provider counted them; ``cost_usd`` None when the price is unknown.

    Tokens, latency and finish reason are None where a source has the reply only.
    """

    call_id: str
    role: Role
    text: str
    finish_reason: str | None
    latency_ms: float | None
    tool_calls: tuple[RepliedToolCall, ...] = ()
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cached_input_tokens: int | None = 0
    cost_usd: float | None = None
    served_model: str | None = None


class ModelFailed(Event, frozen=True, tag="model_failed"):
    """A call that brought no usable reply; ``is_retried`` says whether another request follows."""

    call_id: str
    role: Role
    error_kind: str
    message: str
    is_retried: bool
    latency_ms: float
    http_status: int | None = None
    retry_after_s: float | None = None
