"""Parses when to try again from response headers and Gemini's error bodies.

Gemini        a google.rpc.RetryInfo in the error's details: "retryDelay": "37s"
all           retry-after: seconds or a date (RFC 9110, 10.2.3); retry-after-ms
"""

import email.utils
import math
import re
import time
from collections.abc import Mapping

_PREFIX = "llm_provider-"  # litellm's prefix for response headers
_RETRY_INFO = "google.rpc.RetryInfo"
_RETRY_DELAY = re.compile(_RETRY_INFO + r"\"[^{}]*?\"retryDelay\"\s*:\s*\"([0-9.]+)s\"")


def retry_headers(headers: Mapping[str, object]) -> dict[str, str]:
    """Return the headers that say when to try again, with lower-case names and without litellm's prefix."""
    named = {str(name).lower().removeprefix(_PREFIX): str(value) for name, value in headers.items()}
    return {name: value for name, value in named.items() if name.startswith("retry-after")}


def retry_after_s(headers: Mapping[str, str], body: str = "") -> float | None:
    """Return the seconds that the provider asked to wait, or None."""
    if "retry-after-ms" in headers:
        milliseconds = _number(headers["retry-after-ms"])
        return None if milliseconds is None else max(0.0, milliseconds / 1000.0)
    if "retry-after" in headers:
        return _seconds(headers["retry-after"])
    said = _RETRY_DELAY.match(body, body.find(_RETRY_INFO))  # once, because a search could take minutes
    return _number(said.group(1)) if said else None


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
