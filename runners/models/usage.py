"""Reads the usage that a provider reports, by the names of every wire."""

from collections.abc import Mapping, Sequence
from typing import Any

from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.conversation.messages import Message

_DETAILS_OF_INPUT = ("prompt_tokens_details", "input_tokens_details")
_DETAILS_OF_OUTPUT = ("completion_tokens_details", "output_tokens_details")
_CACHED = ("cached_tokens", "cache_read_input_tokens", "cachedContentTokenCount", "prompt_cache_hit_tokens")
_WRITTEN = ("cache_creation_input_tokens", "cache_write_tokens")
_REASONING = ("reasoning_tokens", "thinking_tokens", "thoughtsTokenCount")
_KNOWN = ("prompt_tokens", "input_tokens", "promptTokenCount")
_MOST_TOKENS = 1 << 53  # JSON carries larger numbers inexactly


def token_count(value: Any) -> int | None:
    """Return the number of tokens that a server reports, or None if it is missing or implausible."""
    is_number = isinstance(value, int | float) and 0 <= value <= _MOST_TOKENS
    return int(value) if is_number else None


def usage_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage object of a reply's body, whatever its wire calls it. It is empty if there is none."""
    return _object(body, "usage") or _object(body, "usageMetadata")


def is_understood(usage: Mapping[str, Any]) -> bool:
    """Return whether a usage object has the names of a wire that :func:`reported_usage` reads."""
    return any(name in usage for name in _KNOWN)


def reported_usage(
    input_tokens: int | None, output_tokens: int | None, message: Message, usage: Mapping[str, Any]
) -> Usage:
    """Return the usage of a reply, without its cost at the list price. What the provider does not report is None.

    Zero input tokens mean that the number is unknown. So do zero output tokens if the reply has content, because
    libraries between the server and us write zeros if a server reports nothing.
    """
    is_output_known = bool(output_tokens) or bool(input_tokens and not message.content and not message.tool_calls)
    cost = usage.get("cost")
    return Usage(
        input_tokens=input_tokens or None,
        output_tokens=output_tokens if is_output_known else None,
        cached_input_tokens=_first(usage, _CACHED, _DETAILS_OF_INPUT) if input_tokens else None,
        reasoning_tokens=_first(usage, _REASONING, _DETAILS_OF_OUTPUT),
        cache_write_tokens=_first(usage, _WRITTEN, _DETAILS_OF_INPUT),
        provider_cost_usd=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    )


def _first(usage: Mapping[str, Any], names: Sequence[str], groups: Sequence[str]) -> int | None:
    """Return the first number of these names, in the usage object or in one of its groups, or None."""
    places = [usage, *(_object(usage, group) for group in groups)]
    counts = (token_count(place[name]) for name in names for place in places if name in place)
    return next((count for count in counts if count is not None), None)


def _object(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name)
    return value if isinstance(value, dict) else {}
