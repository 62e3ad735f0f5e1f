"""A printable table of a store with agents in rows and conditions or measures in columns."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from lhaw_record.analytics.errors import AnalyticsError
from lhaw_record.analytics.paper.spec import TableChoice
from lhaw_record.analytics.tables.filters import Filter, known_filter, without_lone_pools
from lhaw_record.analytics.tables.labels import key_label, label, measure_of, printed
from lhaw_record.analytics.tables.notes import meaning_of
from lhaw_record.analytics.tables.tables import Row, Table, rank
from lhaw_record.analytics.views.parameters import Setting

_GAIN = "_gain"
_TASKS_UNDER_FULL = ("overall", "generality", "by_dimension_pass", "by_dimension_progress", "by_segments_removed")
"""Tables whose units are tasks under full, and variants otherwise."""


class PivotCell(msgspec.Struct, frozen=True):
    """The texts of a cell. Undefined values are empty, with a mark that refers to the reason.

    Attributes:
        value: The value in the unit of its measure, as in ``47.0``.
        interval: As in ``[30.1, 63.9]``, or empty.
        mark: The letter of the note that says why a value or an interval is missing.
        gain: The gain, as in ``+31.0``; None if the cell can have none.
        is_best: Whether the value is shown to be the best of its column.
        is_there: Whether the table has a row for this cell.
    """

    value: str = ""
    interval: str = ""
    mark: str = ""
    gain: str | None = None
    gain_interval: str = ""
    gain_mark: str = ""
    is_best: bool = False
    is_there: bool = False


class PivotLine(msgspec.Struct, frozen=True):
    """A line of the table: its heading if it differs from that of the previous line, its name and its cells."""

    heading: str
    name: str
    cells: tuple[PivotCell, ...]


class Pivot(msgspec.Struct, frozen=True, kw_only=True):
    """A pivoted table.

    Attributes:
        name: The name of its file and its label.
        facts: Further sentences of the caption: what all cells share, units, n, the reading.
        corner: The heading of the first column.
        heads: The column headings, one tuple per column from the outermost to the innermost.
        reasons: Why values are missing, by mark.
        remarks: The rule for bold values, and other remarks below the table.
        cautions: The notes of the store's table.
        absent: Kept values that no row of the table has, as in ``condition inject_50``.
    """

    name: str
    title: str
    facts: tuple[str, ...]
    corner: str
    heads: tuple[tuple[str, ...], ...]
    lines: tuple[PivotLine, ...]
    reasons: Mapping[str, str]
    remarks: tuple[str, ...]
    cautions: tuple[str, ...]
    absent: tuple[str, ...]
    has_intervals: bool

    def has_gain(self, place: int) -> bool:
        """Return whether a column shows gains after its values."""
        return any(line.cells[place].gain is not None for line in self.lines)

    @property
    def has_gains(self) -> bool:
        """Whether any column shows gains after its values."""
        return any(map(self.has_gain, range(len(self.heads))))

    @property
    def caption(self) -> str:
        """The whole caption."""
        return " ".join([_sentence(self.title), *map(_sentence, self.facts)])


class Empty(Exception):
    """A table has no rows to print. The message says why."""


class _Names(NamedTuple):
    """Display names of values: from the specification, else the defaults."""

    own: Mapping[str, str]
    k: Setting

    def __call__(self, key: str, value: object) -> str:
        text = "" if value is None else str(value)
        name = self.own.get(text) or label(key, value, self.k)
        unit = measure_of(text).unit if key == "measure" else ""
        return f"{name} ({unit})" if unit else name


def pivot(
    table: Table,
    choice: TableChoice,
    *,
    names: Mapping[str, str],
    parameters: Mapping[str, Setting],
    unequal: Iterable[str] = (),
    said: Iterable[str] = (),
    only: Filter | None = None,
) -> Pivot:
    named = _Names(names, parameters["k"])
    only = only or Filter()
    others = Filter({key: values for key, values in only.wanted.items() if key != "agent"})
    whole = table
    compared = _kept(others.table(whole), whole, choice)
    apart = {str(row.get("benchmark")) for row in whole.rows} & set(unequal)
    apart |= {"all"} if apart else set()
    table = only.table(whole)
    rows = _kept(table, whole, choice)
    if not rows:
        raise Empty("no row has the kept values")
    placed = (*choice.rows, *choice.columns)
    free = [key for key in table.keys if key not in placed and len(_values(rows, key)) > 1]
    if free:
        found = ", ".join(map(str, _values(rows, free[0])))
        raise AnalyticsError(
            f"table {choice.label}: its key {free[0]!r} has several values ({found}); name it in rows or columns, "
            f'or keep one, for example keep = {{ {free[0]} = ["{_values(rows, free[0])[0]}"] }}'
        )
    compared = [
        row for row in compared if all(row[key] == rows[0][key] for key in table.keys if key not in ("agent", *placed))
    ]
    by_keys = {tuple(row[key] for key in table.keys): row for row in table.rows}
    columns, lines = _places(rows, choice.columns, choice), _places(rows, choice.rows, choice)
    at = {(_part(row, choice.rows), _part(row, choice.columns)): row for row in rows}
    best = _best(compared, choice, apart) if choice.bold else set()
    marks = _Marks()
    grid = [
        PivotLine(
            _heading(choice, line, lines, named),
            named(choice.rows[-1], line[-1]) if line else "",
            tuple(_cell(at.get((line, column)), table, by_keys, choice, marks, best) for column in columns),
        )
        for line in lines
    ]
    heads = tuple(
        tuple(named(choice.columns[level], column[level]) for level in _shown_levels(columns)) for column in columns
    )
    for called in ([(line.heading, line.name) for line in grid], heads):
        if twice := [name for name, count in Counter(called).items() if count > 1]:
            raise AnalyticsError(f"table {choice.label}: two values have the name {twice[0][-1]!r} in 'names'")
    absent = _absent(whole, choice, named)
    grid, why = _without_shared_mark(grid, marks.reasons)
    return Pivot(
        name=choice.label,
        title=choice.caption or table.title,
        facts=(*_facts(table, rows, choice, named, grid, parameters), *why, *said),
        corner=key_label(choice.rows[-1]).capitalize() if choice.rows else "",
        heads=heads,
        lines=tuple(grid),
        reasons={} if why else marks.reasons,
        remarks=(
            *_remarks(choice, rows, compared, best, named, parameters, apart, has_holes=_has_holes(grid)),
            *(f"in keep, but in no row: {each}" for each in absent),
        ),
        cautions=tuple(
            note
            for note in table.notes
            if (head := note.partition(":")[0]) != "reading" and not meaning_of(head) and note not in said
        ),
        absent=absent,
        has_intervals=choice.intervals and any(cell.interval for line in grid for cell in line.cells),
    )


def _kept(table: Table, whole: Table, choice: TableChoice) -> list[Row]:
    """Return the rows that are printed as cells. Gains are excluded if they are printed after their values."""
    if not whole.rows:
        raise Empty(next((note for note in table.notes if note.startswith("no rows")), "no rows"))
    wanted = dict(choice.keep)
    try:
        rows: list[Row] = known_filter(wanted, whole.rows).rows(table.rows)
    except AnalyticsError as error:
        raise AnalyticsError(f"table {choice.label}: keep: {error}") from None
    rows = without_lone_pools(rows, [key for key in table.keys if key not in wanted])
    if choice.gains:
        measures = {row["measure"] for row in table.rows}
        rows = [row for row in rows if row["measure"].removesuffix(_GAIN) not in measures - {row["measure"]}]
    return rows


def _absent(whole: Table, choice: TableChoice, named: _Names) -> tuple[str, ...]:
    """Name the kept values for which the table has no row with the other kept values."""
    rows = Filter(choice.keep).rows(whole.rows)
    return tuple(
        f"{key_label(key)} {value}" + (f" ({shown})" if (shown := named(key, value)) != value else "")
        for key, values in choice.keep.items()
        for value in values
        if not Filter({key: (value,)}).rows(rows)
    )


def _without_shared_mark(grid: Sequence[PivotLine], reasons: Mapping[str, str]) -> tuple[list[PivotLine], list[str]]:
    """Move a reason that every cell shares into the caption. Return the lines and the sentence for the caption."""
    cells = [cell for line in grid for cell in line.cells if cell.is_there]
    marked = {cell.mark for cell in cells} | {cell.gain_mark for cell in cells if cell.gain is not None}
    if len(marked) > 1 or marked == {""} or any(not cell.value or cell.gain == "" for cell in cells):
        return list(grid), []
    bare = [
        msgspec.structs.replace(
            line, cells=tuple(msgspec.structs.replace(cell, mark="", gain_mark="") for cell in line.cells)
        )
        for line in grid
    ]
    return bare, [f"No intervals, {reasons[marked.pop()]}"]


def _values(rows: Iterable[Row], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows))


def _part(row: Row, keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[key] for key in keys)


def _places(rows: Sequence[Row], keys: Sequence[str], choice: TableChoice) -> list[tuple[Any, ...]]:
    """Return the existing combinations of values, in the order of ``keep``, then of the catalogue."""

    def place(combination: tuple[Any, ...]) -> list[Any]:
        parts = []
        for key, value in zip(keys, combination, strict=True):
            kept = choice.keep.get(key, ())
            parts.append((kept.index(str(value)) if str(value) in kept else len(kept), rank(key, value)))
        return parts

    return sorted({_part(row, keys) for row in rows}, key=place)


def _shown_levels(columns: Sequence[tuple[Any, ...]]) -> list[int]:
    """Return which keys of the columns have several values, or the last key if none has."""
    return [n for n in range(len(columns[0])) if len({column[n] for column in columns}) > 1] or [-1]


def _heading(choice: TableChoice, line: tuple[Any, ...], lines: Sequence[tuple[Any, ...]], named: _Names) -> str:
    """Name the outer keys of a line that have several values."""
    outer = [n for n in range(len(line) - 1) if len({each[n] for each in lines}) > 1]
    return ", ".join(named(choice.rows[n], line[n]) for n in outer)


class _Marks:
    """Assign a letter to each reason for a missing value or a missing or doubtful interval, in order of appearance."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def __call__(self, row: Row, *, is_for_interval: bool) -> str:
        if row["reason"] in (None, "count") or (row["value"] is not None and not is_for_interval):
            return ""
        reason = str(row["reason"])
        return self._letters.setdefault(reason, "abcdefghijklmnopqrstuvwxyz"[len(self._letters) % 26])

    @property
    def reasons(self) -> dict[str, str]:
        """The reasons by letter."""
        return {
            letter: ": ".join([reason.replace("_", " "), *filter(None, [meaning_of(reason)])])
            for reason, letter in self._letters.items()
        }


