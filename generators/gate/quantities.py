"""Reads numbers with their units: 24 hours and one day are the same quantity, 30 days and 30 minutes are not."""

import calendar
import re
from collections import Counter
from datetime import date
from fractions import Fraction
from functools import cache

from lhaw_record.generators.gate.facts import words

_SIDE = re.compile(
    r"\b(?:past|last|next|coming|upcoming|following|previous)(?= (?:hour|day|week|fortnight|month|quarter|year)\b)"
)
"""Words before a unit without a number, which then means one: the past week."""
_MONTHS = tuple(calendar.month_name)
_NAMES = "|".join(_MONTHS[1:])
_PERIOD = re.compile(
    rf"(?P<month>{_NAMES}) (?P<first>\d{{1,2}})(?:st|nd|rd|th)?(?: to | through | until | ?[-\u2013] ?)"
    rf"(?:(?P<until>{_NAMES}) )?(?P<last>\d{{1,2}})(?:st|nd|rd|th)?\b"
)
THINGS = "things"
"""The dimension of a number of anything that is no unit: 30 files."""

_BINARY = 1024
_DAY_S = 86_400
# Python converts no text of thousands of digits.
_NUMBER = r"\d{1,3}(?:,\d{3}){1,99}(?:\.\d{1,300})?|\d{1,300}(?:\.\d{1,300})?"


def quantities(text: str) -> Counter[tuple[str, Fraction]]:
    """Return how often each quantity with a unit occurs, as its dimension and its size in the dimension's base unit."""
    return Counter((dimension, size) for _, dimension, size in _found(text))


def durations(text: str) -> set[tuple[str, Fraction]]:
    """Return the durations in a text, in base units: 7 days, the past week, from March 12th to March 14th."""
    found = {each for each in quantities(_SIDE.sub("one", text)) if each[0] in ("time", "months")}
    for match in _PERIOD.finditer(text):
        month, until = match["month"], match["until"] or match["month"]
        try:
            first = date(2001, _MONTHS.index(month), int(match["first"]))
            last = date(2001, _MONTHS.index(until), int(match["last"]))
        except ValueError:
            continue
        length = (last - first).days
        found |= {("time", Fraction(each * _DAY_S)) for each in (length, length + 1)}  # the last day counts, or not
    return found


def dimensions(text: str) -> set[str]:
    """Return the dimensions of the numbers of a text. A number alone has none."""
    found = {dimension for _, dimension, _ in _found(text)}
    rest = _patterns()[1].sub(" ", text)
    known = words()
    for match in _THING.finditer(rest):
        noun = match["noun"].lower()
        if noun not in known.function_words | known.logic | known.symbols.keys() and noun[:3] not in known.months:
            found.add(THINGS)
    return found


def in_base_units(text: str) -> str:
    """Return a text with every quantity written as a number of its base unit: 5 minutes as 300."""
    parts, place = [], 0
    for (start, end), _, size in _found(text):
        parts += [text[place:start], str(size) if size.denominator == 1 else format(float(size), "f")]
        place = end
    return "".join([*parts, text[place:]])


def _found(text: str) -> list[tuple[tuple[int, int], str, Fraction]]:
    units, pattern = _patterns()
    found = []
    for match in pattern.finditer(text):
        unit = match["unit"] or match["sign"] or match["joined"]
        known = units.get(unit) or units.get(unit.lower())
        if known is None:
            continue  # a letter that only re.IGNORECASE takes for one of the unit's
        dimension, factor = known
        size = _size((match["number"] or match["before"] or match["digits"]).lower(), has_half=bool(match["half"]))
        if dimension == "bytes" and size % _BINARY == 0:
            size = size / _BINARY * 1000
        found.append((match.span(), dimension, size * factor))
    return found


def _size(number: str, *, has_half: bool) -> Fraction:
    known = words().numbers
    if number.startswith("half"):
        return Fraction(1, 2)
    first = number.split(maxsplit=1)[0]
    size = Fraction(number.replace(",", "")) if number[0].isdigit() else Fraction(known.get(first, "1"))
    return size + Fraction(1, 2) if has_half or "half" in number else size


@cache
def _patterns() -> tuple[dict[str, tuple[str, Fraction]], re.Pattern[str]]:
    """Return each unit's dimension and size, and the pattern of a number with a unit."""
    units = {
        name: (dimension, Fraction(factor)) for dimension, factor, names in words().units for name in names.split()
    }
    names = "|".join(sorted(map(re.escape, units), key=len, reverse=True))
    signs = "|".join(re.escape(each) for each in units if not each[0].isalpha() and each != "%" and each[0] != "°")
    cardinals = "|".join(each for each in words().numbers if not each.endswith(("th", "third", "half", "ice", "le")))
    spoken = rf"(?!a second (?!and )[a-z])(?:an?|one|{cardinals})(?: and a half)?|half (?:an?|one)"
    return units, re.compile(
        rf"(?<![\w.,])(?:(?P<sign>{signs})\s?(?P<before>{_NUMBER})(?![\d\w])"
        rf"|(?P<digits>{_NUMBER})(?P<joined>{names})(?!\w)"
        rf"|(?P<number>{_NUMBER}|{spoken})(?:[\s-]|\s(?!(?:per|an?|each|every)\s)[a-z]+\s)(?P<unit>{names})(?!\w)(?P<half>\sand\sa\shalf)?)",
        re.IGNORECASE,
    )


_THING = re.compile(rf"(?<![\w.,:/-])(?:{_NUMBER})[\s-](?P<noun>[A-Za-z]{{3,}})")
