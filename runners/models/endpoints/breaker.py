"""A circuit breaker for one endpoint: holds requests back after failures, and decides when to stop waiting.

    closed   requests go out
    open     several requests in a row failed: one at a time probes the endpoint while the others wait
    down     waiting is pointless or has taken too long: requests fail at once with the reason, and the run pauses

A rejected key, an empty account, an unknown model, or a retry-after longer than an outage affects every request, so the
first one takes the endpoint down. Other failures (internal error, timeout, rejected path) may be caused by a single
request: they open the breaker only if different requests fail. While it is open for another reason, it likewise takes
several rejected paths to take the endpoint down. Only an answer closes the breaker. A short retry-after counts as an
answer, and so does a rejection of the request itself (too long, malformed, filtered).
"""

import re
from math import inf

from lhaw_record.runners.base.conversation.ending import CONTENT_FILTER, CONTEXT_WINDOW, ENDLESS_REPLY
from lhaw_record.runners.models.protocol import ModelError

OUTAGE_S = 600.0
"""Seconds for which an endpoint that has answered before is probed: a choice, longer than a server restart."""
_FAILURES = 5  # consecutive; a choice: one request makes up to 6 attempts, so a single bad request ends soon after
_MAY_BE_THE_REQUEST = frozenset({"server_error", "timeout", "malformed_reply"})
_REFUSED_STATUSES = frozenset({401, 402, 403, 404})
_SAID_BY_THE_MODEL = frozenset({CONTEXT_WINDOW, CONTENT_FILTER, ENDLESS_REPLY})  # also as a reply with HTTP 200
# OpenAI and Groq, vLLM: "The model `m` does not exist"; Ollama: "model 'm' not found"; Gemini: "models/m is not found";
# Anthropic: "model: m"; OpenRouter: "No endpoints found for m". A wrong path has a different wording.
_NO_SUCH_MODEL = re.compile(
    r"\(HTTP 404\).*(\bmodels?\b.*\b(not (exist|found)|not_found)|model: \S+$|no endpoints found for)", re.IGNORECASE
)
_FIRST_PROBE_S = 5.0  # a choice: a restarting server costs at most one wasted request
_LONGEST_PROBE_S = OUTAGE_S / 10  # so that several tries fit into an outage


class Breaker:
    """The circuit breaker of one endpoint. All times are monotonic seconds.

    Args:
        name: The endpoint's name, used in the reason.
        outage_s: Seconds for which an endpoint that has answered before is probed.
    """

    def __init__(self, name: str, outage_s: float = OUTAGE_S) -> None:
        self._name = name
        self._outage_s = outage_s
        self.reason: str | None = None
        """Why requests are held back, or None."""
        self.is_down = False
        self._has_answered = False
        self._failures = 0
        self._refusals = 0
        self._failed_requests: set[str] = set()
        self._failing_since_s = inf
        self._probe_at_s = -inf
        self._probe_delay_s = _FIRST_PROBE_S
        self.is_probed = False
        """Whether a probe of the endpoint is under way."""

    def delay_s(self, now_s: float) -> float:
        """Return the seconds until the next request may go out: infinite while a probe is under way."""
        if self.reason is None:
            return 0.0
        return inf if self.is_probed else max(0.0, self._probe_at_s - now_s)

    def try_now(self) -> None:
        """Allow the next request immediately."""
        self._probe_at_s = -inf

    def sent(self) -> bool:
        """Count a request as sent, and return whether it is a probe, whose result the next request must await."""
        if self.reason is None:
            return False
        self.is_probed = True
        return True

    def probe_ended(self, *, has_result: bool) -> None:
        """Count a probe as ended. A cancelled probe has no result, so the next request becomes a probe immediately."""
        self.is_probed = False
        if not has_result:
            self.try_now()

    def answered(self) -> None:
        self._has_answered = True
        self.reason, self.is_down = None, False
        self._failures, self._refusals, self._failing_since_s, self._probe_delay_s = 0, 0, inf, _FIRST_PROBE_S
        self._failed_requests.clear()

    def failed(self, error: ModelError, request: str, now_s: float, *, is_probe: bool = False) -> None:
        is_empty_account = error.http_status == 402 or (error.kind == "rate_limit" and not error.is_retryable)
        is_refused = is_empty_account or error.http_status in _REFUSED_STATUSES
        if error.kind == "rate_limit" and not is_empty_account:
            self._refused_for_now(error, now_s, is_probe=is_probe)
            return
        if not is_refused and error.kind != "connection" and error.kind not in _MAY_BE_THE_REQUEST:
            if error.http_status is not None or error.kind in _SAID_BY_THE_MODEL:
                self.answered()
            elif is_probe:  # the result says nothing about the endpoint
                self.try_now()
            return
        self._failures += 1
        self._refusals = self._refusals + 1 if is_refused else 0
        self._failing_since_s = min(self._failing_since_s, now_s)
        self._failed_requests.add(request)
        is_for_all = is_empty_account or error.http_status == 401 or _NO_SUCH_MODEL.search(str(error)) is not None
        if self.reason is None and not is_for_all and not self._has_failed_enough(error):
            return
        self._open(error, now_s)
        is_dead = error.kind == "connection" and not self._has_answered
        is_given_up = is_for_all or self._refusals >= _FAILURES
        self.is_down = self.is_down or is_given_up or is_dead or now_s - self._failing_since_s >= self._outage_s

    def _has_failed_enough(self, error: ModelError) -> bool:
        return self._failures >= _FAILURES and (error.kind == "connection" or len(self._failed_requests) > 1)

    def _refused_for_now(self, error: ModelError, now_s: float, *, is_probe: bool) -> None:
        """Mark the endpoint as down if it has rejected requests for too long or asks for too long a wait."""
        if is_probe:
            self.answered()
        self._has_answered = True
        self._failing_since_s = min(self._failing_since_s, now_s)
        wait_s = error.retry_after_s or 0.0
        if wait_s > self._outage_s or now_s - self._failing_since_s >= self._outage_s:
            self._open(error, now_s)
            self.is_down = True

    def _open(self, error: ModelError, now_s: float) -> None:
        in_a_row = f" ({self._failures} requests in a row)" if self._failures > 1 else ""
        self.reason = f"{self._name} cannot be reached{in_a_row}: {error}"
        self._probe_at_s = now_s + self._probe_delay_s
        self._probe_delay_s = min(_LONGEST_PROBE_S, 2.0 * self._probe_delay_s)
