"""The deliverables of a desk task: forgiving where a correct person would differ, strict elsewhere."""

from collections.abc import Sequence

from runners.benchmarks.desk.tables import Row, UnreadableTableError, read_table
from runners.deliverables import Deliverables, Unmet

__all__ = ["Delivered", "Unmet"]


class Delivered(Deliverables):
    """What an agent left behind, with tables as office workers write them."""

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

        Raises:
            Unmet: There is no such table.
        """
        try:
            return read_table(name, self.content(name), columns, delimiter, sheet)
        except UnreadableTableError as error:
            raise Unmet(f"{name}: {error}") from error
