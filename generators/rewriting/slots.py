"""The place of a value in its sentence: what determines it, and the nouns that it qualifies or names."""

import re

import msgspec

from generators.rewriting.english import English, any_of
from generators.rewriting.grammar import Grammar
from generators.rewriting.scene import Scene
from generators.rewriting.values import Thing

_NEXT_WORD = re.compile(r"^(?:\s+|-)(?P<word>[A-Za-z][\w-]*)(?:\(s\))?(?![\w(/.]\w)")
_LAST_WORD = re.compile(r"(?P<word>[A-Za-z][\w'\u2019.-]*)(?P<space>\s*)$")
_INDEFINITE = frozenset({"a", "an", "any", "some", "no", "each", "every", "another"})
_WORDS_FOR_TEXT = frozenset({"phrase", "text", "name", "title", "message", "term", "label", "heading", "word", "words"})
_NAMED_FORMS = ("name", "number", "list", "noun")


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """What stands around a value.

    ``before``: the word directly before it, in lower case. ``determiner``: "a" or "the" where one stands directly
    before. ``is_determined``: one stands there with adjectives between. ``noun_after``: the noun that the value
    qualifies. ``noun_before``: the noun that it names, at ``noun_start``; ``noun_determiner``: what stands before that.
    """

    before: str = ""
    determiner: str = ""
    is_determined: bool = False
    noun_after: str | None = None
    noun_before: str | None = None
    noun_start: int = 0
    noun_determiner: str = ""
    is_noun_determined: bool = False


class Slots:
    """Finds the slots of values."""

    def __init__(self, english: English, grammar: Grammar) -> None:
        self.english = english
        self.grammar = grammar
        determiners = any_of(english.determiners - {"all", "both", "either"})
        self._determined = re.compile(
            rf"(?i)(?<![\w-])(?:{determiners}|\w+['\u2019]s)\s+(?P<between>(?:[^\s.,;:()]+\s+){{0,2}})$"
        )

    def slot(self, scene: Scene, thing: Thing) -> Slot:
        """Return what stands around a value."""
        left = scene.left
        before = _word_before(left)
        noun, position = (None, 0) if self._begins_with_determiner(scene) else self._noun_before(left, thing)
        leading = left[:position] if noun else ""
        return Slot(
            before=before,
            determiner=self._determiner(before),
            is_determined=self._is_determined(left),
            noun_after=self._noun_after(scene.right),
            noun_before=noun,
            noun_start=scene.sentence_start + position,
            noun_determiner=self._determiner(_word_before(leading)),
            is_noun_determined=bool(noun) and (self._is_determined(leading) or self.english.is_plural(noun or "")),
        )

    def _begins_with_determiner(self, scene: Scene) -> bool:
        first = scene.text[scene.start : scene.end].split()[:1]
        return bool(first) and first[0].lower() in self.english.determiners

    def _determiner(self, word: str) -> str:
        if word in _INDEFINITE:
            return "a"
        is_definite = word in self.english.determiners - {"all", "both"} or word.endswith(("'s", "\u2019s"))
        return "the" if is_definite else ""

    def _is_determined(self, left: str) -> bool:
        match = self._determined.search(left)
        if not match:
            return False
        between = match["between"].lower().split()
        is_noun_phrase = not any(word in self.english.function_words for word in between)
        return is_noun_phrase and not (between and self.grammar.is_transitive_here(left.rstrip(), between[-1]))

    def _noun_after(self, right: str) -> str | None:
        match = _NEXT_WORD.match(right)
        if not match:
            return None
        word = match["word"]
        is_noun = self.english.is_noun_like(word) and (word[0].islower() or word.lower() in self.english.kind_nouns)
        return word if is_noun else None

    def _noun_before(self, left: str, thing: Thing) -> tuple[str | None, int]:
        match = _LAST_WORD.search(left)
        if not match or not match["space"] or thing.form not in _NAMED_FORMS:
            return None, 0
        word, start = match["word"], match.start()
        lower = word.lower()
        if thing.form == "number" and self.english.is_plural(lower):
            return None, 0
        if thing.is_head and lower not in _WORDS_FOR_TEXT:
            return None, 0
        leading = left[:start]
        is_determined = self._is_determined(leading)
        if self.grammar.is_transitive_here(left.rstrip(), lower) and not is_determined:
            return None, 0
        if lower in self.english.kind_nouns:
            return (word, start) if leading.strip() or not self.english.is_verb(word) else (None, 0)
        is_noun = self.english.is_noun_like(word) and not self.english.is_adjective(word)
        is_title = word[0].isupper() and thing.form in ("name", "number") and leading.rstrip()[-1:].isalnum()
        return (word, start) if is_noun and (is_determined or is_title) else (None, 0)


def _word_before(left: str) -> str:
    match = _LAST_WORD.search(left)
    return match["word"].lower() if match and match["space"] else ""
