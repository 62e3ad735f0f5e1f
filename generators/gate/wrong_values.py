"""Finds what is wrong with a prompt that says a wrong value: the right one is left, or more than the value changed."""

from collections.abc import Iterator, Sequence

from lhaw_record.generators.prompts.diff import hunks
from lhaw_record.generators.prompts.occurrences import SearchablePrompt, remaining
from lhaw_record.generators.protocol import Removal
from lhaw_record.recorder.events.values import Segment, Variant
from lhaw_record.runners.base.text.normalization import normalize


def decoy_faults(before: SearchablePrompt, after: SearchablePrompt, removal: Removal) -> Iterator[tuple[str, str]]:
    """Yield a finding for each right value that is left, each decoy that is missing or right, and each other change."""
    yield from _told(before, after, removal.segments)
    yield from _decoys(before, after, removal.segments)
    yield from _other_changes(before, after, removal.segments, may_add=False)


def fault_findings(variant: Variant, original: str) -> Iterator[tuple[str, str]]:
    """Yield a finding for each way in which a request does not have exactly the fault that it is meant to have.

    Conflicting instructions give both values. Otherwise the request does not tell what the user means: a stale or
    unauthorised request says something else instead, and a follow-up only says that something is to change.
    """
    before, after = SearchablePrompt(original), SearchablePrompt(variant.prompt)
    if variant.fault != "conflicting_instructions":
        yield from _told(before, SearchablePrompt(f"{variant.prompt}\n\n{variant.follow_up or ''}"), variant.segments)
    if variant.fault != "underspecified_follow_up":
        yield from _decoys(before, after, variant.segments)
    for question in (each for expected in variant.expected_questions for each in expected.questions):
        for segment in variant.segments:
            if SearchablePrompt(question).occurrences(segment, before):
                yield "questions_keep_the_secret", f"{question!r} tells {segment.segment_id}"
    yield from _other_changes(before, after, variant.segments, may_add=True)


def _told(before: SearchablePrompt, after: SearchablePrompt, segments: Sequence[Segment]) -> Iterator[tuple[str, str]]:
    for segment_id, texts in remaining(before, after, segments).items():
        yield "value_is_gone", f"{texts[0]!r} of segment {segment_id} is still in the prompt"


def _decoys(
    before: SearchablePrompt, after: SearchablePrompt, segments: Sequence[Segment]
) -> Iterator[tuple[str, str]]:
    for segment in segments:
        name = f"the decoy {segment.decoy!r} of segment {segment.segment_id}"
        if segment.decoy is None or segment.decoy not in after.text:
            yield "decoy_is_there", f"{name} is not in the prompt"
        elif normalize(segment.decoy) == normalize(segment.value) or SearchablePrompt(segment.decoy).occurrences(
            segment, before
        ):
            yield "decoy_is_wrong", f"{name} is another notation of the right value"


def _other_changes(
    before: SearchablePrompt, after: SearchablePrompt, segments: Sequence[Segment], *, may_add: bool
) -> Iterator[tuple[str, str]]:
    places = [place for segment in segments for place in before.occurrences(segment)]
    for hunk in hunks(before.text, after.text):
        is_addition = hunk.start == hunk.end and may_add
        if not is_addition and not any(start <= hunk.start and hunk.end <= end for start, end in places):
            yield "nothing_else_changed", f"{before.text[hunk.start : hunk.end][:80]!r} became {hunk.new[:80]!r}"
