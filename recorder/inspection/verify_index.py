"""What verification asks of a stream index: that it says of its segment what the segment's rows say."""

import zlib
from collections.abc import Iterator

import pyarrow as pa

from recorder.digest import CLOSING
from recorder.events import type_name
from recorder.inspection.verify_streams import Finding
from recorder.segments import Segment
from recorder.store import Store

_CLOSING_TYPES = frozenset(type_name(cls) for cls in CLOSING)
_CRC_BYTES = 8


class IndexCheck:
    """Builds the index of a segment from its rows, which come one by one, and compares.

    Args:
        store: The store.
        segment: The segment.
        shared_names: Streams of which two recordings may stand between each other.
    """

    def __init__(self, store: Store, segment: Segment, shared_names: frozenset[str] = frozenset()) -> None:
        self._segment = segment
        self._shared_names = shared_names
        self._path = store.index_dir / f"{segment.path.stem}.arrow"
        self._expected: list[tuple[str, int, int, bool]] = []
        self._rows = 0
        self._last = ("", -1)
        self._unsorted_row: int | None = None

    def add(self, stream_id: str, sequence: int, type_: str) -> None:
        """Take the next row."""
        is_after = (stream_id, sequence) > self._last
        is_after |= stream_id in self._shared_names and (stream_id, sequence) == self._last  # two recordings, one name
        if not is_after and self._rows and self._unsorted_row is None:
            self._unsorted_row = self._rows
        is_new = stream_id != self._last[0] or not self._rows
        first_row, is_closed = (self._rows, False) if is_new else self._expected.pop()[1::2]
        self._expected.append((stream_id, first_row, self._rows + 1 - first_row, is_closed or type_ in _CLOSING_TYPES))
        self._last = (stream_id, sequence)
        self._rows += 1

    def findings(self) -> Iterator[Finding]:
        """Say what is wrong when all rows were taken. An index that is not there is nothing wrong."""
        if self._unsorted_row is not None:
            unsorted = "rows are not sorted by stream and sequence"
            yield Finding(file=str(self._segment.path), row=self._unsorted_row, problem=unsorted)
        elif problem := self._problem():
            advice = "remove this file, it is derived and nothing is lost with it"
            yield Finding(file=str(self._path), row=None, problem=f"{problem}; {advice}")

    def _problem(self) -> str | None:
        try:
            data = memoryview(self._path.read_bytes())
        except OSError:
            return None
        if len(data) <= _CRC_BYTES or int.from_bytes(data[:4], "little") != zlib.crc32(data[_CRC_BYTES:]):
            return "the index of a segment fails its checksum"
        try:
            table = pa.ipc.open_file(pa.py_buffer(data[_CRC_BYTES:])).read_all()
        except pa.ArrowException as error:
            return f"the index of a segment cannot be read ({error})"
        found = [*zip(*(table[name].to_pylist() for name in table.column_names), strict=True)]
        return None if found == self._expected else "the index of a segment says something else than its rows"
