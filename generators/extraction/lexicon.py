"""Loads the extractor's lexicon (rules, words, roles and file extensions) from its data files."""

import re
import tomllib
from collections.abc import Iterable
from functools import cache

import msgspec

from lhaw_record.generators.extraction.rules import Labels, Rule, RulesFile, compiled_rules
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.resources import data_path


class Lexicon(msgspec.Struct, frozen=True, kw_only=True):
    """The rules and words of the extractor. Every word is in lower case, and ``digest`` covers the whole lexicon."""

    rules: tuple[Rule, ...]
    roles: dict[str, dict[str, Labels]]
    words: dict[str, frozenset[str]]
    task_verbs: frozenset[str]
    kind_nouns: frozenset[str]
    verbs: frozenset[str]
    endings: frozenset[str]
    spoken_endings: dict[str, frozenset[str]]
    stop_words: frozenset[str]
    digest: str

    def is_noun(self, word: str) -> bool:
        """Return whether a lower-case word may be a noun: not a function word or verb form, and not in -ed or -ly."""
        if word in self.stop_words or not word[:1].isalpha() or word.endswith(("ed", "ly")):
            return False
        return word in self.kind_nouns or not (word in self.verbs or word in self.task_verbs)


@cache
def lexicon() -> Lexicon:
    """Load the bundled lexicon."""
    texts = [data_path("generation", f"{name}.toml").read_text(encoding="utf-8") for name in _FILES]
    file = msgspec.toml.decode(texts[0], type=RulesFile)
    words = {name: frozenset(value.split()) for name, value in tomllib.loads(texts[1])["words"].items()}
    english = {name: frozenset(value.split()) for name, value in tomllib.loads(texts[2]).items()}
    function_words = frozenset({"to", "not", "how", "why", "what", "than", "as"}).union(
        *(words for name, words in english.items() if name not in ("kind_nouns", "verbs"))
    )
    return Lexicon(
        rules=compiled_rules(file, {name: _any_of(each) for name, each in words.items()}),
        roles=file.roles,
        words=words,
        task_verbs=words["verb_write"] | words["verb_read"] | words["verb_transfer"] | words["verb_find_out"],
        kind_nouns=english["kind_nouns"],
        verbs=english["verbs"],
        endings=frozenset(file.files.endings.split()),
        spoken_endings={name: frozenset(value.split()) for name, value in file.files.spoken.items()},
        stop_words=function_words | words["further_function"],
        digest=digest(texts),
    )


_FILES = ("extraction", "extraction_words", "english")


def _any_of(words: Iterable[str]) -> str:
    """Return a pattern that matches any of the words or phrases, longest first. Their spaces match any white space."""
    ordered = sorted(words, key=lambda each: (-len(each), each))
    return "(?:" + "|".join(r"\s+".join(re.escape(part) for part in each.split()) for each in ordered) + ")"
