"""The files of a workspace as plain data (text, or the sheets of a workbook), their changes, and writing them.

A change leaves the prompt as it is. Each is a function from files to files.

- ``two_candidates`` (file, right, wrong): The file is removed. ``right`` has its content, ``wrong`` an older state.
- ``stale_copy`` (file, right): The file has an older state. ``right`` has its real content.
- ``renamed_column`` (files, column, right, wrong): The column is renamed to ``right``, and a false column called
  ``wrong`` is added next to it.
- ``appended`` (file, text): The text is added at the end of a text file. If there is no such file, it has only that.
"""

import csv
import io
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from lhaw_record.recorder.events.values import EnvironmentChange
from lhaw_record.runners.base.errors import SandboxUnfit

Workbook = Mapping[str, Sequence[Sequence[object]]]
"""Sheet name -> rows of text, numbers, dates or None."""
Files = Mapping[str, str | Workbook]
"""Path inside the workspace -> its text, or a workbook if the path ends in ``.xlsx``."""


def seeded(seed: int | str) -> random.Random:
    """Return a random number generator for reproducible workspace data."""
    return random.Random(seed)  # noqa: S311  nothing secret is drawn


def other_name(name: str, *candidates: str) -> str:
    """Return the first candidate that differs from the name, to name a file that the prompt does not refer to."""
    return next(each for each in candidates if each != name)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV text with Unix line ends. The first row is the header."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def csv_of(columns: Sequence[str], items: Iterable[object]) -> str:
    """Return the named attributes of items as CSV text below a header."""
    return csv_text([columns, *([getattr(item, name) for name in columns] for item in items)])


def sheet_of(columns: Sequence[str], items: Iterable[object]) -> list[list[object]]:
    """Return the named attributes of items as sheet rows below a header. Decimal numbers become floats."""
    rows = [[getattr(item, name) for name in columns] for item in items]
    return [list(columns), *([float(cell) if isinstance(cell, Decimal) else cell for cell in row] for row in rows)]


def write_files(files: Files, folder: Path) -> None:
    """Write a workspace into a host folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8", newline="")
        else:
            write_workbook(path, content)


def write_workbook(path: Path, sheets: Workbook) -> None:
    """Write sheets as an XLSX file, in their order."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
    book.save(path)


T = TypeVar("T")

_KEPT_EIGHTHS = 7  # an older state lacks the last eighth of the rows


def apply_change(files: Files, change: EnvironmentChange | None) -> Files:
    """Return the files of a workspace after a change. If ``change`` is None, nothing changes."""
    if change is None:
        return files
    arguments = {each.name: each.value for each in change.arguments}
    try:
        return _CHANGES[change.kind](files, arguments)
    except (KeyError, ValueError, TypeError) as error:
        raise SandboxUnfit(
            f"the change {change.kind!r} with {arguments} cannot be made in this workspace: {error!r}; generate the "
            "variant again",
            kind="unknown_change",
        ) from error


def _two_candidates(files: Files, arguments: Mapping[str, str]) -> Files:
    named, right, wrong = (arguments[name] for name in ("file", "right", "wrong"))
    kept = {name: content for name, content in files.items() if name != named}
    return {**kept, right: files[named], wrong: _older(files[named])}


def _stale_copy(files: Files, arguments: Mapping[str, str]) -> Files:
    named, right = arguments["file"], arguments["right"]
    return {**files, named: _older(files[named]), right: files[named]}


def _renamed_column(files: Files, arguments: Mapping[str, str]) -> Files:
    names = arguments["files"].split(", ")
    column, right, wrong = (arguments[name] for name in ("column", "right", "wrong"))
    return {**files, **{name: _with_renamed(files[name], column, right, wrong) for name in names}}


def _appended(files: Files, arguments: Mapping[str, str]) -> Files:
    named = arguments["file"]
    before = files.get(named, "")
    if not isinstance(before, str):
        raise TypeError("text can only be added to a text file")
    return {**files, named: before + arguments["text"]}


_CHANGES: Mapping[str, Callable[[Files, Mapping[str, str]], Files]] = {
    "two_candidates": _two_candidates,
    "stale_copy": _stale_copy,
    "renamed_column": _renamed_column,
    "appended": _appended,
}


def _older(content: str | Workbook) -> str | Workbook:
    """Return an older state of a table: the same table without its last rows."""
    if isinstance(content, str):
        return "".join(_without_last(content.splitlines(keepends=True)))
    return {sheet: _without_last(rows) for sheet, rows in content.items()}


def _without_last(rows: Sequence[T]) -> list[T]:
    return list(rows[: 1 + (len(rows) - 1) * _KEPT_EIGHTHS // 8])


def _with_renamed(content: str | Workbook, column: str, right: str, wrong: str) -> str:
    """Rename a column of a CSV table, and add a false one next to it whose values are shifted down by one row."""
    if not isinstance(content, str):
        raise TypeError("only a column of a CSV file can be renamed")
    rows = list(csv.reader(io.StringIO(content)))
    place = rows[0].index(column)
    values = [row[place] for row in rows[1:]]
    pairs = [(right, wrong), *zip(values, values[-1:] + values[:-1], strict=True)]
    return csv_text([*row[:place], *pair, *row[place + 1 :]] for row, pair in zip(rows, pairs, strict=True))