def _cell(
    row: Row | None,
    table: Table,
    by_keys: Mapping[tuple[Any, ...], Row],
    choice: TableChoice,
    marks: _Marks,
    best: set[int],
) -> PivotCell:
    if row is None:
        return PivotCell()
    gain = None
    if choice.gains:
        of_gain = {**row, "measure": f"{row['measure']}{_GAIN}"}
        gain = by_keys.get(tuple(of_gain[key] for key in table.keys))
    return PivotCell(
        value="" if row["value"] is None else _count(row) or printed(row["measure"], row["value"]),
        interval=_interval(row) if choice.intervals else "",
        mark=marks(row, is_for_interval=choice.intervals),
        gain=None if gain is None else "" if gain["value"] is None else _signed(gain, gain["value"]),
        gain_interval=_interval(gain, is_signed=True) if choice.intervals and gain is not None else "",
        gain_mark="" if gain is None else marks(gain, is_for_interval=choice.intervals),
        is_best=id(row) in best,
        is_there=True,
    )


def _count(row: Row) -> str:
    return f"{row['value']:.0f}" if row["reason"] == "count" else ""


def _signed(row: Row, value: float) -> str:
    return printed(row["measure"], value, is_signed=True)


def _interval(row: Row, *, is_signed: bool = False) -> str:
    if row["value"] is None or row["low"] is None:
        return ""
    low, high = (printed(row["measure"], row[end], is_signed=is_signed) for end in ("low", "high"))
    return f"[{low}, {high}]"


