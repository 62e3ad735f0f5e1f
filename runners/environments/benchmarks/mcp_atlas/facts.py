"""Extract checkable facts from a text: numbers, percentages, dates and identifiers, and its content words."""

import re
from datetime import date
from typing import Literal

import msgspec

Kind = Literal["number", "percentage", "year", "date", "identifier"]

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_NUMBER_WORDS = {  # not "one": it is more often a pronoun
    "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "seven": 7.0,
    "eight": 8.0, "nine": 9.0, "ten": 10.0, "eleven": 11.0, "twelve": 12.0,
}  # fmt: skip
_SCALES = {"thousand": 1e3, "k": 1e3, "million": 1e6, "billion": 1e9}

_ISO_DATE = re.compile(r"\b(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})\b")
_SLASH_DATE = re.compile(r"\b(\d{1,2})[/.](\d{1,2})[/.](\d{4})\b")
_MONTH = "|".join(month[:3] + f"(?:{month[3:]})?" for month in MONTHS)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_DAY_MONTH = re.compile(rf"\b{_DAY}(?: of)? (?P<month>{_MONTH})\.?,? (?P<year>\d{{4}})\b", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b(?P<month>{_MONTH})\.? {_DAY},? (?P<year>\d{{4}})\b", re.IGNORECASE)
_YEAR_RANGE = re.compile(r"\b((?:19|20)\d\d)\s*[-\u2013\u2014/]\s*(\d{2}|\d{4})\b")
# Names that are compared literally: addresses, paths, commits, versions, files, names_with_underscores.
_IDENTIFIER = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # an e-mail address
    r"|(?:[\w.@-]*/)+[\w.@-]*\w"  # a path or a scoped package
    r"|\b(?=[0-9a-f]*[a-f])(?=[a-f]*\d)[0-9a-f]{7,40}\b"  # a commit
    r"|[\^~]?\bv?\d+(?:\.\d+){2,}\b"  # a version
    r"|\b\w[\w-]*\.[A-Za-z]\w{0,4}\b"  # a file name
    r"|\b\w+_\w+\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?<![\w.])(?P<sign>[-\u2212]\s?)?(?:[$€£]\s?(?P<inner>[-\u2212])?)?(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?:\s?(?P<percent>%|percent\b|per cent\b|percentage points?\b|pp\b)|\s?(?P<scale>thousand|million|billion|k)\b)?",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_STOP_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be been both by did do does for from had has have if in into is it its of on or so than "
        "that the their them then there these they this those to vs was were what when where which while who whom "
        "whose will with would s t according file files"
    )
)
# One spelling for words that mean the same in nearly every table.
_SAME = {"women": "female", "woman": "female", "men": "male", "man": "male", "mean": "average", "percent": "percentage"}


class ClaimFact(msgspec.Struct, frozen=True):
    """One fact: its kind, its spelling, and its possible values. For example, 3/9/2023 can be read as two dates."""

    kind: Kind
    text: str
    values: tuple[float | str, ...]


def facts_of(text: str) -> tuple[ClaimFact, ...]:
    """Return the facts of a text in order. No part of the text is used for more than one fact."""
    found: list[tuple[int, ClaimFact]] = []
    rest = text
    for pattern, read in (
        (_ISO_DATE, _date),
        (_SLASH_DATE, _slash_date),
        (_DAY_MONTH, _date),
        (_MONTH_DAY, _date),
        (_YEAR_RANGE, _year_range),
        (_IDENTIFIER, _identifier),
        (_NUMBER, _number),
    ):
        for match in pattern.finditer(rest):
            facts = read(match)
            found += [(match.start(), fact) for fact in facts]
            if facts:  # blanked, so that a later pattern does not read it again
                rest = rest[: match.start()] + " " * len(match.group()) + rest[match.end() :]
    for match in _WORD.finditer(rest):
        value = _NUMBER_WORDS.get(match.group().lower())
        if value is not None:
            found.append((match.start(), ClaimFact("number", match.group(), (value,))))
    return tuple(fact for _, fact in sorted(found, key=lambda item: item[0]))


def words_of(text: str) -> frozenset[str]:
    """Return the content words of a text, normalised to lower case and stems."""
    words = (match.group().lower().removesuffix("'s") for match in _WORD.finditer(text))
    return frozenset(_stem(_SAME.get(word, word)) for word in words if word not in _STOP_WORDS)


def sentences_of(text: str) -> list[str]:
    """Return the sentences and lines of a text."""
    return [part.strip() for part in re.split(r"(?<=[.!?;])\s+|\n+", text) if part.strip()]


def _stem(word: str) -> str:
    for ending in ("ings", "ing", "ies", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word.rstrip("e") if len(word) > 3 else word


def _date(match: re.Match[str]) -> list[ClaimFact]:
    month = match["month"]
    number = int(month) if month.isdigit() else [each[:3] for each in MONTHS].index(month[:3].lower()) + 1
    return _dates(match.group(), [(int(match["year"]), number, int(match["day"]))])


def _slash_date(match: re.Match[str]) -> list[ClaimFact]:
    first, second, year = int(match[1]), int(match[2]), int(match[3])
    return _dates(match.group(), [(year, second, first), (year, first, second)])


def _dates(text: str, readings: list[tuple[int, int, int]]) -> list[ClaimFact]:
    values = []
    for year, month, day in readings:
        try:
            values.append(date(year, month, day).isoformat())
        except ValueError:
            continue
    return [ClaimFact("date", text, tuple(dict.fromkeys(values)))] if values else []


def _year_range(match: re.Match[str]) -> list[ClaimFact]:
    first, last = match[1], match[2]
    last = first[:2] + last if len(last) == 2 else last
    return [ClaimFact("year", year, (float(year),)) for year in (first, last)]


def _identifier(match: re.Match[str]) -> list[ClaimFact]:
    return [ClaimFact("identifier", match.group(), (match.group().lower(),))]


def _number(match: re.Match[str]) -> list[ClaimFact]:
    value = float(match["digits"].replace(",", ""))
    if match["sign"] or match["inner"]:
        value = -value
    if match["percent"]:
        return [ClaimFact("percentage", match.group(), (value,))]
    value *= _SCALES.get((match["scale"] or "").lower(), 1.0)
    is_year = re.fullmatch(r"(?:19|20)\d\d", match.group().strip()) is not None
    return [ClaimFact("year" if is_year else "number", match.group(), (value,))]
