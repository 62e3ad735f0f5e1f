"""Variants without a model: the segments and passages that a person wrote with a task."""

from collections.abc import Sequence

from lhaw_record.generators.errors import RewritingFailed
from lhaw_record.generators.prompts.occurrences import Span, replaced
from lhaw_record.generators.protocol import (
    Extraction,
    Grounding,
    Removal,
    Rewriting,
    SourceTask,
    WrittenPassage,
    WrittenSegment,
)
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment
from lhaw_record.runners.models.calls import ModelCaller

WRITTEN = "written"
"""The recorded name of this extractor and this rewriter."""


class WrittenExtractor:
    """Returns the hand-written segments of one task. Implements :class:`lhaw_record.generators.protocol.Extractor`."""

    name = WRITTEN

    def __init__(self, source: SourceTask) -> None:
        self.digest = digest([WRITTEN, [each.segment for each in source.written]])

    async def extract(self, source: SourceTask, grounding: Grounding, caller: ModelCaller | None = None) -> Extraction:
        return Extraction(segments=tuple(each.segment for each in source.written))


class WrittenRewriter:
    """Replaces passages of one task's prompt as its author wrote. Implements
    :class:`lhaw_record.generators.protocol.Rewriter`.
    """

    name = WRITTEN

    def __init__(self, source: SourceTask) -> None:
        self._prompt = source.task.prompt
        self._written = {_identity(each.segment): each for each in source.written}
        self.digest = digest([WRITTEN, source.written])

    async def rewrite(
        self,
        source: SourceTask,
        removal: Removal,
        caller: ModelCaller | None = None,
        problems: Sequence[str] = (),
    ) -> Rewriting:
        """Return the prompt with the written passages. The result is deterministic, so a second attempt is refused."""
        if problems:
            raise RewritingFailed(f"the written prompt has problems: {'; '.join(problems)}")
        return self.rewriting(removal)

    def is_written(self, removal: Removal) -> bool:
        """Return whether somebody wrote what this removal needs."""
        try:
            self.rewriting(removal)
        except RewritingFailed:
            return False
        return True

    def rewriting(self, removal: Removal) -> Rewriting:
        written = self._segments(removal)
        return Rewriting(
            prompt=replaced(self._prompt, _changes(self._prompt, written, removal)),
            expected_questions=tuple(
                ExpectedQuestions(segment_id=each.segment.segment_id, questions=each.questions) for each in written
            ),
            failure_mode=" ".join(each.failure_mode for each in written),
        )

    def passages(self, removal: Removal) -> tuple[str, ...]:
        """Return the passages that the author declared to belong to the removed segments."""
        return tuple(passage.text for each in self._segments(removal) for passage in each.passages)

    def _segments(self, removal: Removal) -> list[WrittenSegment]:
        unknown = [each.segment_id for each in removal.segments if _identity(each) not in self._written]
        if unknown:
            raise RewritingFailed(f"nobody wrote how to remove {unknown[0]}")
        return [self._written[_identity(each)] for each in removal.segments]


def _identity(segment: Segment) -> tuple[str, str]:
    return segment.segment_id, segment.value


def _changes(prompt: str, written: Sequence[WrittenSegment], removal: Removal) -> dict[Span, str]:
    """Return what each passage of the segments becomes, by its place in the prompt."""
    edits: dict[Span, str] = {}
    for each in written:
        passages = [passage for passage in each.passages if removal.severity in passage.replacements]
        if not passages:
            raise RewritingFailed(f"nobody wrote how to {removal.severity} {each.segment.segment_id}")
        for passage in passages:
            span, replacement = _span(prompt, passage), passage.replacements[removal.severity]
            for other, its_replacement in edits.items():
                overlaps = span[0] < other[1] and other[0] < span[1]
                if overlaps and (span, replacement) != (other, its_replacement):
                    raise RewritingFailed(f"two segments change the same words {passage.text!r}")
            edits[span] = replacement
    return edits


def _span(prompt: str, passage: WrittenPassage) -> Span:
    if prompt.count(passage.text) != 1:
        raise RewritingFailed(f"the written passage {passage.text!r} must occur once in the prompt")
    start = prompt.index(passage.text)
    return start, start + len(passage.text)
