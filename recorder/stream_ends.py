"""How each stream of an experiment ends: its digest, or that it is still open; from three narrow columns."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recorder.digest import CLOSING
from recorder.errors import DamagedStore
from recorder.events import type_name
from recorder.journal import read_journal
from recorder.reader import at_rest
from recorder.segments import Segment, list_segments
from recorder.store import Store
from recorder.stream_index import load_index

_CLOSING_TYPES = [type_name(cls) for cls in CLOSING]


def stream_ends(store: Store, experiment_id: str) -> dict[str, str | None]:
    """Return the digest in the closing event of each stream; None for a stream that has none.

    Raises:
        StoreError: The store never holds still.
        DamagedStore: A file cannot be read.
    """
    return at_rest(store, lambda: _look(store, experiment_id))


def _look(store: Store, experiment_id: str) -> dict[str, str | None]:
    journals = store.journals()
    segments = list_segments(store)
    begun: dict[str, str | None] = {}
    ended: dict[str, str | None] = {}
    for segment in segments.chosen:
        if segment.experiment_id == experiment_id:
            try:
                begun |= dict.fromkeys(load_index(store, segment.path)["stream_id"].to_pylist())
                ended |= _sealed_ends(segment)
            except pa.ArrowException as error:
                raise DamagedStore(f"{segment.path} cannot be read ({error}); 'log verify' shows more") from error
    for name, path in journals.items():
        content = None if name in segments.covered else read_journal(path, path.read_bytes())
        for envelope in content.envelopes() if content else ():
            if envelope.experiment_id == experiment_id:
                begun[envelope.stream_id] = None
                if isinstance(envelope.event, CLOSING):
                    ended[envelope.stream_id] = envelope.event.stream_digest
    return begun | ended


def _sealed_ends(segment: Segment) -> dict[str, str | None]:
    with pq.ParquetFile(segment.path, memory_map=True) as file:
        present = [name for name in _CLOSING_TYPES if name in file.schema_arrow.names]
        if not present:
            return {}
        rows = file.read(["stream_id", "type", *(f"{name}.stream_digest" for name in present)])
    is_closing = pc.is_in(rows["type"], pa.array(_CLOSING_TYPES))
    return {row["stream_id"]: row[row["type"]]["stream_digest"] for row in rows.filter(is_closing).to_pylist()}
