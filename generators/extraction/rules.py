"""Reads the rules file: expands its macros and compiles its patterns."""

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from lhaw_record.recorder.events.values import Dimension

Role = Literal["input", "output"]
_MACRO = re.compile(r"\{([a-z_]+)\}")
_SPACE = re.compile(r"\[(?:\\.|[^\]\\])*\]|\(\?<[!=](?:\\.|[^()\\])*\)|\\.| (?:[?*+]|\{)?")


class Labels(msgspec.Struct, frozen=True, array_like=True):
    """The taxonomy labels of a rule, with its default scores."""

    dimension: Dimension
    subdimension: str
    criticality: float
    guessability: float


class RuleEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule as written in the rules file. The header of that file explains the keys."""

    name: str
    pattern: str
    kind: str
    dimension: Dimension
    subdimension: str
    rank: int
    criticality: float = 1.0
    guessability: float = 0.0
    never: str | None = None
    cased: bool = False
    synonyms: tuple[str, ...] = ()


class Files(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """File extensions, and the extensions that each format word stands for."""

    endings: str
    spoken: dict[str, str]


class RulesFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the rules file."""

    macros: dict[str, str]
    rules: tuple[RuleEntry, ...]
    roles: dict[str, dict[str, Labels]]
    files: Files


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One compiled rule. The matched value must not contain what ``never`` matches."""

    entry: RuleEntry
    pattern: re.Pattern[str]
    never: re.Pattern[str] | None

    @property
    def labels(self) -> Labels:
        """The labels where no role decides about them."""
        entry = self.entry
        return Labels(entry.dimension, entry.subdimension, entry.criticality, entry.guessability)


def compiled_rules(file: RulesFile, lists: Mapping[str, str]) -> tuple[Rule, ...]:
    """Expand and compile the rules of a file, and return them ordered by rank."""
    macros = dict(lists)
    for name, pattern in file.macros.items():
        macros[name] = _expanded(pattern, macros)
    rules = (
        Rule(
            entry=entry,
            pattern=_compiled(entry.pattern, macros),
            never=_compiled(entry.never, macros) if entry.never else None,
        )
        for entry in file.rules
    )
    return tuple(sorted(rules, key=lambda rule: rule.entry.rank))


def _compiled(pattern: str, macros: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile(_SPACE.sub(_spaced, _expanded(pattern, macros)), re.MULTILINE)


def _spaced(match: re.Match[str]) -> str:
    """Return what replaces one piece of a pattern, so that a space in the pattern matches any white space.

    It matches a run of white space, but one character in a character class, in a lookbehind or before a quantifier.
    """
    found = match.group()
    if found.startswith(("[", "(")):
        return found.replace(" ", r"\s")
    if not found.startswith(" "):
        return found
    return r"\s+" if found == " " else r"\s" + found[1:]


def _expanded(pattern: str, macros: Mapping[str, str]) -> str:
    return _MACRO.sub(lambda match: macros[match[1]], pattern)
