"""Cost limits of a whole run: each running trial checks them before it sends a request."""

from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase

from lhaw_record.recorder.events import AnyEvent, ModelCalled, ModelFailed, ModelResponded
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.reading.typed_rows import events_of_types
from lhaw_record.runners.base.errors import RunBudgetSpent

_GRADING = frozenset({"judge", "grader"})
"""Roles that may still be called after the agent has ended; blocking them would waste the cost of the whole trial."""


def spent_by_model(snapshot: Snapshot, experiment_id: str) -> Counter[str]:
    """Return the known cost of an experiment's model calls so far in USD, by the name of the model."""
    models: dict[tuple[str, str], str] = {}
    replies: list[tuple[str, ModelResponded | ModelFailed]] = []
    for envelope in events_of_types(snapshot, (ModelCalled, ModelResponded, ModelFailed), experiment_id):
        event = envelope.event
        if isinstance(event, ModelCalled):
            models[envelope.stream_id, event.call_id] = event.model
        elif isinstance(event, ModelResponded | ModelFailed):
            replies.append((envelope.stream_id, event))
    spent: Counter[str] = Counter()
    for stream_id, event in replies:
        _add(spent, models.get((stream_id, event.call_id), ""), event)
    return spent


def cost_of(pattern: str, spent: Mapping[str, float]) -> float:
    """Return the total cost in USD of the models whose names match a pattern."""
    return sum(usd for model, usd in spent.items() if fnmatchcase(model, pattern))


def _add(spent: Counter[str], model: str, event: ModelResponded | ModelFailed) -> float:
    """Add the cost of a call, and return it. An unknown one counts as 0, because the scheduler stops the run for it."""
    cost_usd = (event.usage and event.usage.cost_usd) or 0.0
    spent[model] += cost_usd  # type: ignore[assignment]  # the types of Counter know whole numbers only
    return cost_usd


class RunBudget:
    """Tracks an experiment's spending, including running trials, against its limits.

    The limits can be exceeded only by requests already under way and by the grading of trials whose agents have ended.

    Args:
        max_cost_usd: The limit, or None.
        spent_usd: The amount spent before this run.
        models: Limits per model, keyed by a pattern of model names.
        spent_on: The amount spent per model before this run, needed if there are per-model limits.
    """

    def __init__(
        self,
        max_cost_usd: float | None,
        spent_usd: float = 0.0,
        models: Mapping[str, float] | None = None,
        spent_on: Mapping[str, float] | None = None,
    ) -> None:
        self.max_cost_usd = max_cost_usd
        self.spent_usd = spent_usd
        self._models = models or {}
        self.spent_on = Counter(spent_on or {})

    def check(self, model: str) -> None:
        """Raise RunBudgetSpent if a limit that applies to the model is reached."""
        if self.max_cost_usd is not None and self.spent_usd >= self.max_cost_usd:
            raise RunBudgetSpent(self.max_cost_usd)
        for pattern, limit_usd in self._models.items():
            if fnmatchcase(model, pattern) and cost_of(pattern, self.spent_on) >= limit_usd:
                raise RunBudgetSpent(limit_usd, pattern)

    def pay(self, model: str, event: ModelResponded | ModelFailed) -> None:
        """Add the cost of a call."""
        self.spent_usd += _add(self.spent_on, model, event)


class TrialSpending:
    """Tracks what one trial has spent per model, by observing events before they are appended.

    Once the run's budget is spent, it refuses further calls by the trial's agent or simulated user, but never grading
    calls.

    Args:
        budget: The run's budget.
    """

    def __init__(self, budget: RunBudget) -> None:
        self._budget = budget
        self._models: dict[str, str] = {}
        self.spent_on: Counter[str] = Counter()
        self.unknown_cost_calls = 0

    def observe(self, event: AnyEvent) -> None:
        """Check the budget before a call, and add the cost after it."""
        if isinstance(event, ModelCalled):
            self._models[event.call_id] = event.model
            if event.role not in _GRADING:
                self._budget.check(event.model)
        elif isinstance(event, ModelResponded | ModelFailed):
            model = self._models.get(event.call_id, "")
            _add(self.spent_on, model, event)
            self._budget.pay(model, event)
            self.unknown_cost_calls += isinstance(event, ModelFailed) and event.has_unknown_cost
