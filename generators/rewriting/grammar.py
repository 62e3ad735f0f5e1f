"""Does a sentence still hold together at the place of a cut? Simple tests of what dangles there."""

import re

from generators.rewriting.english import English, any_of

_ENDING = re.compile(r"^\s*(?:$|[.,;:!?)\]])")
_LAST_WORD = re.compile(r"([\w'\u2019./-]+)\s*$")
_FIRST_WORD = re.compile(r"^[\s\"'`(\u201c*]*([\w'\u2019./-]+)")
_EMPTY = re.compile(r"``(?!`)|\"\s*\"|(?<!\w)''|\u201c\s*\u201d|\(\s*\)|\[\s*\](?!\()")
_NAME_START = tuple("\"'`\u201c/<[{#$")
_PARTICIPLE = re.compile(r"[a-z]{3,}ed")
_PARTICLE_VERB = re.compile(
    r"(?i)\b(?:fill|log|sign|round|carry|find|write|print|break|back|set|look|pick|open|clean)\w*\s+\w+$"
)
_PARTICLES = frozenset({"in", "on", "off", "up", "down", "out", "by"})
_STANDING_ALONE = frozenset({"this", "that", "these", "those", "all", "both", "each"})
_NOUNS_TOO = frozenset({"same", "free", "open", "public", "whole", "total"})
_MODALS = frozenset({"should", "must", "shall", "will", "would", "may", "might", "could", "to", "don't", "not"})
_BEFORE_VERB = frozenset(
    {"to", "and", "or", "then", "please", "also", "you", "we", "i", "they", "must", "should", "can", "could", "will"}
    | {"would", "may", "might", "shall", "not", "be", "just", "simply", "only", "but", "me", "by", "please,"}
)


class Grammar:
    """The tests, over the words of one language file."""

    def __init__(self, english: English) -> None:
        self.english = english
        prepositions = {*english.long_prepositions, *english.prepositions, "to"}
        self._governed = re.compile(rf"(?i)(?<![\w.-]){any_of(english.governed)}\s*$")
        self._preposition = re.compile(rf"(?i)(?<![\w.-]){any_of(prepositions)}\s*$")
        self._wants_name = re.compile(rf"(?i)(?<![\w-]){any_of({*english.namers, *english.comparators})}\s*$")
        self._long_start = re.compile(rf"(?i){any_of(english.long_prepositions)}(?![\w-])")

    def holds(self, left: str, right: str) -> bool:
        """Return whether a sentence of these two halves has nothing dangling where they meet."""
        left, right = left.rstrip(), right.lstrip()
        if _EMPTY.search(left[-2:] + right[:2]):
            return False
        is_end = bool(_ENDING.match(right))
        first, last = _first(right), _last(left)
        if not left:
            return self._may_begin(right, first)
        if left.endswith(("(", "[", "/")) or (left.endswith((",", ":")) and is_end):
            return False
        if left.endswith((",", ";", ":", ".")):
            return True
        are_joined = first in self.english.conjunctions
        if are_joined and last in self.english.conjunctions | {"both", "between"}:
            return False
        is_object = not is_end and self._may_be_noun_phrase(right, first)
        return not self._dangles(left, last, first, is_end=is_end, is_object=is_object)

    def is_governed(self, left: str) -> bool:
        """Return whether the words that a text ends with want what follows them."""
        return bool(self._governed.search(left.rstrip()))

    def is_transitive_here(self, left: str, last: str) -> bool:
        """Return whether the last word is a verb that wants an object, and not a noun."""
        known = self.english
        base = known.base(last)
        if base is None or base not in known.transitive:
            return False
        leading = left[: len(left.rstrip()) - len(last)].rstrip()
        before = _last(leading)
        if last.endswith("ing"):
            return before not in known.determiners
        if not leading or leading[-1:] in ",;:.":
            return True
        if before in _BEFORE_VERB or before in known.adverbs | known.pronouns | known.auxiliaries:
            return True
        return last not in known.kind_nouns and before not in known.determiners and base == last

    def _may_begin(self, right: str, first: str) -> bool:
        if not right or right[0] in ".,;:!?)" or first in self.english.conjunctions:
            return False
        return first not in self.english.auxiliaries or right.rstrip().endswith("?")

    def _dangles(self, left: str, last: str, first: str, *, is_end: bool, is_object: bool) -> bool:
        """Return whether the last word wants something that does not follow.

        Args:
            left: What stands before the seam.
            last: Its last word.
            first: The first word after the seam.
            is_end: Whether nothing or a mark follows.
            is_object: Whether a noun phrase may follow.
        """
        known = self.english
        if last in known.determiners - _STANDING_ALONE:
            return not is_object or first in known.determiners or first.endswith("ing")
        if last in known.conjunctions or last == "than":
            return is_end or first == "of"
        if last in _MODALS:
            unfit = known.determiners | known.prepositions | known.conjunctions
            return is_end or first in unfit or first.endswith("ing")
        if last in known.copulas | known.auxiliaries:
            return is_end or first in known.conjunctions
        if self._wants_object(left, last, is_end=is_end):
            return not is_object
        return first == "of" and not known.is_noun_like(last)

    def _wants_object(self, left: str, last: str, *, is_end: bool) -> bool:
        """Return whether a noun phrase must follow the last word."""
        known = self.english
        if self._governed.search(left) or self._wants_name.search(left) or last in known.subordinators:
            return True
        if self._preposition.search(left):
            return not (last in _PARTICLES and _PARTICLE_VERB.search(left))
        if last in ("what", "how", "why"):
            return is_end
        is_adjective = known.is_adjective(last) and last not in _NOUNS_TOO
        before = _last(left[: len(left.rstrip()) - len(last)])
        return (is_adjective and before in known.determiners - _STANDING_ALONE) or self.is_transitive_here(left, last)

    def _may_be_noun_phrase(self, right: str, first: str) -> bool:
        """Return whether what follows can be what a preposition, determiner or transitive verb wants."""
        if right.startswith(_NAME_START):
            return True
        known = self.english
        unfit = known.prepositions | known.conjunctions | known.auxiliaries
        is_unfit = (
            first in unfit or first in ("to", "that", "if", "so", "then", "respectively") or right.startswith("(")
        )
        return not (is_unfit or self._long_start.match(right) or _PARTICIPLE.fullmatch(first))


def _first(text: str) -> str:
    match = _FIRST_WORD.match(text)
    return match[1].lower().rstrip(".") if match else ""


def _last(text: str) -> str:
    match = _LAST_WORD.search(text)
    return match[1].lower() if match else ""
