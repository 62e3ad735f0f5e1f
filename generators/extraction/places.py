"""Finds the files, paths, folders, URLs and quoted terms in a prompt."""

import re
from collections.abc import Iterator

from lhaw_record.generators.extraction.addresses import FILE, PATH, QUOTED, URL, Addresses, is_of_environment
from lhaw_record.generators.extraction.candidate import Candidate
from lhaw_record.generators.extraction.document import Document
from lhaw_record.generators.extraction.lexicon import Lexicon
from lhaw_record.generators.extraction.roles import role_of, writes
from lhaw_record.generators.extraction.rules import Labels
from lhaw_record.generators.spans import Spans

_QUOTE = r"[\"'`\u201c\u201d\u2018\u2019]"
_THINGS = (
    r"columns?|fields?|tables?|sheets?|worksheets?|folders?|directory|branch|account|database|schema|section"
    r"|heading|channel|repository|forum|subreddit|file|document|playlist|spreadsheet|notebook|list|album"
)
_MARKS = r"category|status|contain(?:s|ing)?(?: the)? (?:word|phrase|term|text|string)"
_NOUN = rf"(?P<thing>{_THINGS})|(?P<mark>{_MARKS})|(?P<word>word|phrase|term)|(?P<subject>subject)"
_NAMED = r"(?:is|(?:(?:should|must) be )?(?:named|called|titled|entitled|labell?ed))"
_NAMED_BEFORE = re.compile(rf"\b(?:{_NOUN}|titled?|name|content|labels?|tags?)(?: {_NAMED})?:? {_QUOTE}$")
_NAMED_AFTER = re.compile(rf"{_QUOTE} (?:{_NOUN})\b")
_OPENED = re.compile(r"\b(?:open|go to|navigate|visit|turn to)\b")
_SENT = re.compile(r"\b(?:e-?mail|message|mail)\b")
_MADE = re.compile(r"\b(?:creat\w*|new|make|start|be (?:named|called|titled))\b(?!.* (?:to|into|in|on) )")
_RANKS = {"url": 1, "path": 2, "file": 2, "folder": 3, "quoted": 9}
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
        return [self._candidate(*span) for span in sorted(spans)]

    def _candidate(self, start: int, end: int, name: str) -> Candidate:
        labels = self._labels(start, end, name)
        return Candidate(
            start=start,
            end=end,
            kind=_KINDS.get(name, name),
            labels=labels or self._lexicon.roles[name]["input"],
            rank=_RANKS[name],
            synonyms=_SYNONYMS.get(name, ()),
            is_sure=labels is not None,
        )

    def _labels(self, start: int, end: int, name: str) -> Labels | None:
        """Return the labels of a name by what is done with it, or None where the words around it leave that open."""
        roles, document = self._lexicon.roles[name], self._document
        if name in ("file", "path") and self._addresses.is_there(document.text[start:end]):
            return roles["input"]
        role = role_of(document, self._lexicon, start)
        if name != "quoted":
            return roles[role] if role else None
        first = document.sentence(start)[0]
        said = _NAMED_BEFORE.search(document.lower, first, start) or _NAMED_AFTER.match(document.lower, end)
        if said is None:
            return None
        if said["subject"]:
            return roles["output"] if _SENT.search(document.lower, first, start) else None
        if role == "output":
            is_new = not said["thing"] or _MADE.search(document.lower, first, start)
            return roles["output"] if is_new else None
        is_read = (role == "input" and not said["mark"]) or not writes(document, self._lexicon, first, start)
        if not is_read or not (said["mark"] or said["thing"] or said["word"]):
            return None
        return roles["mark" if said["mark"] and not _OPENED.search(document.lower, first, start) else "input"]

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
        """Return the span between the quotes, without white space and punctuation at its ends."""
        start, end = quoted.span(quoted.lastgroup or 0)
        return self._document.trimmed(start, end)

    def _matches(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        for match in pattern.finditer(self._document.text):
            if not self._urls.touches(*match.span()) and not self._document.is_in_fence(match.start()):
                yield match
