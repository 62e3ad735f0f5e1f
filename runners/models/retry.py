"""Decides if and when a failed model call is repeated: a pure function of the failure and a random number."""

import msgspec

from lhaw_record.runners.base.conversation.ending import CONTENT_FILTER, CONTEXT_WINDOW, ENDLESS_REPLY
from lhaw_record.runners.models.protocol import ModelError

REFUSED_KINDS = frozenset({"bad_request", CONTEXT_WINDOW, CONTENT_FILTER, "cut_reply"})
"""A model refuses what the trial sends, or cuts its reply. A later attempt would end in the same way and cost as much.

For the agent's model, all but ``bad_request`` end the trial and are graded.
"""
FINAL_KINDS = REFUSED_KINDS | {"authentication", ENDLESS_REPLY}
"""Failures that the run itself cannot fix. A later run may have another API key."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds for the repetitions of one call. Times are in seconds.

    ``max_total_s`` counts from the first request, without the time at the endpoint's door. No repetition begins later.
    ``max_attempts`` leaves out failures of an endpoint that holds all requests back. ``max_refusals`` bounds how often
    one request is held back and fails again although its endpoint has answered others meanwhile: a request that is too
    large for a limit on tokens is refused for ever, with the same HTTP 429.
    """

    max_attempts: int = 6
    first_delay_s: float = 1.0
    max_delay_s: float = 60.0
    max_retry_after_s: float = 120.0
    max_total_s: float = 1800.0
    max_refusals: int = 20


def delay_before_retry_s(
    policy: RetryPolicy, *, attempt: int, refusals: int = 0, elapsed_s: float, error: ModelError, random_unit: float
) -> float | None:
    """Return the seconds to wait before the next attempt, or None to give up. A held request waits at the door.

    The delay doubles from ``first_delay_s`` and is randomized over its upper half, so that callers that failed together
    do not retry together. A provider's retry-after is a lower bound, but of at most ``max_retry_after_s``.
    """
    if not error.is_retryable or error.outlook == "down":
        return None
    if error.outlook == "held":
        return 0.0 if refusals < policy.max_refusals and elapsed_s <= policy.max_total_s else None
    if attempt >= policy.max_attempts:
        return None
    backoff_s = min(policy.max_delay_s, policy.first_delay_s * 2.0 ** (attempt - 1))
    delay_s = backoff_s * (0.5 + 0.5 * random_unit)
    if error.retry_after_s is not None:
        delay_s = max(delay_s, min(error.retry_after_s, policy.max_retry_after_s) + delay_s * 0.1)
    return delay_s if elapsed_s + delay_s <= policy.max_total_s else None
