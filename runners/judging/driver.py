"""Runs a judge over a store: several judgements at a time, within a cost limit, leaving out what it has judged."""

from collections.abc import Callable
from functools import partial

import anyio.to_thread

from recorder.store import Store
from recorder.stream import Stream
from runners.afterwards import Counts, experiments_of, held
from runners.asking import ask
from runners.errors import ModelBoundaryError
from runners.judging.invocation import JudgeSettings, judge_each
from runners.judging.protocol import Judging, Subject
from runners.judging.stored import Stored, load_stored
from runners.judging.streams import StreamReader
from runners.judging.tally import Tally, of_agents
from runners.paid_work import Job, PaidWork


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
        self.work = PaidWork(
            concurrency=settings.concurrency,
            max_cost_usd=settings.max_cost_usd,
            on_change=lambda _: on_change(self),
        )
        self.tally = Tally(())

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
            left = sorted((each for each in subjects if not each.is_judged), key=_experiment_of)
            job = partial(self._job, stored, StreamReader(self._store, snapshot))
            await judge_each(self._store, left, _experiment_of, self._settings, self.work, job)

    def _job(self, stored: Stored, reader: StreamReader, subject: Subject, stream: Stream, counts: Counts) -> Job:
        """One judgement: what it cost, and its place in the counts."""

        async def judge() -> float | None:
            question = await anyio.to_thread.run_sync(self._judging.question, subject, stored, reader)
            caller = self._settings.caller(stream, subject.last.stream_id)
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
                self.work.note_failure(error)
            cost_usd = caller.total_usage.cost_usd
            counts.done += is_judged
            counts.failed += not is_judged
            self.tally.add(subject, cost_usd, is_judged=is_judged)
            return cost_usd

        return judge


def _experiment_of(subject: Subject) -> str:
    return subject.last.experiment_id
