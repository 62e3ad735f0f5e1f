"""Which form of language a removed value has: a name, a noun phrase, an adverbial, a verb phrase, a clause."""

import re
from typing import Literal

from generators.rewriting.english import English, any_of

Form = Literal["name", "number", "list", "noun", "preposition", "participle", "gerund", "verb", "clause", "question"]

_WORD = re.compile(r"[^\W_][\w'\u2019-]*")
_QUESTION_WORD = re.compile(r"^(?:how|what|which|who|whom|whose|where|when|why|whether)$")
_LY_ADJECTIVES = frozenset(
    ("daily", "weekly", "monthly", "yearly", "quarterly", "hourly", "early", "likely", "only", "friendly")
)
_ORDERING = re.compile(
    r"(?i)(?:\b(?:largest|smallest|highest|lowest|newest|oldest|longest|shortest|latest|earliest|most|least)\b.*\bfirst"
    r"|\b(?:a|de)scending(?: order)?)$"
)
_WANTS_VERB = re.compile(
    r"(?i)(?:\b(?:please|should|must|can|could|will|would|may|might|shall)|n['\u2019]t)\s+(?:also\s+)?$"
)
_WANTS_GERUND = re.compile(r"(?i)(?:by|before|after|for|without|when|while|of|on|in)\s+$")
_BEFORE_VERB = frozenset({"to", "and", "or", "then", "please", "you", "we", "i", "they", "not", "be", "by", "but"})
_FINITE = re.compile(
    r"(?i)[\w`\"']\s+(?:is|are|was|were|has|have|does|must|should|shall|will|can|may|counts?|applies|apply)\b"
)
_RELATIVE = re.compile(r"(?i)\b(?:that|which|who|whose|where|when|as)\b")


def form_of(value: str, left: str, english: English) -> Form:
    """Return the form of a value that is no number and no list.

    Args:
        value: The value, spaces single.
        left: What its sentence holds before it.
        english: The words.
    """
    words = value.lower().split()
    while len(words) > 1 and words[0] in english.adverbs - {"not"}:
        words = words[1:]
    if value[:1] in "`\"'\u201c" and value[-1:] in "`\"'\u201d" and len(_WORD.findall(value)) < len(value):
        return "name" if value[1:-1].count(value[-1]) == 0 else "noun"
    first = words[0].strip("\"'`,.;:") if words else ""
    second = words[1].strip("\"'`,.;:") if len(words) > 1 else ""
    if first.endswith("ly") and first not in _LY_ADJECTIVES and second:
        first, second = second, words[2] if len(words) > 2 else ""
        if first.endswith("ed"):
            return "participle"
    if first in english.prepositions and "," in value and is_clause(value):
        return "clause"
    return (
        _opening_form(value, first, second, english)
        or _verbal_form(left, first, second, english)
        or ("clause" if is_clause(value) else "noun")
    )


def is_clause(value: str) -> bool:
    """Return whether a phrase has a verb of its own that no relative pronoun leads to."""
    finite, relative = _FINITE.search(value), _RELATIVE.search(value)
    return finite is not None and not (relative and relative.start() < finite.end())


def _opening_form(value: str, first: str, second: str, english: English) -> Form | None:
    """Return the form that the first words show."""
    lower = value.lower()
    if _QUESTION_WORD.match(first) and not (first in ("when", "where", "which") and "," in value):
        return "question"
    if first in english.subordinators or (first in english.auxiliaries and second):
        return "clause"
    comparator = re.match(rf"(?i){any_of(english.comparators)}\s", lower + " ")
    if (comparator and re.search(r"\d", value)) or first in english.prepositions | {"not", "to", "due"}:
        return "preposition"
    if re.match(rf"(?i){any_of(english.long_prepositions)}\s", lower + " "):
        return "preposition"
    if english.is_adjective(first) and second in english.prepositions | {"to"}:
        return "participle"
    is_participle = first.endswith("ed") or first in english.leading_participles
    follows = not second or second in english.prepositions | english.adverbs | {"to", "as"}
    if is_participle and not first.endswith("ing") and (follows or first in english.leading_participles - {"listed"}):
        return "participle"
    return "preposition" if _ORDERING.search(value) else None


def _verbal_form(left: str, first: str, second: str, english: English) -> Form | None:
    if not second:
        return None
    if _WANTS_VERB.search(left):
        is_verb = first.isalpha() and first not in english.determiners | english.prepositions | {"be"}
        return "verb" if is_verb else None
    if _may_be_verb(left, english) and _is_verb_phrase(first, second, english):
        return "verb"
    has_object = second in english.determiners | english.prepositions | english.pronouns
    if first.endswith("ing") and english.base(first) and (has_object or _WANTS_GERUND.search(left)):
        return "gerund"
    return None


def _is_verb_phrase(first: str, second: str, english: English) -> bool:
    if first in english.nouns_and_verbs | english.kind_nouns:
        return second in english.determiners | english.pronouns
    return english.is_verb(first) and second not in ("of", "and", "for")


def _may_be_verb(left: str, english: English) -> bool:
    """Return whether what stands before a value can be followed by a verb."""
    before = re.search(r"([\w'\u2019-]+)\W*$", left)
    if not before or re.search(r"[:;,.(]\s*$", left):
        return True
    word = before[1].lower()
    return word in _BEFORE_VERB | english.auxiliaries | (english.adverbs - {"there"}) or word.endswith("ly")
