"""Reads values from external JSON, lenient about types but strict about meaning, and formats values for messages.

Every ``ValueError`` includes the value. The caller adds the file and the location.
"""

import ast
import json
import math
import re
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

import msgspec

from lhaw_record.recorder.events.encoding import valid_text

MOST_PARTS = 100_000
"""How many arrays and objects JSON of a provider or client may have: a choice, as many as Anthropic takes messages."""
LEVELS_OF_BODY = 200
"""How deep JSON of a provider or client is read. Arguments that nest too deep (half as deep) stay so in what is cut."""
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {byte: 1 if byte in b"[{" else -1 for byte in b"[]{}"}
_TEXT = rb'"(?:[^"\\]++|\\.)*+"?'  # possessive: a text without an end is read once
_TEXTS, _TOKEN = re.compile(_TEXT, re.DOTALL), re.compile(_TEXT + rb"|[\[\]{}]", re.DOTALL)
_TRUE, _FALSE = frozenset({"true", "yes", "1", "1.0"}), frozenset({"false", "no", "0", "0.0"})


def most_nesting(raw: bytes) -> int:
    """Return the number of levels of JSON."""
    return max(accumulate(map(_STEP.__getitem__, _brackets(raw))), default=0)


def _brackets(raw: bytes) -> bytes:
    return _TEXTS.sub(b"", raw).translate(None, _NO_BRACKETS)


def has_too_many_parts(raw: bytes) -> bool:
    """Return whether JSON has more arrays and objects than anybody needs. Each costs time of the event loop."""
    return raw.count(b"[") + raw.count(b"{") > MOST_PARTS and len(_brackets(raw)) > 2 * MOST_PARTS


def shallow_json(raw: bytes) -> bytes:
    """Return JSON with each array or object below ``LEVELS_OF_BODY`` replaced by its text."""
    if most_nesting(raw) <= LEVELS_OF_BODY:
        return raw
    if has_too_many_parts(raw):
        raise msgspec.DecodeError(f"it nests deep, and has more than {MOST_PARTS:,} objects and lists")
    pieces: list[bytes] = []
    level = begun = done = 0
    for token in _TOKEN.finditer(raw):
        if token[0] in b"[{":
            level += 1
            begun = token.start() if level == LEVELS_OF_BODY + 1 else begun
        elif token[0] in b"]}":
            if level == LEVELS_OF_BODY + 1:
                cut = raw[begun : token.end()].decode("utf-8", "replace")
                pieces += [raw[done:begun], msgspec.json.encode(cut)]
                done = token.end()
            level -= 1
    return b"".join([*pieces, raw[done:]]) if pieces else raw


def with_valid_text(value: Any) -> Any:
    """Return a JSON value with text that UTF-8 can encode."""
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, list):
        return [with_valid_text(item) for item in value]
    if isinstance(value, dict):
        return {with_valid_text(key): with_valid_text(item) for key, item in value.items()}
    return value


def as_text(value: Any, name: str) -> str:
    """Return a value that must be a non-empty text."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} is {shown(value)}, expected a text")
    return value


def as_bool(value: Any, name: str) -> bool:
    """Return a value as a boolean. It may be a boolean, 0 or 1, or a word such as ``yes``."""
    word = str(value).strip().lower() if isinstance(value, bool | int | str) else ""
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{name} is {shown(value)}, expected true or false")
    return word in _TRUE


def as_count(value: Any, name: str) -> int:
    """Return a value as a whole number of 0 or more. It may be written as a float or a text."""
    number = as_number(value, name)
    if number < 0 or number != int(number):
        raise ValueError(f"{name} is {shown(value)}, expected a whole number of 0 or more")
    return int(number)


def optional_count(value: Any, name: str) -> int | None:
    """Return a value as a whole number of 0 or more, or None for null."""
    return None if value is None else as_count(value, name)


def as_number(value: Any, name: str) -> float:
    """Return a value as a finite number. It may be written as a text."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise ValueError(f"{name} is {shown(value)}, expected a number")


def as_object(value: Any, name: str) -> Mapping[str, Any]:
    """Return a value that must be a JSON object."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {shown(value)}, expected an object")  # noqa: TRY004 - one error class
    return value


def as_list(value: Any, name: str) -> list[Any]:
    """Return a value that must be a JSON list."""
    if not isinstance(value, list):
        raise ValueError(f"{name} is {shown(value)}, expected a list")  # noqa: TRY004 - one error class
    return value


def literal_or_json(value: Any, name: str) -> Any:
    """Parse a text as JSON or as a Python literal, without evaluating code. Return other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        pass
    try:
        return ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"{name} is {shown(value)}, neither JSON nor a Python literal") from error


def shown(value: Any) -> str:
    """Format a value for a message, in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def listed(names: Iterable[str], most: int = 12) -> str:
    """Join the first names of a list for a message, and say how many were omitted."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return (", ".join(found[:most]) or "none") + more
