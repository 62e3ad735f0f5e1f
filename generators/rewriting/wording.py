"""How it is said that something is not said: nouns by kind of value and phrases by severity, from a data file."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from generators.rewriting.english import file_of
from recorder.values import Segment

FILE_NAME = "rewriting.toml"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of value, recognised by its form; ``noun`` says what it is."""

    name: str
    pattern: re.Pattern[str]
    noun: str


class Phrases(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one severity puts in the place of a value; ``{noun}`` and ``{rest}`` are filled in."""

    definite: str
    indefinite: str
    plural: str
    mass: str
    again: str
    action: str
    state: str
    conditions: str
    event: str
    rule: str
    treated: str
    details: str
    known: str
    known_plural: str
    someone: str
    name: str
    input_name: str
    names: str
    defined: str
    ones: str
    feature: str
    adjective: str = ""
    definite_adjective: str = ""
    count: str = ""
    count_adjective: str = ""
    manner: str = ""
    by_subdimension: dict[str, str] = {}
    by_noun: dict[str, str] = {}


class Wording(msgspec.Struct, frozen=True, kw_only=True):
    """The file: kinds in order, default nouns by subdimension, and the phrases of each severity."""

    kinds: tuple[Kind, ...]
    default_nouns: dict[str, str]
    severities: dict[str, Phrases]

    def kind_of(self, value: str) -> Kind | None:
        """Return the first kind whose pattern is found in the value."""
        return next((kind for kind in self.kinds if kind.pattern.search(value)), None)

    def default_noun(self, segment: Segment) -> str | None:
        """Return the noun for a segment's subdimension; None where nothing more than "something" can be said."""
        return self.default_nouns.get(segment.subdimension.lower())


@cache
def wording(folder: Path | None = None) -> Wording:
    """Return the wording of a folder's ``rewriting.toml``, or the bundled one."""
    raw: dict[str, Any] = tomllib.loads(file_of(folder, FILE_NAME).read_text(encoding="utf-8"))
    return Wording(
        kinds=tuple(
            Kind(name=each["name"], pattern=re.compile(each["pattern"]), noun=each["noun"]) for each in raw["kinds"]
        ),
        default_nouns=raw["default_nouns"],
        severities={
            severity: msgspec.convert(raw[severity], Phrases) for severity in ("delete", "vaguify", "genericize")
        },
    )
