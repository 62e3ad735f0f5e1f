"""What is wrong with a key of a file, in our words: msgspec says it in its own, and never which values there are."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec


def key_problem(error: msgspec.ValidationError, kind: Any, page: str, raw: Mapping[str, Any], under: str = "") -> str:
    """Return a sentence with the key as one writes it (``agents[0].modle``), what is wrong, and the remedy.

    Args:
        error: What msgspec says about a decoded file, or a table of it.
        kind: The type that it was to be.
        page: The page of the docs that has the keys.
        raw: What was decoded.
        under: The key of the table.
    """
    text, _, place = str(error).partition(" - at `$")
    inner = _with_entry(place.rstrip("`").lstrip("."), raw, kind)
    key = _joined(under, inner)
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text)
    if unknown:
        return f"unknown key '{_joined(key, unknown[1])}'; remove it, or see {page} for the keys there are"
    missing = re.fullmatch(r"Object missing required field `(.*)`", text)
    if missing:
        return f"key '{_joined(key, missing[1])}' is missing; add it ({page} has an example)"
    choice = re.fullmatch(r"Invalid enum value (.*)", text)
    if choice:
        return f"key '{key}': {choice[1]} is no choice; there are: {', '.join(map(str, _choices(kind, inner)))}"
    return f"key '{key}': {text[:1].lower()}{text[1:]}"


def _joined(key: str, name: str) -> str:
    return ".".join(filter(None, (key, name)))


def _with_entry(key: str, raw: Mapping[str, Any], kind: Any) -> str:
    """Name the entry of a table, which msgspec leaves out: ``services[...].health`` to ``services.mail.health``."""
    table, is_entry, rest = key.partition("[...]")
    if not is_entry:
        return key
    entries = raw.get(table)
    for name, value in entries.items() if isinstance(entries, dict) else ():
        try:
            msgspec.convert({**raw, table: {name: value}}, kind)
        except msgspec.ValidationError as error:
            if f"`$.{table}[" in str(error):
                return f"{table}.{name}{rest}"
    return key


def _choices(kind: Any, key: str) -> list[Any]:
    """The values that the key may have."""
    kinds = [kind]
    for name in re.sub(r"\[[^\]]*\]", "", key).split("."):
        structs = [struct for each in kinds for struct in _parts(each) if _is_struct(struct)]
        fields = (field for struct in structs for field in msgspec.structs.fields(struct))
        kinds = [field.type for field in fields if field.encode_name == name]
    literals = (part for each in kinds for part in _parts(each) if get_origin(part) is Literal)
    return list(dict.fromkeys(value for literal in literals for value in get_args(literal) if value is not None))


def _parts(kind: Any) -> Iterator[Any]:
    """A type and the types inside it, of unions and containers."""
    yield kind
    if get_origin(kind) is not Literal:
        for argument in get_args(kind):
            yield from _parts(argument)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
