"""Prepares a prompt for the rules: its lower-case text, words, sentences and code blocks."""

import re
from bisect import bisect_left, bisect_right

import msgspec

from lhaw_record.generators.spans import Spans

_WORD = re.compile(r"\w+(?:[-'\u2019./&]\w+)*")
_FENCE = re.compile(
    r"(?m)^[ \t]*(?P<mark>`{3,9}|~{3,9})[^\n]*\n(?P<body>.*?)(?:^[ \t]*(?P=mark)[ \t]*\r?$|\Z)", re.DOTALL
)
_LIST_NUMBER = re.compile(r"(?m)^[ \t]*(\d+)[.)](?=\s)")
_SENTENCE_END = re.compile(
    r"[.!?\u3002\uff01\uff1f]+[\"'\u201d\u2019)\]*_]*(?=\s|$|[\u3040-\u9fff])"
    r"|\n[ \t\r]*(?=\n|[-*+\u2022][ \t]|\d{1,3}[.)][ \t]|#|\||\Z)"
    r"|(?<=\|)[ \t\r]*\n"
    r"|^[ \t]*#[^\n]*\n",
    re.MULTILINE,
)
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|no|incl|mr|mrs|ms|dr|prof|st|resp|w\.r\.t)|\b[a-z])\.$")


class Token(msgspec.Struct, frozen=True):
    """A word in lower case, with its span in the prompt."""

    start: int
    end: int
    word: str


class Document:
    """One prompt, analysed once. Every ``place`` is a character offset into ``text``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lower = lowered(text)
        self.tokens = [Token(match.start(), match.end(), match.group()) for match in _WORD.finditer(self.lower)]
        self._starts = [token.start for token in self.tokens]
        self._fences = Spans(match.span("body") for match in _FENCE.finditer(text))
        self._ends = self._sentence_ends()
        self.list_numbers = {match.start(1) for match in _LIST_NUMBER.finditer(text)}

    def sentence(self, place: int) -> tuple[int, int]:
        """Return the span of the sentence, list item or heading that contains an offset."""
        number = bisect_right(self._ends, place)
        start = self._ends[number - 1] if number else 0
        end = self._ends[number] if number < len(self._ends) else len(self.text)
        return start, end

    def token_at(self, place: int) -> int:
        """Return the index of the first word that starts at or after an offset."""
        return bisect_left(self._starts, place)

    def is_in_fence(self, place: int) -> bool:
        """Return whether an offset is inside a fenced code block."""
        return self._fences.has(place)

    def trimmed(self, start: int, end: int) -> tuple[int, int]:
        """Return a span without the white space and punctuation at its ends."""
        while end > start and self.text[end - 1] in " \t\r\n.,;:!?*_":
            end -= 1
        while start < end and self.text[start] in " \t\r\n,;:*":
            start += 1
        return start, end

    def _sentence_ends(self) -> list[int]:
        ends = []
        for match in _SENTENCE_END.finditer(self.lower):
            place = match.end()
            before = self.lower[max(0, match.start() - 8) : match.start() + 1]
            if match.group().startswith(".") and _ABBREVIATION.search(before):
                continue
            ends.append(place)
        return sorted(set(ends))


def lowered(text: str) -> str:
    """Return the text in lower case, keeping the offset of every character."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := character.lower()) == 1 else character for character in text)
