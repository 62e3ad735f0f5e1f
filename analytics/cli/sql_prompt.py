"""``lhaw-record sql``: run one query over the views of a store, or open an interactive prompt."""

import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import wrap
from typing import Any, TextIO

import duckdb

from lhaw_record.analytics.errors import AnalyticsError
from lhaw_record.analytics.views import store as stores
from lhaw_record.analytics.views.build_order import named_in
from lhaw_record.analytics.views.headers import headers, print_views
from lhaw_record.analytics.views.parameters import PARAMETERS, Setting, current, parse_settings
from lhaw_record.analytics.views.rows import distinct
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.cli.terminal import QUIET, painted, shortened, terminal_width, visible
from lhaw_record.recorder.wording import did_you_mean

HELP = """\
  select ... ;     any SQL of DuckDB; a statement ends with a semicolon
  .tables          the names of the views that queries are about; .views has all
  .views [NAME]    the views there are with their columns; only one of them, or one layer, with its name
  .describe NAME   the columns of a view
  .mode FORM       print rows as table, lines (a line per column), csv or json
  .rows N          print at most N rows; 'all' prints every row
  .set NAME=VALUE  another reading; .set alone lists the parameters
  .refresh         look at the store again (a run may have gone on)
  .help            this text
  .quit            leave (also .exit, Ctrl-D)"""


MODES = ("table", "lines", "csv", "json")
_MOST_ROWS = 100
"""How many rows a terminal shows by default. Files and pipes get all rows."""
_HISTORY_LINES = 2_000


def run_query(store: Path, query: str, form: str, out: TextIO) -> None:
    """Print the rows of one query. The query ``.views`` prints the same list as at the prompt.

    On a terminal, a table shows only the first rows.
    """
    word, _, rest = query.strip().partition(" ")
    if word.startswith(".") and word != ".views":
        raise AnalyticsError(f"{word} belongs to the prompt; -c takes a query or .views [NAME]")
    with stores.open(store, only=named_in(query) if word != ".views" else set()) as connection:
        if word == ".views":
            print_views(connection, rest.strip(), form, out)
        else:
            is_capped = form == "table" and out.isatty()
            print_query(connection, query, form, out, most_rows=_MOST_ROWS if is_capped else None)


def print_query(
    connection: duckdb.DuckDBPyConnection, query: str, form: str, out: TextIO, most_rows: int | None = None
) -> None:
    """Run a statement and print its rows, or only the first ones. A statement without a result prints nothing."""
    try:
        result = connection.execute(query)
        columns = [column[0] for column in result.description or ()]
        rows = result.fetchall() if most_rows is None else result.fetchmany(most_rows + 1)
    except duckdb.Error as error:
        raise AnalyticsError(f"the query failed: {error}") from error
    if not columns:
        return
    names = distinct(columns)
    is_cut = most_rows is not None and len(rows) > most_rows
    found = [dict(zip(names, row, strict=True)) for row in rows[:most_rows]]
    if form == "lines":
        _print_lines(found, names, out)
    else:
        print_rows(found, names, form, out)
    if is_cut:
        connection.interrupt()
        say(f"the first {most_rows} rows; '.rows all' at the prompt, a pipe or --format csv has all")


def _print_lines(rows: Sequence[Mapping[str, Any]], names: Sequence[str], out: TextIO) -> None:
    """Print one line per column, with an empty line between rows."""
    heads = [visible(name, out) for name in names]
    longest = max(map(len, heads))
    width = terminal_width(out)
    for row in rows:
        for name, head in zip(names, heads, strict=True):
            value = "-" if row[name] is None else visible(str(row[name]), out)
            line = f"{painted(head.rjust(longest), QUIET, out)}  {value}"
            out.write((line if width is None else shortened(line.replace(chr(10), " "), width + 8)) + "\n")
        out.write("\n")


