"""Prints messages, and rows as a table, CSV or JSON.

Much of the text in a store was written by agents under test. A spreadsheet evaluates a CSV cell that begins with ``=``,
``+``, ``-``, ``@``, a tab or a line break as a formula (OWASP, CSV Injection). Such text gets an apostrophe in front,
which spreadsheets hide. Numbers stay unchanged.
"""

import csv
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, TextIO

import msgspec

from lhaw_record.recorder.cli.terminal import BOLD, QUIET, fitting_widths, painted, shortened, terminal_width, visible

FORMATS = ("table", "csv", "json")
STANDARD_STREAM = Path("-")
_NARROWEST_COLUMN = 16


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], form: str, out: TextIO | None = None) -> None:
    """Print rows as a table, CSV or JSON."""
    out = out or sys.stdout
    if form == "json":
        json.dump([{name: row.get(name) for name in columns} for row in rows], out, indent=1, default=str)
        out.write("\n")
    elif form == "csv":
        write_csv(out, _shown(columns, out), (_shown([row.get(name) for name in columns], out) for row in rows))
    else:
        _print_table(rows, columns, out)


def print_json(value: object) -> None:
    """Print a struct on standard output as one line of JSON."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


@contextmanager
def open_output(path: Path) -> Iterator[IO[bytes]]:
    """Open the file given by ``--output``, compressed according to its suffix; ``-`` means standard output."""
    from lhaw_record.recorder.transfer.export import export_file

    if path == STANDARD_STREAM:
        yield sys.stdout.buffer
        return
    with export_file(path) as file:
        yield file


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and make its folder."""
    from lhaw_record.recorder.transfer.export import export_file

    path.parent.mkdir(parents=True, exist_ok=True)
    with export_file(path) as file:
        file.write(content)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that is renamed to the one given by ``--output`` when it is complete."""
    from lhaw_record.recorder.errors import StoreError, refusal

    if path == STANDARD_STREAM or path.exists():
        where = "standard output" if path == STANDARD_STREAM else f"{path}, which already exists"
        raise StoreError(f"this export is a folder and cannot go to {where}; name a new folder with -o")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as scratch:
            made = Path(scratch) / path.name
            made.mkdir()
            yield made
            made.rename(path)
    except OSError as error:
        raise StoreError(f"cannot write {refusal(error, path)}") from error


def say(text: str) -> None:
    """Print a message for the user on standard error."""
    print(visible(text, sys.stderr), file=sys.stderr, flush=True)  # noqa: T201


def _print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], out: TextIO) -> None:
    texts = [[visible(_text(row.get(name)), out) for name in columns] for row in rows]
    heads = _shown(columns, out)
    widths = [max([len(name), *(len(line[place]) for line in texts)]) for place, name in enumerate(heads)]
    numeric = [bool(rows) and all(isinstance(row.get(name), int | float | None) for row in rows) for name in columns]
    width, hidden = terminal_width(out), 0
    if width is not None:
        widths, hidden = fitting_widths(widths, width, narrowest=_NARROWEST_COLUMN)

    def line(cells: Sequence[str]) -> str:
        padded = [
            shortened(cell, width).rjust(width) if right else shortened(cell, width).ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=False)
        ]
        return "  ".join(padded).rstrip()

    out.write(painted(line(heads), BOLD, out) + "\n")
    out.write("  ".join("-" * width for width in widths) + "\n")
    out.writelines(line(cells) + "\n" for cells in texts)
    if width is not None and hidden:
        names = f"({hidden} more columns: {', '.join(heads[-hidden:])})"
        out.write(painted(shortened(names, width), QUIET, out) + "\n")


def _shown(values: Sequence[Any], out: TextIO) -> list[Any]:
    return [visible(value, out) if isinstance(value, str) else value for value in values]


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).replace("\n", " ")


_BLANK = r"[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
"""Whitespace in Python or JavaScript. The report page uses the same set."""
_FORMULA = re.compile(rf"{_BLANK}*[=+\-@＝＋－＠]|[\t\r\n]")  # noqa: RUF001 - some spreadsheets accept full-width characters too
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|nan)")


def write_csv(out: TextIO, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a header and rows. None becomes an empty cell."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\r\n")  # makes the writer quote carriage returns in cells
    for row in chain([columns], rows):
        writer.writerow([inert(value) for value in row])
        out.write(line.getvalue().removesuffix("\r\n") + "\n")
        line.seek(0)
        line.truncate()


def inert(value: Any) -> Any:
    """Return a value as a cell that no spreadsheet evaluates as a formula."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return value
    text = str(value)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
