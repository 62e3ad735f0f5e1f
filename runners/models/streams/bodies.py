"""Reads the JSON bodies of providers, which may have any shape."""

from typing import Any

import msgspec

from lhaw_record.runners.models.protocol import ModelError

Body = dict[str, Any]


def fields(value: Any) -> dict[str, Any]:
    """Return an object unchanged, or an empty dictionary for any other value."""
    return value if isinstance(value, dict) else {}


def malformed(what: str) -> ModelError:
    """Return the error for a provider's reply that cannot be read."""
    return ModelError(f"malformed reply: {what}", kind="malformed_reply", is_retryable=True)


def decoded(raw: bytes, what: str) -> Body:
    """Return the JSON object that a provider wrote."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(f"{what} is not JSON ({error})") from error
    return object_in(value, what)


def object_in(value: Any, what: str) -> dict[str, Any]:
    """Check that a value in a provider's reply is an object, and return it."""
    if not isinstance(value, dict):
        raise malformed(f"{what} is not an object")
    return value
