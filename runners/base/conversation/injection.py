"""The injected message, and the action after which to inject it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from lhaw_record.recorder.events import ClarificationInjected


def oracle_budget(action_counts: Sequence[int]) -> int:
    """Return B, the mean action count of a unit's ``full`` trials, rounded half up with integer arithmetic.

    B = (2 * sum + n) div (2 * n). Source: Ask Early, appendix A.11.3.
    """
    if not action_counts:
        raise ValueError("a budget needs the action count of at least one full trial")
    count = len(action_counts)
    return (2 * sum(action_counts) + count) // (2 * count)


def injection_action(budget_actions: int, percent: int) -> int:
    """Return a = max(1, B * p div 100), the action after which to inject the message.

    Source: Ask Early, appendix A.11.3.
    """
    return max(1, budget_actions * percent // 100)


class PlannedInjection(msgspec.Struct, frozen=True, kw_only=True):
    """A message to inject, and the earliest action after which it may be injected."""

    percent: int
    target_action: int
    message: str
    segment_ids: tuple[str, ...]

    def is_due(self, action_count: int) -> bool:
        """Return whether the message may be injected at the next clean boundary after ``action_count`` actions."""
        return action_count >= self.target_action


def injected(planned: PlannedInjection, **outcome: Any) -> ClarificationInjected:
    """Return the event that records whether an injection happened or was skipped."""
    return ClarificationInjected(
        inject_percent=planned.percent,
        target_action=planned.target_action,
        message=planned.message,
        segment_ids=planned.segment_ids,
        **outcome,
    )
