"""What an agent left behind, as a grader sees it: forgiving where a correct person would differ, strict elsewhere.

A file that is missing, too large or unreadable is the agent's doing: every reader here raises :class:`Unmet`.
"""

import mimetypes
from collections.abc import Sequence
from pathlib import Path

from runners.benchmarks.desk.files import Files
from runners.benchmarks.desk.tables import Row, UnreadableTableError, read_table
from runners.benchmarks.protocol import Artifact

_MOST_BYTES = 4_000_000  # office deliverables are a few kilobytes; a larger file is not one of ours to read


class Unmet(Exception):
    """A checkpoint is not reached; ``score`` is its partial credit."""

    def __init__(self, reason: str, score: float = 0.0) -> None:
        super().__init__(reason)
        self.score = score


class Delivered:
    """The exported work directory and the final answer; what is read here becomes an artifact of the grade."""

    def __init__(self, folder: Path, final_answer: str) -> None:
        self.final_answer = final_answer
        self._folder = folder
        self._read: dict[str, bytes] = {}

    def content(self, name: str) -> bytes:
        """Return the bytes of a file that the prompt asks for."""
        path = self._folder / name
        if path.is_symlink() or not path.is_file():
            raise Unmet(f"{name} is missing")
        if path.stat().st_size > _MOST_BYTES:
            raise Unmet(f"{name} is larger than {_MOST_BYTES} bytes")
        self._read[name] = path.read_bytes()
        return self._read[name]

    def text(self, name: str) -> str:
        """Return the text of a UTF-8 file, without a byte order mark and with Unix line ends."""
        try:
            text = self.content(name).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Unmet(f"{name} is not UTF-8 text") from error
        return text.replace("\r\n", "\n")

    def table(
        self, name: str, columns: Sequence[str], delimiter: str | None = None, sheet: str | None = None
    ) -> list[Row]:
        """Return the rows of a CSV or XLSX table, its format as the file name says, keyed by the wanted columns.

        Column order, extra columns, letter case and punctuation of the header do not matter.

        Args:
            name: Path in the work directory.
            columns: The columns that the prompt demands, in its own words.
            delimiter: The delimiter that the prompt demands; None accepts comma, semicolon, tab or bar.
            sheet: The sheet of a workbook that the prompt demands; None reads them all.
        """
        try:
            return read_table(name, self.content(name), columns, delimiter, sheet)
        except UnreadableTableError as error:
            raise Unmet(f"{name}: {error}") from error

    def artifacts(self, given: Files) -> tuple[Artifact, ...]:
        """Return every file that was read and is not an input, in the order of reading."""
        return tuple(
            Artifact(
                name=name,
                role="deliverable",
                media_type=mimetypes.guess_type(name)[0] or "application/octet-stream",
                content=content,
            )
            for name, content in self._read.items()
            if name not in given
        )
