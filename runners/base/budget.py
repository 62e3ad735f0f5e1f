"""The cost limits of a whole run as its running trials see them: each stops before a request that would go beyond."""

from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase

from lhaw_record.recorder.events import AnyEvent, ModelCalled, ModelFailed, ModelResponded
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.reading.typed_rows import events_of_types
from lhaw_record.runners.base.errors import RunBudgetSpent

_GRADING = frozenset({"judge", "grader"})
"""The roles that are asked once the agent has ended. Without their calls all that it has cost would be lost."""


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
    """Return what the models that a pattern names have cost in USD."""
    return sum(usd for model, usd in spent.items() if fnmatchcase(model, pattern))


def _add(spent: Counter[str], model: str, event: ModelResponded | ModelFailed) -> None:
    """Count the cost of a call. Unknown costs count 0; the scheduler stops for them."""
    spent[model] += (event.usage and event.usage.cost_usd) or 0.0  # type: ignore[assignment]  # the types of Counter know whole numbers only


class RunBudget:
    """What an experiment has spent so far, with the running trials' requests, and its limits.

    Only the requests that are under way when a limit is reached, of which a program may have several, and the grading
    of trials whose agents have ended may exceed it.

    Args:
        max_cost_usd: The limit, or None.
        spent_usd: What was spent before.
        models: The limits of models by a pattern of their names.
        spent_on: What was spent before on models by name, if there are such limits.
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
        """Refuse a further request to a model once a limit is reached."""
        if self.max_cost_usd is not None and self.spent_usd >= self.max_cost_usd:
            raise RunBudgetSpent(self.max_cost_usd)
        for pattern, limit_usd in self._models.items():
            if fnmatchcase(model, pattern) and cost_of(pattern, self.spent_on) >= limit_usd:
                raise RunBudgetSpent(limit_usd, pattern)

    def pay(self, spent: Mapping[str, float]) -> None:
        """Count the cost of calls in USD, by the name of the model."""
        self.spent_usd += sum(spent.values())
        self.spent_on.update(spent)


class TrialSpending:
    """What one trial has spent, by model in ``spent_on``. It observes events before they are appended.

    It refuses a further call of the trial's agent or user once the run's budget is spent, but no call that grades.

    Args:
        budget: The run's budget.
    """

    def __init__(self, budget: RunBudget) -> None:
        self._budget = budget
        self._models: dict[str, str] = {}
        self.spent_on: Counter[str] = Counter()

    def observe(self, event: AnyEvent) -> None:
        """Check a call before it is made, and count what it cost."""
        if isinstance(event, ModelCalled):
            self._models[event.call_id] = event.model
            if event.role not in _GRADING:
                self._budget.check(event.model)
        elif isinstance(event, ModelResponded | ModelFailed):
            paid: Counter[str] = Counter()
            _add(paid, self._models.get(event.call_id, ""), event)
            self._budget.pay(paid)
            self.spent_on.update(paid)
