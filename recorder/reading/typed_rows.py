"""Reads events of selected types from a snapshot, without a database or the columns of other types."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from lhaw_record.recorder.events import Envelope, Event, type_name
from lhaw_record.recorder.events.arrow_schema import from_row
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.storage.segments import readable, where_now

T = TypeVar("T")


def from_each(snapshot: Snapshot, read: Callable[[ds.Dataset], T]) -> Iterator[T]:
    """Yield what a function reads from each segment of a snapshot, and then from its open rows.

    Raises:
        DamagedStore: A segment cannot be read.
    """
    for path in snapshot.segments:
        with readable(path):
            found = read(ds.dataset(where_now(path)))
        yield found
    yield read(ds.dataset(snapshot.open_rows))


def events_of_types(
    snapshot: Snapshot, types: Sequence[type[Event]], experiment_id: str | None = None
) -> Iterator[Envelope]:
    """Yield the events of some types. A stream's events are in order only if one segment holds all of them."""
    names = [type_name(cls) for cls in types]
    wanted = ds.field("type").isin(names)
    if experiment_id is not None:
        wanted &= ds.field("experiment_id") == experiment_id

    def read(table: ds.Dataset) -> list[Envelope]:
        columns = [each.name for each in table.schema if each.name in names or not pa.types.is_struct(each.type)]
        batches = table.to_batches(columns=columns, filter=wanted)
        return [from_row(row) for batch in batches for row in batch.to_pylist()]

    for envelopes in from_each(snapshot, read):
        yield from envelopes


def in_recorded_order(envelope: Envelope) -> tuple[int, str, int]:
    """Return a sort key that orders events of several streams by time, in the same order on every host."""
    return envelope.recorded_at_us, envelope.stream_id, envelope.sequence
