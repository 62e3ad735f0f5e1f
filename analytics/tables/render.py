"""Render tables as text for a terminal, CSV, JSON, Markdown or LaTeX."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import groupby
from textwrap import wrap
from typing import Any

import msgspec

from lhaw_record.analytics.tables.filters import without_lone_pools
from lhaw_record.analytics.tables.labels import measure_of, printed
from lhaw_record.analytics.tables.tables import Row, Table
from lhaw_record.recorder.cli.output import write_csv
from lhaw_record.recorder.cli.terminal import BOLD, QUIET, fitting_widths, shortened

Lines = list[list[str]]

_MARKUP = re.compile(r"[\\|`*]|(?<![^\W_])_|_(?![^\W_])|<(?=[a-zA-Z/!?])|&(?=#?\w+;)|~(?=~)|\](?=[(\[:])")
_TEX = {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "|": r"\textbar{}"}
_TEX |= {"<": r"\textless{}", ">": r"\textgreater{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}"}
_TEX |= {"[": "{[}", "]": "{]}", "*": "{*}", "…": r"\ldots{}", "\n": " "}
_TEX |= {character: "\\" + character for character in "&%$#_{}"}
_SCALES = {"_pct": "% (pct)", "_pp": "percentage points (pp)"}
_COUNTS = (("units", "n_units"), ("clusters", "n_clusters"), ("trials", "n_trials"), ("missing", "n_missing"))


def to_csv(table: Table) -> str:
    """Render the rows as CSV with a header but no notes. The last column names the reading.

    Undefined values are empty. Texts are escaped so that spreadsheets do not read them as formulas.
    """
    out = io.StringIO()
    rows = ([*(row[name] for name in table.columns), table.reading] for row in table.rows)
    write_csv(out, (*table.columns, "reading"), rows)
    return out.getvalue()


def to_json(tables: Sequence[Table]) -> str:
    """Render tables as one JSON object by table name. Undefined values are null."""
    return msgspec.json.format(msgspec.json.encode({table.name: table for table in tables}), indent=1).decode() + "\n"


def to_text(table: Table, width: int = 132) -> str:
    """Render a table as text: one block per benchmark, and one column per agent if that fits into ``width``."""
    parts = [f"{table.name}: {_title(table)}\n"]
    for benchmark, block in _blocks(table):
        lines = _without_repeats(_costs(block), 4) if "purpose" in table.keys else _estimates(table, block, width)
        parts += [f"\n{benchmark}\n", _aligned(lines)]
    if not table.rows:
        parts.append("\n(no rows)\n")
    notes = (wrap(note, width, initial_indent="  ", subsequent_indent="    ") for note in table.notes)
    parts += ["\n", *(f"{line}\n" for note in notes for line in note)]
    return "".join(parts)


def to_terminal(table: Table, width: int, painted: Callable[[str, str], str]) -> str:
    """Render a table for a terminal, with no line longer than ``width``.

    If a line is too long, leading keys become headings, then counts share a column, then texts are truncated.
    """
    parts = [*(painted(line, BOLD) for line in wrap(f"{table.name}: {_title(table)}", width))]
    for benchmark, block in _blocks(table):
        keys = [key for key in table.keys if key != "benchmark"]
        lines = _estimates(table, block, width) if "purpose" not in keys else []
        is_cost = not lines
        if is_cost or _width(lines) > width:
            lines = _costs(block) if is_cost else _one_per_line(table, block, keys, has_repeats=True)
            lines = _narrowed(lines, 4 if is_cost else len(keys), width, painted)
            parts += ["", painted(benchmark, BOLD), *(line[0] for line in lines)]
            if lines[0][0].removesuffix("\x1b[0m").endswith("  n"):
                parts.append(painted("n: units/clusters/trials/missing", QUIET))
        else:
            head, *body = _aligned(lines).splitlines()
            parts += ["", painted(benchmark, BOLD), painted(head, QUIET), *body]
    if not table.rows:
        parts += ["", "(no rows)"]
    notes = (wrap(note, width, initial_indent="  ", subsequent_indent="    ") for note in table.notes)
    parts += ["", *(painted(line, QUIET) for note in notes for line in note)]
    return "\n".join(parts) + "\n"


def to_markdown(table: Table) -> str:
    """Render a table as Markdown: keys, estimates with intervals, and counts. The notes follow as a list."""
    head, *lines = _every_line(table)
    rows = [head, ["---"] * len(head), *lines]
    title = markdown_text(f"{table.name}: {_title(table)}")
    parts = [f"## {title}\n", *("| " + " | ".join(map(markdown_text, row)) + " |" for row in rows)]
    return "\n".join([*parts, "", *(f"- {markdown_text(note)}" for note in table.notes)]) + "\n"


def to_latex(table: Table) -> str:
    """Render a table for LaTeX. It needs booktabs, longtable and, for quotes, fontenc (T1) and textcomp."""
    head, *lines = _every_line(table)
    body = [" & ".join(map(tex_text, line)) + r" \\" for line in lines]
    return "\n".join(
        [
            f"% {table.name}",
            rf"\begin{{longtable}}{{{'l' * len(head)}}}",
            rf"\caption{{{tex_text(_title(table))}}}\label{{tab:{table.name}}}\\",
            r"\toprule",
            " & ".join(map(tex_text, head)) + r" \\",
            r"\midrule\endhead",
            *body,
            r"\bottomrule",
            r"\end{longtable}",
            *(rf"\noindent {{\footnotesize {tex_text(note)}}}\par" for note in table.notes),
            "",
        ]
    )


def _title(table: Table) -> str:
    """Return the title with the scale of the shares, of several with what is in the names that have each."""
    measures = {str(row["measure"]) for row in table.rows if "measure" in row}
    found = ["fractions of 1"] if any(measure_of(each).scale > 1 for each in measures) else []
    found += [scale for part, scale in _SCALES.items() if any(f"{part}_" in f"{each}_" for each in measures)]
    return f"{table.title}, in {', '.join(found)}" if found else table.title


def _every_line(table: Table) -> Lines:
    """Return one line per row with all its keys. The cost table keeps only the columns that fit on a page."""
    rows = without_lone_pools(table.rows, table.keys)
    if "purpose" in table.keys:
        return _costs(rows, "benchmark")
    return _one_per_line(table, rows, list(table.keys), has_repeats=True)


def markdown_text(text: str) -> str:
    """Escape text for a Markdown cell, except characters that GitHub shows unchanged, as in a_b or [0.1, 0.2]."""
    return _MARKUP.sub(lambda found: "\\" + found[0], text).replace("\n", " ")


def tex_text(text: str) -> str:
    """Escape text for LaTeX. A hyphen before a number becomes a minus sign."""
    escaped = "".join(_TEX.get(character, character) for character in text)
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)


def cell(row: Row) -> str:
    """Format the estimate of a row, for example ``0.50 [0.30, 0.70]``.

    A missing interval is replaced by its reason. After an interval a reason is a doubt about it, ``?``, which the notes
    explain. A missing value is ``-`` and the reason.
    """
    value, measure = row["value"], row["measure"]
    if value is None:
        return f"- {row['reason']}"
    if row["reason"] == "count":
        return f"{value:.0f}"
    if row["low"] is None:
        return f"{number(measure, value)} ({row['reason']})"
    doubt = "?" if row["reason"] else ""
    return f"{number(measure, value)} [{number(measure, row['low'])}, {number(measure, row['high'])}]{doubt}"


def number(measure: str, value: float) -> str:
    """Format a number of a measure. A nonzero number never reads as 0: it keeps its first digit, as in ``0.004``."""
    text = _format(measure)(value)
    return text if value == 0 or float(text) != 0 else f"{Decimal(f'{value:.1g}'):f}"


def number_in_unit(measure: str, value: float) -> str:
    """Format a number in its display unit: shares and their differences in per cent, others like :func:`number`."""
    return printed(measure, value) if measure_of(measure).unit in ("%", "pp") else number(measure, value)


def _format(measure: str) -> Callable[[float], str]:
    if measure.endswith("_tokens"):
        return lambda value: f"{value:.0f}"
    if measure.endswith("_usd"):
        return lambda value: f"{Decimal(f'{value:.2g}'):f}"
    if measure.endswith(("_pct", "_actions")):
        return lambda value: f"{value:.1f}".removesuffix(".0")
    return lambda value: f"{value:.2f}"


def _blocks(table: Table) -> list[tuple[str, list[Row]]]:
    """Group the rows by benchmark. A table without benchmarks gives one block."""
    blocks: dict[str, list[Row]] = {}
    for row in without_lone_pools(table.rows, table.keys):
        blocks.setdefault(str(row.get("benchmark", "all benchmarks")), []).append(row)
    return list(blocks.items())


def _estimates(table: Table, rows: list[Row], width: int) -> Lines:
    keys = [key for key in table.keys if key != "benchmark"]
    if "agent" in keys and not table.shown:
        wide = _by_agent(rows, [key for key in keys if key != "agent"])
        if max(len(line) for line in _aligned(wide).splitlines()) <= width:
            return wide
    return _one_per_line(table, rows, keys)


def _by_agent(rows: list[Row], keys: list[str]) -> Lines:
    """Return one line per combination of keys, with one column per agent. Differing counts are joined by slashes."""
    agents = list(dict.fromkeys(str(row["agent"]) for row in rows))
    groups: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        groups.setdefault(tuple(_key(row[key]) for key in keys), {})[str(row["agent"])] = row
    seen = [_first_places(_key(row[key]) for row in rows) for key in keys]  # merges the rows of all agents
    order = sorted(groups, key=lambda group: [places[part] for places, part in zip(seen, group, strict=True)])
    lines = [[*keys, *agents, *(name for name, _ in _COUNTS)]]
    for group in order:
        by_agent = groups[group]
        cells = [cell(by_agent[agent]) if agent in by_agent else "" for agent in agents]
        lines.append([*group, *cells, *(_joined(by_agent, agents, column) for _, column in _COUNTS)])
    return _without_repeats(lines, len(keys))


def _first_places(values: Iterable[str]) -> dict[str, int]:
    """Return the position of each different value, in the order of first occurrence."""
    return {value: place for place, value in enumerate(dict.fromkeys(values))}


def _joined(by_agent: dict[str, Row], agents: list[str], column: str) -> str:
    counts = [str(by_agent[agent][column]) for agent in agents if agent in by_agent]
    return counts[0] if len(set(counts)) == 1 else "/".join(counts)


def _narrowed(lines: Lines, key_count: int, width: int, painted: Callable[[str, str], str]) -> Lines:
    """Return lines that fit: with as few keys as possible as headings, then with counts in one column."""
    for is_joined in (False, True):
        found = _joined_counts(lines) if is_joined else lines
        for depth in range(key_count):
            if 2 * depth + _width([line[depth:] for line in found]) <= width:
                return _under_headings(found, depth, key_count, width, painted)
    return _under_headings(_joined_counts(lines), max(0, key_count - 1), key_count, width, painted)


def _under_headings(lines: Lines, depth: int, key_count: int, width: int, painted: Callable[[str, str], str]) -> Lines:
    """Print the first ``depth`` keys as headings above the lines that share them, and truncate long lines."""
    head, *body = lines
    widths = [max(len(line[place]) for line in lines) for place in range(depth, len(head))]
    widths, _ = fitting_widths(widths, width - 2 * depth)

    def line(cells: Sequence[str]) -> str:
        shown = [shortened(text, most).ljust(most) for text, most in zip(cells, widths, strict=False)]
        return " " * (2 * depth) + "  ".join(shown).rstrip()

    out, before = [[painted(line(head[depth:]), QUIET)]], [""] * depth
    for keys, group in groupby(body, key=lambda each: each[:depth]):
        same = next((place for place in range(depth) if keys[place] != before[place]), depth)
        out += [[" " * (2 * place) + shortened(keys[place], width - 2 * place)] for place in range(same, depth)]
        before = keys
        rest = _without_repeats([head[depth:], *(each[depth:] for each in group)], max(1, key_count - depth))
        out += [[line(cells)] for cells in rest[1:]]
    return out


def _joined_counts(lines: Lines) -> Lines:
    """Merge the counts of a line into one column, ``units/clusters/trials/missing``."""
    head = lines[0]
    names = [name for name, _ in _COUNTS]
    if head[-len(names) :] != names:
        return lines
    return [[*line[: -len(names)], "n" if line is head else "/".join(line[-len(names) :])] for line in lines]


def _width(lines: Lines) -> int:
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return sum(widths) + 2 * (len(widths) - 1)


def _one_per_line(table: Table, rows: list[Row], keys: list[str], *, has_repeats: bool = False) -> Lines:
    texts = _texts(table, keys)
    lines = [[*texts], *([text(row) for text in texts.values()] for row in rows)]
    return lines if has_repeats else _without_repeats(lines, len(keys))


def _texts(table: Table, keys: list[str]) -> dict[str, Callable[[Row], str]]:
    """Return the columns to print, each with a function that formats it.

    The columns are keys, estimate and counts, or all columns if the table has no estimates.
    """
    texts = {key: _text(key, _key) for key in keys}
    if "value" not in table.columns:
        return texts | {column: _text(column, _shown) for column in table.columns if column not in keys}
    texts |= {"value": cell} | {column: _text(column, _shown) for column in table.shown}
    return texts | {name: _text(column, str) for name, column in _COUNTS if column in table.columns}


def _text(column: str, show: Callable[[Any], str]) -> Callable[[Row], str]:
    return lambda row: show(row[column])


def _key(value: object) -> str:
    return "" if value is None else str(value)


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _costs(rows: Sequence[Row], *keys: str) -> Lines:
    """Return the lines of the cost table, one per purpose of the model calls, with the columns that fit on a line."""
    keys = (*keys, "agent", "role", "condition", "purpose")
    head = [*keys, "trials", "missing", "tokens", "per trial", "USD", "per trial", "failed", "failed USD"]
    lines = [head]
    for _, group in groupby(rows, key=lambda row: [row[key] for key in keys[:-1]]):
        purposes = list(group)
        callers = [row for row in purposes if row["n_calls"] != 0 and row["purpose"] != "all"]
        total = [row for row in purposes if row["purpose"] == "all"]
        lines += [_cost_line(row, keys) for row in ((*callers, *total) if len(callers) > 1 else total)]
    return lines


def _cost_line(row: Row, keys: Sequence[str]) -> list[str]:
    read, written = row["input_tokens"], row["output_tokens"]
    return [
        *(str(row[key]) for key in (*keys, "n_trials", "n_missing")),
        _number(None if read is None or written is None else read + written, 0),
        _mean(row, "tokens_per_trial", "tokens_reason", 0),
        _number(row["cost_usd"], 4),
        _mean(row, "cost_usd_per_trial", "cost_reason", 4),
        str(row["failed_attempts"]),
        _number(row["failed_cost_usd"], 4),
    ]


def _mean(row: Row, column: str, reason: str, places: int) -> str:
    """Format a mean of the cost table with its interval, or with the reason for a missing interval."""
    value, low, high = (_number(row[column + end], places) for end in ("", "_low", "_high"))
    if row[column] is None:
        return f"- {row[reason]}"
    return f"{value} [{low}, {high}]" if row[reason] is None else f"{value} ({row[reason]})"


def _number(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:.{places}f}"


def _without_repeats(lines: Lines, key_count: int) -> Lines:
    """Blank the leading keys of each line that equal those in the line above."""
    shown, before = [lines[0]], [""] * key_count
    for line in lines[1:]:
        keys = line[:key_count]
        same = next((place for place in range(key_count) if keys[place] != before[place]), key_count - 1)
        shown.append([*([""] * same), *line[same:]])
        before = keys
    return shown


def _aligned(lines: Lines) -> str:
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return "".join(_padded(lines, widths))


def _padded(lines: Lines, widths: list[int]) -> Iterator[str]:
    for line in lines:
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n"
