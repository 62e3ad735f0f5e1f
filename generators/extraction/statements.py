"""Decides whether a candidate only explains: how things are, or what a program does that is to be mended."""

import re

from generators.extraction.candidate import Candidate
from generators.extraction.document import Document
from generators.extraction.lexicon import Lexicon

_BEFORE_CHARS = 60
_PLACE_AFTER = re.compile(
    r"[\"'\u201d\u2019](?:s\b| (?:sheet|tab|column|field|folder|directory|label|key|file|page|section|status|channel))"
)
_PLACE = (
    r"(?:labels?|columns?|fields?|sheets?|tabs?|keys?|branch(?:es)?|tags?|channels?|tables?|settings?|options?|flags?"
    r"|values?|status|modes?|variables?|parameters?|packages?|librar(?:y|ies)|prefix|suffix|milestones?|projects?|users?|accounts?)"
)
_NAMED_BEFORE = re.compile(
    rf"\b(?:{_PLACE}|named|called|titled|to|as|with|equals?|write|use"
    r"|accepts?|call(?:s|ing)?|raises?|returns?)[ \t]*:?[ \t]*`?$",
    re.IGNORECASE,
)
_NAMED_AFTER = re.compile(rf"`? (?:[\w-]+ )?(?:{_PLACE}|must|should|shall)\b", re.IGNORECASE)
_ROUGHLY_BEFORE = re.compile(
    r"(?:~|\b(?:approx\.?|approximately|near(?:ly)?|effectively|currently)) ?\**$", re.IGNORECASE
)
_EXPLAINING_KINDS = frozenset({"quoted_term", "identifier", "number", "colour", "format"})
_STATES = re.compile(
    r"\b(?:is|are|was|were|has|have|had|stays?|shows?|fails?|reveals?|represents?|references|loads|joins|computes|performs"
    r"|prints|reports|triggered|detected|will (?:see|find)|currently)\b"
)
_DEMANDS = re.compile(
    r"\b(?:must|should|shall|needs?|wants?|like|requires?|required|ensure|make sure|please|can you|could you|only|never"
    r"|do not|don't|not|named?|called|titled|labell?ed|defined|counts?|means|if|when|where|whose|looking|i|my|we"
    r"|our)\b|\?"
)
_WORKINGS = re.compile(
    r"(?:it|the (?:\w+ )?(?:system|script|agent|model|server|pipeline|engine|code|tool))(?: \([^)]*\))?"
    r" (?!is\b|was\b|has\b)[a-z]+s\b"
)
_RULE_NUMBER = re.compile(r":\*\*")
_MODALS = re.compile(
    r"\b(?:must|should|shall|needs? to|required?|ensure|make sure|please|exactly|named|called|at least|at most|do not"
    r"|don't|only)\b"
)
_LABEL = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)]|[a-z][.)])?\s*(?:\*\*[^*\n]+\*\*:?|[\w -]{1,30}:(?= ))?\s*")


def is_explanation(document: Document, lexicon: Lexicon, candidate: Candidate) -> bool:
    """Return whether a candidate only explains: how things are, or what a program does that is to be mended."""
    before = document.text[max(0, candidate.start - _BEFORE_CHARS) : candidate.start]
    first, last = document.sentence(candidate.start)
    label = _LABEL.match(document.lower, first, candidate.start)
    said = document.lower[label.end() if label else first : last]
    opening = re.match(r"\w+", said)
    is_command = opening is not None and opening.group() in lexicon.task_verbs
    if document.is_about_a_program and candidate.kind in _EXPLAINING_KINDS and not (is_command or _MODALS.search(said)):
        return True
    if candidate.kind == "number":
        is_of_program = _WORKINGS.match(said) and not _DEMANDS.search(said)
        return bool(_ROUGHLY_BEFORE.search(before) or _RULE_NUMBER.match(document.text, candidate.end) or is_of_program)
    is_term = candidate.kind in ("quoted_term", "identifier") and candidate.labels.subdimension == "identifier"
    is_joined = "_" in document.text[candidate.start : candidate.end] or before.endswith("`")
    if is_term and candidate.labels.dimension == "input" and is_joined:
        return not (_NAMED_BEFORE.search(before) or _NAMED_AFTER.match(document.text, candidate.end))
    if candidate.kind != "quoted_term" or before.endswith("`") or _PLACE_AFTER.match(document.text, candidate.end):
        return False
    return bool(_STATES.search(said)) and not is_command and not _DEMANDS.search(said)
