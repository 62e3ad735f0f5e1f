"""Finds out which streams a store holds and how each ends. It reads only indexes and three narrow columns."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.events.closing import CLOSING, CLOSING_TYPES
from lhaw_record.recorder.reading.reader import consistent_read, sealed_and_open
from lhaw_record.recorder.storage.segments import readable
from lhaw_record.recorder.storage.store import Store, retry_vanished
from lhaw_record.recorder.storage.stream_index import load_index


def names_in_use(store: Store, experiment_id: str | None = None) -> frozenset[str]:
    """Return the ids of all streams in segments and journals on this host, whether closed or open.

    The working copy of a shared store is not updated first, because stream ids in a shared store contain the writer id.
    """
    return retry_vanished(store, lambda: _names(store, experiment_id))


def stream_ids(root: Path) -> frozenset[str]:
    """Return the ids of all streams that a store holds now. For a shared store, this includes those of other hosts."""
    store = Store(root)
    return consistent_read(store, lambda: _names(store, None))


def stream_ends(store: Store, experiment_id: str) -> dict[str, str | None]:
    """Return the streams of an experiment by id, with the digest in the closing event, or None for an open stream."""
    return consistent_read(store, lambda: _ends(store, experiment_id))


def _names(store: Store, experiment_id: str | None) -> frozenset[str]:
    segments, envelopes = sealed_and_open(store, experiment_id)
    found = {envelope.stream_id for envelope in envelopes}
    for segment in segments:
        found.update(load_index(store, segment.path)["stream_id"].to_pylist())
    return frozenset(found)


def _ends(store: Store, experiment_id: str) -> dict[str, str | None]:
    segments, envelopes = sealed_and_open(store, experiment_id)
    begun: dict[str, str | None] = dict.fromkeys(envelope.stream_id for envelope in envelopes)
    ended: dict[str, str | None] = {
        each.stream_id: each.event.stream_digest for each in envelopes if isinstance(each.event, CLOSING)
    }
    for segment in segments:
        begun |= dict.fromkeys(load_index(store, segment.path)["stream_id"].to_pylist())
        ended |= _sealed_ends(segment.path)
    return begun | ended


def _sealed_ends(segment: Path) -> dict[str, str | None]:
    import pyarrow.compute as pc

    with readable(segment), pq.ParquetFile(segment, memory_map=True) as file:
        present = [name for name in CLOSING_TYPES if name in file.schema_arrow.names]
        if not present:
            return {}
        rows = file.read(["stream_id", "type", *(f"{name}.stream_digest" for name in present)])
    is_closing = pc.is_in(rows["type"], pa.array(CLOSING_TYPES))
    return {row["stream_id"]: row[row["type"]]["stream_digest"] for row in rows.filter(is_closing).to_pylist()}
