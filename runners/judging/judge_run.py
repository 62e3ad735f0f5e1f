"""One run of a judge over a store: several judgements at a time, within a cost limit, never judging twice."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import anyio.to_thread
import msgspec

from lhaw_record.recorder.events import AnyEvent
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.redaction import Redactor
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.base.errors import ExperimentError, ModelBoundaryError
from lhaw_record.runners.judging.stored_trials import StoredTrial, StoredTrials, StreamReader, load_stored
from lhaw_record.runners.models.call_outcomes import RetryPolicy
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.llm_jobs.paid_work import Job, PaidWork
from lhaw_record.runners.models.llm_jobs.prompt_template import PromptTemplate
from lhaw_record.runners.models.llm_jobs.question import ask
from lhaw_record.runners.models.protocol import Model
from lhaw_record.runners.models.reply_forms import ReplyForm
from lhaw_record.runners.runs.run_record import WorkCounts, experiments_of, held, recorded_run

LAYOUT = 1
"""Part of every prompt digest. Increase it when a change in this folder changes what a judge sees."""
RecordedJob = Callable[[Stream, WorkCounts], Job]
"""Makes a job that records its results in a stream and counts its outcome."""
TALLY_COLUMNS = (
    "experiment_id",
    "agent",
    "condition",
    "found",
    "judged_before",
    "judged",
    "failed",
    "left",
    "cost_usd",
)


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What one judgement is about: valid trials of one agent. It is recorded in the experiment of the last trial."""

    trials: tuple[StoredTrial, ...]
    is_judged: bool

    @property
    def last(self) -> StoredTrial:
        return self.trials[-1]


class Judging(Protocol):
    """A kind of judging.

    ``kind`` is its name on the command line. ``prompt_digest`` covers everything that decides what the judge sees and
    how it answers. ``form`` is the form of its reply.
    """

    kind: str
    prompt_digest: str
    template: PromptTemplate
    form: ReplyForm

    def subjects(self, stored: StoredTrials) -> Sequence[Subject]:
        """Return all subjects, including those that this judge has already judged with this prompt."""
        ...

    def question(self, subject: Subject, stored: StoredTrials, reader: StreamReader) -> str:
        """Return the user prompt. Blocks: it reads the store."""
        ...

    def read(self, reply: str) -> Any:
        """Return the verdict in a reply.

        Raises:
            UnusableReply: The reply does not contain a verdict.
        """
        ...

    def event(self, subject: Subject, verdict: Any) -> AnyEvent:
        """Return the event that records a verdict."""
        ...


