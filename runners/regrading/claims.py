"""The graders of claims on stored final answers: the matcher by itself, and what the judge needs to know of a trial.

A claim's grade is a function of the claim, the final answer and the full prompt. All three are recorded, so that trials
of any origin can be graded, without the rows that they came from.
"""

from collections.abc import Mapping, Sequence

from recorder.events import CheckpointScored
from recorder.values import Checkpoint, Task
from runners.benchmarks.mcp_atlas.claims import MATCHER, PASS_COVERAGE, ClaimScore, coverage_of, match_left
from runners.benchmarks.protocol import CheckpointResult
from runners.deliverables import Deliverables
from runners.errors import GraderError
from runners.grading import read_apart, scored
from runners.judging.stored import StoredTrial
from runners.regrading.protocol import NotGradable, ReadEvents, Regraded, differing


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
        """Return quietly if a trial can be graded.

        Raises:
            NotGradable: Its final answer is unknown, as of some imports.
        """
        if trial.finished.final_answer is None:
            raise NotGradable("its final answer is unknown", is_finding=False)

    def has_graded(self, trial: StoredTrial, done: Mapping[str, float]) -> bool:
        """Return whether this grader has scored every claim, when the trial ended or later."""
        return set(done) >= set(trial.results) or self.graded_first(trial)

    def graded_first(self, trial: StoredTrial) -> bool:
        """Return whether the primary results are by this grader."""
        return {result.grader for result in trial.results.values()} == {self.grader}

    def events(
        self, trial: StoredTrial, checkpoints: Sequence[Checkpoint], scores: Sequence[ClaimScore]
    ) -> tuple[CheckpointScored, ...]:
        """Return what is recorded of some claims."""
        results = [
            CheckpointResult(checkpoint_id=checkpoint.checkpoint_id, score=score.score, details=score.reason)
            for checkpoint, score in zip(checkpoints, scores, strict=True)
        ]
        return scored(results, checkpoints, self.grader, grading_id=self.grading_id, graded_stream_id=trial.stream_id)

    def regraded(self, trial: StoredTrial, events: Sequence[CheckpointScored], done: Mapping[str, float]) -> Regraded:
        """Return what came of a trial, given its new results and those of earlier invocations."""
        scores = {**done, **{event.checkpoint_id: event.score for event in events}}
        is_whole = set(scores) >= set(trial.results)
        return Regraded(
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

    def regrade(self, trial: StoredTrial, task: Task, read: ReadEvents) -> Regraded:
        """Return the new results of a trial; see the protocol."""
        self.check(trial)
        left = Deliverables(None, trial.finished.final_answer or "")
        claims = [checkpoint.label for checkpoint in task.checkpoints]
        try:
            scores, _ = read_apart(match_left, left, claims, task.prompt, returns=list[ClaimScore])
        except GraderError as error:
            raise NotGradable(str(error)) from error
        return self.regraded(trial, self.events(trial, task.checkpoints, scores), {})
