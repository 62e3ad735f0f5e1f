"""When a failed model call is repeated, and how long to wait first: pure, given a random number."""

import msgspec

from runners.models.protocol import ModelError


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the repetitions of one call. Times in seconds.

    ``max_total_s`` counts from the first request, waiting and answering included: no repetition begins after it.
    """

    max_attempts: int = 6
    first_delay_s: float = 1.0
    max_delay_s: float = 60.0
    max_retry_after_s: float = 120.0
    max_total_s: float = 1800.0


def delay_before_retry_s(
    policy: RetryPolicy, *, attempt: int, elapsed_s: float, error: ModelError, random_unit: float
) -> float | None:
    """Return the seconds to wait before the next attempt, or None to give up.

    The delay doubles from ``first_delay_s`` and is spread over its upper half, so that callers that failed together
    do not return together. A provider's retry-after is a lower bound, itself cut at ``max_retry_after_s``.

    Args:
        policy: The bounds.
        attempt: The number of the attempt that failed, from 1.
        elapsed_s: Seconds since the first attempt began.
        error: The failure.
        random_unit: A random number in [0, 1).
    """
    if not error.is_retryable or attempt >= policy.max_attempts:
        return None
    backoff_s = min(policy.max_delay_s, policy.first_delay_s * 2.0 ** (attempt - 1))
    delay_s = backoff_s * (0.5 + 0.5 * random_unit)
    if error.retry_after_s is not None:
        delay_s = max(delay_s, min(error.retry_after_s, policy.max_retry_after_s) + delay_s * 0.1)
    return delay_s if elapsed_s + delay_s <= policy.max_total_s else None
