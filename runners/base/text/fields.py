"""Reads values from external JSON, lenient about types but strict about meaning, and formats values for messages.

Every ``ValueError`` includes the value. The caller adds the file and the location.
"""

import ast
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

import msgspec

from lhaw_record.recorder.events.encoding import valid_text

MOST_PARTS = 100_000
"""How many arrays and objects JSON of a provider or client may have: a choice, as many as Anthropic takes messages."""
_TEXTS_A_PART, _VALUES_A_PART = 5, 40  # choices: a tool call has five texts, a batch of embeddings 4 million numbers
_BLOCK_BYTES = 1 << 16
LEVELS_OF_BODY = 200
"""How deep JSON of a provider or client is read. Arguments that nest too deep (half as deep) stay so in what is cut."""
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {byte: 1 if byte in b"[{" else -1 for byte in b"[]{}"}
_TEXT = rb'"(?:[^"\\]++|\\.)*+"?'  # possessive: a text without an end is read once
_ESCAPED = re.compile(rb"\\*.?", re.DOTALL)
_TEXTS, _TOKEN = re.compile(_TEXT, re.DOTALL), re.compile(_TEXT + rb"|[\[\]{}]", re.DOTALL)
_PIECES = re.compile("(?s).{1,65536}(?:(?<=[\ud800-\udbff]).)?")  # a pair of halves stays together
_TRUE, _FALSE = frozenset({"true", "yes", "1", "1.0"}), frozenset({"false", "no", "0", "0.0"})


def most_nesting(raw: bytes) -> int:
    """Return the number of levels of JSON."""
    level = most = 0
    for outside, _ in _outside_texts(raw):
        levels = list(accumulate(map(_STEP.__getitem__, outside.translate(None, _NO_BRACKETS)), initial=level))
        level, most = levels[-1], max(most, *levels)
    return most


def has_too_many_parts(raw: bytes) -> bool:
    """Return whether JSON has more arrays and objects, texts or values than anybody needs.

    To decode them takes that long at once, during which no other thread runs, the event loop's included.
    """
    if sum(map(raw.count, b'[{",')) <= MOST_PARTS:
        return False
    parts = texts = values = 0
    for outside, count in _outside_texts(raw):
        parts += sum(map(outside.count, b"[]{}"))
        texts, values = texts + count, values + outside.count(b",")
        if parts > 2 * MOST_PARTS or texts > _TEXTS_A_PART * MOST_PARTS or values > _VALUES_A_PART * MOST_PARTS:
            return True
    return False


def _outside_texts(raw: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield JSON without its texts and how many there were, block by block: other threads run in between."""
    at, opened = 0, b""
    while at < len(raw):
        end = at + _BLOCK_BYTES
        if raw[end - 1 : end] == b"\\":
            end = next(_ESCAPED.finditer(raw, end)).end()
        outside, count = _TEXTS.subn(b"", opened + raw[at:end] + b'"\0')  # which is left where a text is still open
        at, opened = end, b'"' * outside.endswith(b"\0")
        yield outside, count - 1


def shallow_json(raw: bytes) -> bytes:
    """Return JSON with each array or object below ``LEVELS_OF_BODY`` replaced by its text."""
    if most_nesting(raw) <= LEVELS_OF_BODY:
        return raw
    if has_too_many_parts(raw):
        raise msgspec.DecodeError(f"it is deeply nested, with more than {MOST_PARTS:,} objects and lists")
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
        return "".join(map(valid_text, _PIECES.findall(value)))
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
