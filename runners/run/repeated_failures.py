"""Notices an agent whose attempts fail in the same words, one after another: the next ones would fail so, too."""

import re
from collections import Counter

from runners.trial.trial_record import TrialOutcome

_VARYING = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b|\d+")  # addresses, ids, times


class RepeatedFailures:
    """Counts the latest failures of each agent that are the same. A valid trial, or another failure, ends the row.

    Args:
        limit: After how many in a row an agent is held; 0 for never.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._last: dict[str, tuple[str, str, str]] = {}
        self._in_a_row: Counter[str] = Counter()

    def add(self, outcome: TrialOutcome) -> str | None:
        """Return why the agent of an attempt should be held from now on, or None if it need not be."""
        name, failure = outcome.trial.agent.name, outcome.failure
        if failure is None:
            self._last.pop(name, None)
            self._in_a_row[name] = 0
            return None
        kind = (str(failure.boundary), failure.error_kind, _VARYING.sub("#", failure.message))
        self._in_a_row[name] = self._in_a_row[name] + 1 if self._last.get(name) == kind else 1
        self._last[name] = kind
        if self._in_a_row[name] != self._limit:
            return None
        return (
            f"agent {name}: its last {self._limit} attempts failed in the same words, at {failure.boundary} "
            f"({failure.error_kind}), so no more were started; mend that, or raise retry.same_failures"
        )
