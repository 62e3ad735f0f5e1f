"""Single trials, written through the real recorder: a few facts tell what happened in each, nothing is computed."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import anyio

from recorder.canonical import canonical_json, digest, short_digest
from recorder.events import (
    ActionFinished,
    ActionStarted,
    AnyEvent,
    CheckpointScored,
    ClarificationInjected,
    OracleBudgetSet,
    QuestionAnswered,
    QuestionAsked,
    RunFinished,
    RunStarted,
    TaskRegistered,
    TrialFinished,
    TrialStarted,
    VariantGenerated,
)
from recorder.recorder import Recorder
from recorder.store import Store
from recorder.values import Checkpoint, Segment, Task, Variant, prompt_state_and_channel

TRIALS = 3
_STREAMS_AT_ONCE = 512  # they share the few commits


class Told(NamedTuple):
    """What is told of one trial.

    ``score`` is that of its one checkpoint, of 1 point. ``asks`` are the places of its questions among its actions.
    ``injected_after`` is the action after which the message went in, None where the trial ended before.
    """

    agent: str
    unit: Task | Variant
    condition: str
    index: int
    score: float
    is_success: bool
    actions: int = 1
    asks: tuple[int, ...] = ()
    budget: int | None = None
    injected_after: int | None = None


class Tale(NamedTuple):
    """Everything that one store holds; ``scope`` says whose full trials are shared."""

    name: str
    tasks: list[Task]
    variants: list[Variant]
    trials: list[Told]
    budgets: list[tuple[str, Task | Variant, int]]
    scope: str


def task(benchmark: str, number: int) -> Task:
    """Return a task with one checkpoint of one point."""
    return Task(
        benchmark=benchmark,
        benchmark_version="1",
        task_id=f"{benchmark}-{number:03d}",
        prompt=f"task {number}",
        checkpoints=(Checkpoint(checkpoint_id="c1", label="all of it"),),
        environment_digest="0",
    )


def variant(task: Task, number: int, dimensions: tuple[str, ...], ambiguity_class: str) -> Variant:
    """Return a variant of a task with a label, one removed segment per dimension named."""
    segments = tuple(
        Segment(segment_id=f"S{place}", value=f"value {place}", dimension=dimension, subdimension="any")  # type: ignore[arg-type]
        for place, dimension in enumerate(dimensions, 1)
    )
    return Variant(
        benchmark=task.benchmark,
        task_id=task.task_id,
        variant_id=f"{task.benchmark}-v{number:03d}",
        prompt=f"variant {number}",
        segments=segments,
        origin="imported",
        ambiguity_class=ambiguity_class,
        classified_by="the authors",
    )


def write(root: Path, tale: Tale) -> None:
    """Write a store.

    Raises:
        RecordingFailed: The disk refuses.
    """
    anyio.run(_Teller(tale).write, Store.create(root))


class _Teller:
    """Turns what is told into events."""

    def __init__(self, tale: Tale) -> None:
        self._tale = tale
        self._run_id = f"run-{tale.name}"
        digests = {each.task_id: each.task_digest for each in tale.tasks}
        self._digests = digests | {each.variant_id: each.variant_digest for each in tale.variants}
        self._agents = {told.agent: digest(told.agent) for told in tale.trials}
        self._full: dict[tuple[str, str], list[Told]] = {}
        for told in tale.trials:
            if told.condition == "full":
                self._full.setdefault((told.agent, name_of(told.unit)), []).append(told)

    async def write(self, store: Store) -> None:
        """Write the run, then its trials, many at once."""
        async with Recorder(store, self._tale.name) as recorder:
            run = recorder.stream(self._run_id)
            await run.append(*self._before())
            told = iter(self._tale.trials)

            async def write_some() -> None:
                for each in told:
                    started = self._started(each)
                    stream = recorder.attempt(self._trial_id(each), 1)
                    await stream.append(started, *_events(each, started))

            async with anyio.create_task_group() as tasks:
                for _ in range(_STREAMS_AT_ONCE):
                    tasks.start_soon(write_some)
            await run.append(
                RunFinished(
                    run_id=self._run_id,
                    outcome="completed",
                    trials_finished=len(self._tale.trials),
                    trials_failed=0,
                    trials_blocked=0,
                    trials_left=0,
                )
            )

    def _before(self) -> Iterator[AnyEvent]:
        config_json = canonical_json({"name": self._tale.name, "trials": TRIALS}).decode()
        yield RunStarted(
            run_id=self._run_id,
            config_json=config_json,
            config_digest=digest(config_json),
            code_version="1",
            packages=(),
            python_version="3",
            platform="any",
            cpu_count=1,
            planned_trials=len(self._tale.trials),
            finished_before=0,
        )
        for task in self._tale.tasks:
            yield TaskRegistered(task=task, task_digest=self._digests[task.task_id])
        for variant in self._tale.variants:
            yield VariantGenerated(variant=variant, variant_digest=self._digests[variant.variant_id])
        for agent, unit, budget in self._tale.budgets:
            full = self._full[agent, name_of(unit)]
            yield OracleBudgetSet(
                agent=agent,
                agent_digest=self._agents[agent],
                benchmark=unit.benchmark,
                scope=self._tale.scope,
                unit_id=name_of(unit),
                budget_actions=budget,
                trial_ids=tuple(map(self._trial_id, full)),
                action_counts=tuple(told.actions for told in full),
            )

    def _started(self, told: Told) -> TrialStarted:
        state, channel = prompt_state_and_channel(told.condition)
        percent = int(told.condition.removeprefix("inject_")) if told.budget else None
        is_variant = isinstance(told.unit, Variant)
        return TrialStarted(
            run_id=self._run_id,
            benchmark=told.unit.benchmark,
            benchmark_version="1",
            task_id=told.unit.task_id,
            task_digest=self._digests[told.unit.task_id],
            prompt_state=state,
            channel=channel,
            condition=told.condition,
            agent=told.agent,
            agent_digest=self._agents[told.agent],
            model=told.agent,
            strategy="none",
            persona="none",
            ask_notice="none",
            trial_index=told.index,
            seed=told.index,
            grader="told",
            limits_json="{}",
            parameters_json="{}",
            prompts_digest=channel,
            oracle_scope=self._tale.scope,
            sandbox="none",
            variant_id=name_of(told.unit) if is_variant else None,
            variant_digest=self._digests[name_of(told.unit)] if is_variant else None,
            user_simulator="dump" if channel == "ask_user" else None,
            inject_percent=percent,
            budget_actions=told.budget,
            inject_after_action=max(1, (told.budget or 0) * percent // 100) if percent else None,
        )

    def _trial_id(self, told: Told) -> str:
        return short_digest([self._tale.name, told.agent, name_of(told.unit), told.condition, told.index])


def name_of(unit: Task | Variant) -> str:
    """Return the id of a task or a variant."""
    return unit.variant_id if isinstance(unit, Variant) else unit.task_id


def _events(told: Told, started: TrialStarted) -> Iterator[AnyEvent]:
    for place in range(1, told.actions + 1):
        is_question = place in told.asks
        name = "ask_user" if is_question else "submit" if place == told.actions else "work"
        yield ActionStarted(
            action_index=place,
            kind="tool",
            name=name,
            arguments_json=f'{{"place":{place}}}',
            model_call_id=f"m{place}",
            call_id=f"t{place}",
        )
        if is_question:
            yield QuestionAsked(question_id=f"q{place}", question="which?", call_id=f"t{place}", action_index=place)
            yield QuestionAnswered(question_id=f"q{place}", answer="all", simulator="dump", latency_ms=1.0)
        yield ActionFinished(action_index=place, is_error=False, result="", duration_ms=1.0)
    if started.inject_percent is not None:
        is_injected = told.injected_after is not None
        yield ClarificationInjected(
            status="injected" if is_injected else "skipped",
            inject_percent=started.inject_percent,
            target_action=started.inject_after_action or 1,
            message="by the way",
            segment_ids=("S1",),
            after_action=told.injected_after,
            reason=None if is_injected else "the trial ended first",
        )
    yield CheckpointScored(
        checkpoint_id="c1",
        label="all of it",
        score=told.score,
        total=1.0,
        details="",
        grader="told",
        grading_id="primary",
    )
    yield TrialFinished(
        ended_by="submitted",
        is_success=told.is_success,
        final_answer="",
        action_count=told.actions,
        checkpoint_count=1,
        duration_ms=1.0,
        cost_usd=0.0,
    )
