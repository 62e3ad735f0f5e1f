"""Segments, removals and rewritings for the tests of rewriting."""

from lhaw_record.generators.protocol import Removal
from lhaw_record.generators.rewriting import RuleRewriter
from lhaw_record.recorder.events.values import Segment

REWRITER = RuleRewriter()


def segment(value, dimension="input", subdimension="identifier", *, text=None, synonyms=(), segment_id="S1"):
    """Return a segment with this value."""
    return Segment(
        segment_id=segment_id,
        value=value,
        dimension=dimension,
        subdimension=subdimension,
        text=text,
        synonyms=tuple(synonyms),
        criticality=1.0,
        guessability=0.0,
    )


def rewritten(prompt, severity, *segments):
    """Return the rewriting of a prompt without segments."""
    return REWRITER.rewriting(prompt, Removal(segments=segments, severity=severity))
