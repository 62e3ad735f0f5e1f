"""What the embedded rewriter knows about English: words of closed classes, verbs and nouns, from a data file."""

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from generators.rewriting.forms import UNSPACED
from recorder.resources import data_path

FILE_NAME = "english.toml"
_NAMES = re.compile(rf"`[^`\n]*`|[^\s{UNSPACED}]*[\w-][_./@\\]\w[^\s{UNSPACED}]*")
_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f]")
WORD = re.compile(r"[^\W\d_][\w'\u2019.-]*")
_CLOSED_CLASSES = (
    "determiners",
    "pronouns",
    "conjunctions",
    "subordinators",
    "auxiliaries",
    "adverbs",
    "prepositions",
)
_LEAST_SHARE_OF_ENGLISH = 0.2
_LEAST_SHARE_KNOWN = 0.3
_FEW_WORDS = 5


class English(msgspec.Struct, frozen=True, kw_only=True):
    """The word lists; every word in lower case. ``function_words``: every word of a closed class."""

    determiners: frozenset[str]
    pronouns: frozenset[str]
    conjunctions: frozenset[str]
    subordinators: frozenset[str]
    auxiliaries: frozenset[str]
    copulas: frozenset[str]
    adverbs: frozenset[str]
    prepositions: frozenset[str]
    kind_nouns: frozenset[str]
    plural_nouns: frozenset[str]
    singular_nouns: frozenset[str]
    verbs: frozenset[str]
    transitive: frozenset[str]
    nouns_and_verbs: frozenset[str]
    adjectives: frozenset[str]
    leading_participles: frozenset[str]
    irregular_participles: frozenset[str]
    pronoun_determiners: frozenset[str]
    holders: frozenset[str]
    clause_openers: frozenset[str]
    modals: frozenset[str]
    before_numbers: frozenset[str]
    measures: frozenset[str]
    free_prepositions: frozenset[str]
    particle_verbs: frozenset[str]
    objectless: frozenset[str]
    mass_nouns: frozenset[str]
    containers: frozenset[str]
    preposition_pairs: tuple[str, ...]
    long_prepositions: tuple[str, ...]
    comparators: tuple[str, ...]
    after_comparators: tuple[str, ...]
    namers: tuple[str, ...]
    governed: tuple[str, ...]
    function_words: frozenset[str]

    def is_english(self, text: str, *, among_english: bool | None = None) -> bool:
        """Return whether enough of the words of a text are English function words; a few words are what is around them.

        Args:
            text: The text.
            among_english: Whether it is a part of an English text: then any known words count, as in a list item. None
                if nothing is around it: then known words count too, and a few Latin words are English.
        """
        prose = _NAMES.sub(" ", text)
        if 2 * _count(_LATIN, prose) < _count(_LETTER, prose):
            return False
        words = [word.lower() for word in WORD.findall(prose)]
        if len(words) < _FEW_WORDS:
            return among_english is not False
        function = sum(word in self.function_words for word in words)
        if function >= _LEAST_SHARE_OF_ENGLISH * len(words):
            return True
        known = sum(word in self.kind_nouns or self.base(word) is not None for word in words)
        return among_english is not False and function + known >= _LEAST_SHARE_KNOWN * len(words)

    def is_verb(self, word: str) -> bool:
        """Return whether a word is the base form of a verb of tasks."""
        return word.lower() in self.verbs

    def base(self, word: str) -> str | None:
        """Return the verb that a word in -s or -ing is a form of, or the word itself; None if it is no known verb."""
        word = word.lower()
        for ending, replacements in (("", ("",)), ("s", ("",)), ("es", ("",)), ("ing", ("", "e")), ("ies", ("y",))):
            if ending and not word.endswith(ending):
                continue
            stem = word[: len(word) - len(ending)]
            for each in replacements:
                if stem + each in self.verbs:
                    return stem + each
            if ending == "ing" and len(stem) > 2 and stem[-1] == stem[-2] and stem[:-1] in self.verbs:
                return stem[:-1]
        return None

    def is_noun_like(self, word: str) -> bool:
        """Return whether a word can stand as the noun of a phrase: no closed class, no adverb, no form of a verb."""
        lower = word.lower()
        if lower in self.kind_nouns:
            return True
        if (
            lower in self.function_words | self.irregular_participles
            or lower.endswith("ly")
            or not re.fullmatch(r"[^\W\d_][\w-]*", lower)
        ):
            return False
        if lower.endswith(("ing", "ed")) and len(lower) > 4:
            return False
        return self.base(lower) is None

    def is_adjective(self, word: str) -> bool:
        """Return whether a word is an adjective, as far as its form tells."""
        lower = word.lower()
        if lower in self.kind_nouns:
            return False
        return lower in self.adjectives or lower.endswith(
            ("ive", "ous", "ful", "able", "ible", "ic", "less", "ary", "ical", "ed")
        )

    def plural(self, noun: str) -> str:
        """Return the plural of a regular noun, or of a phrase that ends in one."""
        if noun in ("criterion", "criteria"):
            return "criteria"
        if self.is_plural(noun.rpartition(" ")[2]):
            return noun
        if noun.endswith(("s", "x", "ch", "sh")):
            return noun + "es"
        return noun[:-1] + "ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else noun + "s"

    def is_plural(self, noun: str) -> bool:
        """Return whether a noun is plural by its form."""
        lower = noun.lower()
        if lower in self.plural_nouns:
            return True
        return lower.endswith("s") and not lower.endswith(("ss", "us", "is")) and lower not in self.singular_nouns


@cache
def english(folder: Path | None = None) -> English:
    """Return the word lists of a folder's ``english.toml``, or of the bundled one."""
    raw = tomllib.loads(file_of(folder, FILE_NAME).read_text(encoding="utf-8"))
    lists = {name: tuple(sorted(value, key=lambda each: -len(each))) for name, value in raw.items() if _is_list(value)}
    words = {name: frozenset(value.split()) for name, value in raw.items() if isinstance(value, str)}
    function_words = frozenset({"to", "not", "how", "why", "what", "than", "as"}).union(
        *(words[name] for name in _CLOSED_CLASSES)
    )
    return msgspec.convert({**lists, **words, "function_words": function_words}, English)


def file_of(folder: Path | None, name: str) -> Path:
    """Return the file of that name in the user's folder if it has one, else the bundled one."""
    if folder and (folder / name).is_file():
        return folder / name
    return data_path("generation", name)


def any_of(words: Iterable[str]) -> str:
    """Return a pattern for one of the words or phrases, the longest first, whatever spaces stand in them."""
    return _any_of(tuple(sorted(words, key=lambda each: (-len(each), each))))


@cache
def _any_of(ordered: tuple[str, ...]) -> str:
    return "(?:" + "|".join(r"\s+".join(re.escape(part) for part in each.split()) for each in ordered) + ")"


def _count(pattern: re.Pattern[str], text: str) -> int:
    return len(text) - len(pattern.sub("", text))


def _is_list(value: object) -> bool:
    return isinstance(value, list)
