"""Finds out whether a prompt says a value a second time in other words, so that leaving it out leaves no gap."""

import re

from lhaw_record.generators.extraction.candidate import Candidate
from lhaw_record.generators.gate.quantities import durations
from lhaw_record.generators.gate.words import words

_TOKEN = re.compile(r"\d+(?:,\d{3})+|\d+(?:\.\d+)?|[^\W\d_]+")
_BARE = re.compile(r"[\d.,]+|[A-Za-z]+")
_NEXT_WORD = re.compile(r"[ \t-]*\w*")
_QUOTES = re.compile(r"[\"'`\u201c\u2018]")
_BETWEEN = re.compile(r"[.!?]\s|\n")
_SITE = re.compile(r"\w+://(?:www\.)?(?P<name>[\w-]+)\.[a-z.]+(?:/[A-Za-z/_-]*)?")
"""The address of a site or of a plain page of it, which its name tells."""
_AFFIXES = frozenset({"am", "pm", "st", "nd", "rd", "th"})


class Statements:
    """The sentences of one prompt, with what each says: its words, without plurals, and its numbers."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._said = [(part, _tokens(part)) for part in _BETWEEN.split(text)]

    def say_again(self, candidate: Candidate) -> bool:
        """Return whether another sentence, or the rest of its own, holds all that a candidate says.

        Literal repeats do not count, since they go with the value; a name in quotes is repeated in quotes only. Numbers
        are compared as numbers: "two" is 2. For a length of time, so are "a week" and two dates that are 7 days apart.
        """
        value = self._text[candidate.start : candidate.end]
        pattern = rf"(?<!\w){re.escape(value)}(?!\w)"
        if _QUOTES.search(self._text, max(0, candidate.start - 1), candidate.start):
            pattern = rf"(?<={_QUOTES.pattern}){re.escape(value)}"
        if candidate.kind == "number" and _BARE.fullmatch(value):  # the same number of something else is no repeat
            pattern += rf"(?={re.escape(_NEXT_WORD.findall(self._text, candidate.end)[0])})"
        same = re.compile(pattern)
        length = durations(value) if candidate.kind == "number" else set()
        if length and length & durations(same.sub("_", self._text)):
            return True
        site = _SITE.fullmatch(value)
        said = _tokens(site["name"] if site else value)
        return any(said <= tokens and said <= _tokens(same.sub("_", part)) for part, tokens in self._said)


def _tokens(text: str) -> set[str]:
    known = words()
    return {
        known.numbers.get(token, token.replace(",", "").removesuffix("s"))
        for token in _TOKEN.findall(text.lower())
        if token not in known.function_words and token not in _AFFIXES
    }
