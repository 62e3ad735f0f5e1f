"""The events of one imported trial: its start with every key, its injection, its results and its end."""

from recorder.canonical import digest
from recorder.events import (
    ActionFinished,
    AnyEvent,
    ClarificationInjected,
    TrialFailed,
    TrialFinished,
    TrialStarted,
)
from recorder.values import condition_of, prompt_state_and_channel
from runners.grading import scored
from runners.imports.course import action_count
from runners.imports.facts import UNKNOWN, Failure, Injected, TrialFacts
from runners.injection import injection_action


def trial_events(format_name: str, trial: TrialFacts, budget: int | None) -> tuple[TrialStarted, *tuple[AnyEvent, ...]]:
    """Return the events of a trial that has an index; the start does not name its run yet.

    Args:
        format_name: The origin.
        trial: What was found.
        budget: B of its unit, if it is injected and there is one.
    """
    target = _target(trial.injected, budget) if trial.injected else None
    course = _with_injection(trial, target) if trial.injected else trial.course or ()
    return (_started(format_name, trial, budget, target), *course, *_ended(trial))


def agent_digest(trial: TrialFacts) -> str:
    """Return the digest of an imported agent: of nothing but its name and model, since nothing else is known."""
    return digest(["imported", trial.agent, trial.model])


def _started(format_name: str, trial: TrialFacts, budget: int | None, target: int | None) -> TrialStarted:
    state, channel = prompt_state_and_channel(trial.condition)
    return TrialStarted(
        run_id="",
        benchmark=trial.task.benchmark,
        benchmark_version=trial.task.benchmark_version,
        task_id=trial.task.task_id,
        task_digest=trial.task.task_digest,
        prompt_state=state,
        channel=channel,
        condition=condition_of(state, channel),
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
        origin=format_name,
    )


def _target(injected: Injected, budget: int | None) -> int | None:
    """The target action: the stated one, else that of the budget."""
    if injected.target_action is not None:
        return injected.target_action
    return injection_action(budget, injected.percent) if budget is not None else None


def _with_injection(trial: TrialFacts, target: int | None) -> list[AnyEvent]:
    """The course with its injection: after the result of the action that it followed, or at the end, skipped."""
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
    course = list(trial.course or ())
    places = [
        place for place, each in enumerate(course, 1) if isinstance(each, ActionFinished) and each.action_index == after
    ]
    course.insert(places[-1] if places else len(course), event)
    return course


def _ended(trial: TrialFacts) -> list[AnyEvent]:
    end = trial.end
    if isinstance(end, Failure):
        return [
            TrialFailed(
                boundary=end.boundary,
                error_kind=end.error_kind,
                message=end.message,
                is_retry_owed=False,
                duration_ms=end.duration_ms,
            )
        ]
    return [
        *scored(end.results, trial.task.checkpoints, trial.grader),
        TrialFinished(
            ended_by=end.ended_by,
            is_success=end.is_success,
            final_answer=end.final_answer,
            action_count=None if trial.course is None else action_count(trial.course),
            checkpoint_count=len(trial.task.checkpoints),
            duration_ms=end.duration_ms,
            final_score=end.final_score,
            final_total=end.final_total,
            cost_usd=end.cost_usd,
        ),
    ]
