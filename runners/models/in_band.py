"""Errors that come as a reply: HTTP 200, and in its body the words that the request failed.

A provider that has begun to answer has sent its status already, so what breaks afterwards stands in the body:
OpenRouter writes a top-level ``error`` or one in the first choice, with ``finish_reason`` "error"
(openrouter.ai/docs/api/reference/errors-and-debugging), Anthropic ``{"type": "error"}``, Responses ``"status":
"failed"``. litellm turns the finish reason into "stop" and an empty text, which an agent would be blamed for.
"""

from collections.abc import Mapping
from typing import Any

from runners.models.protocol import ModelError

RETRYABLE = frozenset({"rate_limit", "timeout", "server_error", "malformed_reply", "connection"})
KIND_OF_STATUS = {401: "authentication", 402: "other", 403: "authentication", 408: "timeout", 429: "rate_limit"}

_STATUS_OF_WORD = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 402,
    "timeout_error": 504,
}
_LONGEST_REASON = 300


def kind_of_status(status: int) -> str:
    """Return the kind of failure that an HTTP status of 400 and more means."""
    return KIND_OF_STATUS.get(status, "server_error" if status >= 500 else "bad_request")


def in_band_error(error: Any, model: str = "the provider") -> ModelError:
    """Return the failure that an error object in a body describes; one without a known code is the server's.

    Args:
        error: What the body says: an object with ``code`` or ``type`` and ``message``, or its message alone.
        model: Who said it, for the message.
    """
    found = error if isinstance(error, Mapping) else {"message": error}
    words = [found.get(key) for key in ("code", "type", "status")]
    status = next((status for word in words if (status := _status(word)) is not None), None)
    kind = kind_of_status(status) if status is not None else "server_error"
    code = f" {status}" if status is not None else ""
    reason = str(found.get("message") or "it gives no reason")[:_LONGEST_REASON]
    return ModelError(f"{model}: an error{code} came as a reply: {reason}", kind=kind, is_retryable=kind in RETRYABLE)


def check_choice(choice: Mapping[str, Any], model: str = "the provider") -> None:
    """Raise if a choice of chat completions is an error, as a provider wrote it or as litellm passes it on.

    Raises:
        ModelError: It is.
    """
    extra = choice.get("provider_specific_fields") or {}
    error = choice.get("error") or extra.get("error")
    reasons = (choice.get("finish_reason"), extra.get("native_finish_reason"))
    if error or "error" in reasons:
        raise in_band_error(error or {"message": 'its finish_reason is "error"'}, model)


def _status(word: Any) -> int | None:
    """The status that a code is, or stands for."""
    if isinstance(word, str) and not word.isdigit():
        return _STATUS_OF_WORD.get(word)
    try:
        status = int(word)
    except (TypeError, ValueError):
        return None
    return status if 400 <= status < 600 else None
