"""Changes to a workspace that leave the prompt as it is. Each is a function from files to files.

- ``two_candidates`` (file, right, wrong): The file is removed. ``right`` has its content, ``wrong`` an older state.
- ``stale_copy`` (file, right): The file has an older state. ``right`` has its real content.
- ``renamed_column`` (files, column, right, wrong): The column is renamed to ``right``, and a false column called
  ``wrong`` is added next to it.
- ``appended`` (file, text): The text is added at the end of a text file. If there is no such file, it has only that.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from lhaw_record.recorder.events.values import EnvironmentChange
from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import Files, Workbook, csv_text

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
        raise SandboxBoundaryError(
            f"the change {change.kind!r} with {arguments} cannot be made in this workspace: {error!r}; generate the "
            "variant again",
            kind="unknown_change",
            is_retry_owed=False,
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
