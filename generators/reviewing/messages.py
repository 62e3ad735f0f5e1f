"""The messages with which the page asks what to review, and says what was decided."""

from typing import Annotated, Literal

import msgspec

from lhaw_record.generators.reviewing.reviews import VariantOutcome
from lhaw_record.recorder.events import FailedCheck
from lhaw_record.recorder.events.judging import ReviewDecision
from lhaw_record.runners.runs.daemon.messages import ApiMessage

NoNegative = Annotated[float, msgspec.Meta(ge=0)]


class ReviewRequest(ApiMessage, frozen=True):
    """Which variants a reviewer wants to see: of one benchmark, or registered in one experiment. Null is all."""

    benchmark: str | None = None
    experiment: str | None = None


class Nothing(ApiMessage, frozen=True):
    """An empty object."""


class Listed(ApiMessage, frozen=True):
    """A variant to review, and the reviewer's own decision about it, if there is one."""

    variant_digest: str
    decision: ReviewDecision | None


class ReviewList(ApiMessage, frozen=True):
    """The variants that a reviewer may decide about, in the order that is the same for all reviewers."""

    variants: tuple[Listed, ...]


class ComparisonRequest(ApiMessage, frozen=True):
    """A variant to compare with its full prompt, or a prompt that the reviewer would write in its place."""

    variant_digest: str
    prompt: str | None = None


class Piece(ApiMessage, frozen=True):
    """A piece of text from one or both prompts. ``segment`` is the number of the segment whose value it belongs to."""

    kind: Literal["same", "removed", "added"]
    text: str
    segment: int | None = None


class RemovedSegment(ApiMessage, frozen=True):
    """A segment that the variant lacks, with the wrong value in its place, if it has a decoy."""

    dimension: str
    subdimension: str
    value: str
    decoy: str | None


class Own(ApiMessage, frozen=True):
    """The reviewer's decision about a variant that counts."""

    decision: ReviewDecision
    reason: str | None
    note: str | None


class Comparison(ApiMessage, frozen=True):
    """What a reviewer sees of a variant.

    ``pieces`` are both prompts in one, ``unjudged`` says why the gate's rules cannot judge the variant, ``judged`` who
    judged it and what nobody did (empty for a prompt in its place), and ``own`` is the reviewer's own decision.
    """

    variant_digest: str
    task_id: str
    kind: str
    prompt: str
    changes_environment: bool
    pieces: tuple[Piece, ...]
    segments: tuple[RemovedSegment, ...]
    questions: tuple[str, ...]
    findings: tuple[FailedCheck, ...]
    unjudged: str
    judged: str
    outcomes: tuple[VariantOutcome, ...]
    own: Own | None


class DecisionRequest(ApiMessage, frozen=True):
    """A decision about a variant.

    ``reason`` is one of those in docs/selection.md, ``prompt`` what the reviewer wrote in place of the variant,
    ``shown_s`` how long the variant was on the screen, in seconds, and ``replaces`` the decision that the reviewer saw
    as the one that counted.
    """

    variant_digest: str
    decision: ReviewDecision
    reason: str | None = None
    note: str | None = None
    prompt: str | None = None
    shown_s: NoNegative | None = None
    replaces: ReviewDecision | None = None
