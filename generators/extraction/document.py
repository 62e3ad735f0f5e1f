"""Prepares a prompt for the rules: its lower-case text, words, sentences and code blocks."""

import re
from bisect import bisect_left, bisect_right

import msgspec

from generators.extraction.data_parts import data_spans

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
_REPAIR = re.compile(r"\b(?:fix|modify|refactor|diagnose|debug|repair|optimi[sz]e)\b")
_PROGRAM = re.compile(r"[\w-]\.(?:py|js|ts|go|rs|c|cc|cpp|h|java|rb|php|sh|scala|r|jl|sql|ipynb)\b")
_INSTRUCTIVE_WORDS = re.compile(
    r"(?:as follows|like this|follow(?:s|ing)|such as|this form|this format)[^\n]*:\s*$|:\s*$"
)


class Token(msgspec.Struct, frozen=True):
    """A word in lower case, with its span in the prompt."""

    start: int
    end: int
    word: str


class Document:
    """One prompt, analysed once. Every ``place`` is a character offset into ``text``.

    ``is_about_a_program`` tells whether the prompt asks to mend a program that is there: such prompts explain a lot.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.lower = lowered(text)
        self.tokens = [Token(match.start(), match.end(), match.group()) for match in _WORD.finditer(self.lower)]
        self._starts = [token.start for token in self.tokens]
        self.fences = [match.span("body") for match in _FENCE.finditer(text)]
        self._fence_starts = [start for start, _ in self.fences]
        self.instructive_fences = [span for span in self.fences if self._is_instructive(span)]
        self._data = data_spans(text)
        self._data_starts = [start for start, _ in self._data]
        self._ends = self._sentence_ends()
        self.is_about_a_program = bool(_REPAIR.search(self.lower) and _PROGRAM.search(self.lower))
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
        number = bisect_right(self._fence_starts, place)
        return bool(number) and place < self.fences[number - 1][1]

    def is_data(self, place: int) -> bool:
        """Return whether an offset is inside a part that asks for nothing: a heading, a report or a pasted log."""
        number = bisect_right(self._data_starts, place)
        return bool(number) and place < self._data[number - 1][1]

    def trimmed(self, start: int, end: int) -> tuple[int, int]:
        """Return a span without the white space and punctuation at its ends."""
        while end > start and self.text[end - 1] in " \t\r\n.,;:!?*_":
            end -= 1
        while start < end and self.text[start] in " \t\r\n,;:*":
            start += 1
        return start, end

    def _is_instructive(self, span: tuple[int, int]) -> bool:
        """Return whether a line that ends in a colon introduces a code block. Any other block counts as data."""
        before = self.lower[max(0, span[0] - 200) : span[0]]
        before = before[: before.rfind("\n", 0, len(before) - 1)] if "\n" in before[:-1] else before
        line = before.rstrip().rpartition("\n")[2]
        return bool(_INSTRUCTIVE_WORDS.search(before.rstrip() or " ")) and "example" not in line

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
