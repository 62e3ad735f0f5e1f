"""Applies every rule to a prompt and yields the candidates."""

import re
from collections.abc import Iterator

from lhaw_record.generators.extraction.candidate import Candidate
from lhaw_record.generators.extraction.document import Document
from lhaw_record.generators.extraction.lexicon import Lexicon
from lhaw_record.generators.extraction.places import Places
from lhaw_record.generators.extraction.rules import Rule

_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")


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
        return [each for each in found if not self._places.is_hidden(each)]

    def _by_rule(self, rule: Rule) -> Iterator[Candidate]:
        document, entry = self._document, rule.entry
        for match in rule.pattern.finditer(document.text if entry.cased else document.lower):
            group = next((name for name in match.re.groupindex if match[name]), 0)
            start, end = document.trimmed(*match.span(group))
            if end > start and self._says_something(rule, start, end):
                yield Candidate(
                    start=start,
                    end=end,
                    kind=entry.kind,
                    labels=rule.labels,
                    rank=entry.rank,
                    synonyms=entry.synonyms,
                )

    def _says_something(self, rule: Rule, start: int, end: int) -> bool:
        value = self._document.lower[start:end]
        if _BLANK_LINE.search(value) or any(start <= number < end for number in self._document.list_numbers):
            return False
        return not (rule.never and rule.never.search(value))
