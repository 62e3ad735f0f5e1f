"""Reads each event in a store's segments and open journals exactly once, even while the store is being written.

Journals are listed before segments. If a journal is sealed in between, its events are read from the segment, and the
journal is skipped because the segment covers it. If a file vanishes, the store is read again.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.events import Envelope
from lhaw_record.recorder.events.arrow_schema import from_row, to_table
from lhaw_record.recorder.events.closing import CLOSING
from lhaw_record.recorder.storage.journal import is_live, read_header, read_journal
from lhaw_record.recorder.storage.segments import StoreSegment, list_segments, readable, where_now
from lhaw_record.recorder.storage.store import Store, retry_vanished
from lhaw_record.recorder.storage.stream_index import find_stream, load_index

T = TypeVar("T")

_BATCH_ROWS = 4_000


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A consistent view of a store at one moment.

    ``open_rows`` holds the events that are not in segments, and has the full schema even if it is empty.
    ``live_streams`` are the open streams whose writer is alive. All other open streams were interrupted. ``warnings``
    name the unfinished commits that were skipped at the end of journals.
    """

    store: Path
    segments: tuple[Path, ...]
    open_rows: pa.Table
    live_streams: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def consistent_read(store: Store, read: Callable[[], T]) -> T:
    """Call a function that reads a store and return its result. Call it again if sealing or compaction removes a file.

    The working copy of a shared store is updated before each try.

    Raises:
        StoreError: The store changes faster than it can be read, or a shared store cannot be reached.
    """

    def updated_read() -> T:
        if store.remote is not None:
            from lhaw_record.recorder.reading.pull import pull  # only shared stores need it

            pull(store, store.remote)
        return read()

    return retry_vanished(store, updated_read)


def sealed_and_open(store: Store, experiment_id: str | None = None) -> tuple[list[StoreSegment], list[Envelope]]:
    """Return the segments of a store, and the events in its journals that no segment covers yet.

    Args:
        store: The store.
        experiment_id: Only this experiment's segments and events. None means all.

    Raises:
        FileNotFoundError: A file vanished. The caller must read again.
        DamagedStore: A journal is damaged in the middle, or a compacted segment cannot be read.
    """
    journals = store.journals()
    segments = list_segments(store)
    envelopes: list[Envelope] = []
    for name, path in journals.items():
        header = None if name in segments.covered else read_header(path)
        if header is not None and experiment_id in (None, header.experiment_id):
            content = read_journal(path, path.read_bytes())
            envelopes += content.envelopes() if content else []
    return [each for each in segments.chosen if experiment_id in (None, each.experiment_id)], envelopes


def read_snapshot(root: Path) -> Snapshot:
    """Return a snapshot of a store as it is now.

    Raises:
        StoreError: There is no store at ``root``, or the store changes faster than it can be read.
        DamagedStore: A journal is damaged in the middle.
    """
    store = Store(root)
    return consistent_read(store, lambda: _look(store))


def _look(store: Store) -> Snapshot:
    journals = store.journals()
    segments = list_segments(store)
    envelopes: list[Envelope] = []
    live_writers: set[str] = set()
    warnings: list[str] = []
    for name, path in journals.items():
        if name in segments.covered:
            continue
        live = is_live(path)
        content = read_journal(path, path.read_bytes())
        if live:
            live_writers.add(name.writer_id)
        elif content is not None and content.tail.torn_bytes:
            warnings.append(f"{path}: {content.tail.torn_bytes} bytes of an unfinished commit are skipped")
        if content is not None:
            envelopes += content.envelopes()
    return Snapshot(
        store=store.root,
        segments=tuple(segment.path for segment in segments.chosen),
        open_rows=to_table(envelopes),
        live_streams=_open_streams(store, envelopes, segments.chosen, live_writers),
        warnings=tuple(warnings),
    )


def _open_streams(
    store: Store, envelopes: list[Envelope], segments: tuple[StoreSegment, ...], writers: set[str]
) -> frozenset[str]:
    """Return the streams of the given writers that have no closing event yet."""
    written = [segment for segment in segments if any(name.writer_id in writers for name in segment.covers)]
    is_closed = sealed_streams(store, written)
    for envelope in envelopes:
        if envelope.writer_id in writers:
            key = (envelope.experiment_id, envelope.stream_id)
            is_closed[key] = is_closed.get(key, False) or isinstance(envelope.event, CLOSING)
    return frozenset(stream_id for (_, stream_id), closed in is_closed.items() if not closed)


