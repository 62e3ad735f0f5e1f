"""Decides whether a candidate is introduced as something to keep to. What is not is left to a model."""

import re

from generators.extraction.candidate import Candidate
from generators.extraction.document import Document

_BEFORE_CHARS = 60
_QUOTE = r"[\"'`\u201c\u2018]"
_NAMING = (
    r"(?:named?|called|titled?|entitled|labell?ed|labels?|tag(?:ged)?|user ?name|password|branch|columns?|fields?|table"
    r"|sheet|tab|folder|directory|channel|status|project|milestone|page|section|heading|header|subject|keywords?|category|account|database|schema|value"
    r"|repository|forum|text"
    r"|sentence|word|phrase|term|spreadsheet|file|document|topic|query|description|path|prefix|suffix)"
)
_NAMED_BEFORE = re.compile(
    rf"(?i)\b{_NAMING}(?: (?:is|are|as|to|of|must be|should be|exactly))?:? {_QUOTE}?$"
    rf"|^\W*[A-Z][\w -]{{0,30}}: {_QUOTE}$"
)
_NAMED_AFTER = re.compile(
    rf"(?i){_QUOTE}? (?:sheet|tab|columns?|field|folder|directory|label|page|section|status|channel|branch|table"
    r"|database|schema|project|repository|tag|category|heading)\b"
)
_LISTED_BEFORE = re.compile(rf"{_QUOTE}(?:,\s*|,? (?:and|or) ){_QUOTE}$")
_LISTED_AFTER = re.compile(rf"{_QUOTE}(?:,\s*|,? (?:and|or) ){_QUOTE}")
_JOINED_AFTER, _JOINED_BEFORE = (
    re.compile(r"(?:,| or| and) [#\w]*[\d]|,? or |-[A-Za-z]"),
    re.compile(r"\d,? (?:and )?$| or $|[A-Za-z]-$"),
)
_SEQUENCE = re.compile(rf"{_QUOTE}?,? (?:{_QUOTE}[^\"'`\n]+{_QUOTE}, )*(?:\.\.\.|\u2026|etc\b)")
_PATTERN_AFTER, _PATTERN_BEFORE = re.compile(r"[-_.]?[{<\[(*]"), re.compile(r"[}>\])*$%-]$")
_PRODUCT = re.compile(r"[A-Z]\w*\.(?:js|io|ai|py|rs|go)|tar\.gz")
_EXAMPLE = re.compile(
    r"\be\.g\.|\bfor (?:example|instance)\b|\bsuch as\b|\bexamples?\b|\blike [\"'`]?$|\bhint:|\bso that\b"
    r"|\b(?:i|we)(?:'ll| will) (?:run|call|test|check|verify)\b"
    r"|(?:\b(?:approximately|about|around|near(?:ly)?|roughly)|~) ?$",
    re.IGNORECASE,
)
_CUT_BEFORE, _CUT_AFTER = re.compile(r"[A-Za-z\d]"), re.compile(r"[A-Za-z\d_%/@]")
_LIST_FOLLOWS = re.compile(r"(?:[ \t]+[\w-]+){0,3}:[ \t]*\n")
_EXPLAINS = re.compile(
    r"\b(?:currently|already|installed|is known|contains|consists of|will (?:see|find|be (?:tested|verified))|fails?"
    r"|failed|reports?|previously|was|were|had|because)\b",
    re.IGNORECASE,
)
_TWO_SENTENCES = re.compile(r"[a-z)][.!?]\s+[A-Z]")
_YEAR_BEFORE = re.compile(r"(?i)\b(?:in|since|from|until|before|after|of|year|during|for|between|by|through)\s+$")
_CODE = re.compile(r"[{}<>=;\\]|\(\)|\$")
_FORMS = frozenset({"quoted_term", "number", "date", "format", "colour", "ordering", "identifier"})
_NAMES = frozenset({"file_name", "path", "url", "identifier"})


def is_certain(document: Document, candidate: Candidate) -> bool:
    """Return whether a candidate is something that the prompt demands or names, and all of it.

    It is not if it is an example, one of a list, part of a pattern or of a longer name, or stands in a sentence that
    explains how things are. A quoted term must be introduced by what it is the name of.
    """
    start, end, text = candidate.start, candidate.end, document.text
    first, last = document.sentence(start)
    value, said = text[start:end], text[first:start]
    before = text[max(first, start - _BEFORE_CHARS) : start]
    is_cut = _CUT_BEFORE.match(text[start - 1 : start]) or (value[-1].isalnum() and _CUT_AFTER.match(text, end))
    if is_cut or _EXAMPLE.search(said) or _TWO_SENTENCES.search(value) or _SEQUENCE.match(text, end):
        return False
    is_pattern = _PATTERN_AFTER.match(text, end) or _PATTERN_BEFORE.search(before) or _PRODUCT.fullmatch(value)
    if candidate.kind in _NAMES and is_pattern:
        return False
    if (
        candidate.kind in _FORMS
        and candidate.kind != "quoted_term"
        and said.count('"') % 2
        and text[end : end + 1] != '"'
    ):
        return False  # part of a text that is to be written as it stands
    if candidate.kind == "number" and _LIST_FOLLOWS.match(text, end):
        return False
    if candidate.kind in _FORMS and (_EXPLAINS.search(text[first:last]) or document.is_in_fence(start)):
        return False
    if candidate.kind == "date" and value.isdigit() and not _YEAR_BEFORE.search(before):
        return False
    is_listed = _LISTED_AFTER.match(text, end) or _LISTED_BEFORE.search(before)
    if candidate.kind in ("identifier", "colour"):
        return not is_listed and not _JOINED_AFTER.match(text, end) and not _JOINED_BEFORE.search(before)
    if candidate.kind != "quoted_term":
        return True
    is_named = _NAMED_BEFORE.search(text[text.rfind("\n", 0, start) + 1 : start]) or _NAMED_AFTER.match(text, end)
    return bool(is_named) and not is_listed and not _CODE.search(value) and any(map(str.isalpha, value))
