"""Builds an attempt's first event and its outcome."""

from collections.abc import Mapping
from typing import Any

import msgspec

from lhaw_record.recorder.events import TrialFailed, TrialStarted
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.reading.trial_index import FailedTrial
from lhaw_record.runners.agents.attempt import trial_failed
from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.base.conversation.injection import injection_action
from lhaw_record.runners.experiment.tables import ResponseSpec
from lhaw_record.runners.models.endings import endings_version

_SIMULATOR_AND_JUDGE = "simulator 2, judge 1"
"""Their versions. Each is raised when an equal conversation would get another answer or score although the files, of
which a trial's key has digests, are equal. The table of endings has its own version in its file."""


class TrialOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended, as the scheduler needs it. Everything else is in the events.

    ``spent_on`` is the known cost of its calls in USD, by the name of the model; ``unknown_cost_calls`` counts failed
    calls that may have been paid for. ``crash`` is the exit code other than 0 with which a program gave up, and the
    last line of its stderr, which may hold secrets. ``has_asked`` is None where nobody can be asked.
    """

    trial: PlannedTrial
    attempt: int
    is_valid: bool
    action_count: int
    cost_usd: float | None
    spent_on: Mapping[str, float] = {}
    failure: TrialFailed | None = None
    unknown_cost_calls: int = 0
    crash: tuple[int, str] | None = None
    is_flagged: bool = False
    is_success: bool = False
    has_asked: bool | None = None


def failed_outcome(trial: PlannedTrial, stored: FailedTrial) -> TrialOutcome:
    """Return the outcome of a failed attempt that is recorded in the store."""
    failure = trial_failed(stored.boundary, stored.error_kind, stored.message, is_retry_owed=stored.is_retry_owed)
    return TrialOutcome(
        trial=trial, attempt=stored.attempt, is_valid=False, action_count=0, cost_usd=None, failure=failure
    )


def trial_started(
    trial: PlannedTrial,
    *,
    run_id: str,
    ask_notice: str,
    parameters: dict[str, Any],
    sandbox: str,
    budget_actions: int | None,
) -> TrialStarted:
    """Return the first event of an attempt, with every part of its trial's key."""
    key, percent, program = trial.key, trial.inject_percent, trial.agent.external
    budget = budget_actions if trial.needs_budget else None
    simulator, _, simulator_digest = (key.user_simulator or "").partition(":")
    return TrialStarted(
        run_id=run_id,
        benchmark=key.benchmark,
        benchmark_version=key.benchmark_version,
        task_id=trial.task.task_id,
        task_digest=key.task_digest,
        variant_id=trial.variant.variant_id if trial.variant else None,
        variant_digest=key.variant_digest,
        prompt_state=key.prompt_state,
        channel=key.channel,
        condition=trial.condition,
        agent=trial.agent.name,
        agent_digest=key.agent_digest,
        model=trial.agent.model,
        strategy=trial.agent.strategy,
        persona=trial.agent.persona,
        role=trial.agent.role,
        ask_notice=ask_notice,
        trial_index=trial.trial_index,
        seed=trial.seed,
        user_simulator=simulator if key.user_simulator else None,
        user_simulator_digest=simulator_digest if key.user_simulator else None,
        grader=key.grader,
        limits_json=canonical_json(key.limits).decode(),
        parameters_json=canonical_json(parameters).decode(),
        prompts_digest=key.prompts_digest,
        oracle_scope=key.oracle_scope,
        sandbox=sandbox,
        program=program.title if program else None,
        instruments=f"endings {endings_version()}, {_SIMULATOR_AND_JUDGE}",
        inject_percent=percent,
        budget_actions=budget,
        inject_after_action=injection_action(budget, percent) if percent is not None and budget else None,
        response_json=canonical_json(trial.response).decode() if trial.response else None,
        asks_by=trial.agent.medium,
        host=program.host_version if program else None,
    )


def response_actions(response: ResponseSpec, budget_actions: int | None) -> int | None:
    """Return after how many actions a user responds, or None if that is not counted in actions."""
    if response.after_percent is None:
        return response.after_actions
    return None if budget_actions is None else injection_action(budget_actions, response.after_percent)