def sealed_streams(store: Store, segments: Iterable[StoreSegment]) -> dict[tuple[str, str], bool]:
    """Return the streams in some segments as (experiment_id, stream_id), and whether each is closed in them.

    Raises:
        FileNotFoundError: A segment is gone.
        DamagedStore: A segment cannot be read.
    """
    found: dict[tuple[str, str], bool] = {}
    for segment in segments:
        index = load_index(store, segment.path)
        for stream_id, closes in zip(index["stream_id"].to_pylist(), index["is_closed"].to_pylist(), strict=True):
            key = (segment.experiment_id, stream_id)
            found[key] = found.get(key, False) or closes
    return found


def names_in_use(store: Store, experiment_id: str | None = None) -> frozenset[str]:
    """Return the ids of all streams in segments and journals on this host, whether closed or open.

    The working copy of a shared store is not updated first, because stream ids in a shared store contain the writer id.
    """
    return retry_vanished(store, lambda: _names(store, experiment_id))


def stream_ids(root: Path) -> frozenset[str]:
    """Return the ids of all streams in a store, including streams from other hosts in a shared store."""
    store = Store(root)
    return consistent_read(store, lambda: _names(store, None))


def _names(store: Store, experiment_id: str | None) -> frozenset[str]:
    segments, envelopes = sealed_and_open(store, experiment_id)
    found = {envelope.stream_id for envelope in envelopes}
    for segment in segments:
        found.update(load_index(store, segment.path)["stream_id"].to_pylist())
    return frozenset(found)


def read_envelopes(root: Path, stream_id: str | None = None) -> list[Envelope]:
    """Return all events in a store or in one of its streams as records. The events of each stream are in order.

    Raises:
        StoreError: There is no store at ``root``, or the store changes faster than it can be read.
        DamagedStore: A journal is damaged in the middle, or a segment cannot be read.
    """
    store = Store(root)

    def look() -> list[Envelope]:
        tables = _tables(store, _look(store), stream_id)
        return [from_row(row) for table in tables for row in table.to_pylist()]

    found = consistent_read(store, look)
    return sorted(found, key=lambda envelope: envelope.sequence) if stream_id else found


def _tables(store: Store, snapshot: Snapshot, stream_id: str | None) -> Iterator[pa.Table]:
    if stream_id is None:
        for path in snapshot.segments:
            with readable(path):
                yield pq.read_table(path, partitioning=None)
        yield snapshot.open_rows
        return
    import pyarrow.compute as pc  # takes 0.04 s, and tables do not need it

    for path in snapshot.segments:
        yield stream_rows(store, path, stream_id)
    yield snapshot.open_rows.filter(pc.field("stream_id") == stream_id)


def stream_envelopes(store: Store, segments: Iterable[StoreSegment], stream_id: str) -> list[Envelope]:
    """Return the records of one stream from some segments of an experiment, in order.

    Raises:
        FileNotFoundError: A segment is gone.
        DamagedStore: A segment cannot be read.
    """
    rows = [row for segment in segments for row in stream_rows(store, segment.path, stream_id).to_pylist()]
    return sorted(map(from_row, rows), key=lambda envelope: envelope.sequence)


def stream_rows(store: Store, segment: Path, stream_id: str) -> pa.Table:
    """Return the rows of one stream in one segment, in order, reading only the row groups that contain them.

    Raises:
        FileNotFoundError: The segment is gone.
        DamagedStore: The segment cannot be read.
    """
    place = find_stream(store, segment, stream_id)
    if place is None:
        return pa.table({})
    first, rows = place
    with readable(segment), pq.ParquetFile(where_now(segment), memory_map=True) as file:
        groups: list[int] = []
        before = skipped = 0
        for group in range(file.metadata.num_row_groups):
            after = before + file.metadata.row_group(group).num_rows
            if before < first + rows and first < after:
                skipped = before if not groups else skipped
                groups.append(group)
            before = after
        batches: list[pa.RecordBatch] = []
        wanted = first - skipped + rows
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups):
            batches.append(batch)
            wanted -= batch.num_rows
            if wanted <= 0:
                break
        return pa.Table.from_batches(batches).slice(first - skipped, rows)
