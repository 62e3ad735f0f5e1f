"""The decoy rewriter: replaces every occurrence of a value with a wrong one and changes nothing else."""

from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec

from lhaw_record.generators.decoys.decoy_values import decoy_for, decoys_digest
from lhaw_record.generators.errors import RewritingFailed
from lhaw_record.generators.prompts.occurrences import Prompt
from lhaw_record.generators.protocol import Removal, Rewriting, SourceTask
from lhaw_record.generators.spans import Span, replaced
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment
from lhaw_record.runners.models.calls import ModelCaller

NAME = "decoys/1"
_QUESTION = "You wrote {decoy}; is that what you mean?"
_FAILURE = "Works with {decoy}, which the prompt says by mistake."


def with_decoys(source: SourceTask, removal: Removal) -> Removal | None:
    """Return the removal with a decoy for every segment, or None if the rules have no decoy for one of them."""
    segments = []
    for segment in removal.segments:
        decoy = decoy_for(segment, source)
        if decoy is None:
            return None
        segments.append(msgspec.structs.replace(segment, decoy=decoy))
    return msgspec.structs.replace(removal, segments=tuple(segments))


class DecoyRewriter:
    """Replaces values with decoys by rules. Implements :class:`lhaw_record.generators.protocol.Rewriter`."""

    name = NAME

    def __init__(self) -> None:
        self.digest = digest([NAME, decoys_digest()])

    async def rewrite(
        self, source: SourceTask, removal: Removal, caller: ModelCaller | None, problems: Sequence[str] = ()
    ) -> Rewriting:
        """Return the prompt with each segment's value replaced by its decoy. The result is deterministic."""
        original = Prompt(source.task.prompt)
        places: dict[Span, str] = {}
        for segment in removal.segments:
            places |= _replacements(original, segment)
        return Rewriting(
            prompt=replaced(original.text, places),
            expected_questions=tuple(
                ExpectedQuestions(segment_id=segment.segment_id, questions=(_QUESTION.format(decoy=segment.decoy),))
                for segment in removal.segments
            ),
            failure_mode=" ".join(_FAILURE.format(decoy=segment.decoy) for segment in removal.segments),
        )


def _replacements(original: Prompt, segment: Segment) -> dict[Span, str]:
    """Return the replacement text for each span of the prompt where the segment's value occurs."""
    places = original.occurrences(segment)
    if not places or segment.decoy is None:
        raise RewritingFailed(f"the value {segment.value!r} of {segment.segment_id} has no place or no decoy")
    return {
        (place.start, place.end): _in_the_form_of(original.text[place.start : place.end], segment) for place in places
    }


def _in_the_form_of(text: str, segment: Segment) -> str:
    """Return the decoy in the form that the value has in ``text``: whole, without suffix, or only the file name."""
    value, decoy = segment.value, segment.decoy or ""
    forms: dict[str, str] = {}
    right, wrong = PurePosixPath(value), PurePosixPath(decoy)
    if right.suffix and right.suffix == wrong.suffix:
        forms = {str(right.with_suffix("")): str(wrong.with_suffix("")), right.stem: wrong.stem, right.name: wrong.name}
    forms |= {value.strip("`\"' "): decoy.strip("`\"' "), value: decoy}
    for known, new in forms.items():
        if text.casefold() == known.casefold():
            return new
    raise RewritingFailed(
        f"{segment.segment_id} also occurs in the prompt as {text!r}, for which the decoy {decoy!r} has no form"
    )
