"""Runs a judge over a store: several judgements at a time, within a cost limit, leaving out what it has judged."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from recorder.redaction import Redactor
from recorder.store import Store
from recorder.stream import Stream
from runners.errors import ModelBoundaryError, ungrouped
from runners.judging.afterwards import Counts, experiments_of, held, recorded_run
from runners.judging.asking import judge
from runners.judging.interrupts import interruptibly
from runners.judging.protocol import Judging, Subject
from runners.judging.stored import Stored, load_stored
from runners.judging.streams import StreamReader
from runners.judging.tally import Tally, of_agents
from runners.models.calls import ModelCaller
from runners.models.protocol import Model
from runners.models.retry import RetryPolicy


class JudgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which trials are judged, by what, and what it may take. ``max_cost_usd`` bounds one invocation."""

    model: Model
    parameters: Mapping[str, Any]
    config: Mapping[str, Any]
    redactor: Redactor
    experiment_id: str | None = None
    agents: tuple[str, ...] = ()
    concurrency: int = 4
    max_cost_usd: float | None = None
    retry: RetryPolicy = RetryPolicy()
    request_timeout_s: float = 600.0


class Driver:
    """One invocation of a judge.

    Args:
        store: A store made for writing.
        judging: What is judged and how.
        settings: Which trials, and what it may take.
        on_change: Called with this driver after every judgement.
    """

    def __init__(
        self,
        store: Store,
        judging: Judging,
        settings: JudgeSettings,
        on_change: Callable[["Driver"], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._judging = judging
        self._settings = settings
        self._on_change = on_change
        self._largest_cost_usd: float | None = None
        self._running = 0
        self.tally = Tally(())
        self.spent_usd = 0.0
        self.stop_reason: str | None = None
        self.failures: list[str] = []

    def stop(self, reason: str = "interrupted") -> bool:
        """Begin no more judgements; returns whether that is new."""
        is_new = self.stop_reason is None
        self.stop_reason = self.stop_reason or reason
        return is_new

    async def run(self) -> None:
        """Judge what is not judged yet. The first interrupt lets running judgements end, the second stops them.

        Raises:
            ExperimentError: A named experiment or agent is not there.
            StoreError: Somebody is running one of the experiments.
            RecordingFailed: An event could not be made durable.
        """
        chosen = self._settings.experiment_id
        with held(self._store, experiments_of(self._store, chosen)) as snapshot:
            stored = await anyio.to_thread.run_sync(load_stored, snapshot, chosen)
            subjects = of_agents(self._judging.subjects(stored), self._settings.agents)
            self.tally = Tally(subjects)
            left = [subject for subject in subjects if not subject.is_judged]
            reader = StreamReader(self._store, snapshot)
            for experiment_id in sorted({subject.last.experiment_id for subject in left}):
                if self.stop_reason is None:
                    here = [subject for subject in left if subject.last.experiment_id == experiment_id]
                    await self._run_one(experiment_id, here, stored, reader)

    async def _run_one(
        self, experiment_id: str, subjects: Sequence[Subject], stored: Stored, reader: StreamReader
    ) -> None:
        """Judge the subjects of one experiment, in a stream of its own."""
        counts = Counts(len(subjects))
        pending = deque(subjects)
        settings = self._settings

        async def judge_next(stream: Stream) -> None:
            subject = pending.popleft()
            self._running += 1
            try:
                question = await anyio.to_thread.run_sync(self._judging.question, subject, stored, reader)
                await self._judge(subject, question, stream, counts)
            finally:
                self._running -= 1

        async def work(stream: Stream) -> None:
            while pending and self._may_start():
                await judge_next(stream)

        async with recorded_run(
            self._store, experiment_id, settings.config, counts, redactor=settings.redactor
        ) as stream:

            async def all_of_it() -> None:
                if settings.max_cost_usd is not None and self._largest_cost_usd is None:
                    await judge_next(stream)  # what one costs is known before several begin
                with ungrouped():
                    async with anyio.create_task_group() as tasks:
                        for _ in range(settings.concurrency):
                            tasks.start_soon(work, stream)

            await interruptibly(all_of_it, self.stop)
            counts.outcome = self.stop_reason or ("failed" if counts.failed else "completed")

    async def _judge(self, subject: Subject, question: str, stream: Stream, counts: Counts) -> None:
        settings = self._settings
        caller = ModelCaller(
            model=settings.model,
            recording=stream,
            role="judge",
            thread_id=f"judge-{subject.last.stream_id}",
            parameters=settings.parameters,
            retry=settings.retry,
            request_timeout_s=settings.request_timeout_s,
        )
        try:
            await judge(self._judging, subject, question, caller, stream)
        except ModelBoundaryError as error:
            self.failures.append(str(error))
            if error.kind == "authentication":  # every other call would end the same way
                self.stop("failed")
            self._count(subject, caller.total_usage.cost_usd, counts, is_judged=False)
        else:
            self._count(subject, caller.total_usage.cost_usd, counts, is_judged=True)

    def _count(self, subject: Subject, cost_usd: float | None, counts: Counts, *, is_judged: bool) -> None:
        counts.done += is_judged
        counts.failed += not is_judged
        self.tally.add(subject, cost_usd, is_judged=is_judged)
        self.spent_usd += cost_usd or 0.0
        self._largest_cost_usd = max(self._largest_cost_usd or 0.0, cost_usd or 0.0)
        self._on_change(self)

    def _may_start(self) -> bool:
        """Whether one more judgement fits: nobody stopped the run, and the money reaches for it and those running."""
        limit = self._settings.max_cost_usd
        if limit is not None and self.stop_reason is None:
            reserved = (self._running + 1) * (self._largest_cost_usd or 0.0)
            if self.spent_usd >= limit or self.spent_usd + reserved > limit:
                self.stop("cost_limit")
        return self.stop_reason is None
