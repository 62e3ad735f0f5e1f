"""Decoding what a user wrote without any tolerance: a fault is named by file, line, key and value, with its remedy."""

import json
import re
import tomllib
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from generators.errors import SourceError
from runners.key_problems import key_problem

T = TypeVar("T")
_BYTE_ORDER_MARK = "\ufeff"
_HALF_PAIR = re.compile(r"[\ud800-\udfff]")


def utf8(content: bytes, place: str) -> str:
    """Return bytes as text to the character: line ends and a byte order mark stay.

    Raises:
        SourceError: It is not UTF-8.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"{place}, line {line}: byte {error.start} (0x{content[error.start]:02x}) is not UTF-8; save it as UTF-8"
        ) from error


def json_value(text: str, place: str) -> Any:
    """Return the value of JSON text; keys that occur twice, NaN and half surrogate pairs are errors.

    Raises:
        SourceError: It is no JSON, or one of these.
    """
    text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text.strip() else ""
        raise SourceError(f"{place}, {line}column {error.colno}: no JSON: {error.msg}; mend it there") from error
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{place}: {error}") from error
    half = _HALF_PAIR.search(text) or ("\\u" in text and _HALF_PAIR.search(json.dumps(value, ensure_ascii=False)))
    if half:
        raise SourceError(f"{place}: {half[0]!r} is half a surrogate pair and no character; write the character")
    return value


def toml_value(text: str, place: str) -> dict[str, Any]:
    """Return the tables of TOML text.

    Raises:
        SourceError: It is no TOML.
    """
    try:
        return tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK))
    except tomllib.TOMLDecodeError as error:
        raise SourceError(f"{place}: no TOML: {error}; mend it there") from error


def converted(value: Any, kind: type[T], place: str) -> T:
    """Return a decoded value as a typed one.

    Raises:
        SourceError: A key is missing, unknown or of another type.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise SourceError(f"{place}: {key_problem(error, kind, value)}") from error


def _without_repeats(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} occurs twice; remove one")
        found[key] = value
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON; write a number")
