"""The stream index of a segment: the rows of each stream, for finding one trial without reading everything.

An index is derived from its segment; if it is missing or damaged, readers use the segment itself.
"""

import zlib
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.events.closing import CLOSING_TYPES
from lhaw_record.recorder.files.disk import publish
from lhaw_record.recorder.storage.segments import readable, where_now
from lhaw_record.recorder.storage.store import Store

_CRC_BYTES = 8  # the CRC-32 and four zero bytes for alignment
_RUN = [("row", "min"), ("row", "count"), ("closes", "max")]
_NAMES = ["stream_id", "first_row", "rows", "is_closed"]


def load_index(store: Store, segment: Path) -> pa.Table:
    """Return one row per stream in a segment, with stream_id, first_row, rows and is_closed, sorted by stream_id."""
    stored = _stored(store, segment)
    return _decoded(stored) if stored else _from_segment(segment)


def find_stream(store: Store, segment: Path, stream_id: str) -> tuple[int, int] | None:
    """Return a stream's first row in a segment and its number of rows, or None if the stream is not in the segment.

    Most segments do not contain a given stream, and the raw bytes of the index show this without decoding.
    """
    stored = _stored(store, segment)
    if stored and stream_id.encode() not in stored:
        return None
    index = _decoded(stored) if stored else _from_segment(segment)
    import pyarrow.compute as pc

    place = pc.index(index["stream_id"], stream_id).as_py()
    return (index["first_row"][place].as_py(), index["rows"][place].as_py()) if place >= 0 else None


def write_index(store: Store, segment: Path, rows: pa.Table) -> None:
    """Write the index of a segment, ignoring a full disk or other OS errors."""
    index = _index_of(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, index.schema) as writer:  # zstd would halve 1 % of a store, but slow every lookup
        writer.write_table(index)
    content = sink.getvalue().to_pybytes()
    with suppress(OSError):
        publish(store.disk, index_path(store, segment), zlib.crc32(content).to_bytes(_CRC_BYTES, "little") + content)


def index_problem(store: Store, segment: Path, rows: pa.Table) -> str | None:
    """Return what is wrong with the index of a segment, or None if the index is right or missing."""
    if not index_path(store, segment).exists():
        return None
    stored = _stored(store, segment)
    if not stored:
        return "the index of a segment fails its checksum"
    try:
        index = _decoded(stored)
    except pa.ArrowException as error:
        return f"the index of a segment cannot be read ({error})"
    if index.to_pylist() != _index_of(rows).to_pylist():
        return "the index of a segment does not match its rows"
    return None


def remove_index(store: Store, segment: Path) -> None:
    store.disk.remove(index_path(store, segment))


def remove_damaged_indexes(store: Store) -> None:
    for path in store.segment_paths():
        if not _stored(store, path):
            remove_index(store, path)


def index_path(store: Store, segment: Path) -> Path:
    """Return the path of a segment's index."""
    return store.index_dir / f"{segment.stem}.arrow"


def _stored(store: Store, segment: Path) -> bytes:
    """Return the bytes of the Arrow file in an index, or no bytes if the index is missing or damaged."""
    try:
        data = index_path(store, segment).read_bytes()
    except OSError:
        return b""
    content = data[_CRC_BYTES:]
    return content if int.from_bytes(data[:_CRC_BYTES], "little") == zlib.crc32(content) else b""


def _decoded(stored: bytes) -> pa.Table:
    return pa.ipc.open_file(pa.py_buffer(stored)).read_all()


def _from_segment(segment: Path) -> pa.Table:
    with readable(segment):
        return _index_of(pq.read_table(where_now(segment), columns=["stream_id", "type"], partitioning=None))


def _index_of(rows: pa.Table) -> pa.Table:
    import pyarrow.compute as pc

    numbered = pa.table(
        {
            "stream_id": rows["stream_id"],
            "row": pa.array(range(rows.num_rows), pa.int64()),
            "closes": pc.is_in(rows["type"], pa.array(CLOSING_TYPES)),
        }
    )
    return numbered.group_by("stream_id").aggregate(_RUN).rename_columns(_NAMES).sort_by("stream_id").combine_chunks()
