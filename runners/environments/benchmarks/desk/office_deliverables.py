"""Reads the deliverables of a desk task: tables in CSV (with any usual delimiter) or XLSX, numbers and phrases in text.

The reader tolerates any format that a person doing the task correctly might choose, and is strict otherwise. In text,
1,234.50, 1234.5 EUR and 1.234,50 are the same number.
"""

import csv
import datetime as dt
import io
import re
import zipfile
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from lhaw_record.runners.environments.grading.deliverables import CheckpointNotMet, Deliverables

__all__ = ["CheckpointNotMet", "OfficeDeliverables", "Row", "UnreadableTableError", "read_table"]

Row = dict[str, str]

_MOST_BYTES = 50_000_000  # a workbook that unpacks to more is no office document
_HEADER_ROWS = 10  # titles and blank lines may precede the header


class UnreadableTableError(Exception):
    """The bytes are not the requested table. The message says why."""


def check_listed(listed: Iterable[Any], expected: Iterable[Any], what: str) -> str:
    """Check that exactly the expected items are listed, in any order."""
    found, wanted = sorted(listed), sorted(expected)
    if found != wanted:
        raise CheckpointNotMet(f"{len(found)} {what}, of which {len({*found} & {*wanted})} of {len(wanted)} are right")
    return f"the {len(found)} {what} are the right ones"


class OfficeDeliverables(Deliverables):
    """The files that an agent left behind, with methods to read tables."""

    def table(
        self, name: str, columns: Sequence[str], delimiter: str | None = None, sheet: str | None = None
    ) -> list[Row]:
        """Return the rows of a CSV or XLSX table, keyed by the wanted columns.

        The file name determines the format. Column order, extra columns, letter case and punctuation of the header do
        not matter.
        """
        try:
            return read_table(name, self.content(name), columns, delimiter, sheet)
        except UnreadableTableError as error:
            raise CheckpointNotMet(f"{name}: {error}") from error

    def rows(self, name: str, columns: Sequence[str], what: str = "rows") -> list[Row]:
        """Return the rows of a table as ``table`` does, but require at least one."""
        rows = self.table(name, columns)
        if not rows:
            raise CheckpointNotMet(f"{name} has no {what}")
        return rows


def read_table(
    name: str, content: bytes, columns: Sequence[str], delimiter: str | None = None, sheet: str | None = None
) -> list[Row]:
    """Return the rows below the header, except blank ones. The header is the first row that names all columns."""
    if name.lower().endswith(".xlsx"):
        readings = [_workbook_rows(content, sheet)]
    else:
        text = _table_text(content)
        readings = [_text_rows(text, sign) for sign in (delimiter or ",;\t|")]
    for rows in readings:
        found = _below_header(rows, columns)
        if found is not None:
            return found
    raise UnreadableTableError(f"no header with the columns {', '.join(columns)}")


def _below_header(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> list[Row] | None:
    wanted = {_folded(column): column for column in columns}
    for number, row in enumerate(rows[:_HEADER_ROWS]):
        places = {_folded(cell): place for place, cell in reversed(list(enumerate(row)))}
        if wanted.keys() <= places.keys():
            return [
                {column: _cell(below, places[key]) for key, column in wanted.items()}
                for below in rows[number + 1 :]
                if any(cell.strip() for cell in below)
            ]
    return None


def _table_text(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableTableError("it is not UTF-8 text") from error
    if "\0" in text:
        raise UnreadableTableError("it is not a text file")
    return text


def _text_rows(text: str, delimiter: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        raise UnreadableTableError(f"it is not CSV: {error}") from error


def _workbook_rows(content: bytes, sheet: str | None) -> list[list[str]]:
    import openpyxl

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked_bytes = sum(member.file_size for member in archive.infolist())
        book = openpyxl.load_workbook(io.BytesIO(content), data_only=True) if unpacked_bytes < _MOST_BYTES else None
    except MemoryError:
        raise  # a valid workbook that needs more memory than grading may use
    except Exception as error:  # openpyxl lets any error of a broken archive escape
        raise UnreadableTableError("it is not an XLSX workbook") from error
    if book is None:
        raise UnreadableTableError(f"the workbook unpacks to {unpacked_bytes} bytes")
    wanted = [each for each in book.worksheets if sheet is None or _folded(each.title) == _folded(sheet)]
    if not wanted:
        raise UnreadableTableError(f"no sheet {sheet}")
    return [[_cell_text(value) for value in row] for each in wanted for row in each.iter_rows(values_only=True)]


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == dt.time() else value.isoformat()
    if isinstance(value, float):
        return repr(round(value, 9)).removesuffix(".0")
    return str(value)


def _folded(header: str) -> str:
    return re.sub(r"[^a-z0-9]", "", header.casefold())


def _cell(row: Sequence[str], place: int) -> str:
    return row[place].strip() if place < len(row) else ""


_NUMBER = re.compile(r"(?<![\w.,])[-+]?\d(?:[\d'\u00a0\u202f]|[.,](?=\d)| (?=\d{3}(?!\d)))*(?![\w])")


def number(text: str) -> Decimal | None:
    """Return the number in a text such as ``EUR 1,234.50``, or None if there is not exactly one."""
    found = numbers(text)
    return found[0] if len(found) == 1 else None


def numbers(text: str) -> list[Decimal]:
    """Return all numbers in a text, in order. The parts of dates count as numbers."""
    return [_decimal(match.group()) for match in _NUMBER.finditer(text)]


def mentions(text: str, phrase: str) -> bool:
    """Return whether a text contains a phrase as whole words, ignoring case, spacing and Markdown marks."""
    return re.search(rf"(?<!\w){re.escape(_plain(phrase))}(?!\w)", _plain(text)) is not None


def mentions_number(text: str, value: Decimal | int) -> bool:
    """Return whether a text contains a number, in any usual format."""
    return Decimal(value) in numbers(text)


def line_mentions(text: str, phrase: str, value: Decimal | int) -> bool:
    """Return whether one line of a text contains both a phrase and a number."""
    return any(mentions(line, phrase) and mentions_number(line, value) for line in text.splitlines())


def heading_mentions(text: str, phrase: str) -> bool:
    """Return whether a heading in a Markdown text contains a phrase."""
    return any(line.startswith("#") and mentions(line, phrase) for line in text.splitlines())


def _decimal(token: str) -> Decimal:
    token = re.sub(r"['\u00a0\u202f ]", "", token)
    last_comma, last_point = token.rfind(","), token.rfind(".")
    if last_comma >= 0 and last_point >= 0:
        grouping = "," if last_point > last_comma else "."
        token = token.replace(grouping, "")
    elif last_comma >= 0 and re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+", token):
        token = token.replace(",", "")
    token = token.replace(",", ".")
    if token.count(".") > 1:
        token = token.replace(".", "")
    return Decimal(token)


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[`*_#|]", " ", text).casefold().split())
