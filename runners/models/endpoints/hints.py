"""Parses rate-limit information from response headers and Gemini's error bodies.

    OpenAI        x-ratelimit-limit-requests: 60, -remaining-requests: 59, -reset-requests: 1s (a duration: 6m0s, 12ms);
                  the same for -tokens (platform.openai.com/docs/guides/rate-limits). Groq, Azure and others copy it.
    Anthropic     anthropic-ratelimit-requests-limit, -remaining, -reset (an RFC 3339 instant); the same for tokens,
                  input-tokens and output-tokens (docs.anthropic.com/en/api/rate-limits)
    Gemini        a google.rpc.RetryInfo in the error's details: "retryDelay": "37s"
    all           retry-after: seconds or a date (RFC 9110, 10.2.3); retry-after-ms

"reset" is the time until the allowance is full again, so it refills at (limit - remaining) / reset per second.
"""

import datetime as dt
import email.utils
import math
import re
import time
from collections.abc import Mapping

import msgspec

from lhaw_record.recorder.events.values import Usage

_PREFIX = "llm_provider-"  # litellm's prefix for response headers
_OPENAI = re.compile(r"x-ratelimit-(limit|remaining|reset)-(requests|tokens)")
_ANTHROPIC = re.compile(r"anthropic-ratelimit-(requests|tokens|input-tokens|output-tokens)-(limit|remaining|reset)")
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_UNITS_S = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_RETRY_DELAY = re.compile(r"google\.rpc\.RetryInfo\"[^{}]*?\"retryDelay\"\s*:\s*\"([0-9.]+)s\"")


class Allowance(msgspec.Struct, frozen=True):
    """The remaining amount of one limit. ``name`` is requests, tokens, input-tokens or output-tokens.

    ``reset_s`` is the time in seconds until it is full again, or None if the provider does not say.
    """

    name: str
    limit: float
    remaining: float
    reset_s: float | None = None


def rate_limit_headers(headers: Mapping[str, object]) -> dict[str, str]:
    """Return the rate-limit headers, with lower-case names and without litellm's prefix."""
    named = {str(name).lower().removeprefix(_PREFIX): str(value) for name, value in headers.items()}
    return {name: value for name, value in named.items() if "ratelimit" in name or name.startswith("retry-after")}


def allowances(headers: Mapping[str, str], wall_s: float | None = None) -> list[Allowance]:
    """Return the allowances described by the headers, omitting incomplete and implausible ones."""
    wall_s = time.time() if wall_s is None else wall_s
    found: dict[str, dict[str, float]] = {}
    has_anthropic = any(name.startswith("anthropic-ratelimit-") for name in headers)
    for name, value in headers.items():
        openai, anthropic = _OPENAI.fullmatch(name), _ANTHROPIC.fullmatch(name)
        if anthropic:
            what, part = anthropic.groups()
        elif openai and not has_anthropic:  # litellm adds OpenAI's names to Anthropic's headers
            part, what = openai.groups()
        else:
            continue
        number = _reset_s(value, wall_s) if part == "reset" else _number(value)
        if number is not None and number >= 0:
            found.setdefault(what, {})[part] = number
    return [
        Allowance(what, parts["limit"], min(parts["remaining"], parts["limit"]), parts.get("reset"))
        for what, parts in found.items()
        if parts.get("limit") and "remaining" in parts
    ]


def retry_after_s(headers: Mapping[str, str], body: str = "") -> float | None:
    """Return the seconds that the provider asked to wait, or None."""
    if "retry-after-ms" in headers:
        milliseconds = _number(headers["retry-after-ms"])
        return None if milliseconds is None else max(0.0, milliseconds / 1000.0)
    if "retry-after" in headers:
        return _seconds(headers["retry-after"])
    said = _RETRY_DELAY.search(body)
    return _number(said.group(1)) if said else None


def tokens_used(usage: Usage) -> dict[str, int]:
    """Return a reply's token counts, keyed by the allowance that they count against. Unknown counts are omitted."""
    counts = {"input-tokens": usage.input_tokens, "output-tokens": usage.output_tokens}
    known = {name: count for name, count in counts.items() if count is not None}
    return {**known, "tokens": sum(known.values())} if known else {}


def _reset_s(value: str, wall_s: float) -> float | None:
    """Return the seconds of a duration (``6m0s``, ``12ms``, ``1.5``) or until an instant (RFC 3339)."""
    plain = _number(value)
    if plain is not None:
        return plain
    duration = _DURATION.fullmatch(value.strip())
    if duration and any(duration.groups()):
        return math.fsum(float(part or 0) * unit for part, unit in zip(duration.groups(), _UNITS_S, strict=True))
    try:
        instant = dt.datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    cut_s = 0.0 if instant.microsecond else 0.5  # truncated to seconds: the true instant is up to 1 s later
    return max(0.0, instant.timestamp() + cut_s - wall_s) if instant.tzinfo else None


def _seconds(value: str) -> float | None:
    """Return the seconds of a ``retry-after``, which is a number or a date."""
    plain = _number(value)
    if plain is not None:
        return max(0.0, plain)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
