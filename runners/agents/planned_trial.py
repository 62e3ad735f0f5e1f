"""A trial before it runs: its identity, its agent and task, and the unit that shares its action budget.

A trial's id is a hash over what is measured. The value of the action budget, concurrency, the store, paths and cost
limits are not part of it. If a prompt or parameter changes, the trials get new ids, and the plan shows them as new.
"""

import msgspec

from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.runners.experiment.tables import AgentSpec, ResponseSpec


class TrialKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that a trial measures, and its experiment. Trials with equal keys are the same trial.

    ``response_digest`` is that of a user who does not answer at once, and of what is said then.
    """

    experiment: str
    benchmark: str
    benchmark_version: str
    task_digest: str
    variant_digest: str | None
    prompt_state: str
    channel: str
    agent_digest: str
    prompts_digest: str
    user_simulator: str | None
    grader: str
    limits: dict[str, float]
    oracle_scope: str
    trial_index: int
    seed: int
    response_digest: str | None = None


class BudgetUnit(msgspec.Struct, frozen=True):
    """What an action budget applies to: an agent on a task, or on a variant."""

    agent_digest: str
    scope: str
    unit_id: str


class PlannedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial to run. ``variant`` is None for conditions with the full prompt and scope ``task``.

    ``response`` is how the user responds to its questions, None if they answer at once or cannot be asked.
    """

    trial_id: str
    key: TrialKey
    agent: AgentSpec
    task: Task
    variant: Variant | None
    condition: str
    trial_index: int
    seed: int
    unit: BudgetUnit
    response: ResponseSpec | None = None

    @property
    def shown_variant(self) -> Variant | None:
        """The variant that the agent works on, or None if it gets the full prompt."""
        return None if self.key.prompt_state == "full" else self.variant

    @property
    def asks_in_prose(self) -> bool:
        """Whether the agent's user answers it when it ends a turn by asking."""
        return self.key.channel == "ask_user" and self.agent.medium == "prose"

    @property
    def inject_percent(self) -> int | None:
        """The percentage in the name of an ``inject_`` condition. It is None for other conditions."""
        return int(self.condition.removeprefix("inject_")) if self.condition.startswith("inject_") else None

    @property
    def needs_budget(self) -> bool:
        """Whether the trial waits for the action budget of its unit."""
        in_percent = self.response is not None and self.response.after_percent is not None
        return self.inject_percent is not None or in_percent
