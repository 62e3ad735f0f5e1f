"""Strict decoding of users' files: every error names file, line, key, value and remedy."""

import json
import re
import tomllib
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from lhaw_record.generators.errors import SourceError
from lhaw_record.runners.experiment.decoding import key_problem

T = TypeVar("T")
_BYTE_ORDER_MARK = "\ufeff"
_HALF_PAIR = re.compile(r"[\ud800-\udfff]")


def utf8(content: bytes, place: str) -> str:
    """Decode bytes as UTF-8. Line endings and a byte order mark are kept."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"{place}, line {line}: byte {error.start} (0x{content[error.start]:02x}) is not UTF-8; save it as UTF-8"
        ) from error


def json_value(text: str, place: str) -> Any:
    """Decode JSON strictly: duplicate keys, NaN, infinities and unpaired surrogates are errors."""
    text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text.strip() else ""
        raise SourceError(f"{place}, {line}column {error.colno}: not JSON: {error.msg}; correct it") from error
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{place}: {error}") from error
    half = _HALF_PAIR.search(text) or ("\\u" in text and _HALF_PAIR.search(json.dumps(value, ensure_ascii=False)))
    if half:
        raise SourceError(f"{place}: {half[0]!r} is half a surrogate pair; write the whole character")
    return value


def toml_value(text: str, place: str) -> dict[str, Any]:
    """Decode TOML."""
    try:
        return tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK))
    except tomllib.TOMLDecodeError as error:
        raise SourceError(f"{place}: not TOML: {error}; correct it") from error


def converted(value: Any, kind: type[T], place: str) -> T:
    """Convert a decoded value to a type."""
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
    raise ValueError(f"{name} is not a JSON number; write a number")
