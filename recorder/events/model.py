"""Events about language model calls. ``call_id`` joins a request with its reply or failure."""

from typing import Literal

import msgspec

from lhaw_record.recorder.events.identifiers import Sha256
from lhaw_record.recorder.events.values import Event, Usage, Value

Role = Literal["agent", "user_simulator", "grader", "judge", "extractor", "rewriter"]
CallKind = Literal["main", "sub_agent", "side", "retry"]
ThreadChange = Literal["promoted", "compacted", "restarted", "rewound"]


class RepliedToolCall(Value, frozen=True):
    """One tool call in a reply. The arguments are stored as the model wrote them, even if they are not valid JSON."""

    call_id: str
    name: str
    arguments_json: str


class ModelCalled(Event, frozen=True, tag="model_called"):
    """A request was sent to a model. Its conversation is stored as a delta from the parent call.

    The first ``shared_count`` canonical messages equal the parent call's request plus its reply.
    ``new_messages_json`` holds the rest. A new message that is the result of an action has ``result_of_action`` instead
    of ``content``, because the text is in that action's ``action_finished`` event, earlier in the same stream.

    ``request_digest`` covers the whole message list with all contents: it is the first 128 bits of the SHA-256 of its
    canonical JSON. ``tools_json`` is set in the first call of a thread and whenever the tools change.
    ``parameters_json`` is None if the parameters are unknown. ``kind_reason`` says how the kind of a call behind a
    gateway was recognised.

    ``thread_change`` says what happened to the thread: it was recognised as a continuing one (``promoted``), or it lost
    earlier replies (``compacted``), its history (``restarted``) or its end (``rewound``). ``form_known_by`` is set if a
    structured reply was requested; it says how support for JSON schemas was determined (``listed``, ``tried``,
    ``unlisted``, ``refused``, ``parameter``). If a schema was sent, it is among the parameters. ``cache_marks`` are the
    indexes, from 0, of the messages that end with a marker for the provider's cache.
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
    thread_change: ThreadChange | None = None
    form_known_by: str | None = None
    cache_marks: tuple[int, ...] = ()


class Reasoning(Value, frozen=True):
    """The reasoning in a reply. ``text`` is None if the provider does not disclose it.

    ``provider_state_json`` must be sent back unchanged with the next request, for example signed thinking, reasoning
    items or thought signatures. It is the ``provider_state`` of the canonical message.
    """

    text: str | None = None
    provider_state_json: str | None = None


_TOO_LATE = (408, 504)


class Wire(Value, frozen=True):
    """The SHA-256 of the request and reply bodies as sent over the network, None for a body that was not seen.

    ``first_token_ms`` is the time from sending the request to the first generated piece, if the reply was streamed.
    ``changes_json`` maps each parameter that a library changed to the value it sent, null if it dropped the parameter.
    It is None if the request was sent as recorded. ``call_in_text`` names the notation of a tool call that the server
    did not recognise and left in the text of the reply. ``calls_split_by`` says what told the tool calls of a streamed
    reply apart where their index did not: ``id``, or ``name``. Clients differ here; some see one malformed call.
    """

    sent_sha256: Sha256 | None = None
    received_sha256: Sha256 | None = None
    first_token_ms: float | None = None
    changes_json: str | None = None
    call_in_text: str | None = None
    calls_split_by: str | None = None


class ModelResponded(Event, frozen=True, tag="model_responded"):
    """A model replied to a call. The provider reports the token counts. ``cost_usd`` is None if the price is unknown.

    The token counts, the latency and the finish reason are None if the source of an imported trial lacks them.
    """

    call_id: str
    role: Role
    text: str
    finish_reason: str | None
    latency_ms: float | None
    tool_calls: tuple[RepliedToolCall, ...] = ()
    served_model: str | None = None
    usage: Usage = Usage()
    reasoning: Reasoning | None = None
    wire: Wire | None = None


class ModelFailed(Event, frozen=True, tag="model_failed"):
    """A model call got no usable reply. ``is_retried`` says whether another request follows.

    ``wire`` is as in ``model_responded``. ``usage`` is what the provider reported for an unusable reply, or for an
    interrupted stream, for which it is a lower bound. It is None if the provider reported nothing.
    """

    call_id: str
    role: Role
    error_kind: str
    message: str
    is_retried: bool
    latency_ms: float
    http_status: int | None = None
    retry_after_s: float | None = None
    wire: Wire | None = None
    usage: Usage | None = None

    @property
    def has_unknown_cost(self) -> bool:
        """Whether the request may have been charged at an unknown cost.

        A request that was never sent costs nothing, nor does one refused with an HTTP error other than a timeout.
        """
        if self.usage is not None and any(value is not None for value in msgspec.structs.astuple(self.usage)):
            return self.usage.cost_usd is None
        was_sent = self.wire is not None and self.wire.sent_sha256 is not None
        return was_sent and (self.http_status is None or self.http_status in _TOO_LATE)
