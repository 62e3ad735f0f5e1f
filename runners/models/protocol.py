"""What a model is to the rest of the program: one request in, one reply out, or a classified failure."""

from typing import Any, Protocol

import msgspec

from recorder.values import Usage
from runners.conversation import Message, ToolDefinition

_MOST_TOKENS = 1 << 53  # JSON carries larger numbers inexactly


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request; ``parameters`` are generation parameters by their OpenAI names (temperature, max_tokens, seed)."""

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    timeout_s: float = 600.0


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """The assistant turn, why it ended (stop, length, tool_calls, content_filter), and what it cost."""

    message: Message
    finish_reason: str
    usage: Usage
    served_model: str | None = None


class ModelError(Exception):
    """One request failed.

    Args:
        message: What happened, without secrets.
        kind: rate_limit, timeout, server_error, malformed_reply, connection, authentication, context_window,
            bad_request or other.
        is_retryable: Whether the same request may succeed later.
        http_status: The provider's status, if any.
        retry_after_s: Seconds the provider asked us to wait, if it did.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        is_retryable: bool,
        http_status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.is_retryable = is_retryable
        self.http_status = http_status
        self.retry_after_s = retry_after_s


def token_count(value: Any) -> int | None:
    """Return a number of tokens as a server reports it; None for what is absent, or no such number."""
    is_number = isinstance(value, int | float) and 0 <= value <= _MOST_TOKENS
    return int(value) if is_number else None


def reported_usage(input_tokens: int | None, output_tokens: int | None, cached: int | None, message: Message) -> Usage:
    """Return the tokens of a reply, without a price.

    No request has 0 tokens, and no reply that says something: libraries between the server and us write zeros where a
    server reports nothing.
    """
    said_something = bool(message.content or message.tool_calls)
    if not input_tokens:
        return Usage(input_tokens=None, output_tokens=output_tokens or None, cached_input_tokens=None)
    if said_something:
        output_tokens = output_tokens or None
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens, cached_input_tokens=cached or 0)


class Model(Protocol):
    """A language model, real or scripted."""

    name: str

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Return the reply to one request, without retrying.

        Raises:
            ModelError: The request failed, with its kind and whether it may be retried.
        """
        ...
