"""The progress of a judge by experiment, agent and condition: found, judged before, judged now, and left."""

from collections.abc import Iterable
from typing import Any

import msgspec

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.judging.protocol import Subject

TALLY_COLUMNS = (
    "experiment_id",
    "agent",
    "condition",
    "found",
    "judged_before",
    "judged",
    "failed",
    "left",
    "cost_usd",
)


class _Group(msgspec.Struct):
    found: int = 0
    judged_before: int = 0
    judged: int = 0
    failed: int = 0
    cost_usd: float | None = 0.0


class Tally:
    """Counts the subjects of one invocation.

    Args:
        subjects: Everything there is to judge.
    """

    def __init__(self, subjects: Iterable[Subject]) -> None:
        self._groups: dict[tuple[str, str, str], _Group] = {}
        for subject in subjects:
            group = self._group(subject)
            group.found += 1
            group.judged_before += subject.is_judged

    def add(self, subject: Subject, cost_usd: float | None, *, is_judged: bool, has_failed: bool) -> None:
        """Count one judgement, failed or interrupted ones too. An unknown price makes the group's cost unknown."""
        group = self._group(subject)
        group.judged += is_judged
        group.failed += has_failed
        group.cost_usd = None if group.cost_usd is None or cost_usd is None else group.cost_usd + cost_usd

    @property
    def tried(self) -> int:
        """The number of subjects that were judged or failed in this invocation."""
        return sum(group.judged + group.failed for group in self._groups.values())

    @property
    def to_do(self) -> int:
        """The number of subjects that were not judged before this invocation."""
        return sum(group.found - group.judged_before for group in self._groups.values())

    @property
    def left(self) -> int:
        """The number of subjects without a verdict."""
        return sum(group.found - group.judged_before - group.judged for group in self._groups.values())

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per experiment, agent and condition."""
        return [
            {
                **dict(zip(TALLY_COLUMNS, key, strict=False)),
                **msgspec.structs.asdict(group),
                "left": group.found - group.judged_before - group.judged,
            }
            for key, group in sorted(self._groups.items())
        ]

    def _group(self, subject: Subject) -> _Group:
        started = subject.last.started
        return self._groups.setdefault((subject.last.experiment_id, started.agent, started.condition), _Group())


def of_agents(subjects: Iterable[Subject], agents: tuple[str, ...]) -> list[Subject]:
    """Return the subjects of the named agents, or all subjects if no agent is named."""
    found = list(subjects)
    known = sorted({subject.last.started.agent for subject in found})
    for name in agents:
        if name not in known:
            raise ExperimentError(f"agent {name!r} has nothing to judge; these have: {', '.join(known) or 'none'}")
    return [subject for subject in found if not agents or subject.last.started.agent in agents]
