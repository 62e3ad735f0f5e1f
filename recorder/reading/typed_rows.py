"""Reads events of selected types from a snapshot, without a database or the columns of other types."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.dataset as ds

from lhaw_record.recorder.events import Envelope, Event, type_name
from lhaw_record.recorder.events.arrow_schema import from_row
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.storage.segments import where_now


def datasets(snapshot: Snapshot) -> Iterator[ds.Dataset]:
    """Yield a dataset for each segment of a snapshot, and then one for its open rows."""
    yield from (ds.dataset(where_now(path)) for path in snapshot.segments)
    yield ds.dataset(snapshot.open_rows)


def events_of_types(
    snapshot: Snapshot, types: Sequence[type[Event]], experiment_id: str | None = None
) -> Iterator[Envelope]:
    """Yield the events of some types. A stream's events are in order only if one segment holds all of them."""
    names = [type_name(cls) for cls in types]
    wanted = ds.field("type").isin(names)
    if experiment_id is not None:
        wanted &= ds.field("experiment_id") == experiment_id
    for table in datasets(snapshot):
        columns = [
            name
            for name in table.schema.names
            if name in names or not pa.types.is_struct(table.schema.field(name).type)
        ]
        for batch in table.to_batches(columns=columns, filter=wanted):
            yield from (from_row(row) for row in batch.to_pylist())


def in_recorded_order(envelope: Envelope) -> tuple[int, str, int]:
    """Return a sort key that orders events of several streams by time, in the same order on every host."""
    return envelope.recorded_at_us, envelope.stream_id, envelope.sequence
