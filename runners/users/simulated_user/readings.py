"""Three facts about an exchange: what the question asks for, what the answer gives, and whether that was right.

Each judge decides the first two in its own way, and :func:`reading_of` decides the third alike for all of them.
"""

import re
import tomllib
import unicodedata
from collections.abc import Collection, Sequence
from functools import cache
from typing import Literal

import msgspec

from lhaw_record.recorder.events import ExchangeReading
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.users.simulated_user.lexicon import lexicon, stem, words
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge


def reading_of(
    judge: str,
    knowledge: UserKnowledge,
    *,
    asks_for: Collection[str],
    gives: Collection[str],
    is_for_everything: bool,
    opened_by: Collection[str] = (),
    doubts: Sequence[str] = (),
) -> ExchangeReading:
    """Return a judge's reading, with its verdict.

    Args:
        judge: Who reads.
        knowledge: What the user knew when the question came.
        asks_for: The ids of the removed segments that the question asks for.
        gives: The ids of those that the answer gives.
        is_for_everything: Whether the question asks for everything at once, beside what it names.
        opened_by: The segments whose request together with their parents opens them, if not ``asks_for``.
        doubts: What the judge is not sure about.
    """
    opened_by = opened_by or asks_for
    is_open = {each.segment_id: knowledge.is_open(each, opened_by) for each in knowledge.removed}
    asked = tuple(each for each in is_open if each in asks_for)
    given = tuple(each for each in is_open if each in gives)
    withheld = tuple(each for each in asked if is_open[each] and each not in given)
    extra = [each for each in given if each not in asked]
    verdict: Literal["right", "withheld", "volunteered", "leaked"]
    if (is_for_everything and extra) or not all(is_open[each] for each in given):
        verdict = "leaked"
    elif extra:
        verdict = "volunteered"
    else:
        verdict = "withheld" if withheld else "right"
    return ExchangeReading(
        judge=judge,
        request="everything" if is_for_everything else "segments" if asked else "something_else",
        asks_for=asked,
        gives=given,
        withheld=withheld,
        verdict=verdict,
        doubts=tuple(doubts),
    )


class _Fishing(msgspec.Struct, frozen=True):
    patterns: tuple[re.Pattern[str], ...]
    vocabulary: frozenset[str]


def is_for_everything(question: str) -> bool:
    """Return whether a question asks for all that is missing, or for the user's own instructions."""
    text = " ".join(unicodedata.normalize("NFKC", question).lower().replace("\u2019", "'").split())
    return any(pattern.search(text) for pattern in _fishing().patterns)


def names_nothing(question: str, prompt: str = "") -> bool:
    """Return whether a question is in words that suit any task, or that are in its prompt: about no missing detail."""
    is_latin = not re.search(r"[^\W\d_\x00-\u024f]", question)
    return is_latin and _fishing().vocabulary.union(map(stem, words(prompt))).issuperset(map(stem, words(question)))


@cache
def _fishing() -> _Fishing:
    raw = tomllib.loads(data_path("user", "fishing.toml").read_text(encoding="utf-8"))
    general = lexicon().stop_terms - set(raw["specific"].split())
    return _Fishing(
        patterns=tuple(re.compile(pattern) for pattern in raw["everything"]),
        vocabulary=frozenset(map(stem, {*general, *raw["words"].split()})),
    )
