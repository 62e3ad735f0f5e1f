"""Rewrites msgspec's decoding errors in plain words, with the key and the keys or values that are known."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec

from lhaw_record.recorder.wording import did_you_mean

_STEP = re.compile(r"\[(?P<index>\d+)\]|(?P<entry>\[\.\.\.\])|(?P<name>[^.\[\]]+)")
_WORDS = {
    "str": "a text",
    "float": "a number",
    "int": "a whole number",
    "array": "a list",
    "object": "an object with keys",
    "bool": "true or false",
    "null": "null",
}


def key_problem(error: msgspec.ValidationError, kind: Any, raw: Any, page: str = "", under: str = "") -> str:
    """Describe a decoding error in one sentence: the key as in the file (``agents[0].modle``), the mistake, the
    remedy.
    """
    text, _, path = str(error).partition(" - at `$")
    key, found, kinds = _walked(path.rstrip("`"), kind, raw, under)
    see = f" ({page})" if page else ""
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text)
    if unknown:
        names = _known(kinds)
        meant = did_you_mean(unknown[1], names)
        return f"unknown key '{_joined(key, unknown[1])}'{meant}; known: {', '.join(names) or 'none'}{see}"
    missing = re.fullmatch(r"Object missing required field `(.*)`", text)
    if missing:
        return f"key '{_joined(key, missing[1])}' is missing; add it{see}"
    shown = f"key '{key}': {_shown(found)}" if key else _shown(found)
    if text.startswith("Invalid enum value"):
        return f"{shown} is not a choice; the choices are: {', '.join(map(str, _choices(kinds)))}"
    expected = re.fullmatch(r"Expected `(?P<kinds>[^`]+)`(?P<bound>.*?)(?:, got `[^`]+`)?", text)
    if expected:
        words = " or ".join(_WORDS.get(word, word) for word in expected["kinds"].split(" | ") if word != "null")
        return f"{shown}, where {words or 'null'}{expected['bound']} is expected"
    return f"{shown}: {text[:1].lower()}{text[1:]}"


def _joined(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _walked(path: str, kind: Any, raw: Any, under: str) -> tuple[str, Any, list[Any]]:
    """Follow one of msgspec's error paths, and return the key there, its value and the types that it may have.

    The path does not name the entry of a table (``services[...].health``), so the first entry that does not fit is
    taken.
    """
    key, value, kinds = under, raw, [kind]
    for step in _STEP.finditer(path):
        if step["name"]:
            key, value = _joined(key, step["name"]), value[step["name"]]
            fields = (field for struct in _structs(kinds) for field in msgspec.structs.fields(struct))
            kinds = [field.type for field in fields if field.encode_name == step["name"]]
            continue
        kinds = [get_args(part)[-1 if step["entry"] else 0] for part in _parts(kinds) if _holds_many(part)]
        if step["index"]:
            key, value = f"{key}[{step['index']}]", value[int(step["index"])]
        else:
            name, value = next((entry for entry in value.items() if not _fits(entry[1], kinds)), ("...", None))
            key = _joined(key, str(name))
    return key, value, kinds


def _parts(kinds: list[Any]) -> Iterator[Any]:
    """Yield the types, with each union replaced by its members."""
    for kind in kinds:
        if get_origin(kind) is Literal or isinstance(kind, type) or _holds_many(kind):
            yield kind
        else:
            yield from _parts(list(get_args(kind)))


def _holds_many(kind: Any) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, (list, tuple, Mapping))


def _structs(kinds: list[Any]) -> Iterator[type[msgspec.Struct]]:
    return (part for part in _parts(kinds) if isinstance(part, type) and issubclass(part, msgspec.Struct))


def _fits(value: Any, kinds: list[Any]) -> bool:
    for kind in kinds:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            continue
        return True
    return False


def _known(kinds: list[Any]) -> list[str]:
    """Return the keys that an object of these types may have."""
    return [field.encode_name for struct in _structs(kinds) for field in msgspec.structs.fields(struct)]


def _choices(kinds: list[Any]) -> list[Any]:
    """Return the values that a key of these types may have."""
    literals = (part for part in _parts(kinds) if get_origin(part) is Literal)
    return list(dict.fromkeys(value for literal in literals for value in get_args(literal) if value is not None))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
