"""The trials of a synthetic experiment one by one: each attempt's events, and the budget of each unit."""

from collections.abc import Iterator
from random import Random

from lhaw_record.recorder.events import AnyEvent, OracleBudgetSet, TrialStarted
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.values import prompt_state_and_channel
from tests.synthetic.attempt import Attempt
from tests.synthetic.chance import seeded
from tests.synthetic.course import Course, course_of
from tests.synthetic.design import GRADER, LIMITS, SIMULATOR, Agent, Design, Trial
from tests.synthetic.tasks import VERSION, SyntheticTask

FAILED_RATE = 0.015
_LIMITS_JSON = canonical_json(LIMITS).decode()
_PARAMETERS_JSON = canonical_json({"max_tokens": 4096, "temperature": 0}).decode()


def attempts_of(
    design: Design, trial: Trial, run_id: str, budget_actions: int | None
) -> Iterator[tuple[int, list[AnyEvent]]]:
    """Yield the attempts of a trial, the last of them valid, as their numbers and events.

    Args:
        design: The experiment.
        trial: One of its trials.
        run_id: The run they belong to.
        budget_actions: B of the trial's unit where its condition injects, else None.
    """
    percent = trial.inject_percent
    target_action = None if percent is None else max(1, (budget_actions or 0) * percent // 100)
    started = _started(trial, run_id, budget_actions if percent is not None else None, target_action)
    has_failed = _chance(design, trial, 0).random() < FAILED_RATE
    if has_failed:
        yield 1, [started, *_attempt(design, trial, 1, target_action).failed()]
    number = 2 if has_failed else 1
    yield number, [started, *_attempt(design, trial, number, target_action).finished()]


def budget_of(design: Design, task: SyntheticTask, agent: Agent) -> OracleBudgetSet:
    """Return the budget of a unit, B = (2 * sum + n) div (2 * n) over its ``full`` trials (Ask Early, A.11.3)."""
    trials = design.oracle_trials(task, agent)
    counts = tuple(_valid_course(design, trial).action_count for trial in trials)
    return OracleBudgetSet(
        agent=agent.name,
        agent_digest=agent.digest,
        benchmark=task.task.benchmark,
        scope="task",
        unit_id=task.task.task_id,
        budget_actions=(2 * sum(counts) + len(counts)) // (2 * len(counts)),
        trial_ids=tuple(trial.trial_id for trial in trials),
        action_counts=counts,
    )


def _chance(design: Design, trial: Trial, attempt: int) -> Random:
    """Where everything random in an attempt comes from; attempt 0 decides about the trial itself."""
    return seeded(design.seed, trial.trial_id, attempt)


def _attempt(design: Design, trial: Trial, number: int, target_action: int | None) -> Attempt:
    chance = _chance(design, trial, number)
    return Attempt(trial, course_of(trial, chance, target_action), chance, design.texts, target_action)


def _valid_course(design: Design, trial: Trial) -> Course:
    has_failed = _chance(design, trial, 0).random() < FAILED_RATE
    return course_of(trial, _chance(design, trial, 2 if has_failed else 1), None)


def _started(trial: Trial, run_id: str, budget_actions: int | None, target_action: int | None) -> TrialStarted:
    prompt_state, channel = prompt_state_and_channel(trial.condition)
    agent, variant = trial.agent, trial.variant
    return TrialStarted(
        run_id=run_id,
        benchmark=trial.task.task.benchmark,
        benchmark_version=VERSION,
        task_id=trial.task.task.task_id,
        task_digest=trial.task.digest,
        variant_id=variant.variant.variant_id if variant else None,
        variant_digest=variant.digest if variant else None,
        prompt_state=prompt_state,
        channel=channel,
        condition=trial.condition,
        agent=agent.name,
        agent_digest=agent.digest,
        model=agent.model,
        strategy="none",
        persona="none",
        role=agent.role,
        ask_notice="none",
        trial_index=trial.trial_index,
        seed=trial.trial_index,
        user_simulator=SIMULATOR if channel == "ask_user" else None,
        grader=GRADER,
        limits_json=_LIMITS_JSON,
        parameters_json=_PARAMETERS_JSON,
        prompts_digest=channel.partition("_")[0],  # one template says what is injected, whenever it is
        oracle_scope="task",
        sandbox="process",
        inject_percent=trial.inject_percent,
        budget_actions=budget_actions,
        inject_after_action=target_action,
    )