def _best(rows: Sequence[Row], choice: TableChoice, unequal: set[str]) -> set[int]:
    """Return the ids of the rows with the best value among agents, if no other interval overlaps theirs.

    Agents are compared only over the same number of units, and only if each of them has an interval.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    others = [key for key in (*choice.rows, *choice.columns) if key != "agent"]
    if "agent" not in (*choice.rows, *choice.columns):
        return set()
    for row in rows:
        if row["agent"] != "all" and row.get("benchmark") not in unequal:
            groups.setdefault(_part(row, others), []).append(row)
    found = set()
    for group in groups.values():
        better = measure_of(group[0]["measure"]).better
        if not better or len(group) < 2 or len({row["n_units"] for row in group}) > 1:
            continue
        if any(row["low"] is None or row["value"] is None for row in group):
            continue
        worst_end, best_end = ("low", "high") if better > 0 else ("high", "low")
        first = max(group, key=lambda row: better * row["value"])
        if all(better * first[worst_end] > better * row[best_end] for row in group if row is not first):
            found.add(id(first))
    return found


def _facts(
    table: Table,
    rows: Sequence[Row],
    choice: TableChoice,
    named: _Names,
    grid: Sequence[PivotLine],
    parameters: Mapping[str, Setting],
) -> Iterable[str]:
    """Yield the sentences of the caption after the first: what all cells share, intervals, n and the reading."""
    shared = [
        key for key in table.keys if len(_values(rows, key)) == 1 and not (choice.rows and key == choice.rows[-1])
    ]
    if len(choice.columns) == 1:
        shared = [key for key in shared if key not in choice.columns]
    if said := [_fact(key, rows[0][key], named) for key in shared if rows[0][key] not in (None, "")]:
        yield "; ".join(said)
    cells = [cell for line in grid for cell in line.cells]
    if choice.intervals and any(cell.interval for cell in cells):
        yield f"In square brackets: {parameters['confidence']:.0%} intervals over tasks"
    if any(cell.gain is not None for cell in cells):
        yield "In round brackets: the gain over the underspecified prompt, paired, in percentage points"
    units, clusters, trials = (_span(row[name] for row in rows) for name in ("n_units", "n_clusters", "n_trials"))
    missing = max(row["n_missing"] for row in rows)
    left = f", and up to {missing} missing ones" if missing else ""
    yield f"A cell has n = {units} units of {clusters} tasks, {trials} trials{left}"
    yield f"Reading: {table.reading}"


def _fact(key: str, value: object, named: _Names) -> str:
    return named(key, value) if value == "all" else f"{key_label(key)}: {named(key, value)}"


def _has_holes(grid: Sequence[PivotLine]) -> bool:
    return any(not cell.is_there for line in grid for cell in line.cells)


def _remarks(
    choice: TableChoice,
    rows: Sequence[Row],
    compared: Sequence[Row],
    best: set[int],
    named: _Names,
    parameters: Mapping[str, Setting],
    unequal: set[str],
    *,
    has_holes: bool,
) -> Iterable[str]:
    if choice.table in _TASKS_UNDER_FULL and "full" in _values(rows, "condition"):
        yield "a unit is a task under the full prompt, and a variant otherwise"
    agents, shown = ({row["agent"] for row in found if "agent" in row} - {"all"} for found in (compared, rows))
    if choice.bold and len(agents) > 1 and any(measure_of(row["measure"]).better for row in rows):
        column = (
            "a column" if agents == shown else f"a column among {len(agents)} agents, of which {len(shown)} are shown"
        )
        has_best = any(id(row) in best for row in rows)
        rule = f"its {parameters['confidence']:.0%} interval overlaps no other agent's interval"
        yield (
            f"bold: the best of {column}, if {rule}"
            if has_best
            else f"bold would mark the best of {column} if {rule}; no value is bold"
        )
        met = sorted(unequal & {str(row.get("benchmark")) for row in rows})
        if met:
            where = ", ".join(named("benchmark", each) if each == "all" else each for each in met)
            yield f"agents of {where} ran on different tasks or variants, so none of them is in bold"
    if has_holes:
        yield "empty cells: the table has no such row"


def _span(counts: Iterable[int]) -> str:
    found = sorted(set(counts))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def _sentence(text: str) -> str:
    text = text.strip()
    if text.partition(" ")[0].rstrip(":;,").isalpha():
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."
