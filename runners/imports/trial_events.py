"""Builds the events of one imported trial: its start, its trajectory and injection, its results and its end."""

from datetime import UTC, datetime
from typing import Any

from lhaw_record.recorder.events import (
    ActionFinished,
    AnyEvent,
    ClarificationInjected,
    TrialFailed,
    TrialFinished,
    TrialStarted,
)
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import prompt_state_and_channel
from lhaw_record.runners.base.conversation.injection import injection_action
from lhaw_record.runners.environments.grading.grade import scored
from lhaw_record.runners.imports.foreign_trial import UNKNOWN, UNSTATED_USAGE, Failure, ForeignInjection, ForeignTrial
from lhaw_record.runners.imports.trajectory import action_count


def trial_events(
    format_name: str, trial: ForeignTrial, budget: int | None
) -> tuple[TrialStarted, *tuple[AnyEvent, ...]]:
    """Return the events of a trial that has an index. The run id in the start event is still empty."""
    target = _target(trial.injected, budget) if trial.injected else None
    trajectory = _with_injection(trial, target) if trial.injected else trial.trajectory or trial.questions
    return (_started(format_name, trial, budget, target), *trajectory, *_ended(trial))


def agent_digest(trial: ForeignTrial) -> str:
    """Return a digest of an imported agent's name and model, since nothing else is known about the agent."""
    return digest(["imported", trial.agent, trial.model])


def _started(format_name: str, trial: ForeignTrial, budget: int | None, target: int | None) -> TrialStarted:
    state, channel = prompt_state_and_channel(trial.condition)
    return TrialStarted(
        run_id="",
        benchmark=trial.task.benchmark,
        benchmark_version=trial.task.benchmark_version,
        task_id=trial.task.task_id,
        task_digest=trial.task.task_digest,
        prompt_state=state,
        channel=channel,
        condition=trial.condition,
        agent=trial.agent,
        agent_digest=agent_digest(trial),
        model=trial.model,
        strategy=UNKNOWN,
        persona=UNKNOWN,
        ask_notice=UNKNOWN,
        trial_index=trial.trial_index or 0,
        seed=trial.seed,
        grader=trial.grader,
        limits_json=None,
        parameters_json=None,
        prompts_digest=None,
        oracle_scope=trial.oracle_scope,
        sandbox=UNKNOWN,
        variant_id=trial.variant.variant_id if trial.variant else None,
        variant_digest=trial.variant.variant_digest if trial.variant else None,
        user_simulator=trial.user_simulator if channel == "ask_user" else None,
        inject_percent=trial.injected.percent if trial.injected else None,
        budget_actions=budget,
        inject_after_action=target,
        program=trial.program,
        origin=format_name,
        source_started_at_us=_microseconds(trial.started_at),
    )


def _microseconds(time: Any) -> int | None:
    """Return a source's time in microseconds since the epoch, or None if it is missing or no time."""
    try:
        moment = datetime.fromisoformat(time) if isinstance(time, str) else datetime.fromtimestamp(time, UTC)
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000_000)


def _target(injected: ForeignInjection, budget: int | None) -> int | None:
    """Return the target action: the one that the source states, otherwise the one computed from the budget."""
    if injected.target_action is not None:
        return injected.target_action
    return injection_action(budget, injected.percent) if budget is not None else None


def _with_injection(trial: ForeignTrial, target: int | None) -> list[AnyEvent]:
    """Return the trajectory with its injection event.

    The event follows the result of the action before the injection, or comes last if the injection was skipped.
    """
    injected = trial.injected
    assert injected is not None
    after = injected.after_action
    segments = trial.variant.segments if trial.variant else ()
    event = ClarificationInjected(
        status="skipped" if after is None else "injected",
        inject_percent=injected.percent,
        target_action=target,
        message=injected.message,
        segment_ids=tuple(segment.segment_id for segment in segments) or None,
        after_action=after,
        reason="the trial ended first" if after is None else None,
    )
    trajectory = list(trial.trajectory or trial.questions)
    locations = [
        location
        for location, each in enumerate(trajectory, 1)
        if isinstance(each, ActionFinished) and each.action_index == after
    ]
    trajectory.insert(locations[-1] if locations else len(trajectory), event)
    return trajectory


def _ended(trial: ForeignTrial) -> list[AnyEvent]:
    end = trial.end
    if isinstance(end, Failure):
        return [
            TrialFailed(
                boundary=end.boundary,
                error_kind=end.error_kind,
                message=end.message,
                is_retry_owed=False,
                duration_ms=end.duration_ms,
                cost_usd=end.usage.cost_usd,
                stated_usage=None if end.usage == UNSTATED_USAGE else end.usage,
            )
        ]
    return [
        *scored(end.results, trial.task.checkpoints, trial.grader),
        TrialFinished(
            ended_by=end.ended_by,
            is_success=end.is_success,
            final_answer=end.final_answer,
            action_count=None if trial.trajectory is None else action_count(trial.trajectory),
            checkpoint_count=len(trial.task.checkpoints),
            duration_ms=end.duration_ms,
            final_score=end.final_score,
            final_total=end.final_total,
            cost_usd=end.usage.cost_usd,
            stated_usage=None if end.usage == UNSTATED_USAGE else end.usage,
            stated_actions=trial.stated_actions,
            stated_questions=trial.stated_questions,
        ),
    ]
