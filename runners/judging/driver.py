"""Runs a judge over a store: several judgements at a time, within a cost limit, leaving out what it has judged."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from recorder.redaction import Redactor
from recorder.store import Store
from recorder.stream import Stream
from runners.afterwards import Counts, experiments_of, held, recorded_run
from runners.asking import ask
from runners.errors import ModelBoundaryError
from runners.judging.protocol import Judging, Subject
from runners.judging.stored import Stored, load_stored
from runners.judging.streams import StreamReader
from runners.judging.tally import Tally, of_agents
from runners.models.calls import ModelCaller
from runners.models.protocol import Model
from runners.models.retry import RetryPolicy
from runners.paid_work import Job, PaidWork


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
        self._work = PaidWork(
            concurrency=settings.concurrency,
            max_cost_usd=settings.max_cost_usd,
            on_change=lambda _: on_change(self),
        )
        self.tally = Tally(())

    @property
    def spent_usd(self) -> float:
        """What this invocation has paid so far."""
        return self._work.spent_usd

    @property
    def stop_reason(self) -> str | None:
        """Why no more judgements begin, if somebody or something stopped them."""
        return self._work.stop_reason

    @property
    def failures(self) -> list[str]:
        """What went wrong, one message for each judgement that failed."""
        return self._work.failures

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
        settings = self._settings
        async with recorded_run(
            self._store, experiment_id, settings.config, counts, redactor=settings.redactor
        ) as stream:
            jobs = (self._job(subject, stored, reader, stream, counts) for subject in subjects)
            await self._work.run(jobs)
            counts.outcome = self.stop_reason or ("failed" if counts.failed else "completed")

    def _job(self, subject: Subject, stored: Stored, reader: StreamReader, stream: Stream, counts: Counts) -> Job:
        """One judgement: what it cost, and its place in the counts."""
        settings = self._settings

        async def judge() -> float | None:
            question = await anyio.to_thread.run_sync(self._judging.question, subject, stored, reader)
            caller = ModelCaller(
                model=settings.model,
                recording=stream,
                role="judge",
                thread_id=f"judge-{subject.last.stream_id}",
                parameters=settings.parameters,
                retry=settings.retry,
                request_timeout_s=settings.request_timeout_s,
            )
            is_judged = False
            try:
                await ask(
                    caller,
                    self._judging.template,
                    question,
                    self._judging.read,
                    wanted="verdict",
                    events=lambda verdict: [self._judging.event(subject, verdict)],
                )
                is_judged = True
            except ModelBoundaryError as error:
                self._work.note_failure(error)
            cost_usd = caller.total_usage.cost_usd
            counts.done += is_judged
            counts.failed += not is_judged
            self.tally.add(subject, cost_usd, is_judged=is_judged)
            return cost_usd

        return judge
