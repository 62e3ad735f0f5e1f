"""What judges said about trials that were over: offline, by a model, never changing what was recorded."""

from typing import Literal

from recorder.events._base import Event
from recorder.values import Value

FlagVerdict = Literal["yes", "no", "not_applicable"]


class JudgedFlag(Value, frozen=True):
    """One of the failure-mode flags of LHAW, appendix J; ``not_applicable`` where its prerequisite fails."""

    flag: str
    verdict: FlagVerdict
    reason: str


class QuestionJudged(Event, frozen=True, tag="question_judged"):
    """The failure-mode flags of one attempt with questions, by one judge."""

    judged_stream_id: str
    judge: str
    prompt_digest: str
    flags: tuple[JudgedFlag, ...]
    judged_trial_id: str | None = None


class NewTaskJudged(Event, frozen=True, tag="new_task_judged"):
    """Whether the trials of a variant solved another task: the one that the prompt as given describes."""

    variant_digest: str
    judged_stream_ids: tuple[str, ...]
    verdict: Literal["confirmed", "rejected"]
    reason: str
    judge: str
    prompt_digest: str