def plain_words(error: msgspec.ValidationError) -> str:
    return str(error).replace("`", "'")


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a run that judges or grades is recorded, and whether it is about one experiment or, with None, about all."""

    kind: str
    config: Mapping[str, Any]
    redactor: Redactor | None = None
    experiment_id: str | None = None


class JudgeSettings(RunSettings, frozen=True, kw_only=True):
    """Which trials are judged, by which model, and within which limits. ``max_cost_usd`` limits one invocation.

    ``retry`` and ``request_timeout_s`` are the limits of one request. ``say`` prints a line for the user.
    """

    model: Model
    parameters: Mapping[str, Any]
    retry: RetryPolicy
    request_timeout_s: float
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
    settings: RunSettings,
    work: PaidWork,
    choose: Callable[[StoredTrials, StreamReader], Iterable[tuple[str, RecordedJob]]],
) -> None:
    """Do every chosen job, in one recorded run per experiment, until the work is stopped.

    The first interrupt lets open requests end, and the second one stops them.
    """
    with held(store, experiments_of(store, settings.experiment_id)) as snapshot:
        stored = await anyio.to_thread.run_sync(load_stored, snapshot, settings.experiment_id)
        by_experiment: dict[str, list[RecordedJob]] = {}
        for experiment_id, job in choose(stored, StreamReader(store, snapshot)):
            by_experiment.setdefault(experiment_id, []).append(job)
        for experiment_id, jobs in by_experiment.items():
            if work.stop_reason is not None:
                return
            counts = WorkCounts(len(jobs))
            async with recorded_run(
                store, experiment_id, settings.kind, settings.config, counts, redactor=settings.redactor
            ) as stream:
                await work.run(job(stream, counts) for job in jobs)
                counts.outcome = work.stop_reason or ("failed" if counts.failed and work.failures else "completed")


class JudgeRun:
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
        on_change: Callable[["JudgeRun"], None] = lambda _: None,
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
        self.tally = JudgingTally(())

    async def run(self) -> None:
        """Judge everything that is not judged yet."""
        await judge_each(self._store, self._settings, self.work, self._jobs)

    def _jobs(self, stored: StoredTrials, reader: StreamReader) -> Iterator[tuple[str, RecordedJob]]:
        subjects = of_agents(self._judging.subjects(stored), self._settings.agents)
        self.tally = JudgingTally(subjects)
        for subject in sorted(subjects, key=lambda each: each.last.experiment_id):
            if not subject.is_judged:
                yield subject.last.experiment_id, partial(self._job, stored, reader, subject)

    def _job(
        self, stored: StoredTrials, reader: StreamReader, subject: Subject, stream: Stream, counts: WorkCounts
    ) -> Job:
        """Return a job that judges one subject, counts the outcome, and returns the cost in US dollars."""

        async def judge() -> float | None:
            question = await anyio.to_thread.run_sync(self._judging.question, subject, stored, reader)
            caller = self._settings.caller(stream, subject.last.stream_id)
            is_judged = has_failed = False
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
                has_failed = self.work.note_failure(error)
            cost_usd = caller.total_usage.cost_usd
            self.work.unknown_cost_calls += caller.unknown_cost_calls
            counts.done += is_judged
            counts.failed += has_failed
            self.tally.add(subject, cost_usd, is_judged=is_judged, has_failed=has_failed)
            return cost_usd

        return judge


class _GroupCounts(msgspec.Struct):
    found: int = 0
    judged_before: int = 0
    judged: int = 0
    failed: int = 0
    cost_usd: float | None = 0.0


class JudgingTally:
    """Counts the subjects of one invocation.

    Args:
        subjects: Everything there is to judge.
    """

    def __init__(self, subjects: Iterable[Subject]) -> None:
        self._groups: dict[tuple[str, str, str], _GroupCounts] = {}
        for subject in subjects:
            group = self._group(subject)
            group.found += 1
            group.judged_before += subject.is_judged

    def add(self, subject: Subject, cost_usd: float | None, *, is_judged: bool, has_failed: bool) -> None:
        """Count one judgement, failed or interrupted ones too. An unknown price makes the group's cost unknown."""
        group = self._group(subject)
        group.judged += is_judged
        group.failed += has_failed
        group.cost_usd = None if group.cost_usd is None or cost_usd is None else group.cost_usd + cost_usd

    @property
    def tried(self) -> int:
        """The number of subjects that were judged or failed in this invocation."""
        return sum(group.judged + group.failed for group in self._groups.values())

    @property
    def to_do(self) -> int:
        """The number of subjects that were not judged before this invocation."""
        return sum(group.found - group.judged_before for group in self._groups.values())

    @property
    def left(self) -> int:
        """The number of subjects without a verdict."""
        return sum(group.found - group.judged_before - group.judged for group in self._groups.values())

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                **dict(zip(TALLY_COLUMNS, key, strict=False)),
                **msgspec.structs.asdict(group),
                "left": group.found - group.judged_before - group.judged,
            }
            for key, group in sorted(self._groups.items())
        ]

    def _group(self, subject: Subject) -> _GroupCounts:
        started = subject.last.started
        return self._groups.setdefault((subject.last.experiment_id, started.agent, started.condition), _GroupCounts())


def of_agents(subjects: Iterable[Subject], agents: tuple[str, ...]) -> list[Subject]:
    found = list(subjects)
    known = sorted({subject.last.started.agent for subject in found})
    for name in agents:
        if name not in known:
            raise ExperimentError(f"agent {name!r} has nothing to judge; these have: {', '.join(known) or 'none'}")
    return [subject for subject in found if not agents or subject.last.started.agent in agents]
