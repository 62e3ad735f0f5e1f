"""Decides whether a candidate is asked for, whole, and said once. What is not is left to a model."""

import re

from lhaw_record.generators.extraction.candidate import Candidate
from lhaw_record.generators.extraction.document import Document
from lhaw_record.generators.extraction.requests import Requests
from lhaw_record.generators.extraction.said_again import Statements

_QUOTE = r"[\"'`\u201c\u201d\u2018\u2019]"
_EXAMPLE = re.compile(
    r"\be\.g\.|\bfor (?:example|instance)\b|\bsuch as\b|\bexamples?\b|\blike [\"'`]?$|\bhint:|\bso that\b"
    r"|\bdiscussion\b|\bmore (?:context|information)\b"
    r"|\b(?:i|we)(?:'ll| will) (?:run|call|test|check|verify)\b"
    r"|(?:\b(?:approximately|about|around|near(?:ly)?|roughly|likely)|~|\u2248) ?$",
    re.IGNORECASE,
)
_EXPLAINS = re.compile(
    r"\b(?:currently|already|installed|is known|contains|consists of|will (?:see|find|be (?:tested|verified))|fails?"
    r"|failed|reports?|previously|was|were|had|because|assum(?:e|ing)|suppose|given that|formatted"
    r"|represents?|categori[sz]ed?|inserte?d?|includes|identified|scheduled|originally|as reported|planning)\b",
    re.IGNORECASE,
)
_CUT_BEFORE = re.compile(r"[\w$\u20ac\u00a3}>\])]")
_CUT_AFTER = re.compile(r"[\w%/@^$\u20ac\u00a3\u00b2\u00b3]|[-'\u2019.,:]\w| \(\d")
_TWO_SENTENCES = re.compile(r"[a-z)][.!?]\s+[A-Z]")
_LISTED_BEFORE = re.compile(rf"(?:,| and| or) {_QUOTE}?$|{_QUOTE},\s*{_QUOTE}$")
_LISTED_AFTER = re.compile(
    rf"{_QUOTE}?(?:(?:,\s*|,? (?:and|or) )[\"'`\u201c\u2018/~#\d]|,? (?:and|or|to) [\w-]+\.\w"
    r"|,? ?(?:\.\.\.|\u2026|etc\b)|\.?\*)"
)
_SERIES = re.compile(r"\d,? (?:and |or )?$|\b(?:modify|change|move|reschedule|postpone)\b.*\bfrom $", re.IGNORECASE)
_UNKNOWN_UNIT = re.compile(r"\s\w*[A-Z]")
_PATTERN = re.compile(r"[{}<>\[\]()*|=;%]|^\.|^(?:[A-Z]\w*\.(?:js|io|ai|py|rs|go)|tar\.gz)$")
_NAMES = frozenset({"file_name", "path", "url", "quoted_term"})


def is_certain(document: Document, requests: Requests, statements: Statements, candidate: Candidate) -> bool:
    """Return whether a candidate is something that a sentence asks for, all of it, and said nowhere else.

    It is not if it is an example, one of a list of names, part of a pattern or of a longer name, or in a sentence that
    says how things are.
    """
    start, end, text = candidate.start, candidate.end, document.text
    first, last = document.sentence(start)
    value, said = text[start:end], text[first:start]
    if not requests.has(start) or document.is_in_fence(start) or said.count("(") > said.count(")"):
        return False
    if _EXAMPLE.search(said) or _TWO_SENTENCES.search(value) or "\n" in value:
        return False
    if candidate.kind != "url" and _CUT_BEFORE.match(text[start - 1 : start]):
        return False
    if candidate.kind in _NAMES:
        if _LISTED_BEFORE.search(said) or _LISTED_AFTER.match(text, end):
            return False
        if candidate.kind != "url" and (_PATTERN.search(value) or len(value) == 1):
            return False
    elif _CUT_AFTER.match(text, end) or (candidate.kind == "number" and _UNKNOWN_UNIT.match(text, end)):
        return False
    is_address = candidate.kind in ("file_name", "path", "url")
    if not is_address and (_EXPLAINS.search(text, first, last) or _SERIES.search(said)):
        return False
    return not statements.say_again(candidate)
