"""Tables as people write them: CSV with any usual delimiter or XLSX, a header somewhere near the top."""

import csv
import datetime as dt
import io
import re
import zipfile
from collections.abc import Sequence

Row = dict[str, str]

_MOST_BYTES = 50_000_000  # a workbook that unpacks to more is not an office document
_HEADER_ROWS = 10  # titles and blank lines may stand above the header


class UnreadableTableError(Exception):
    """The bytes are not the table that was asked for; the message says why."""


def read_rows(name: str, content: bytes, delimiter: str | None = None) -> list[list[str]]:
    """Return all cells of a table as text, one list per row, in the format that the file name says.

    Raises:
        UnreadableTableError: The content is not of that format.
    """
    if name.lower().endswith(".xlsx"):
        return _workbook_rows(content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableTableError("it is not UTF-8 text") from error
    if "\0" in text:
        raise UnreadableTableError("it is not a text file")
    try:
        return [list(row) for row in csv.reader(io.StringIO(text), delimiter=delimiter or _delimiter(text))]
    except csv.Error as error:
        raise UnreadableTableError(f"it is not CSV: {error}") from error


def rows_below_header(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> list[Row]:
    """Return the rows under the first row that holds all wanted columns, blank rows left out.

    Raises:
        UnreadableTableError: No row near the top names all the columns.
    """
    wanted = {_folded(column): column for column in columns}
    for number, row in enumerate(rows[:_HEADER_ROWS]):
        places = {_folded(cell): place for place, cell in reversed(list(enumerate(row)))}
        if wanted.keys() <= places.keys():
            return [
                {column: _cell(below, places[key]) for key, column in wanted.items()}
                for below in rows[number + 1 :]
                if any(cell.strip() for cell in below)
            ]
    raise UnreadableTableError(f"no header with the columns {', '.join(columns)}")


def _workbook_rows(content: bytes) -> list[list[str]]:
    import openpyxl

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked_bytes = sum(member.file_size for member in archive.infolist())
        book = openpyxl.load_workbook(io.BytesIO(content), data_only=True) if unpacked_bytes < _MOST_BYTES else None
    except Exception as error:  # openpyxl raises whatever a broken part of the archive causes
        raise UnreadableTableError("it is not an XLSX workbook") from error
    if book is None:
        raise UnreadableTableError(f"the workbook unpacks to {unpacked_bytes} bytes")
    return [
        [_cell_text(value) for value in row] for sheet in book.worksheets for row in sheet.iter_rows(values_only=True)
    ]


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == dt.time() else value.isoformat()
    if isinstance(value, float):
        return repr(round(value, 9)).removesuffix(".0")
    return str(value)


def _delimiter(text: str) -> str:
    header = next((line for line in text.splitlines() if line.strip()), "")
    return max(",;\t|", key=header.count)


def _folded(header: str) -> str:
    return re.sub(r"[^a-z0-9]", "", header.casefold())


def _cell(row: Sequence[str], place: int) -> str:
    return row[place].strip() if place < len(row) else ""
