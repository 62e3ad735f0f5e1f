"""Verdicts about finished trials and about variants, of models and of people. They never change what was recorded."""

from typing import Literal

from lhaw_record.recorder.events.values import Event, Value

FlagVerdict = Literal["yes", "no", "not_applicable"]


class JudgedFlag(Value, frozen=True):
    """One failure-mode flag from LHAW, appendix J. It is ``not_applicable`` if its prerequisite is not met."""

    flag: str
    verdict: FlagVerdict
    reason: str


class QuestionJudged(Event, frozen=True, tag="question_judged"):
    """A judge assigned failure-mode flags to an attempt that asked questions."""

    judged_stream_id: str
    judge: str
    prompt_digest: str
    flags: tuple[JudgedFlag, ...]
    judged_trial_id: str | None = None


class NewTaskJudged(Event, frozen=True, tag="new_task_judged"):
    """A judge decided whether a variant's trials solved a new task: the one its underspecified prompt describes."""

    variant_digest: str
    judged_stream_ids: tuple[str, ...]
    verdict: Literal["confirmed", "rejected"]
    reason: str
    judge: str
    prompt_digest: str


ReviewDecision = Literal["accepted", "rejected", "edited"]


class VariantReviewed(Event, frozen=True, tag="variant_reviewed"):
    """A person read a variant and decided whether it may be used. A reviewer's last decision about a variant counts.

    ``reason`` is why it was rejected or edited: a name that docs/selection.md lists. ``edited_digest`` is the variant
    that the reviewer wrote in its place. ``shown_s`` is how long the variant was on the reviewer's screen, in seconds.
    """

    benchmark: str
    task_id: str
    variant_id: str
    variant_digest: str
    reviewer: str
    decision: ReviewDecision
    reason: str | None = None
    note: str | None = None
    edited_digest: str | None = None
    shown_s: float | None = None


class TrialsDiscarded(Event, frozen=True, tag="trials_discarded"):
    """A person set attempts of trials aside: no table uses them. The last event about an attempt counts.

    ``stream_ids`` are the attempts. ``is_owed`` lets the experiment's next run attempt their trials again.
    ``is_undone`` takes them back in.
    """

    stream_ids: tuple[str, ...]
    reason: str
    is_owed: bool = False
    is_undone: bool = False


NoteCause = Literal["agent", "task", "user_simulator", "grader", "infrastructure"]


class TrialsNoted(Event, frozen=True, tag="trials_noted"):
    """A person wrote a note about attempts of trials. No number changes. Per author and attempt the last note counts.

    ``cause`` is what the person holds responsible for what went wrong. ``is_undone`` takes the author's note back.
    """

    stream_ids: tuple[str, ...]
    author: str
    note: str
    cause: NoteCause | None = None
    is_undone: bool = False
