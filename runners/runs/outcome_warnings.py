"""Warnings from the outcomes of trials: agents that fail repeatedly, and programs that crash."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.agents.trial_record import TrialOutcome

_VARYING = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b|\d+")  # addresses, ids, times


class _Row(msgspec.Struct):
    """An agent's failures with equal wording. ``since`` is when the first of them was added."""

    kind: tuple[str, str, str]
    since: int
    count: int = 0
    tasks: set[str] = msgspec.field(default_factory=set)


class RepeatedFailures:
    """Counts the latest given-up trials of each agent that failed alike. A valid trial or another failure ends the row.

    A task may be unfit with all its variants, so an agent is held only when ``limit`` tasks have failed so, or all of
    its tasks if it has fewer, with ``limit`` trials together. Trials that ran while the first of a row ended may have
    met the same short trouble, so they are not counted.

    Args:
        limit: After how many an agent is held; 0 for never.
        tasks: How many tasks each agent has, by its name.
    """

    def __init__(self, limit: int, tasks: Mapping[str, int]) -> None:
        self._limit = limit
        self._tasks = tasks
        self._rows: dict[str, _Row] = {}
        self._added = 0

    def now(self) -> int:
        """Return the moment at which an attempt begins, for :meth:`add`."""
        return self._added

    def clear(self) -> None:
        self._rows.clear()

    def add(self, outcome: TrialOutcome, began: int) -> str | None:
        """Return why the agent of an attempt should be held from now on, or None if it need not be."""
        trial, failure = outcome.trial, outcome.failure
        name = trial.agent.name
        self._added += 1
        if failure is None:
            self._rows.pop(name, None)
            return None
        kind = (str(failure.boundary), failure.error_kind, _words(failure.message, trial))
        row = self._rows.get(name)
        if row is None or row.kind != kind:
            row = self._rows[name] = _Row(kind, self._added)
        elif began < row.since:
            return None
        row.count += 1
        row.tasks.add(trial.task.task_id)
        there = self._tasks[name]
        if not self._limit or row.count < self._limit or len(row.tasks) < min(self._limit, there):
            return None
        return (
            f"agent {name}: {row.count} of its trials in a row failed with the same message, on "
            f"{len(row.tasks)} of its {there} tasks, at {failure.boundary} ({failure.error_kind}), so no more were "
            "started; correct the cause, or raise retry.same_failures"
        )


def _words(message: str, trial: PlannedTrial) -> str:
    """Return a message without what differs between trials: the ids of its task and variant, addresses, numbers."""
    for own in (trial.variant.variant_id if trial.variant else None, trial.task.task_id):
        if own:
            message = re.sub(rf"(?<!\w){re.escape(own)}(?!\w)", "#", message)
    return _VARYING.sub("#", message)


def silent_agents(outcomes: Iterable[TrialOutcome]) -> tuple[str, ...]:
    """Return which programs asked nothing in any trial in which they could, and what to look at."""
    asked: defaultdict[str, list[bool]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.is_valid and outcome.has_asked is not None and outcome.trial.agent.external is not None:
            asked[outcome.trial.agent.name].append(outcome.has_asked)
    return tuple(
        f"{agent} asked nothing in {len(found)} trials in which it could; docs/slips.md: how to see whether it can ask"
        for agent, found in sorted(asked.items())
        if not any(found)
    )


def crashes(outcomes: Iterable[TrialOutcome]) -> tuple[str, ...]:
    """Return how many trials of each agent ended with which exit code, and the first last line of stderr."""
    lines: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.is_valid and outcome.crash is not None:
            code, last_line = outcome.crash
            lines[outcome.trial.agent.name, code].append(last_line)
    return tuple(
        f"{agent}: {len(found)} trials ended with exit code {code}, graded anyway"
        + next((f"; last line of stderr: {line}" for line in found if line), "")
        for (agent, code), found in sorted(lines.items())
    )
