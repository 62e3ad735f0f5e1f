"""``WrittenRewriter``: replaces passages of a prompt by the ones that a person wrote for each severity."""

from collections.abc import Sequence

from lhaw_record.generators.errors import RewritingFailed
from lhaw_record.generators.protocol import Removal, Rewriting, SourceTask, WrittenPassage, WrittenSegment
from lhaw_record.generators.rewriting.rules import NEEDS_A_REWRITER
from lhaw_record.generators.spans import Span, replaced
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import ExpectedQuestions
from lhaw_record.runners.models.calls import ModelCaller

NAME = "written"


class WrittenRewriter:
    """Removes the segments of one task as its author wrote it. Implements :class:`protocol.Rewriter`.

    Args:
        source: A task with hand-written segments.
    """

    name = NAME

    def __init__(self, source: SourceTask) -> None:
        self._prompt = source.task.prompt
        self._written = {each.segment.segment_id: each for each in source.written}
        self.digest = digest([NAME, source.written])

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
        """Return the prompt with the written passages."""
        written = [self._written[segment.segment_id] for segment in removal.segments]
        return Rewriting(
            prompt=replaced(self._prompt, _changes(self._prompt, written, removal)),
            expected_questions=tuple(
                ExpectedQuestions(segment_id=each.segment.segment_id, questions=each.questions) for each in written
            ),
            failure_mode=" ".join(each.failure_mode for each in written),
        )


def _changes(prompt: str, written: Sequence[WrittenSegment], removal: Removal) -> dict[Span, str]:
    """Return what each passage of the segments becomes, by its place in the prompt."""
    edits: dict[Span, str] = {}
    for each in written:
        passages = [passage for passage in each.passages if removal.severity in passage.replacements]
        if not passages:
            raise RewritingFailed(
                f"nobody wrote how to {removal.severity} {each.segment.segment_id}; {NEEDS_A_REWRITER}"
            )
        for passage in passages:
            span, replacement = _span(prompt, passage), passage.replacements[removal.severity]
            for other, its_replacement in edits.items():
                overlaps = span[0] < other[1] and other[0] < span[1]
                if overlaps and (span, replacement) != (other, its_replacement):
                    raise RewritingFailed(f"two segments change the same words {passage.text!r}; {NEEDS_A_REWRITER}")
            edits[span] = replacement
    return edits


def _span(prompt: str, passage: WrittenPassage) -> Span:
    if prompt.count(passage.text) != 1:
        raise RewritingFailed(f"the written passage {passage.text!r} must occur once in the prompt")
    start = prompt.index(passage.text)
    return start, start + len(passage.text)
