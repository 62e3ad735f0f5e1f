"""Finds the text that a model copied from a prompt, even if it changed spaces, quotes or case. Pure."""

import re
from collections.abc import Iterator

from lhaw_record.runners.base.text.normalization import NormalizedText, normalize, normalize_with_places

_DOUBLE = "\u201c\u201d\u201e\u201f\u00ab\u00bb"
_SINGLE = "\u2018\u2019\u201a\u201b\u00b4`"
_QUOTES = str.maketrans(dict.fromkeys(_DOUBLE, '"') | dict.fromkeys(_SINGLE, "'"))
_MARKS = "\"'*" + _DOUBLE + _SINGLE
_NUMBER = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)*")
_FIRST_OF_OTHER_SCRIPTS = "\u0530"  # Latin, Greek and Cyrillic come before it; many later scripts write no spaces

Span = tuple[int, int]


class Places:
    """Finds copied text in one prompt.

    Args:
        prompt: The prompt.
    """

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self._folded: NormalizedText = normalize_with_places(prompt.translate(_QUOTES))
        self._within_numbers = {
            place for match in _NUMBER.finditer(prompt) for place in range(match.start() + 1, match.end())
        }

    def find(self, wanted: str, within: Span | None = None) -> Span | None:
        """Return the span of a copied text in the prompt, without quotes around it.

        Returns None if the text does not occur, or occurs only inside words or numbers.

        Exact matches are preferred to matches after normalization; among equals, matches inside ``within`` come first,
        then the earliest match.
        """
        for candidate in _spellings(wanted):
            exact = (match.span() for match in re.finditer(re.escape(candidate), self.prompt))
            for spans in (exact, self._alike(normalize(candidate.translate(_QUOTES)))):
                found = [span for span in spans if self._stands_alone(span)]
                inside = [span for span in found if within and within[0] <= span[0] and span[1] <= within[1]]
                if found:
                    return (inside or found)[0]
        return None

    def _alike(self, folded: str) -> Iterator[Span]:
        """Yield the spans whose text normalizes to exactly ``folded``. ``200`` does not match inside ``1,200``."""
        for span in self._folded.places(re.compile(re.escape(folded))) if folded else ():
            if normalize(self.prompt[slice(*span)].translate(_QUOTES)) == folded:
                yield span

    def _stands_alone(self, span: Span) -> bool:
        """Return whether neither end of a span lies inside a word or a number. ``20`` in ``20mm`` passes."""
        return not any(
            end in self._within_numbers or _are_joined(self.prompt[end - 1 : end], self.prompt[end : end + 1])
            for end in span
        )


def _spellings(wanted: str) -> Iterator[str]:
    """Yield the text without the quotes that models add, then as given, then with its line breaks unescaped."""
    bare = wanted.strip()
    inner = bare.strip(_MARKS).strip()
    if inner and bare[0] in _MARKS and bare[-1] in _MARKS and not {bare[0], bare[-1]} & set(inner):
        yield inner
    if bare:
        yield bare
    unescaped = bare.replace("\\r", "").replace("\\n", "\n").strip()
    if unescaped not in ("", bare):
        yield unescaped


def _are_joined(left: str, right: str) -> bool:
    """Return whether two characters are letters of one word, in a script that separates words by spaces."""
    return left.isalpha() and right.isalpha() and max(left, right) < _FIRST_OF_OTHER_SCRIPTS
