"""Benchmark ``qa``: questions whose final answer is graded, from JSON Lines. No tools and no sandbox.

A row has an ``id``, a ``question``, and what a right answer has: one of ``answers``, which is found by rule, or all
``points``, which a matcher or a judge finds (``[grader]``). Its ``variants`` are as in a ``variants.toml``.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Checkpoint, Task, Variant
from lhaw_record.runners.base.errors import ExperimentError, GraderError
from lhaw_record.runners.base.text.normalization import normalize, whole
from lhaw_record.runners.environments.benchmarks.mcp_atlas.claims import ClaimScore, match_left
from lhaw_record.runners.environments.benchmarks.mcp_atlas.judge import ClaimJudge, scores_unasked
from lhaw_record.runners.environments.benchmarks.protocol import (
    AskJudge,
    Benchmark,
    CheckpointResult,
    Environment,
    EnvironmentSettings,
    Grade,
    ToolResult,
)
from lhaw_record.runners.environments.benchmarks.published import PublishedError, check_encodable, read_records
from lhaw_record.runners.environments.benchmarks.refusals import refuse_changed_environment
from lhaw_record.runners.environments.benchmarks.variants_file import VariantEntry, variants_of
from lhaw_record.runners.environments.grading.confined_grading import grade_apart
from lhaw_record.runners.environments.grading.deliverables import CheckpointNotMet, Deliverables
from lhaw_record.runners.experiment.tables import GraderSpec

_MATCHER = "qa/matcher-1"


class QaOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of ``[benchmark]``. ``rows`` are paths of JSON Lines files, relative to the experiment file."""

    rows: tuple[str, ...]


class QaRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question."""

    id: str
    question: str
    answers: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    domain: str | None = None
    variants: tuple[VariantEntry, ...] = ()

    def task(self) -> Task:
        labels = self.points or ("the answer",)
        checkpoints = [Checkpoint(checkpoint_id=f"c{number}", label=text) for number, text in enumerate(labels, 1)]
        return Task(
            benchmark=QaBenchmark.name,
            benchmark_version=QaBenchmark.version,
            task_id=self.id,
            prompt=self.question,
            checkpoints=tuple(checkpoints),
            environment_digest=digest(["qa", self.answers]),
            domain=self.domain,
        )


def open_qa(options: dict[str, Any], base: Path, grader: GraderSpec) -> "QaBenchmark":
    """Return the benchmark that an experiment file describes."""
    try:
        chosen = msgspec.convert(options, QaOptions)
    except msgspec.ValidationError as error:
        raise ExperimentError(f"key 'benchmark': {error}; qa has the key rows, a list of JSON Lines files") from error
    judge = None
    if grader.kind == "judge" and grader.judge is not None:
        judge = ClaimJudge(None, grader.judge.model, grader.judge.generation_parameters)
    paths = [base / each for each in chosen.rows]
    try:
        rows = [_row(place, record) for path in paths for place, record in read_records(path)]
    except PublishedError as error:
        raise ExperimentError(f"key 'benchmark.rows': {error}") from error
    benchmark = QaBenchmark(rows, judge)
    benchmark.files = tuple(paths)
    return benchmark


def _row(place: str, record: dict[str, Any]) -> QaRow:
    try:
        check_encodable(record)
        row = msgspec.convert(record, QaRow)
    except ValueError as error:
        raise PublishedError(f"{place}: {error}") from error
    if bool(row.answers) == bool(row.points) or not all(each.strip() for each in (*row.answers, *row.points)):
        raise PublishedError(f"{place}: a row needs either answers or points, and no text may be empty")
    return row


class QaBenchmark(Benchmark):
    """The questions of one or more files.

    Args:
        rows: The rows, in order.
        judge: The model that looks for points, or None for the matcher.
    """

    name = "qa"
    version = "1"
    ends_on_text = True

    def __init__(self, rows: Sequence[QaRow], judge: ClaimJudge | None) -> None:
        self._rows = {row.id: row for row in rows}
        if not rows or len(self._rows) < len(rows):
            twice = sorted({row.id for row in rows if [each.id for each in rows].count(row.id) > 1})
            problem = f"two rows have the id {twice[0]!r}" if twice else "there is no row"
            raise ExperimentError(f"key 'benchmark.rows': {problem}")
        self._tasks = [row.task() for row in rows]
        self._judge = judge
        self.grader = f"{_MATCHER}+{judge.name}" if judge else _MATCHER

    def tasks(self) -> Sequence[Task]:
        """Return a task for each row."""
        return self._tasks

    def variants(self) -> Sequence[Variant]:
        """Return the variants of all rows."""
        try:
            return [
                variant
                for row, task in zip(self._rows.values(), self._tasks, strict=True)
                for variant in variants_of(row.variants, task, f"row {row.id}", "the question")
            ]
        except PublishedError as error:
            raise ExperimentError(f"key 'benchmark.rows': {error}") from error

    def system_prompt(self) -> str:
        """Return what an agent is told: to answer."""
        return "Answer the user's request. Your last message is your answer."

    @asynccontextmanager
    async def open(
        self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None
    ) -> AsyncIterator["QaEnvironment"]:
        """Open nothing: there is no tool."""
        del settings
        refuse_changed_environment(variant, self.name)
        yield QaEnvironment(self._rows[task.task_id], self._judge)


class QaEnvironment(Environment):
    """A question without tools."""

    tools = ()

    def __init__(self, row: QaRow, judge: ClaimJudge | None) -> None:
        self._row, self._judge = row, judge

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Refuse every call."""
        del arguments
        return ToolResult(text=f"there is no tool {name}", is_error=True)

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Grade the final answer; a text of an agent is read in a child process."""
        row, task = self._row, self._row.task()
        if row.answers or self._judge is None:
            return await grade_apart(grade_row, Deliverables(None, final_answer), row, checkpoints=task.checkpoints)
        if (scores := scores_unasked(row.points, final_answer)) is not None:
            return _grade_of(task, scores)
        if ask_judge is None:
            raise GraderError("the judge has no model to ask; set [grader.judge]", kind="no_judge", is_retry_owed=False)
        return _grade_of(task, await self._judge.score(row.points, final_answer, ask_judge))


def grade_row(left: Deliverables, row: QaRow) -> Grade:
    """Grade an answer by rule; runs in the child."""
    if row.points:
        return _grade_of(row.task(), match_left(left, row.points, row.question))
    try:
        said = normalize(left.final_answer)
    except CheckpointNotMet as unmet:
        return _grade_of(row.task(), [ClaimScore(0.0, str(unmet))])
    named = [each for each in row.answers if whole(normalize(each)).search(said)]
    return _grade_of(row.task(), [ClaimScore(float(bool(named)), f"found {named}" if named else "not in the answer")])


def _grade_of(task: Task, scores: Sequence[ClaimScore]) -> Grade:
    """Return the grade: success if every point is there."""
    results = tuple(
        CheckpointResult(checkpoint_id=checkpoint.checkpoint_id, score=each.score, details=each.reason)
        for checkpoint, each in zip(task.checkpoints, scores, strict=True)
    )
    return Grade(results=results, is_success=all(each.score >= 1 for each in scores))
