"""Builds an attempt's first event, its failure event, and its outcome for the scheduler."""

from collections.abc import Mapping
from typing import Any

import msgspec

from lhaw_record.recorder.events import TrialFailed, TrialStarted
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.reading.trial_index import FailedTrial
from lhaw_record.runners.agents.attempt import trial_failed
from lhaw_record.runners.agents.behaviour import Behaviour
from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.base.conversation.injection import injection_action


class TrialOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended, as the scheduler needs it. Everything else is in the events.

    ``spent_on`` is the known cost of its calls in USD, by the name of the model.
    """

    trial: PlannedTrial
    attempt: int
    is_valid: bool
    action_count: int
    cost_usd: float | None
    spent_on: Mapping[str, float] = {}
    failure: TrialFailed | None = None
    behaviour: Behaviour | None = None
    is_flagged: bool = False


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
    key, percent = trial.key, trial.inject_percent
    budget = None if percent is None else budget_actions
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
        program=trial.agent.external.title if trial.agent.external else None,
        inject_percent=percent,
        budget_actions=budget,
        inject_after_action=injection_action(budget, percent) if percent is not None and budget else None,
    )
