"""Verdicts of models and people about trials, variants, and questions with their answers. They change no record."""

from typing import Literal

from lhaw_record.recorder.events.values import Event, Value

FlagVerdict = Literal["yes", "no", "not_applicable"]
Asking = Literal["question", "permission", "offer", "none"]
"""What a turn asks for: a decision or a fact, leave to do the work, only whether to do more than that, or nothing."""


class ExchangeReading(Value, frozen=True):
    """What one judge reads in a question and its answer: what is asked for, what is given, and whether that is right.

    ``judge`` is ``rules/N``, ``MODEL#DIGEST`` with the digest of the model's prompt, or a person's name. ``asks_for``
    and ``gives`` hold ids of removed segments; a value counts as given in whatever words, unit or format it comes.
    ``request`` says whether the question asks for segments, for everything at once, or for something that was not
    removed. ``withheld`` holds the segments that should have been given. ``verdict`` is ``leaked`` if a question for
    everything got segments, or a chained segment came before its parent; else ``volunteered`` if a segment was given
    that was not asked for; else ``withheld`` if one is missing; else ``right``. It is None if there was no answer.
    ``doubts`` names what else could be read, as ``KIND:SEGMENT`` (asked, not_asked, given, not_given; trace: the answer
    has a part of its value), ``unexplained`` (it says more than the prompt and what it gives explain),
    ``beside`` (next to a value it says something of the prompt that was not asked about) or ``unstructured``.
    """

    judge: str
    request: Literal["segments", "something_else", "everything"]
    asks_for: tuple[str, ...]
    gives: tuple[str, ...]
    withheld: tuple[str, ...]
    verdict: Literal["right", "withheld", "volunteered", "leaked"] | None
    doubts: tuple[str, ...] = ()


class EndingVerdict(Value, frozen=True):
    """What a turn asks for by one judge: ``rules/N``, or ``MODEL#DIGEST`` with the digest of the model's prompt."""

    judge: str
    asks: Asking


class EndingJudged(Event, frozen=True, tag="ending_judged"):
    """An agent whose user answers questions in prose has ended its turn with action ``action_index``.

    ``asks`` is what the turn asks for by the judge that decides, and ``verdicts`` are those of all judges. A question
    for what was removed, in the words of a request for permission, is a ``question``. ``is_capped`` says that the user
    has no turn left to answer with.
    """

    action_index: int
    asks: Asking
    verdicts: tuple[EndingVerdict, ...]
    is_capped: bool = False


class JudgedFlag(Value, frozen=True):
    """A failure-mode flag from LHAW, appendix J, ``not_applicable`` if its prerequisite is not met."""

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
    """A judge decided whether a variant's trials solved a different task, the one that its prompt describes."""

    variant_digest: str
    judged_stream_ids: tuple[str, ...]
    verdict: Literal["confirmed", "rejected"]
    reason: str
    judge: str
    prompt_digest: str


ReviewDecision = Literal["accepted", "rejected", "edited"]


class VariantReviewed(Event, frozen=True, tag="variant_reviewed"):
    """A person read a variant and decided whether it may be used. A reviewer's last decision about a variant counts.

    ``reason`` says why it was rejected or edited, as a name from docs/selection.md. ``edited_digest`` is the variant
    that the reviewer wrote to replace it. ``shown_s`` is how long the variant was on the reviewer's screen, in seconds.
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
    """A person excluded attempts from all tables. The last event about an attempt counts.

    ``stream_ids`` are the attempts. If ``is_owed`` is true, the experiment's next run attempts their trials again. If
    ``is_undone`` is true, the attempts are included again.
    """

    stream_ids: tuple[str, ...]
    reason: str
    is_owed: bool = False
    is_undone: bool = False


NoteCause = Literal["agent", "task", "user_simulator", "grader", "infrastructure"]


class TrialsNoted(Event, frozen=True, tag="trials_noted"):
    """A person wrote a note about attempts, which changes no number. Each author's last note on an attempt counts.

    ``cause`` is what the author blames for the failure. If ``is_undone`` is true, the author withdrew the note.
    """

    stream_ids: tuple[str, ...]
    author: str
    note: str
    cause: NoteCause | None = None
    is_undone: bool = False
