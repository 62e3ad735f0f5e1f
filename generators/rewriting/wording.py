"""Loads the wording of the rules: kinds of values, and the phrases that may take a value's place, each in its slot."""

import re
import tomllib
from functools import cache

import msgspec

from recorder.events.values import Dimension, Severity
from recorder.resources import data_path

FILE_NAME = "rewriting.toml"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of value, recognised by ``pattern``."""

    name: str
    pattern: re.Pattern[str]


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A place that takes exactly one kind of phrase.

    Attributes:
        before: What ends the part of the sentence before the value. It is replaced, too; its groups are fields.
        value: The value.
        after: What the rest of the sentence begins with.
        unless: What must not stand before it in the sentence, or None.
        dimension: The only dimension of segments that it takes, or None for all.
        phrases: What takes the place of ``before`` and the value, for each severity that it is for.
        question: What an agent asks that meets the phrase.
    """

    before: re.Pattern[str]
    value: re.Pattern[str]
    after: re.Pattern[str]
    unless: re.Pattern[str] | None
    dimension: Dimension | None
    phrases: dict[Severity, str]
    question: str

    def fields(self, left: str, value: str, right: str) -> tuple[int, dict[str, str]] | None:
        """Return where ``before`` begins left of a value, and the fields; None if the place does not fit."""
        before, match = self.before.search(left), self.value.fullmatch(value)
        if not before or not match or not self.after.match(right) or (self.unless and self.unless.search(left)):
            return None
        return before.start(), {**before.groupdict(), **match.groupdict()}


class Wording(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``rewriting.toml``."""

    kinds: tuple[Kind, ...]
    slots: tuple[Slot, ...]

    def kind_of(self, value: str) -> Kind | None:
        """Return the first kind whose pattern occurs in the value, or None."""
        return next((kind for kind in self.kinds if kind.pattern.search(value)), None)


@cache
def wording() -> Wording:
    """Load the bundled wording."""
    raw = tomllib.loads(data_path("generation", FILE_NAME).read_text(encoding="utf-8"))
    severities: tuple[Severity, ...] = ("delete", "vaguify", "genericize")
    return Wording(
        kinds=tuple(Kind(name=each["name"], pattern=re.compile(each["pattern"])) for each in raw["kinds"]),
        slots=tuple(
            Slot(
                before=re.compile(f"(?:{each['before']})$"),
                value=re.compile(each["value"]),
                after=re.compile(each["after"]),
                unless=re.compile(each["unless"]) if "unless" in each else None,
                dimension=each.get("dimension"),
                phrases={name: each[name] for name in severities if name in each},
                question=each["question"],
            )
            for each in raw["slots"]
        ),
    )
