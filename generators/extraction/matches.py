"""Applies every rule to a prompt and yields the candidates."""

import re
from collections.abc import Iterator

from generators.extraction.candidate import Candidate
from generators.extraction.document import Document
from generators.extraction.lexicon import Lexicon
from generators.extraction.names import names
from generators.extraction.places import Places
from generators.extraction.roles import role_of
from generators.extraction.rules import Labels, Rule

_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_ARGUMENT = re.compile(r"[(=,]\s*$")
_BEFORE_CHARS = 4


class Finder:
    """Applies the rules to one prompt.

    Args:
        document: The prompt.
        lexicon: Rules and words.
        files: The paths of the files in the environment. Empty if the extractor may not look at it.
    """

    def __init__(self, document: Document, lexicon: Lexicon, files: frozenset[str]) -> None:
        self._document = document
        self._lexicon = lexicon
        self._places = Places(document, lexicon, files)

    def find(self) -> list[Candidate]:
        """Return everything that the rules match, files and URLs first. Many matches overlap."""
        found = self._places.find()
        for rule in self._lexicon.rules:
            found += self._by_rule(rule)
        return [each for each in found if not self._places.is_hidden(each) and not self._document.is_data(each.start)]

    def _by_rule(self, rule: Rule) -> Iterator[Candidate]:
        document = self._document
        for match in rule.pattern.finditer(document.text if rule.is_cased else document.lower):
            if document.is_in_fence(match.start()) and not self._is_told(rule, match):
                continue
            span = names(document, self._lexicon, match.end()) if rule.take == "names" else _value(match)
            if span is None:
                continue
            start, end = document.trimmed(*span)
            if end > start and self._says_something(rule, start, end):
                yield Candidate(
                    start=start,
                    end=end,
                    kind=rule.kind,
                    labels=self._labels(rule, start),
                    rank=rule.rank,
                    synonyms=rule.synonyms,
                )

    def _labels(self, rule: Rule, place: int) -> Labels:
        if rule.role is None:
            return rule.labels
        return self._lexicon.roles[rule.role][role_of(self._document, self._lexicon, place)]

    def _is_told(self, rule: Rule, match: re.Match[str]) -> bool:
        """Return whether a match in a code block counts. Only numbers in code that the prompt says to use do."""
        place = match.start()
        is_instructive = any(start <= place < end for start, end in self._document.instructive_fences)
        before = self._document.text[max(0, place - _BEFORE_CHARS) : place]
        return is_instructive and rule.kind == "number" and bool(_ARGUMENT.search(before))

    def _says_something(self, rule: Rule, start: int, end: int) -> bool:
        document, value = self._document, self._document.lower[start:end]
        if _BLANK_LINE.search(value) or any(start <= number < end for number in document.list_numbers):
            return False
        return not (rule.needs and not rule.needs.search(value)) and not (rule.never and rule.never.search(value))


def _value(match: re.Match[str]) -> tuple[int, int]:
    """Return the span of the first named group that matched, or of the whole match if there is none."""
    for name in match.re.groupindex:
        if match[name]:
            return match.span(name)
    return match.span()
