"""Chooses the simulated user's answer: ``exact`` gives what was asked for, ``dump`` gives everything.

Both are deterministic and need no model. The author of a variant lists which questions ask for which segment. A
question that equals one of them, apart from politeness and articles, needs no guessing; all others go to the matcher.

The sentences are in ``data/user/answers.toml``: one per kind of segment, and a fixed deferral for a question that is
about none of the removed segments. The ``llm`` simulator is in ``llm.py``.
"""

import re
import tomllib
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from lhaw_record.recorder.events import RevealedSegment
from lhaw_record.recorder.events.values import Segment
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.text.normalization import normalize
from lhaw_record.runners.users.simulated_user.lexicon import sentences, words
from lhaw_record.runners.users.simulated_user.matcher import matching_segments
from lhaw_record.runners.users.simulated_user.protocol import UserAnswer, UserKnowledge

_FEWEST_WORDS = 3
_POLITE = re.compile(
    r"^(?:(?:and|so|also|ok|okay|hi|hello|thanks|sorry|just|please|kindly|quick question|one question)\b[\s,:-]*"
    r"|(?:could|can|would|will) you (?:please |kindly )?(?:tell me|clarify|confirm|specify|let me know|say)\b[\s,:-]*"
    r"|(?:please )?(?:tell me|clarify|let me know)\b[\s,:-]*"
    r"|i (?:need|want|would like) to know\b[\s,:-]*)+"
)
_UNSAID = frozenset({"a", "an", "the", "please", "exactly"})
_ARTICLE = re.compile(r"^(?:the|an?) ")


class ExactSimulator:
    """A user who answers exactly what is asked."""

    name = "exact"

    async def answer(self, question: str, context: str, knowledge: UserKnowledge) -> UserAnswer:
        """Return the values of the segments that the question is about, or defer to the agent's judgment.

        A chained segment is withheld until its parent is known, because the agent has not heard of the thing it
        specifies.
        """
        asked = asked_segments(question, context, knowledge)
        given = [
            segment
            for segment in knowledge.removed
            if segment.segment_id in asked and knowledge.is_open(segment, asked)
        ]
        return _answer_giving(given, asked)


class DumpSimulator:
    """A user who gives every removed segment, whatever the question.

    Source: Ask Early, appendix A.11.2. A segment counts as requested if the question is about it, otherwise as
    volunteered.
    """

    name = "dump"

    async def answer(self, question: str, context: str, knowledge: UserKnowledge) -> UserAnswer:
        """Return the values of all removed segments, or defer if nothing was removed."""
        return _answer_giving(knowledge.removed, asked_segments(question, context, knowledge))


def answer_with(segments: Sequence[Segment]) -> str:
    """Return an answer with the values of exactly these segments, or the deferral if there are none."""
    return " ".join(_sentence(segment) for segment in segments) or deferral()


def deferral() -> str:
    """Return the answer to a question that is about none of the removed segments."""
    return str(_templates()["deferral"])


def reveals(answer: str, segment: Segment) -> bool:
    """Return whether the answer contains the segment's value as whole words, ignoring case, spacing and number format.

    1,000 equals 1000 and 1000.0, and ``500ms`` equals ``500 ms``. But 3.10 is not 3.1 if the value is a version, and
    ``report.xlsx`` is not found in ``old_report.xlsx``.
    """
    is_version = segment.subdimension.lower() == "version"
    value = _ARTICLE.sub("", normalize(segment.value, keep_zeros=is_version).strip(" .,;:!?\"'`"))
    if not value:
        return False
    whole = rf"(?<!\w)(?<!\w[./_@-]){re.escape(value)}(?!\w)(?![./_@-]\w)"
    return re.search(whole, normalize(answer, keep_zeros=is_version)) is not None


def _answer_giving(segments: Sequence[Segment], asked: Collection[str]) -> UserAnswer:
    revealed = (RevealedSegment(segment_id=each.segment_id, is_requested=each.segment_id in asked) for each in segments)
    return UserAnswer(text=answer_with(segments), revealed=tuple(revealed))


@cache
def _templates() -> dict[str, Any]:
    return tomllib.loads(data_path("user", "answers.toml").read_text(encoding="utf-8"))


def is_about_authority(segment: Segment) -> bool:
    """Return whether the prompt replaces the segment with an order that the user has no authority to give."""
    return (segment.dimension, segment.subdimension.lower()) == ("context", "authority")


def _sentence(segment: Segment) -> str:
    """Fill in the template for the segment. A sentence about a decoy starts with a correction.

    An order without authority is not a slip, so the answer about it has no correction. The template's full stop is
    dropped if the value already ends a sentence.
    """
    templates = _templates()
    template = str(templates.get(segment.dimension, {}).get(segment.subdimension.lower(), templates["default"]))
    filled = template.replace("{value}", segment.value)
    sentence = filled[:-1] if segment.value.endswith((".", "!", "?")) else filled
    return sentence if segment.decoy is None or is_about_authority(segment) else f"{templates['correction']} {sentence}"


def asked_segments(question: str, context: str, knowledge: UserKnowledge) -> tuple[str, ...]:
    """Return the ids of the removed segments that a question asks for, in the order of ``knowledge.removed``."""
    asked = sentences(question)
    normal = [_normal(sentence) for sentence in asked]
    found: set[str] = set()
    is_known = [False] * len(asked)
    for expected in knowledge.expected:
        for wanted in expected.questions:
            for found_at in _positions(tuple(_normal(sentence) for sentence in sentences(wanted)), normal):
                found.add(expected.segment_id)
                is_known[found_at] = [True] * (found_at.stop - found_at.start)
    rest = [sentence for sentence, known in zip(asked, is_known, strict=True) if not known]
    if rest:
        around = " ".join((context, *(sentence for sentence, known in zip(asked, is_known, strict=True) if known)))
        found.update(matching_segments(" ".join(rest) if found else question, around, knowledge.removed))
    return tuple(segment.segment_id for segment in knowledge.removed if segment.segment_id in found)


def _positions(wanted: tuple[tuple[str, ...], ...], asked: list[tuple[str, ...]]) -> list[slice]:
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
