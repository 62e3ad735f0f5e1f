"""When a predicted value matches a labelled span, and which of many pairs count (tests/generators/labels/README.md)."""

from typing import NamedTuple

QUOTES = " \t\r\n\"'`\u201c\u201d\u2018\u2019\u00ab\u00bb"
AROUND = QUOTES + "()[]{}<>.,;:!?"
"""What may stand around a value without being part of it."""
LEAST_OVERLAP = 0.5


class Pair(NamedTuple):
    """A predicted value and a gold span, by their place in the two lists; ``is_exact``: equal after stripping."""

    predicted: int
    gold: int
    overlap: float
    is_exact: bool


def core(prompt, start, end):
    """Return the span without what stands around it; a value of punctuation alone loses only its quotes."""
    text = prompt[start:end]
    for around in (AROUND, QUOTES):
        inner = text.strip(around)
        if inner:
            start += len(text) - len(text.lstrip(around))
            return start, start + len(inner)
    return start, end


def occurrences(prompt, value):
    """Return every span of a value in the prompt, overlapping ones too."""
    if not value:
        return []
    return [(start, start + len(value)) for start in range(len(prompt)) if prompt.startswith(value, start)]


def overlap(one, other):
    """Return the intersection of two spans over their union, in [0, 1]."""
    common = min(one[1], other[1]) - max(one[0], other[0])
    return max(0, common) / (max(one[1], other[1]) - min(one[0], other[0])) if common > 0 else 0.0


def matched(prompt, values, spans):
    """Return the pairs that count: one to one, exact ones first, then those that have most in common.

    Args:
        prompt: The text in which both lie.
        values: Predicted values; one that does not stand in the prompt matches nothing.
        spans: Gold spans ``(start, end)``.
    """
    golds = [core(prompt, *span) for span in spans]
    possible = []
    for predicted, value in enumerate(values):
        places = [core(prompt, *span) for span in occurrences(prompt, value)]
        for gold, span in enumerate(golds):
            if not places:
                continue
            is_exact = prompt[slice(*places[0])] == prompt[slice(*span)]
            common = max(overlap(place, span) for place in places)
            if is_exact or common >= LEAST_OVERLAP:
                possible.append(Pair(predicted, gold, common, is_exact))
    chosen: list[Pair] = []
    for pair in sorted(possible, key=lambda pair: (not pair.is_exact, -pair.overlap, pair.gold, pair.predicted)):
        if not any(pair.predicted == other.predicted or pair.gold == other.gold for other in chosen):
            chosen.append(pair)
    return sorted(chosen, key=lambda pair: pair.gold)
