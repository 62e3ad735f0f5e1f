"""Represents the files of a workspace as plain data (text, or the sheets of a workbook) and writes them to a folder."""

import csv
import io
import random
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

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


def csv_text(rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    """Return rows as CSV text with Unix line ends. The first row is the header."""
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, lineterminator="\n").writerows(rows)
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
