"""Run a judge over a store: several judgements at a time, within a cost limit, never judging twice."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
import msgspec

from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.redaction import Redactor
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.base.errors import ModelBoundaryError
from lhaw_record.runners.judging.stored_trials import StoredTrials, StreamReader, load_stored
from lhaw_record.runners.models.call_outcomes import RetryPolicy
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.llm_jobs.paid_work import Job, PaidWork
from lhaw_record.runners.models.llm_jobs.question import ask
from lhaw_record.runners.models.protocol import Model
from lhaw_record.runners.runs.supplementary_run import Counts, experiments_of, held, recorded_run

Thing = TypeVar("Thing")


class JudgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which trials are judged, by which model, and within which limits. ``max_cost_usd`` limits one invocation.

    ``retry`` and ``request_timeout_s`` are the limits of one request. ``say`` prints a line for the user.
    """

    model: Model
    parameters: Mapping[str, Any]
    kind: str
    config: Mapping[str, Any]
    redactor: Redactor
    retry: RetryPolicy
    request_timeout_s: float
    experiment_id: str | None = None
    agents: tuple[str, ...] = ()
    concurrency: int = 4
    max_cost_usd: float | None = None
    say: Callable[[str], None] = lambda _: None

    def caller(self, stream: Stream, about: str) -> ModelCaller:
        """Return a model caller that records its calls in ``stream``. ``about`` is the stream of the judged trial."""
        return ModelCaller(
            model=self.model,
            recording=stream,
            role="judge",
            thread_id=f"judge-{about}",
            parameters=self.parameters,
            retry=self.retry,
            request_timeout_s=self.request_timeout_s,
        )


async def judge_each(
    store: Store,
    things: Iterable[Thing],
    experiment_of: Callable[[Thing], str],
    settings: JudgeSettings,
    work: PaidWork,
    job: Callable[[Thing, Stream, Counts], Job],
) -> None:
    """Judge every given thing, in one recorded run per experiment, until the work is stopped."""
    by_experiment: dict[str, list[Thing]] = {}
    for thing in things:
        by_experiment.setdefault(experiment_of(thing), []).append(thing)
    for experiment_id, chosen in by_experiment.items():
        if work.stop_reason is not None:
            return
        counts = Counts(len(chosen))
        async with recorded_run(
            store, experiment_id, settings.kind, settings.config, counts, redactor=settings.redactor
        ) as stream:
            await work.run(job(thing, stream, counts) for thing in chosen)
            counts.outcome = work.stop_reason or ("failed" if counts.failed else "completed")


class Driver:
    """One invocation of a judge.

    Args:
        store: A store opened for writing.
        judging: What is judged and how.
        settings: The choice of trials, the model and the limits.
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
            say=settings.say,
        )
        self.tally = Tally(())

    async def run(self) -> None:
        """Judge everything that is not judged yet.

        The first interrupt lets open requests end, and the second one stops them.
        """
        chosen = self._settings.experiment_id
        with held(self._store, experiments_of(self._store, chosen)) as snapshot:
            stored = await anyio.to_thread.run_sync(load_stored, snapshot, chosen)
            subjects = of_agents(self._judging.subjects(stored), self._settings.agents)
            self.tally = Tally(subjects)
            left = sorted((each for each in subjects if not each.is_judged), key=_experiment_of)
            job = partial(self._job, stored, StreamReader(self._store, snapshot))
            await judge_each(self._store, left, _experiment_of, self._settings, self.work, job)

    def _job(self, stored: StoredTrials, reader: StreamReader, subject: Subject, stream: Stream, counts: Counts) -> Job:
        """Return a job that judges one subject, counts the outcome, and returns the cost in US dollars."""

        async def judge() -> float | None:
            question = await anyio.to_thread.run_sync(self._judging.question, subject, stored, reader)
            caller = self._settings.caller(stream, subject.last.stream_id)
            has_failed = False
            try:
                await ask(
                    caller,
                    self._judging.template,
                    question,
                    self._judging.read,
                    wanted="verdict",
                    form=self._judging.form,
                    events=lambda verdict: [self._judging.event(subject, verdict)],
                )
                is_judged = True
            except ModelBoundaryError as error:
                is_judged, has_failed = False, self.work.note_failure(error)
            cost_usd = caller.total_usage.cost_usd
            self.work.unknown_cost_calls += caller.unknown_cost_calls
            counts.done += is_judged
            counts.failed += has_failed
            self.tally.add(subject, cost_usd, is_judged=is_judged, has_failed=has_failed)
            return cost_usd

        return judge


def _experiment_of(subject: Subject) -> str:
    return subject.last.experiment_id
