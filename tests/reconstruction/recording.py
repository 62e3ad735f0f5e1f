"""Single trials, written through the real recorder: a few facts tell what happened in each, nothing is computed."""

from collections.abc import Iterator
from pathlib import Path

import anyio

from lhaw_record.recorder.events import (
    AnyEvent,
    JudgedFlag,
    NewTaskJudged,
    OracleBudgetSet,
    QuestionJudged,
    RunFinished,
    RunStarted,
    TaskRegistered,
    TrialStarted,
    VariantGenerated,
)
from lhaw_record.recorder.events.canonical_json import canonical_json, digest, short_digest
from lhaw_record.recorder.events.values import Variant, prompt_state_and_channel
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.judging.failure_modes import JUDGED
from tests.reconstruction.told import TRIALS, Agent, Tale, Told, name_of
from tests.reconstruction.trial_events import events

_STREAMS_AT_ONCE = 512  # they share the few commits


def write(root: Path, tale: Tale) -> None:
    """Write a store.

    Raises:
        RecordingFailed: The disk refuses.
    """
    anyio.run(_Teller(tale).write, create_store(root))


class _Teller:
    """Turns what is told into events."""

    def __init__(self, tale: Tale) -> None:
        self._tale = tale
        self._run_id = f"run-{tale.name}"
        digests = {each.task_id: each.task_digest for each in tale.tasks}
        self._digests = digests | {each.variant_id: each.variant_digest for each in tale.variants}
        self._agents = {told.agent: digest(told.agent) for told in tale.trials}
        self._streams: dict[Told, str] = {}
        self._full: dict[tuple[str, str], list[Told]] = {}
        for told in tale.trials:
            if told.condition == "full":
                self._full.setdefault((told.agent, name_of(told.unit)), []).append(told)

    async def write(self, store: Store) -> None:
        """Write the run, then its trials, many at once."""
        async with StoreRecorder(store, self._tale.name) as recorder:
            run = recorder.stream(self._run_id)
            await run.append(*self._before())
            told = iter(self._tale.trials)

            async def write_some() -> None:
                for each in told:
                    started = self._started(each)
                    stream = recorder.attempt(self._trial_id(each), 1)
                    self._streams[each] = stream.stream_id
                    await stream.append(started, *events(each, started))

            async with anyio.create_task_group() as tasks:
                for _ in range(_STREAMS_AT_ONCE):
                    tasks.start_soon(write_some)
            await run.append(
                *self._judgements(),
                RunFinished(
                    run_id=self._run_id,
                    outcome="completed",
                    trials_finished=len(self._tale.trials),
                    trials_failed=0,
                    trials_blocked=0,
                    trials_left=0,
                ),
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

    def _judgements(self) -> Iterator[AnyEvent]:
        """What a judge said of the trials, after all of them."""
        for told, stream_id in self._streams.items():
            if told.flags is not None:
                verdicts = ((flag, "yes" if flag in told.flags else "no") for flag in JUDGED)
                yield QuestionJudged(
                    judged_stream_id=stream_id,
                    judge="judge",
                    prompt_digest="p",
                    flags=tuple(JudgedFlag(flag=flag, verdict=verdict, reason="") for flag, verdict in verdicts),
                )
        for agent, variant in self._tale.new_tasks:
            judged = [stream for told, stream in self._streams.items() if (told.agent, told.unit) == (agent, variant)]
            yield NewTaskJudged(
                variant_digest=self._digests[variant.variant_id],
                judged_stream_ids=tuple(sorted(judged)),
                verdict="confirmed",
                reason="",
                judge="judge",
                prompt_digest="p",
            )

    def _started(self, told: Told) -> TrialStarted:
        state, channel = prompt_state_and_channel(told.condition)
        percent = int(told.condition.removeprefix("inject_")) if told.budget else None
        is_variant = isinstance(told.unit, Variant)
        agent = self._tale.agents.get(told.agent, Agent(told.agent))
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
            model=agent.model,
            strategy=agent.strategy,
            persona=agent.persona,
            ask_notice="none",
            trial_index=told.index,
            seed=told.index,
            grader="told",
            limits_json="{}",
            parameters_json="{}",
            prompts_digest=channel.partition("_")[0],  # one template says what is injected, whenever it is
            oracle_scope=self._tale.scope,
            sandbox="none",
            role=told.role,
            variant_id=name_of(told.unit) if is_variant else None,
            variant_digest=self._digests[name_of(told.unit)] if is_variant else None,
            user_simulator="dump" if channel == "ask_user" else None,
            inject_percent=percent,
            budget_actions=told.budget,
            inject_after_action=max(1, (told.budget or 0) * percent // 100) if percent else None,
        )

    def _trial_id(self, told: Told) -> str:
        return short_digest([self._tale.name, told.agent, name_of(told.unit), told.condition, told.index])
