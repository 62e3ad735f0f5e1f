"""Does a sentence still parse where it did before? What it lacks, found by rules on words of closed classes.

Only what the original sentence does not lack counts, so a prompt that was written carelessly may stay as it was.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from generators.rewriting.english import English
from generators.rewriting.grammar import Grammar
from generators.rewriting.remnants import loose_words, lost_halves
from generators.rewriting.sentences import Change

_WORD_OR_MARK = re.compile(
    r"(?<!\w)['\u2019]s\b|`[^`\n]*`|\"[^\"\n]*\"|\u201c[^\u201d\n]*\u201d|(?<!\w)'[^'\n]*'(?!\w)|https?://\S+"
    r"|[^\W_][\w'\u2019./@&-]*[\w/]|\w|[^\w\s]"
)
_END = frozenset(".,;:!?)]")
_NAME_START = tuple("`\"'\u201c/<[{#$")
_CLAUSE_END = frozenset(".;:!?")
_RELATIVES = frozenset({"that", "which", "who", "whose"})
_QUESTION_WORDS = frozenset({"which", "who", "where", "when", "what"})
_OPENS_WITH_SUBJECT = frozenset({"if", "whether", "because", "although", "unless"})
_STRANDING = frozenset({"what", "which", "who", "that", "where"})
_AFTER_RELATIVE = frozenset({"possible", "necessary", "needed", "so", ""})
_PAIRS = (("both", "and"), ("either", "or"), ("between", "and"), ("neither", "nor"))
_VERB_ENDINGS = ("'s", "'re", "'ve", "'m", "'d", "'ll")
_PARTICIPLES = ("ed", "ing", "ies", "izes", "ises")
_FEW_WORDS = 2
_LONG_WORD_CHARS = 4


class Parsing:
    """The tests, over the words of one language file."""

    def __init__(self, english: English) -> None:
        self._english = english
        self._grammar = Grammar(english)
        self._pairs_of_prepositions = frozenset(english.preposition_pairs)
        self._after_noun_phrase = (
            english.prepositions | english.conjunctions | english.copulas | {"to", "that", "which", "who", "if", "when"}
        )

    def faults(self, change: Change) -> tuple[str, ...]:
        """Return what the sentence lacks that it did not lack before, in words that a rewriter can act on."""
        before, after = _words(change.before), _words(change.after)
        if not after:
            return ()
        found = Counter(self._all(after)) - Counter(self._all(before))
        return (*found, *self._lost(before, after), *lost_halves(change, self._english))

    def _all(self, words: Sequence[str]) -> Iterator[str]:
        for number, word in enumerate(words):
            before = words[number - 1].lower() if number else ""
            after = words[number + 1] if number + 1 < len(words) else "."
            is_stranded = after in _END and not _STRANDING.isdisjoint(each.lower() for each in words[:number])
            if not word.startswith(_NAME_START) and not (is_stranded and word.lower() in self._english.prepositions):
                lack = self._lack(before, word.lower(), after.lower(), words[number + 2 : number + 3])
                if lack:
                    yield f"{word!r} stands before {after!r} without {lack}"
        yield from self._clauses(words)
        yield from self._objects(words)
        yield from _pairs(words)
        yield from loose_words(words)

    def _lack(self, before: str, word: str, after: str, third: Sequence[str]) -> str | None:
        """Return what a word wants after it and does not have."""
        known = self._english
        is_counted = after in known.measures or after == "it" or f"{after}s" in known.measures
        if word in known.before_numbers - {"every", "top"} and is_counted:
            return "a number"
        if word in known.determiners - known.pronoun_determiners:
            then = third[0].lower() if third else "."
            is_adjective = known.is_adjective(after) or (after.endswith("est") and len(after) > _LONG_WORD_CHARS + 1)
            lacks = self._ends_noun_phrase(after) or (is_adjective and self._ends_noun_phrase(then))
            return "a noun" if lacks else None
        if word in known.prepositions - {"to"}:
            return "what it belongs to" if self._is_loose(before, word, after) else None
        return self._lack_of_others(before, word, after)

    def _lack_of_others(self, before: str, word: str, after: str) -> str | None:
        known = self._english
        is_end = after in _END
        if before == "," and is_end and (word.endswith("ed") or word in known.leading_participles):
            return "what it introduces"
        if word in ("and", "or", "but", "nor") and (is_end or after in ("and", "or", "of")):
            return "what it joins"
        if word in _OPENS_WITH_SUBJECT and after in known.auxiliaries | known.irregular_participles:
            return "its subject"
        if (
            word == "to"
            and before in known.copulas
            and known.base(after) != after
            and after not in ("not", "be", "have")
        ):
            return "a verb"
        is_participle = after in known.irregular_participles or (after.endswith("ed") and known.base(after) is None)
        if before == "to" and word in known.transitive and is_participle:
            return "what it acts on"
        if word in ("it", "them") and after == "of":
            return "a noun"
        if word == "to" and (is_end or after in ("and", "or", "to", "of", "in", "with")):
            return "a verb or a noun"
        is_noun = after in known.kind_nouns and known.base(after) is None
        if word in known.modals and (is_noun or is_end or after in ("to", "and", "or", "of", "in", "by", "for")):
            return "its verb"
        if word in known.copulas and (is_end or after in ("and", "or", "but", "of")):
            return "what it says"
        return None

    def _ends_noun_phrase(self, word: str) -> bool:
        known = self._english
        others = known.determiners - known.kind_nouns - known.pronoun_determiners - {"other", "own"}
        return word in _END or word in self._after_noun_phrase or word in others

    def _is_loose(self, before: str, word: str, after: str) -> bool:
        """Whether a preposition has nothing that it belongs to, and is none that can do without."""
        known = self._english
        if word in known.free_prepositions:
            return after in known.conjunctions and word not in ("before", "after")
        if before in known.particle_verbs or f"{word} {after}" in self._pairs_of_prepositions:
            return False
        return after in _END | known.conjunctions | known.prepositions | {"is", "are", "was", "were"}

    def _objects(self, words: Sequence[str]) -> Iterator[str]:
        """Yield verbs without what they act on."""
        known = self._english
        for number, word in enumerate(words):
            lower = word.lower()
            after = words[number + 1].lower() if number + 1 < len(words) else "."
            is_open = after in _END | known.conjunctions | known.prepositions
            is_transitive = known.base(lower) in known.transitive - known.objectless and lower not in known.kind_nouns
            if is_open and is_transitive and self._grammar.is_transitive_here(" ".join(words[: number + 1]), lower):
                yield f"{word!r} has nothing that it acts on"

    def _clauses(self, words: Sequence[str]) -> Iterator[str]:
        """Yield clauses without a verb, and a sentence without one."""
        if len(words) > _FEW_WORDS and not any(self._may_be_verb(word) for word in _outside_relatives(words)):
            yield "the sentence has no verb"
        for number, (word, following) in enumerate(pairwise(words)):
            leads_up = following.lower() in self._english.leading_participles | {"based"}
            rest = [each for each in words[number + 2 :] if each != "."]
            if word.lower() == "and" and leads_up and not any(self._may_be_verb(each) for each in rest):
                yield f"what 'and {following}' leads up to is missing"
        for number, word in enumerate(words):
            lower, before = word.lower(), words[number - 1].lower() if number else ""
            is_relative = lower in _QUESTION_WORDS and before in self._english.prepositions
            if lower not in self._english.clause_openers or is_relative:
                continue
            rest = list(self._clause_after(words, number))
            first = rest[0].lower() if rest else ""
            is_short = first in self._english.prepositions or first in _AFTER_RELATIVE
            if not is_short and not any(self._may_be_verb(each) for each in rest):
                yield f"the clause after {word!r} has no verb"

    def _clause_after(self, words: Sequence[str], number: int) -> Iterator[str]:
        """Yield the words after one up to the end of its clause."""
        last = ""
        for word in words[number + 1 :]:
            is_next = word.lower() in self._english.clause_openers and last in ("and", "or")
            if word in _CLAUSE_END or (word == "," and last) or is_next:
                return
            yield word
            last = word.lower()

    def _lost(self, before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
        """Yield words that have lost what they hold, far from them."""
        old, new = [word.lower() for word in before], [word.lower() for word in after]
        if "respectively" in new and new.count("and") + new.count(",") < old.count("and") + old.count(","):
            yield "'respectively' has lost what it relates"
        if new.count("'s") > old.count("'s"):
            yield "'s belongs to nobody"
        if "as" in old and new.count("same") < old.count("same"):
            head = old[old.index("as", old.index("same")) - 1] if "as" in old[old.index("same") :] else ""
            if head and new.count(head) >= old.count(head):
                yield f"it is not said any more what the {head} is the same as"
        for noun in sorted(self._english.holders.intersection(new)):
            lost = _count(new, noun, "of") < _count(old, noun, "of")
            if lost and new.count(noun) >= old.count(noun):
                yield f"{noun!r} has lost what it is the {noun} of"

    def _may_be_verb(self, token: str) -> bool:
        word, known = token.lower(), self._english
        if word in known.auxiliaries | known.irregular_participles or "n't" in word or word.endswith(_VERB_ENDINGS):
            return True
        return known.base(word) is not None or (len(word) > _LONG_WORD_CHARS and word.endswith(_PARTICIPLES))


def _words(sentence: str) -> list[str]:
    words = _WORD_OR_MARK.findall(sentence)
    return [*words, "."] if words and words[-1] not in _END else words


def _pairs(words: Sequence[str]) -> Iterator[str]:
    """Yield words that announce two things where only one follows."""
    lower = [word.lower() for word in words]
    for first, second in _PAIRS:
        for number, word in enumerate(lower):
            following = (lower[number + 1 : number + 2] or [""])[0]
            is_one_phrase = following in ("of", "the") or (first == "both" and following.endswith("s"))
            if word == first and second not in lower[number:] and not is_one_phrase:
                yield f"{first!r} announces two things and one follows"


def _outside_relatives(words: Sequence[str]) -> Iterator[str]:
    """Yield the words that stand in no relative clause."""
    is_inside = False
    for word in words:
        is_inside = word.lower() in _RELATIVES or (is_inside and word not in (",", ";", ":"))
        if not is_inside:
            yield word


def _count(words: Sequence[str], first: str, second: str) -> int:
    return sum(pair == (first, second) for pair in pairwise(words))
