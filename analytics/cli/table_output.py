"""``lhaw-record tables``, ``findings`` and ``sql``: compute what a store says, and print it."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from threading import Thread
from typing import TYPE_CHECKING, TextIO

import msgspec

from lhaw_record.analytics.errors import BadParameter, UnknownName
from lhaw_record.analytics.findings.findings import NEEDED, Finding, by_question, findings
from lhaw_record.analytics.tables.catalogue import GROUPS, SPECS
from lhaw_record.analytics.tables.filters import known_filter
from lhaw_record.analytics.tables.kept import Analysis, kept_or_computed
from lhaw_record.analytics.tables.render import to_csv, to_json, to_latex, to_markdown, to_terminal, to_text
from lhaw_record.analytics.tables.tables import COMPUTED_TABLES, TABLES, Table, tables
from lhaw_record.analytics.views.build_order import named_in
from lhaw_record.analytics.views.headers import failed_query, headers, print_views
from lhaw_record.analytics.views.parameters import PARAMETERS, READINGS, Setting, parse_settings, values_of
from lhaw_record.analytics.views.rows import distinct
from lhaw_record.recorder.cli.output import FORMATS, print_rows, say, write_file
from lhaw_record.recorder.cli.terminal import BOLD, painted, terminal_width
from lhaw_record.recorder.wording import did_you_mean

if TYPE_CHECKING:
    import duckdb

MAIN_TABLES = ("overall", "by_class", "voi")
_MOST_ROWS = 100
"""How many rows of a query a terminal shows. Files and pipes get all rows."""

_FILES: Mapping[str, Callable[[Table], str]] = {
    "csv": to_csv,
    "json": lambda each: to_json([each]),
    "md": to_markdown,
    "tex": to_latex,
}
_TEXTS: Mapping[str, Callable[[Table], str]] = {"markdown": to_markdown, "latex": to_latex}


def print_tables(
    store: Path,
    names: Sequence[str],
    *,
    settings: Sequence[str],
    form: str,
    out: TextIO,
    folder: Path | None = None,
    is_compared: bool = False,
    printed_as: Sequence[str] = (),
    wanted: Mapping[str, Sequence[str]] | None = None,
    is_fresh: bool = False,
) -> int:
    """Print tables or write them to files. Return 1 if a claim about the store does not hold, else 0."""
    chosen = known_tables(names)
    if form == "csv" and len(chosen) > 1 and not is_compared and folder is None:
        raise BadParameter("csv holds one table; name one, use --format json, or use --output DIR for a file each")
    computed, broken = compute(store, chosen, parse_settings(settings), is_fresh=is_fresh)
    if wanted:
        shown = known_filter(wanted, [row for each in computed for row in each.rows])
        computed = [shown.table(each) for each in computed]
    if is_compared:
        from lhaw_record.analytics.comparison.published import comparison  # only this option needs it

        computed = [comparison(computed, printed_as)]
    if folder is not None:
        _write(computed, folder, out)
    elif form == "json":
        out.write(to_json(computed))
    elif form == "csv":
        out.write(to_csv(computed[0]))
    elif form == "table":
        out.write("\n\n".join(_for_a_reader(each, out) for each in computed))
    else:
        out.write("\n\n".join(map(_TEXTS[form], computed)))
    for finding in broken:
        say(f"claim {finding.claim} does not hold, e.g. {finding.rows[0]}")
    return 1 if broken else 0


def known_tables(names: Sequence[str]) -> list[str]:
    """Check that the named tables exist and return their names without repeats.

    If ``names`` is empty, return the names of all tables that are queries.
    """
    known = (*TABLES, *COMPUTED_TABLES)
    unknown = [name for name in names if name not in known]
    if unknown:
        hint = did_you_mean(unknown[0], known)
        raise UnknownName(f"there is no table {unknown[0]!r}{hint}; known: {', '.join(known)}")
    return list(dict.fromkeys(names)) or list(TABLES)


def compute(
    store: Path, names: Sequence[str], parameters: Mapping[str, Setting], *, is_fresh: bool = False
) -> Analysis:
    """Return tables of a store and the claims that do not hold. Results kept for the unchanged store are reused."""

    def computed(missing: list[str]) -> Analysis:
        from lhaw_record.analytics.views import store as stores  # DuckDB is loaded when it is needed

        Thread(target=import_module, args=("scipy.special",)).start()  # the import takes 0.2 s, and no view needs it
        only = stores.read_for([*missing, *stores.claims()])
        with stores.open(store, parameters=parameters, only=only) as connection:
            return tables(connection, missing), stores.checks(connection)

    return kept_or_computed(store, names, parameters, computed, is_fresh=is_fresh)


def print_list(form: str, out: TextIO) -> None:
    """Print the name and meaning of every table and parameter."""
    if form not in FORMATS:
        raise BadParameter(f"the list can be printed as {', '.join(FORMATS)}; choose one of them with --format")
    grains = {each.view: each.grain for each in headers() if each.layer == "tables"}
    rows: list[Mapping[str, object]] = []
    for each in SPECS:
        grain = grains.get(each.name) or ", ".join(each.keys)
        rows.append({"kind": "table", "name": each.name, "meaning": f"{each.title}; a row per {grain}"})
    rows += [{"kind": "parameter", **msgspec.structs.asdict(each)} for each in PARAMETERS]
    print_rows(rows, ("kind", "name", "default", "meaning"), form, out)


def print_other_tables(shown: Sequence[str], out: TextIO) -> None:
    """Print the names of the tables that are not shown, by group."""
    width = terminal_width(out) or 132
    out.write("\nOther tables, by name or with --all:\n")
    for group, names in GROUPS.items():
        if others := [name for name in names if name not in shown]:
            out.write("\n" + painted(group, BOLD, out) + "\n")
            out.write("\n".join(wrap("  ".join(others), width, initial_indent="  ", subsequent_indent="  ")) + "\n")


def _write(tables: Sequence[Table], folder: Path, out: TextIO) -> None:
    """Write every table in every file format, each file atomically."""
    for each in tables:
        for ending, render in _FILES.items():
            path = folder / f"{each.name}.{ending}"
            write_file(path, render(each).encode("utf-8"))
            out.write(f"{path}\n")


_WIDTH = 100
_COLUMNS = (
    *("question", "benchmark", "agent", "verdict", "sentence", "p_family", "family", "settled_by", "table", "keys"),
)
_MARKS = {"shown": "+", "measured": "=", "not shown": "?", "not known": "?"}


def print_findings(
    store: Path,
    measure: str,
    *,
    settings: Sequence[str],
    form: str,
    out: TextIO,
    wanted: Mapping[str, Sequence[str]] | None = None,
    is_headline: bool = False,
    is_fresh: bool = False,
) -> int:
    """Print the findings of a store, or the headline. Return 1 if a claim about the store does not hold, else 0."""
    chosen = parse_settings(settings)
    values = values_of(chosen)
    if "timing_measure" not in {*chosen, *READINGS[str(values["reading"])]}:
        values["timing_measure"] = measure
    settled = {**chosen, "timing_measure": values["timing_measure"]}
    tables, broken = compute(store, NEEDED, settled, is_fresh=is_fresh)
    by_name = {each.name: each for each in tables}
    found = findings(by_name, measure, str(values["timing_measure"]), float(str(values["confidence"])))
    levels = _by_condition(by_name["overall"], measure)
    if wanted:
        shown = known_filter(wanted, [row for each in tables for row in each.rows])
        kept = shown.rows({**each.keys, "finding": each} for each in found)
        found = tuple(row["finding"] for row in kept)
        levels = msgspec.structs.replace(levels, rows=tuple(shown.rows(levels.rows)))
    if form == "table":
        width = min(_WIDTH, terminal_width(out) or _WIDTH)
        if levels.rows:
            out.write(_for_a_reader(levels, out))
        told = _most_telling(found) if is_headline else found
        out.write(_text(told, () if is_headline else by_name["overall"].notes, width))
    else:
        rows = [{name: getattr(each, name) for name in _COLUMNS} for each in found]
        if form == "csv":
            rows = [{**row, "keys": json.dumps(row["keys"])} for row in rows]
        print_rows(rows, _COLUMNS, form, out)
    for claim in broken:
        say(f"claim {claim.claim} does not hold, e.g. {claim.rows[0]}")
    return 1 if broken else 0


def _by_condition(overall: Table, measure: str) -> Table:
    """Return the levels of each agent and condition as a small table."""
    rows = tuple(row for row in overall.rows if row["measure"] == measure)
    return msgspec.structs.replace(overall, title=f"Success by condition ({measure})", rows=rows, notes=())


def _for_a_reader(shown: Table, out: TextIO) -> str:
    width = terminal_width(out)
    return to_text(shown) if width is None else to_terminal(shown, width, partial(painted, out=out))


def _most_telling(found: Sequence[Finding]) -> list[Finding]:
    """Return what missing information cost and what asking gained: for each, what is shown, else what is not."""
    chosen = []
    for question, _, answers in by_question(found)[:2]:
        first = min(answers, key=lambda each: each.findings[0].verdict != "shown").findings[0]
        chosen += [each for each in found if each.question == question and each.wording == first.wording]
    return chosen


def _text(found: Sequence[Finding], notes: Sequence[str], width: int) -> str:
    """Return the findings by question, then the notes. Within a question, unknown answers come last."""
    lines, has_several = [], len({each.benchmark for each in found} - {"all"}) > 1
    for question, size, answers in by_question(found):
        lines.append(f"{question} ({size} per agent)" if size else question)
        for (first, *_), sentence in sorted(answers, key=lambda each: not each.findings[0].is_known):
            where = f"{first.benchmark}: " if has_several else ""
            settled = f" To settle it: {first.settled_by}." if first.settled_by else ""
            lead = f"  {_MARKS[first.verdict]} "
            text, after = f"{where}{sentence}{settled}", "    "
            lines += wrap(text, width, initial_indent=lead, subsequent_indent=after, break_on_hyphens=False)
        lines.append("")
    lines += [part for note in notes for part in wrap(note, width, initial_indent="  ", subsequent_indent="    ")]
    legend = "+ shown   = measured   ? not shown or not known   trials: lhaw-record trials"
    return "\n".join([*lines, *([""] if notes else []), legend, ""])


def run_queries(store: Path, text: str, form: str, out: TextIO) -> None:
    """Print the rows of each statement of a text; for ``.views [NAME]``, list the views.

    On a terminal, a table shows only the first rows.
    """
    import duckdb

    from lhaw_record.analytics.views import store as stores

    word, _, rest = text.strip().partition(" ")
    most = _MOST_ROWS if form == "table" and out.isatty() else None
    with stores.open(store, only=named_in(text) if word != ".views" else set()) as connection:
        if word == ".views":
            print_views(connection, rest.strip(), form, out)
            return
        try:
            for statement in connection.extract_statements(text):
                _print_rows(connection, statement.query, form, out, most)
        except duckdb.Error as error:
            raise failed_query(error) from error


def _print_rows(
    connection: "duckdb.DuckDBPyConnection", query: str, form: str, out: TextIO, most_rows: int | None
) -> None:
    """Run a statement and print its rows, or only the first ones. A statement without a result prints nothing."""
    result = connection.execute(query)
    columns = [column[0] for column in result.description or ()]
    rows = result.fetchall() if most_rows is None else result.fetchmany(most_rows + 1)
    if not columns:
        return
    names = distinct(columns)
    print_rows([dict(zip(names, row, strict=True)) for row in rows[:most_rows]], names, form, out)
    if most_rows is not None and len(rows) > most_rows:
        connection.interrupt()
        say(f"only the first {most_rows} rows are shown; --format csv or a pipe prints all rows")
