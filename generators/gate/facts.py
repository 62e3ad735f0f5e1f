"""Reads the facts of a text that have a form: numbers, months, colours, names, quoted and coded texts, other words."""

import re
import tomllib
import unicodedata
from collections import Counter
from fractions import Fraction
from functools import cache, lru_cache
from typing import Literal

import msgspec

from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.text.normalization import UNSPACED
from lhaw_record.runners.users.simulated_user.lexicon import stem

Kind = Literal["number", "month", "colour", "name", "code", "word"]

_W = rf"[^\W{UNSPACED}]"
CODED = re.compile(
    r"`[^`\n]+`|\"[^\"\n]{1,60}\"|\u201c[^\u201d\n]{1,60}\u201d|https?://[^\s)>\]]+"
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    rf"|(?<!{_W})(?<!-)(?=(?:{_W}|[./-]){{0,99}}[A-Za-z])(?:{_W}|-)*(?:[_/.](?:{_W}|-)+)+"
)
_WORD = rf"[{UNSPACED}]|[^\W\d_{UNSPACED}]+"
_TOKEN = re.compile(CODED.pattern + r"|\#[0-9A-Fa-f]{6}\b|\d+(?:[,.:/_-]?\d+)*|" + _WORD + "|[°%€$£]")
_INNER = re.compile(r"\d+(?:[,.:/-]\d+)*|" + _WORD + "|[%°€$£]")
_CODE = re.compile(r"(?=.*[A-Za-z])[\w-]*(?:[_/.][\w-]+)+")
_ABBREVIATION = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
LIST_NUMBER = re.compile(r"(?m)^[ \t]*(\d{1,3})[.)][ \t]")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL = re.compile(r"\d+[.,]\d+")
_PARTS = re.compile(r"\d+")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n|*#>\u201c\"(]|\s[-*\u2022]|\d[.)])\s*[\"'\u201c(*_`]*$")
_BEFORE_CHARS = 12
_SHORTEST_STEM = 4
_SHARE_OF_STEM = 0.6
_MOST_DIGITS = 300


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
        cannot_end: Words that cannot precede punctuation.
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


class TextFact(msgspec.Struct, frozen=True):
    """A token of a text in the form in which it is compared: the value of a number, or a folded and stemmed word."""

    kind: Kind
    key: str
    text: str
    start: int

    @property
    def is_hard(self) -> bool:
        """Whether the token says something concrete by itself: it is not a common word."""
        return self.kind != "word"


@lru_cache(maxsize=4096)
def facts_of(text: str) -> tuple[TextFact, ...]:
    """Return the facts of a text in order, without function words.

    The numbers of list items are none. A date such as 2025-03-14 gives one number per part, so every notation of a
    date has the same ones. A number in words counts like one in digits; "one" does not, as it is mostly a pronoun.
    """
    known, found = words(), []
    numbering = {match.start(1) for match in LIST_NUMBER.finditer(text)}
    for match in _TOKEN.finditer(text):
        if match.start() in numbering:
            continue
        inner = match.group()
        is_code = (not inner[0].isalnum() and inner[0] not in "°%€$£") or _is_code(inner)
        if inner[0] == "#" and len(inner) > 1:
            found.append(TextFact("colour", inner.lower(), inner, match.start()))
            continue
        for part in _INNER.finditer(inner):
            start = match.start() + part.start()
            found += _facts_of_part(text, part.group(), start, known, is_code=is_code)
    return tuple(found)


def counted(facts: tuple[TextFact, ...]) -> Counter[tuple[Kind, str]]:
    """Return how often each fact occurs. Whether a word is written as a name does not matter."""
    return Counter((_same_kind(each.kind), each.key) for each in facts)


def added(before: str, after: str) -> tuple[TextFact, ...]:
    """Return the facts of a rewritten text that the original does not have, or has less often."""
    return _beyond(facts_of(after), counted(facts_of(before)))


def lost(before: str, after: str) -> tuple[TextFact, ...]:
    """Return the facts of the original that the rewritten text does not have, or has less often."""
    return _beyond(facts_of(before), counted(facts_of(after)))


def is_same_word(one: str, other: str) -> bool:
    """Return whether two folded words have one stem, or begin alike for most of their length (Portugal, Portuguese)."""
    if one == other or stem(one) == stem(other):
        return True
    shared = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return shared >= _SHORTEST_STEM and shared >= _SHARE_OF_STEM * max(len(one), len(other))


def fold(text: str) -> str:
    """Return a text in lower case and without accents."""
    return "".join(each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))


def _facts_of_part(text: str, part: str, start: int, known: Words, *, is_code: bool) -> list[TextFact]:
    if part[0].isdigit():
        return [TextFact("code" if is_code else "number", number, part, start) for number in _numbers(part)]
    folded = fold(part)
    if folded in known.symbols:
        return [TextFact("word", stem(known.symbols[folded]), part, start)]
    if folded in known.numbers and not is_code:
        return [TextFact("number", str(Fraction(known.numbers[folded])), part, start)]
    is_upper = part[0].isupper()
    if is_upper and folded[:3] in known.months and (folded in known.months or len(folded) == 3):
        return [TextFact("month", folded[:3], part, start)]
    if folded in known.colours:
        return [TextFact("colour", folded, part, start)]
    if folded in known.function_words:
        return []
    kind: Kind = "code" if is_code else "word"
    if is_upper and not is_code and len(part) > 1 and not _begins_sentence(text, start):
        kind = "name"
    return [TextFact(kind, stem(folded), part, start)] if part[0].isalpha() else []


def _is_code(token: str) -> bool:
    """Return whether a token is an address, a path, a file or an identifier."""
    is_coded = _CODE.fullmatch(token) and not _ABBREVIATION.fullmatch(token)
    return "://" in token or "@" in token or bool(is_coded)


def _begins_sentence(text: str, start: int) -> bool:
    return _SENTENCE_START.search(text[max(0, start - _BEFORE_CHARS) : start]) is not None


def _numbers(part: str) -> list[str]:
    if _GROUPED.fullmatch(part):
        return [_in_one_notation(part.replace(",", ""))]
    if _DECIMAL.fullmatch(part):
        return [_in_one_notation(part.replace(",", "."))]
    return [_in_one_notation(each) for each in _PARTS.findall(part)]


def _in_one_notation(number: str) -> str:
    """Return a number as a fraction. Python refuses to convert thousands of digits, which no prompt means."""
    return str(Fraction(number)) if len(number) <= _MOST_DIGITS else number


def _beyond(facts: tuple[TextFact, ...], known: Counter[tuple[Kind, str]]) -> tuple[TextFact, ...]:
    left, found = Counter(known), []
    for each in facts:
        key = (_same_kind(each.kind), each.key)
        if left[key] > 0:
            left[key] -= 1
        else:
            found.append(each)
    return tuple(found)


def _same_kind(kind: Kind) -> Kind:
    return "word" if kind in ("name", "code") else kind
