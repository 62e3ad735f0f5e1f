"""Finds numbers and phrases in text as a person would: 1,234.50, 1234.5 EUR and 1.234,50 are the same number."""

import re
from decimal import Decimal

_NUMBER = re.compile(r"(?<![\w.,])[-+]?\d(?:[\d'\u00a0\u202f]|[.,](?=\d)| (?=\d{3}(?!\d)))*(?![\w])")


def number(text: str) -> Decimal | None:
    """Return the number in a text such as ``EUR 1,234.50``, or None if there is not exactly one."""
    found = numbers(text)
    return found[0] if len(found) == 1 else None


def numbers(text: str) -> list[Decimal]:
    """Return all numbers in a text, in order. The parts of dates count as numbers."""
    return [_decimal(match.group()) for match in _NUMBER.finditer(text)]


def mentions(text: str, phrase: str) -> bool:
    """Return whether a text contains a phrase as whole words, ignoring case, spacing and Markdown marks."""
    return re.search(rf"(?<!\w){re.escape(_plain(phrase))}(?!\w)", _plain(text)) is not None


def mentions_number(text: str, value: Decimal | int) -> bool:
    """Return whether a text contains a number, in any usual format."""
    return Decimal(value) in numbers(text)


def line_mentions(text: str, phrase: str, value: Decimal | int) -> bool:
    """Return whether one line of a text contains both a phrase and a number."""
    return any(mentions(line, phrase) and mentions_number(line, value) for line in text.splitlines())


def heading_mentions(text: str, phrase: str) -> bool:
    """Return whether a heading in a Markdown text contains a phrase."""
    return any(line.startswith("#") and mentions(line, phrase) for line in text.splitlines())


def _decimal(token: str) -> Decimal:
    token = re.sub(r"['\u00a0\u202f ]", "", token)
    last_comma, last_point = token.rfind(","), token.rfind(".")
    if last_comma >= 0 and last_point >= 0:
        grouping = "," if last_point > last_comma else "."
        token = token.replace(grouping, "")
    elif last_comma >= 0 and re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+", token):
        token = token.replace(",", "")
    token = token.replace(",", ".")
    if token.count(".") > 1:
        token = token.replace(".", "")
    return Decimal(token)


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[`*_#|]", " ", text).casefold().split())
