"""Loads the English word lists of the built-in rewriter from a data file."""

import re
import tomllib
from collections.abc import Iterable
from functools import cache

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
    """The English word lists, all in lower case. ``function_words`` has every word of a closed class."""

    kind_nouns: frozenset[str]
    verbs: frozenset[str]
    function_words: frozenset[str]

    def is_english(self, text: str, *, among_english: bool | None = None) -> bool:
        """Return whether a text is English, judging by its share of function words and other known words.

        Args:
            text: The text.
            among_english: Whether the surrounding text is English, or None if there is none. If False, only function
                words count. A text of fewer than five words is taken to be English unless this is False.
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

    def base(self, word: str) -> str | None:
        """Return the base form of a verb, given the base, -s or -ing form. Return None if the verb is unknown."""
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


@cache
def english() -> English:
    """Load the bundled word lists."""
    raw = tomllib.loads(data_path("generation", FILE_NAME).read_text(encoding="utf-8"))
    words = {name: frozenset(value.split()) for name, value in raw.items()}
    function_words = frozenset({"to", "not", "how", "why", "what", "than", "as"}).union(
        *(words[name] for name in _CLOSED_CLASSES)
    )
    return English(
        kind_nouns=words["kind_nouns"],
        verbs=words["verbs"],
        function_words=function_words,
    )


def any_of(words: Iterable[str]) -> str:
    """Return a pattern that matches any of the words or phrases, longest first. Their spaces match any white space."""
    return _any_of(tuple(sorted(words, key=lambda each: (-len(each), each))))


@cache
def _any_of(ordered: tuple[str, ...]) -> str:
    return "(?:" + "|".join(r"\s+".join(re.escape(part) for part in each.split()) for each in ordered) + ")"


def _count(pattern: re.Pattern[str], text: str) -> int:
    return len(text) - len(pattern.sub("", text))
