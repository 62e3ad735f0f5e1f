"""Whether an endpoint answers at all: a circuit breaker that holds requests back, and says when to stop waiting.

    closed   requests go out
    open     several requests in a row failed: the others wait, and one at a time tries again
    down     waiting does not help, or has lasted too long: requests end at once with the reason, so that the run pauses

A refused key, an empty account, a model that the server does not have, and a request to wait for longer than an outage
are failures for everybody: the first one is enough. Others may be the fault of one request (an internal error, a
timeout, a refused path): they open it only if they hit different requests, and while it is open for another reason, a
refused path gives the endpoint up only after as many. Nothing but an answer closes it; to be asked
to wait a little is one, and so is a refusal that is about the request (too long, malformed, filtered).
"""

import re
from math import inf

from lhaw_record.runners.base.conversation.ending import CONTENT_FILTER, CONTEXT_WINDOW, ENDLESS_REPLY
from lhaw_record.runners.models.protocol import ModelError

OUTAGE_S = 600.0
"""Seconds for which an endpoint that has answered before is tried again: a choice, longer than a server's restart."""
_FAILURES = 5  # in a row; a choice: one request makes up to 6 attempts, so one that fails by itself ends soon after
_MAY_BE_THE_REQUEST = frozenset({"server_error", "timeout", "malformed_reply"})
_REFUSED_STATUSES = frozenset({401, 402, 403, 404})
_SAID_BY_THE_MODEL = frozenset({CONTEXT_WINDOW, CONTENT_FILTER, ENDLESS_REPLY})  # as a reply with HTTP 200, too
# OpenAI and Groq, vLLM: "The model `m` does not exist"; Ollama: "model 'm' not found"; Gemini: "models/m is not found";
# Anthropic: "model: m"; OpenRouter: "No endpoints found for m". A wrong path is told in other words.
_NO_SUCH_MODEL = re.compile(
    r"\(HTTP 404\).*(\bmodels?\b.*\b(not (exist|found)|not_found)|model: \S+$|no endpoints found for)", re.IGNORECASE
)
_FIRST_PROBE_S = 5.0  # a choice: a server that reloads takes no more than one wasted request
_LONGEST_PROBE_S = OUTAGE_S / 10  # so that several tries fit into an outage


class Breaker:
    """The state of one endpoint. All times are monotonic seconds.

    Args:
        name: The endpoint in words, for the reason.
        outage_s: Seconds for which an endpoint that has answered before is tried again.
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
        """Whether a request is under way that tries whether the endpoint is back."""

    def delay_s(self, now_s: float) -> float:
        """Return the seconds until the next request may go out: infinite while another one tries."""
        if self.reason is None:
            return 0.0
        return inf if self.is_probed else max(0.0, self._probe_at_s - now_s)

    def try_now(self) -> None:
        """Let the next request out at once."""
        self._probe_at_s = -inf

    def sent(self) -> bool:
        """Count a request that goes out, and return whether it is a probe, for whose result the next one must wait."""
        if self.reason is None:
            return False
        self.is_probed = True
        return True

    def probe_ended(self, *, has_result: bool) -> None:
        """Count a probe that has ended. One that was cancelled has no result, so the next request tries at once."""
        self.is_probed = False
        if not has_result:
            self.try_now()

    def answered(self) -> None:
        """Let requests out again."""
        self._has_answered = True
        self.reason, self.is_down = None, False
        self._failures, self._refusals, self._failing_since_s, self._probe_delay_s = 0, 0, inf, _FIRST_PROBE_S
        self._failed_requests.clear()

    def failed(self, error: ModelError, request: str, now_s: float, *, is_probe: bool = False) -> None:
        """Learn from a failed request."""
        is_empty_account = error.http_status == 402 or (error.kind == "rate_limit" and not error.is_retryable)
        is_refused = is_empty_account or error.http_status in _REFUSED_STATUSES
        if error.kind == "rate_limit" and not is_empty_account:
            self._refused_for_now(error, now_s, is_probe=is_probe)
            return
        if not is_refused and error.kind != "connection" and error.kind not in _MAY_BE_THE_REQUEST:
            if error.http_status is not None or error.kind in _SAID_BY_THE_MODEL:
                self.answered()
            elif is_probe:  # it says nothing about the endpoint
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
        """Give up an endpoint that refuses everything for too long, or asks to wait for too long."""
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
        self.reason = f"{self._name} is out of reach{in_a_row}: {error}"
        self._probe_at_s = now_s + self._probe_delay_s
        self._probe_delay_s = min(_LONGEST_PROBE_S, 2.0 * self._probe_delay_s)
