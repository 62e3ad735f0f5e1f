"""Writes CSV cells that spreadsheets do not run as formulas. Much of a store's text was written by agents under test.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line end runs as a formula when a spreadsheet opens the
file (OWASP, CSV Injection). Such text gets an apostrophe in front, which spreadsheets hide; numbers stay numbers.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, TextIO

_BLANK = r"[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
"""Blanks of Python and of JavaScript, as the report's page has them too."""
_FORMULA = re.compile(rf"{_BLANK}*[=+\-@＝＋－＠]|[\t\r\n]")  # noqa: RUF001 - some spreadsheets take the wide ones too
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|nan)")


def write_csv(out: TextIO, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a header and rows. None becomes an empty cell."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\r\n")  # so that the writer quotes a carriage return in a cell
    for row in chain([columns], rows):
        writer.writerow([inert(value) for value in row])
        out.write(line.getvalue().removesuffix("\r\n") + "\n")
        line.seek(0)
        line.truncate()


def inert(value: Any) -> Any:
    """Return a value as a cell that no spreadsheet runs as a formula."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return value
    text = str(value)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