class SqlPrompt:
    """An interactive SQL prompt over one store.

    Args:
        store: The store's directory.
        form: The output format: table, csv or json.
    """

    def __init__(self, store: Path, form: str) -> None:
        self._store = store
        self._form = form
        self._most_rows: int | None = _MOST_ROWS if sys.stdout.isatty() else None
        self._parameters: dict[str, Setting] = {}
        self._connection = stores.open(store)
        self._commands: dict[str, Callable[[str], None]] = {
            ".describe": self._describe,
            ".help": lambda _: say(HELP),
            ".mode": self._mode,
            ".quit": lambda _: None,  # read at the prompt
            ".refresh": lambda _: self._reopen(self._parameters),
            ".rows": self._rows,
            ".set": self._set,
            ".tables": lambda _: self._tables(),
            ".views": self._views,
        }

    def run(self) -> int:
        """Read and run statements until the input ends, and return the exit code."""
        if sys.stdin.isatty():
            self._open_history()
            say(f"{self._store}: .help lists the commands, Ctrl-D leaves")
        try:
            while (statement := self._read()) is not None:
                try:
                    self._run(statement)
                except AnalyticsError as error:
                    say(str(error))
        finally:
            self._connection.close()
        return 0

    def _open_history(self) -> None:
        """Set up line editing, the history of earlier sessions, and tab completion for input()."""
        import atexit
        import readline

        path = history_path()
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            readline.read_history_file(path)
            readline.set_history_length(_HISTORY_LINES)
            atexit.register(_save_history, path)
        columns = {column.name for each in headers() for column in each.columns}
        keywords = self._connection.execute(
            "select keyword_name from duckdb_keywords() where keyword_category = 'reserved'"
        ).fetchall()
        words = sorted({*_view_names(), *columns, *self._commands, *(name for (name,) in keywords)})
        readline.set_completer_delims(" \t\n,()=<>;'\"")
        readline.set_completer(lambda text, n: ([word for word in words if word.startswith(text.lower())] + [None])[n])
        readline.parse_and_bind("tab: complete")

    def _read(self) -> str | None:
        """Read the next statement or dot command. Return None at the end of input or on ``.quit``."""
        lines: list[str] = []
        while True:
            try:
                line = input(("sql> " if not lines else "  -> ") if sys.stdin.isatty() else "")
            except EOFError:
                return "\n".join(lines) if any(part.strip() for part in lines) else None
            except KeyboardInterrupt:
                lines = []
                say("")
                continue
            if not lines and line.strip() in (".quit", ".exit"):
                return None
            lines.append(line)
            if (len(lines) == 1 and line.lstrip().startswith(".")) or line.rstrip().endswith(";"):
                return "\n".join(lines)

    def _run(self, statement: str) -> None:
        word, _, rest = statement.strip().partition(" ")
        if not word.startswith("."):
            if statement.strip():
                self._print(statement)
        elif word in self._commands:
            self._commands[word](rest.strip().rstrip(";"))
        else:
            say(f"unknown command {word}{did_you_mean(word, self._commands)}; .help lists them")

    def _views(self, name: str) -> None:
        print_views(self._connection, name, "table" if self._form == "lines" else self._form, sys.stdout)
        sys.stdout.flush()

    def _tables(self) -> None:
        for layer, what in (("marts", "for queries"), ("tables", "reported tables")):
            names = [each.view for each in headers() if each.layer == layer]
            width = terminal_width(sys.stdout) or 100
            say("\n".join([f"{what}:", *wrap("  ".join(names), width, initial_indent="  ", subsequent_indent="  ")]))

    def _describe(self, name: str) -> None:
        quoted = name.replace('"', '""')
        self._print(f'select column_name, column_type from (describe "{quoted}")')  # noqa: S608 - quoted above

    def _mode(self, form: str) -> None:
        if form not in MODES:
            say(f".mode takes {', '.join(MODES)}; it is {self._form}")
        else:
            self._form = form

    def _rows(self, count: str) -> None:
        if count != "all" and not (count.isdecimal() and int(count) > 0):
            say(f".rows takes a number or all; it is {self._most_rows or 'all'}")
        else:
            self._most_rows = None if count == "all" else int(count)

    def _set(self, setting: str) -> None:
        if setting:
            self._reopen({**self._parameters, **parse_settings([setting])})
        else:
            chosen = current(self._connection)
            rows = [{"name": each.name, "value": chosen[each.name], "meaning": each.meaning} for each in PARAMETERS]
            print_rows(rows, ("name", "value", "meaning"), "table" if self._form == "lines" else self._form)

    def _reopen(self, parameters: Mapping[str, Setting]) -> None:
        """Open the store again with these parameters. If that fails, the old connection stays in use."""
        connection = stores.open(self._store, parameters=parameters)
        self._connection.close()
        self._connection, self._parameters = connection, dict(parameters)

    def _print(self, query: str) -> None:
        if not sys.stdout.isatty():
            print_query(self._connection, query, self._form, sys.stdout)
            sys.stdout.flush()
            return
        text = _Screen(sys.stdout)
        print_query(self._connection, query, self._form, text, self._most_rows)
        text.show()


class _Screen(io.StringIO):
    """Buffer terminal output, and show output longer than the terminal in ``$PAGER`` (default: less)."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._out = out

    def isatty(self) -> bool:
        """Return True, because the text is shown on a terminal."""
        return True

    def show(self) -> None:
        text = self.getvalue()
        pager = os.environ.get("PAGER") or "less"
        is_long = text.count("\n") >= shutil.get_terminal_size((80, 24)).lines
        if is_long and shutil.which(shlex.split(pager)[0]):
            environment = {"LESS": "-SRFX", **os.environ}
            subprocess.run(shlex.split(pager), input=text, text=True, env=environment, check=False)
        else:
            self._out.write(text)
            self._out.flush()


def history_path() -> Path:
    """Return the path of the prompt's history file, in the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "lhaw-record" / "sql_history"


def _view_names() -> list[str]:
    return [each.view for each in headers() if each.layer != "checks"]


def _save_history(path: Path) -> None:
    import readline

    with suppress(OSError):
        readline.write_history_file(path)
