"""The interface of models: one request gives one reply or a classified failure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition

if TYPE_CHECKING:
    from lhaw_record.runners.models.exchanges import Exchange


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model.

    ``parameters`` holds generation parameters by their OpenAI names (temperature, max_tokens, seed), and
    ``program_parameters`` the names of those that a program behind the gateway asked for. ``cache_marks``
    are the indices of messages that end with a mark for the provider's cache. ``pictures`` maps placeholder names in
    the texts of user messages and results to chat completions content parts.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    program_parameters: frozenset[str] = frozenset()
    timeout_s: float = 600.0
    cache_marks: tuple[int, ...] = ()
    pictures: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to one request, with its usage.

    ``message`` is the assistant turn, and ``finish_reason`` says why it ended (stop, length, tool_calls,
    content_filter). ``reasoning_text`` is the reasoning shown by the provider, if any. ``exchange`` has the captured
    bodies of request and reply, if any. ``held_s`` is the time in seconds for which the request waited
    before it was sent.
    """

    message: Message
    finish_reason: str
    usage: Usage
    served_model: str | None = None
    reasoning_text: str | None = None
    exchange: "Exchange | None" = None
    held_s: float = 0.0


class ModelError(Exception):
    """One model request failed.

    Args:
        message: What happened, without secrets.
        kind: One of rate_limit, timeout, server_error, malformed_reply, connection, authentication, context_window,
            content_filter, endless_reply, unknown_ending, bad_request, endpoint_down, interrupted or other.
        is_retryable: Whether the same request may succeed later.
        http_status: The HTTP status that the provider sent, if any.
        retry_after_s: The seconds that the provider asked us to wait, if it did.
        outlook: The endpoint's state according to its request gate (runners/models/endpoints). ``held``: the gate
            delays all requests, so retry through it at once. ``down``: waiting does not help, and the run pauses.
            Empty for an ordinary failure.

    ``exchange`` has the captured bodies of request and reply, if any. ``usage`` is the failed request's known usage,
    and ``served_model`` who its reply says wrote it.
    """

    exchange: "Exchange | None" = None
    usage: Usage | None = None
    served_model: str | None = None

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        is_retryable: bool,
        http_status: int | None = None,
        retry_after_s: float | None = None,
        outlook: Literal["", "held", "down"] = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.is_retryable = is_retryable
        self.http_status = http_status
        self.retry_after_s = retry_after_s
        self.outlook = outlook
        self.held_s = 0.0
        """The time in seconds for which the request waited before it was sent."""
        self.answer_count = 0
        """The number of requests that the endpoint has answered so far, according to its request gate."""


class Model(Protocol):
    """A language model, real or scripted."""

    name: str

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Return the reply to one request, without retrying.

        Raises:
            ModelError: The request failed. The error has the kind of failure, and whether to retry.
        """
        ...


FormKnowledge = Literal["listed", "tried", "unlisted", "refused", "parameter"]
"""How it is known whether a model takes a JSON schema: from litellm's table (listed, unlisted), by trying (tried,
refused), or because the user set the parameter."""


class FormSupport:
    """Whether a model supports JSON schemas, as far as known. Shared by all callers of the model.

    Args:
        is_listed: litellm's table entry. None if the table lacks the model, whose support is then tested.
    """

    def __init__(self, is_listed: bool | None) -> None:
        self.knowledge: FormKnowledge = "tried" if is_listed is None else "listed" if is_listed else "unlisted"

    @property
    def is_asked(self) -> bool:
        """Whether to send the schema."""
        return self.knowledge in ("listed", "tried")

    def refused(self) -> None:
        """Record that the server rejected the schema but answered the same request without it."""
        self.knowledge = "refused"


class HostedModel:
    """A model with a provider, with provider-specific request rules. By default the provider accepts everything."""

    async def dropped_parameters(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the parameters that are dropped because the provider does not accept them."""
        return ()

    async def completed_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters, with those added that the model requires."""
        return dict(parameters)

    def cache_marks(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> tuple[int, ...]:
        """Return the indices of messages that end with a mark for the provider's cache."""
        return ()

    async def form_support(self) -> FormSupport:
        """Return whether the model supports JSON schemas, as far as known."""
        return FormSupport(None)
