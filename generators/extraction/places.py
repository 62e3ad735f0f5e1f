"""Finds the files, paths, folders, URLs and quoted terms in a prompt."""

import re
from collections.abc import Iterator

from generators.extraction.addresses import FILE, PATH, QUOTED, URL, Addresses, is_of_environment
from generators.extraction.candidate import Candidate
from generators.extraction.document import Document
from generators.extraction.lexicon import Lexicon
from generators.extraction.roles import is_written
from generators.spans import Spans

_FIGURES = re.compile(r"[\d\s.,:/%$\u20ac-]+")
_FIELD = re.compile(r"\W*[A-Z][\w -]{0,30}: \W")
_RANKS = {"url": 1, "path": 2, "file": 2, "folder": 3, "quoted": 9}
_FIGURES_RANK = 27  # figures in quotes say more themselves than that they are quoted
_KINDS = {"file": "file_name", "folder": "path", "quoted": "quoted_term"}
_SYNONYMS = {"file": ("file", "file name"), "folder": ("folder", "directory")}


class Places:
    """Finds files, paths, folders, URLs and quoted terms.

    Args:
        document: The prompt.
        lexicon: Supplies file extensions, verbs, and the labels for each role.
        files: The paths of the files in the environment. Empty if the environment is unknown.
    """

    def __init__(self, document: Document, lexicon: Lexicon, files: frozenset[str]) -> None:
        self._document = document
        self._lexicon = lexicon
        self._addresses = Addresses(document, lexicon, files)
        urls = [match.span() for match in URL.finditer(document.text)]
        self._urls = Spans(urls)
        self._visited = [span for span in urls if not is_of_environment(document.text[slice(*span)])]
        self._hidden = Spans(span for span in urls if is_of_environment(document.text[slice(*span)]))

    def is_hidden(self, candidate: Candidate) -> bool:
        """Return whether a candidate lies in a URL of the environment, which never becomes a segment."""
        return self._hidden.touches(candidate.start, candidate.end)

    def find(self) -> list[Candidate]:
        """Return all candidates in prompt order, without overlaps."""
        taken = Spans()
        spans = []
        for start, end, name in self._spans():
            if end > start and not taken.touches(start, end):
                taken.add(start, end)
                spans.append((start, end, name))
        found: list[Candidate] = []
        for start, end, name in sorted(spans):
            found.append(self._candidate(start, end, name, found))
        return found

    def _candidate(self, start: int, end: int, name: str, earlier: list[Candidate]) -> Candidate:
        value = self._document.text[start:end]
        is_known = name in ("file", "path") and self._addresses.is_there(value)
        line = self._document.text[self._document.text.rfind("\n", 0, start) + 1 : start]
        is_field = name == "quoted" and (_FIELD.fullmatch(line) or value.startswith("#"))
        is_output = not is_known and bool(
            is_field or is_written(self._document, self._lexicon, (start, end), name, earlier)
        )
        return Candidate(
            start=start,
            end=end,
            kind=_KINDS.get(name, name),
            labels=self._lexicon.roles[name]["output" if is_output else "input"],
            rank=_FIGURES_RANK if name == "quoted" and _FIGURES.fullmatch(value) else _RANKS[name],
            synonyms=_SYNONYMS.get(name, ()),
            is_output=is_output,
        )

    def _spans(self) -> Iterator[tuple[int, int, str]]:
        """Yield possible matches, the most certain first."""
        for start, end in self._visited:
            yield start, end, "url"
        quoted = [self._inside(match) for match in self._matches(QUOTED)]
        for start, end in quoted:
            kind = self._addresses.kind_of_quoted(start, end)
            if kind != "quoted":
                yield start, end, kind
        for match in self._matches(PATH):
            run = self._addresses.kind_of_run(*match.span())
            if run is not None:
                yield *match.span(), run
        for match in self._matches(FILE):
            if self._addresses.is_file(match.group(), match["ending"]):
                yield *match.span(), "file"
        for start, end in quoted:
            yield start, end, "quoted"

    def _inside(self, quoted: re.Match[str]) -> tuple[int, int]:
        """Return the span between the quotes, without white space at its ends."""
        start, end = quoted.span(quoted.lastgroup or 0)
        value = self._document.text[start:end]
        return start + len(value) - len(value.lstrip()), start + len(value.rstrip())

    def _matches(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        for match in pattern.finditer(self._document.text):
            if not self._urls.touches(*match.span()) and not self._document.is_in_fence(match.start()):
                yield match
