"""Grade the claims of stored final answers again, with the matcher or with a judge.

A claim's grade depends only on the claim, the final answer and the full prompt. All three are recorded, so trials of
any origin can be graded without the rows that they came from. The judge scores the claims of a trial one after another
and records each score durably, so an interrupted trial continues with its first unscored claim.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from lhaw_record.recorder.events import CheckpointScored
from lhaw_record.recorder.events.values import Checkpoint, Task
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.base.errors import GraderError, ModelBoundaryError, NothingUsable
from lhaw_record.runners.environments.benchmarks.mcp_atlas.claims import (
    MATCHER,
    PASS_COVERAGE,
    ClaimScore,
    coverage_of,
    match_left,
)
from lhaw_record.runners.environments.benchmarks.mcp_atlas.judge import VERDICT_FORM, ClaimJudge, scores_unasked
from lhaw_record.runners.environments.grading.confined_grading import read_apart
from lhaw_record.runners.environments.grading.deliverables import Deliverables
from lhaw_record.runners.environments.grading.grade import CheckpointResult, scored
from lhaw_record.runners.judging.judge_run import JudgeSettings, RecordedJob, judge_each
from lhaw_record.runners.judging.stored_graders import GradingTally, NotGradable, ReadEvents, RegradingResult, differing
from lhaw_record.runners.judging.stored_trials import StoredTrial, StoredTrials, StreamReader, load_stored
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.llm_jobs.paid_work import Job, PaidWork
from lhaw_record.runners.models.llm_jobs.question import ask
from lhaw_record.runners.runs.run_record import WorkCounts, experiments_of


class StoredClaims:
    """What both graders of claims have in common.

    Args:
        grader: The identity of the grader.
    """

    benchmark = "mcp_atlas"

    def __init__(self, grader: str) -> None:
        self.grader = grader
        self.grading_id = f"regrade:{grader}"

    def check(self, trial: StoredTrial) -> None:
        if trial.finished.final_answer is None:
            raise NotGradable("its final answer is unknown", is_finding=False)

    def has_graded(self, trial: StoredTrial, done: Mapping[str, float]) -> bool:
        """Return whether this grader has scored every claim, at the end of the trial or later."""
        graders = {result.grader for result in trial.results.values()}
        return set(done) >= set(trial.results) or graders == {self.grader}

    def events(
        self, trial: StoredTrial, checkpoints: Sequence[Checkpoint], scores: Sequence[ClaimScore]
    ) -> tuple[CheckpointScored, ...]:
        results = [
            CheckpointResult(checkpoint_id=checkpoint.checkpoint_id, score=score.score, details=score.reason)
            for checkpoint, score in zip(checkpoints, scores, strict=True)
        ]
        return scored(results, checkpoints, self.grader, grading_id=self.grading_id, graded_stream_id=trial.stream_id)

    def regraded(
        self, trial: StoredTrial, events: Sequence[CheckpointScored], done: Mapping[str, float]
    ) -> RegradingResult:
        """Return the new results of a trial, given the new events and the scores of earlier invocations."""
        scores = {**done, **{event.checkpoint_id: event.score for event in events}}
        is_whole = set(scores) >= set(trial.results)
        return RegradingResult(
            trial=trial,
            events=tuple(events),
            differing_results=differing(trial, events),
            is_success_changed=(coverage_of(list(scores.values())) >= PASS_COVERAGE) != trial.finished.is_success
            if is_whole
            else None,
        )


class StoredMatcher(StoredClaims):
    """The deterministic matcher of this version."""

    def __init__(self) -> None:
        super().__init__(MATCHER)

    def regrade(self, trial: StoredTrial, task: Task, read: ReadEvents) -> RegradingResult:
        self.check(trial)
        left = Deliverables(None, trial.finished.final_answer or "")
        claims = [checkpoint.label for checkpoint in task.checkpoints]
        try:
            scores, _ = read_apart(match_left, left, claims, task.prompt, returns=list[ClaimScore])
        except GraderError as error:
            raise NotGradable(str(error)) from error
        return self.regraded(trial, self.events(trial, task.checkpoints, scores), {})


class JudgedRegrading:
    """One invocation of the judge.

    Args:
        store: The store. It must be open for writing if the judge is run.
        judge: The judge's prompt template, and the name that is recorded with its results.
        settings: The model, the choice of trials, and the limits.
        on_change: Called after every trial with the number of tried trials and the total.
    """

    def __init__(
        self,
        store: Store,
        judge: ClaimJudge,
        settings: JudgeSettings,
        on_change: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self._claims = StoredClaims(judge.name)
        self.ledger = GradingTally({self._claims.benchmark: self._claims}, "judge")
        self.claims_left = 0
        """The number of claims to judge that do not have a score yet."""
        self._store = store
        self._judge = judge
        self._settings = settings
        self._total = 0
        self.work = PaidWork(
            concurrency=settings.concurrency,
            max_cost_usd=settings.max_cost_usd,
            on_change=lambda work: on_change(work.done, self._total),
            say=settings.say,
        )

    def look(self) -> None:
        """Count what there is to judge, without asking the model."""
        chosen = self._settings.experiment_id
        experiments_of(self._store, chosen)
        self._owed(load_stored(read_snapshot(self._store.root), chosen))

    async def run(self) -> None:
        """Judge every claim that has no score yet."""
        await judge_each(self._store, self._settings, self.work, self._jobs)

    def _jobs(self, stored: StoredTrials, _: StreamReader) -> list[tuple[str, RecordedJob]]:
        return [(trial.experiment_id, partial(self._job, stored, trial)) for trial in self._owed(stored)]

    def _owed(self, stored: StoredTrials) -> list[StoredTrial]:
        owed = self.ledger.owed(stored)
        self._total = len(owed)
        self.claims_left = sum(len(trial.results) - len(self._done(trial, stored)) for trial in owed)
        return owed

    def _done(self, trial: StoredTrial, stored: StoredTrials) -> Mapping[str, float]:
        return stored.graded.get((trial.stream_id, self._claims.grading_id), {})

    def _job(self, stored: StoredTrials, trial: StoredTrial, stream: Stream, counts: WorkCounts) -> Job:
        """Return a job that judges one trial, counts the outcome, and returns the cost in US dollars."""
        done = self._done(trial, stored)
        task = stored.tasks[trial.started.task_digest]
        wanted = [checkpoint for checkpoint in task.checkpoints if checkpoint.checkpoint_id not in done]

        async def judge() -> float | None:
            caller = self._settings.caller(stream, trial.stream_id)
            events = await self._score(trial, task, wanted, caller)
            regraded = self._claims.regraded(trial, events, done)
            cost_usd = caller.total_usage.cost_usd
            self.work.unknown_cost_calls += caller.unknown_cost_calls
            self.ledger.add(regraded)
            self.ledger.pay(trial, cost_usd)
            self.claims_left -= len(events)
            is_whole = regraded.is_success_changed is not None
            counts.done += is_whole
            counts.failed += not is_whole
            return cost_usd

        return judge

    async def _score(
        self, trial: StoredTrial, task: Task, wanted: Sequence[Checkpoint], caller: ModelCaller
    ) -> list[CheckpointScored]:
        """Score claims and return the new events.

        Stops when no claim is left, or the model cannot be reached any more.
        """
        answer = trial.finished.final_answer or ""
        if (scores := scores_unasked([checkpoint.label for checkpoint in wanted], answer)) is not None:
            events = list(self._claims.events(trial, wanted, scores))
            await caller.recording.append(*events)
            return events
        recorded: list[CheckpointScored] = []
        for checkpoint in wanted:
            try:
                score = await ask(
                    caller,
                    self._judge,
                    self._judge.user(checkpoint.label, answer),
                    self._judge.read,
                    wanted="verdict",
                    form=VERDICT_FORM,
                    events=partial(self._events, trial, checkpoint),
                )
            except ModelBoundaryError as error:
                self.work.note_failure(error, f"{trial.started.task_id}, claim {checkpoint.checkpoint_id}")
                if not isinstance(error, NothingUsable):  # the next claim would fail to reach the model too
                    break
            else:
                recorded += self._events(trial, checkpoint, score)
        return recorded

    def _events(self, trial: StoredTrial, checkpoint: Checkpoint, score: ClaimScore) -> tuple[CheckpointScored, ...]:
        return self._claims.events(trial, [checkpoint], [score])
