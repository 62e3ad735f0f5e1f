"""Loads the word lists of the gate from ``data/gate/words.toml``."""

import tomllib
from functools import cache

import msgspec

from lhaw_record.recorder.resources import data_path


class Words(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The word lists of the gate, in lower case and without accents.

    Attributes:
        function_words: Words that say nothing by themselves.
        logic: Words that turn a demand into another one: negation, comparison, order, alternative.
        scope: Words that say that everything is meant.
        pointers: Words that announce what comes in the same sentence.
        generic: Words that need not be in a guess: what kind of thing a name is of, and emphasis.
        months: Names of months and weekdays, whole and by their first three letters.
        numbers: Number words, with their values.
        decimals: Number words that count only before "decimals", with their values.
        colours: Names of colours.
        units: Dimension, size in its base unit, and names of each unit.
        precision: Number of decimals, and the words that say the same.
        symbols: Signs and abbreviations, with the words that they stand for.
        same: Groups of words that say the same thing.
        persons: Words for a person, to whom "she" or "he" may refer.
        cannot_end: Words that cannot stand before punctuation.
        strict_determiners: Determiners that never stand alone.
        cannot_follow_determiner: Words that cannot come next after one of these.
        strict_prepositions: Prepositions and "than", as far as a phrase must follow.
        cannot_follow_preposition: Words that cannot come next after one of these.
        openers: Words that begin a subordinate clause.
    """

    function_words: frozenset[str]
    logic: frozenset[str]
    scope: frozenset[str]
    pointers: frozenset[str]
    generic: frozenset[str]
    months: frozenset[str]
    numbers: dict[str, str]
    decimals: dict[str, str]
    colours: frozenset[str]
    units: tuple[tuple[str, str, str], ...]
    precision: tuple[tuple[str, str], ...]
    symbols: dict[str, str]
    same: tuple[frozenset[str], ...]
    persons: frozenset[str]
    cannot_end: frozenset[str]
    strict_determiners: frozenset[str]
    cannot_follow_determiner: frozenset[str]
    strict_prepositions: frozenset[str]
    cannot_follow_preposition: frozenset[str]
    openers: frozenset[str]


@cache
def words() -> Words:
    """Return the bundled word lists."""
    raw = tomllib.loads(data_path("gate", "words.toml").read_text(encoding="utf-8"))
    listed = {name: value.split() if isinstance(value, str) else value for name, value in raw.items() if name != "same"}
    months = listed["months"] + [each[:3] for each in listed["months"]]
    same = [each.split() for each in raw["same"]]
    return msgspec.convert({**listed, "months": months, "same": same}, Words)
