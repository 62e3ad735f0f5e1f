"""Adaptive rate limiting of one endpoint, learned from its 429 responses. Callers pass in the time.

Two limits apply at once, because providers have both and document them poorly. What headers say is left was read as
well; it spared some 10 of 200 requests a refusal, which is free, and no time (tests/runners/models/endpoints):

    concurrency   requests under way: doubles every round trip until the first 429, then grows by 5 % per round trip
                  and shrinks by a fifth at each 429 (slow start, then additive increase, multiplicative decrease)
    rate          requests per second: unlimited until the first 429, then the rate accepted since the previous 429.
                  It recovers quickly to just below the rate that was refused, and grows slowly from there

A 429 holds back every request until the time given by the provider. Several requests that were sent together and
refused together count as one refusal.
"""

from math import inf

# Unless a source is given, a value is a trade-off between 429 responses and total time on the simulated servers of
# tests/runners/models/endpoints/test_pace.py, which assert bounds for rates from 0.2 to 20/s, bursts, latencies up to
# 4 s, and processes that share a limit.
_FIRST_CONCURRENCY = 4.0  # the first window of TCP's slow start (RFC 3390: up to 4 segments)
_GROWTH = 0.05  # additive increase of the window per round trip, as a fraction
_SHRINKING = 0.8  # multiplicative decrease; CUBIC's is 0.7 (RFC 9438, 4.6), but packet loss costs more than a 429
_ROOM = 1.25  # factor of concurrency over rate times latency (Little's law), because latencies vary
_BELOW_MEASURED = 0.95  # fraction of an accepted rate, so that jitter does not make requests arrive too early
_SEARCH_GROWTH = 0.2  # of the rate per round trip, until a rate is refused
_SLOWEST_AT_ONCE = 0.7  # largest cut by one 429, else processes sharing a limit starve one of them
_APPROACH = 0.1  # of the distance to the refused rate, per round trip
_PROBE_GROWTH = 0.002  # of the rate per round trip above the refused rate, to keep 429s rare
_CALLS_TO_PROBE_TWICE_AS_FAST = 32  # answers without a 429, to find a raised limit soon
_FIRST_BACKOFF_S = 1.0  # as RetryPolicy.first_delay_s
_LONGEST_BACKOFF_S = 60.0  # providers' limits are per minute (see hints.py), so waiting longer frees nothing more
_SLOWEST_PER_S = 1.0 / _LONGEST_BACKOFF_S
_SHORTEST_S = 0.001  # lower bound of measured times, to avoid division by zero; the unit of retry-after-ms
_WEIGHT_OF_LATEST = 0.1  # in a running mean over about the last ten requests


class Pace:
    """The request pace that one endpoint accepts. All times are monotonic seconds."""

    def __init__(self) -> None:
        self.concurrency = _FIRST_CONCURRENCY
        self.rate_per_s: float | None = None
        self.in_flight = 0
        self.cooldown_until_s = 0.0
        self._refused_per_s: float | None = None
        self._next_s = 0.0
        self._is_rate_bound = False
        self._epoch_began_s: float | None = None
        self._accepted = 0
        self._refused_at_s = -inf
        self._backoff_s = _FIRST_BACKOFF_S
        self._latency_s: float | None = None

    def delay_s(self, now_s: float) -> float:
        """Return the seconds until the next request may go out; infinite until a request under way ends."""
        if self.in_flight >= int(self.concurrency):
            return inf
        return max(0.0, self.cooldown_until_s - now_s, self._next_s - now_s)

    def sent(self, now_s: float) -> None:
        self.in_flight += 1
        if self._epoch_began_s is None:
            self._epoch_began_s = now_s
        if self.rate_per_s is not None:
            spacing_s = 1.0 / self.rate_per_s
            self._is_rate_bound = now_s - self._next_s < 0.5 * spacing_s  # closer to its slot than to the next one
            self._next_s = max(now_s, self._next_s) + spacing_s

    def ended(self) -> None:
        """Note the end of a request that says nothing about the pace."""
        self.in_flight -= 1

    def answered(self, now_s: float, sent_s: float) -> None:
        is_filled = self.in_flight >= 0.5 * self.concurrency  # less says nothing about the window (RFC 9438, 5.8)
        self.in_flight -= 1
        self._accepted += 1
        self._backoff_s = _FIRST_BACKOFF_S
        took_s = now_s - sent_s
        self._latency_s = took_s if self._latency_s is None else _mixed(self._latency_s, took_s)
        if is_filled:
            has_slow_start = self.rate_per_s is None
            self.concurrency += 1.0 if has_slow_start else max(1.0, _GROWTH * self.concurrency) / self.concurrency
        if self.rate_per_s is not None and self._is_rate_bound:
            self.rate_per_s = self._grown(self.rate_per_s)

    def refused(self, now_s: float, sent_s: float, retry_after_s: float | None = None) -> None:
        wait_s = retry_after_s if retry_after_s is not None else self._backoff_s
        if sent_s >= self._refused_at_s:
            self._slow_down(now_s, wait_s)
            self._backoff_s = min(_LONGEST_BACKOFF_S, 2.0 * self._backoff_s)
        self.in_flight -= 1
        self.cooldown_until_s = max(self.cooldown_until_s, now_s + wait_s)

    def _grown(self, rate_per_s: float) -> float:
        """Return the rate after one more answer. Growth is slow above the last refused rate.

        All answers of one round trip together count as one step, because each was requested at the old rate.
        """
        step = 1.0 / max(1.0, rate_per_s * (self._latency_s or 0.0))
        if self._refused_per_s is None:
            return rate_per_s * (1.0 + step * _SEARCH_GROWTH)
        if rate_per_s < _BELOW_MEASURED * self._refused_per_s:
            return rate_per_s + step * _APPROACH * (self._refused_per_s - rate_per_s)
        return rate_per_s * (1.0 + step * _PROBE_GROWTH * (1.0 + self._accepted / _CALLS_TO_PROBE_TWICE_AS_FAST))

    def _slow_down(self, now_s: float, wait_s: float) -> None:
        began_s = now_s if self._epoch_began_s is None else self._epoch_began_s
        took_s = max(now_s - began_s + wait_s, _SHORTEST_S)
        if self._accepted:
            measured = _BELOW_MEASURED * self._accepted / took_s
        else:
            measured = (self.rate_per_s or 1.0 / max(wait_s, _SHORTEST_S)) / 2.0
        if self._accepted or self._refused_per_s is None:  # otherwise another process used it all: no new limit
            self._refused_per_s = self.rate_per_s
        if self.rate_per_s is not None:  # the accepted rate is too low while the rate still grows
            least, most = _SLOWEST_AT_ONCE * self.rate_per_s, _BELOW_MEASURED * self.rate_per_s
            measured = min(most, max(least, measured))
        else:  # the first replies may have been slow for other reasons
            measured = max(measured, 1.0 / max(wait_s, _SHORTEST_S))
        self.rate_per_s = max(measured, _SLOWEST_PER_S)
        needed = _ROOM * self.rate_per_s * (self._latency_s or 0.0)  # Little's law: otherwise the rate is unreachable
        used = min(self.concurrency, float(self.in_flight))
        self.concurrency = max(1.0, _SHRINKING * used, min(used, needed))
        self._next_s = now_s + wait_s
        self._epoch_began_s, self._accepted, self._refused_at_s = now_s, 0, now_s


def _mixed(before: float, latest: float) -> float:
    return before + _WEIGHT_OF_LATEST * (latest - before)
