"""The specification of a paper's tables and figures: a small typed TOML file. Errors name the file and key."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from lhaw_record.analytics.errors import AnalyticsError, UnknownName
from lhaw_record.analytics.figures.catalogue import spec_of as figure_spec_of
from lhaw_record.analytics.tables.catalogue import spec_of
from lhaw_record.analytics.tables.filters import FIGURE_KEYS
from lhaw_record.analytics.views.parameters import Setting, check
from lhaw_record.recorder.resources import data_path
from lhaw_record.recorder.wording import did_you_mean

PRESETS = ("conditions", "lhaw", "ask-early")
"""The bundled files: one table of all conditions, and the main tables and figures of the two papers."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


class TableChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the paper, made from a table of the store.

    Attributes:
        table: The table of the store; ``lhaw-record tables STORE list`` lists them.
        name: The name of its file, and of its label after ``tab:``. If empty, the name of the store's table.
        caption: What it shows. Units, n, intervals and the reading are added. If empty, the title of the store's table.
        rows: The row keys, the outermost first.
        columns: The column keys, the outermost first.
        keep: The shown values by key, in this order. All other values are left out.
        gains: Print the gain of a measure after its value in brackets, instead of in its own column.
        bold: Print the best value of a column in bold if its interval overlaps that of no other agent.
    """

    table: str
    name: str = ""
    caption: str = ""
    rows: tuple[str, ...] = ("benchmark", "agent")
    columns: tuple[str, ...] = ("measure", "condition")
    keep: dict[str, tuple[str, ...]] = {}
    gains: bool = False
    intervals: bool = True
    bold: bool = True

    @property
    def label(self) -> str:
        """The name of its file and its label."""
        return self.name or self.table.replace("_", "-")


class FigureChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A figure of the paper.

    Attributes:
        figure: The figure; ``lhaw-record figures STORE list`` lists them.
        name: The name of its files, and of its label after ``fig:``. If empty, the name of the store's figure.
        caption: What it shows. If empty, the title of the store's figure.
        keep: The drawn values by key.
    """

    figure: str
    name: str = ""
    caption: str = ""
    keep: dict[str, tuple[str, ...]] = {}

    @property
    def label(self) -> str:
        """The name of its files and its label."""
        return self.name or self.figure.replace("_", "-")


class PaperSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tables and figures of a paper.

    Attributes:
        title: The title of the document.
        settings: Analysis parameters by name.
        names: Display names of agents, benchmarks, conditions and measures that differ from the defaults.
        printed: The paper whose printed numbers ``--compare`` sets beside ours. If empty, both.
    """

    title: str = "Tables and figures"
    printed: Literal["", "LHAW", "Ask Early"] = ""
    settings: dict[str, Setting] = {}
    names: dict[str, str] = {}
    tables: tuple[TableChoice, ...] = ()
    figures: tuple[FigureChoice, ...] = ()


def spec_and_text(name: Path | str) -> tuple[PaperSpec, str]:
    """Read a specification from a file or a preset, and return it with its text."""
    is_preset = str(name) in PRESETS and not Path(name).is_file()
    path = data_path("paper", f"{name}.toml") if is_preset else Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AnalyticsError(
            f"{name}: {reason}; name a TOML file, or one of the presets {', '.join(PRESETS)}"
        ) from error
    return read_spec(text, path), text


def read_spec(text: str, path: Path | str = "the specification") -> PaperSpec:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AnalyticsError(f"{path}: not valid TOML: {error}") from error
    try:
        spec = msgspec.convert(raw, PaperSpec)
    except msgspec.ValidationError as error:
        raise AnalyticsError(f"{path}{_decoding_problem(error)}") from error
    for keys, problem in _problems(spec):
        raise AnalyticsError(f"{path}{_where(keys)}: {problem}")
    return spec


def _problems(spec: PaperSpec) -> Iterator[tuple[list[Any], str]]:
    """Yield the path of every invalid key, and the problem."""
    for name, value in spec.settings.items():
        try:
            check(name, value)
        except AnalyticsError as error:
            yield ["settings", name], str(error)
    if not spec.tables and not spec.figures:
        yield [], 'names no table and no figure; begin with [[tables]] and table = "overall"'
    for place, choice in enumerate(spec.tables):
        for key, problem in _table_problems(choice):
            yield ["tables", place, *key], problem
    for place, drawn in enumerate(spec.figures):
        try:
            figure_spec_of(drawn.figure)
        except UnknownName as error:
            yield ["figures", place, "figure"], str(error)
        for unknown in set(drawn.keep) - set(FIGURE_KEYS):
            yield ["figures", place, "keep", unknown], f"figures are filtered by {' and '.join(FIGURE_KEYS)} only"
    yield from _label_problems("tables", [each.label for each in spec.tables])
    yield from _label_problems("figures", [each.label for each in spec.figures])


def _label_problems(kind: str, labels: list[str]) -> Iterator[tuple[list[Any], str]]:
    for place, label in enumerate(labels):
        if not _NAME.fullmatch(label):
            yield [kind, place, "name"], f"{label!r} is no valid file name; use small letters, digits and hyphens"
        if label in labels[:place]:
            yield [kind, place, "name"], f"{label!r} is the name of two {kind}; rename one of them"


def _table_problems(choice: TableChoice) -> Iterator[tuple[list[str], str]]:
    try:
        spec_of(choice.table)
    except UnknownName as error:
        yield ["table"], str(error)
        return
    keys = spec_of(choice.table).keys
    if "measure" not in keys:
        yield ["table"], f"{choice.table} has no estimates to pivot; 'lhaw-record tables --format latex' prints it"
        return
    for field, given in (("rows", choice.rows), ("columns", choice.columns), ("keep", choice.keep)):
        for key in given:
            if key not in keys:
                at = [field, key] if field == "keep" else [field]
                yield at, f"{choice.table} has no key {key!r}{did_you_mean(key, keys)}; it has: {', '.join(keys)}"
    placed = (*choice.rows, *choice.columns)
    if twice := {key for key in placed if placed.count(key) > 1}:
        yield ["columns"], f"{min(twice)!r} cannot occur twice in rows and columns"
    if not choice.columns:
        yield ["columns"], 'is empty; name at least one key, for example ["measure"]'


def _decoding_problem(error: msgspec.ValidationError) -> str:
    """Return msgspec's message, with the key that it names."""
    message, _, path = str(error).partition(" - at `$")
    keys: list[Any] = [
        int(index) if index else name for name, index in re.findall(r"\.?([A-Za-z_]\w*)|\[(\d+)\]", path.rstrip("`"))
    ]
    if unknown := re.match(r"Object contains unknown field `(.*)`", message):
        name = unknown[1]
        fields = {"tables": TableChoice, "figures": FigureChoice}.get(str((*keys, "")[0]), PaperSpec).__struct_fields__
        known = f"{did_you_mean(name, fields)}; keys: {', '.join(fields)}"
        return f"{_where([*keys, name])}: there is no such key{known}"
    return f"{_where(keys)}: {message[0].lower()}{message[1:]}"


def _where(keys: list[Any]) -> str:
    """Return a colon and the path of a key, such as ``: tables[0].rows``; nothing without a key."""
    name = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")
    return f": {name}" if name else ""
