"""Finds the segments that a question asks for, using the variant's expected questions first and the matcher second.

The author of a variant lists which questions ask for which segment. A question that equals one of them, apart from
politeness and articles, needs no guessing. All other wordings go to the matcher.
"""

import re

from lhaw_record.runners.users.simulated_user.clauses import sentences
from lhaw_record.runners.users.simulated_user.lexicon import words
from lhaw_record.runners.users.simulated_user.matcher import matching_segments
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge

_FEWEST_WORDS = 3
_POLITE = re.compile(
    r"^(?:(?:and|so|also|ok|okay|hi|hello|thanks|sorry|just|please|kindly|quick question|one question)\b[\s,:-]*"
    r"|(?:could|can|would|will) you (?:please |kindly )?(?:tell me|clarify|confirm|specify|let me know|say)\b[\s,:-]*"
    r"|(?:please )?(?:tell me|clarify|let me know)\b[\s,:-]*"
    r"|i (?:need|want|would like) to know\b[\s,:-]*)+"
)
_UNSAID = frozenset({"a", "an", "the", "please", "exactly"})


def asked_segments(question: str, context: str, knowledge: UserKnowledge) -> tuple[str, ...]:
    """Return the ids of the removed segments that a question asks for, in the order of ``knowledge.removed``."""
    asked = sentences(question)
    normal = [_normal(sentence) for sentence in asked]
    found: set[str] = set()
    is_known = [False] * len(asked)
    for expected in knowledge.expected:
        for wanted in expected.questions:
            for place in _places(tuple(_normal(sentence) for sentence in sentences(wanted)), normal):
                found.add(expected.segment_id)
                is_known[place] = [True] * (place.stop - place.start)
    rest = [sentence for sentence, known in zip(asked, is_known, strict=True) if not known]
    if rest:
        around = " ".join((context, *(sentence for sentence, known in zip(asked, is_known, strict=True) if known)))
        found.update(matching_segments(" ".join(rest) if found else question, around, knowledge.removed))
    return tuple(segment.segment_id for segment in knowledge.removed if segment.segment_id in found)


def _places(wanted: tuple[tuple[str, ...], ...], asked: list[tuple[str, ...]]) -> list[slice]:
    """Return where an expected question's sentences occur consecutively.

    An expected question of fewer than three words only matches if it is all that was asked.
    """
    length = len(wanted)
    if sum(map(len, wanted)) < _FEWEST_WORDS and length != len(asked):
        return []
    return [slice(at, at + length) for at in range(len(asked) - length + 1) if tuple(asked[at : at + length]) == wanted]


def _normal(sentence: str) -> tuple[str, ...]:
    """Return the words of a sentence without case, punctuation, articles and polite phrases."""
    return tuple(word for word in words(_POLITE.sub("", sentence.lower())) if word not in _UNSAID)
