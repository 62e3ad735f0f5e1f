"""Yields the complete streams of a store one by one for an export, without holding all events in memory.

Segments are read in order. A stream in one segment is yielded at once. A stream in several segments is held until the
last of them is read, so memory holds only the streams that were open when a journal was closed.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.errors import DamagedStore, NewerData, StoreError
from lhaw_record.recorder.events import Envelope
from lhaw_record.recorder.events.arrow_schema import event_schema, from_row
from lhaw_record.recorder.reading.reader import consistent_read, sealed_and_open, stream_rows
from lhaw_record.recorder.storage.manifest_check import check_manifest
from lhaw_record.recorder.storage.segments import StoreSegment, readable, where_now
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.storage.stream_index import load_index

_ROWS_AT_ONCE = 5_000
_FEW_STREAMS = 50


class StreamSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the streams that match every field that is not None; ``trial_id`` matches as a prefix."""

    experiment_id: str | None = None
    trial_id: str | None = None
    stream_id: str | None = None


def whole_streams(
    store: Store,
    selection: StreamSelection | None = None,
    on_progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> Iterator[list[Envelope]]:
    """Yield the current events of each stream in order, grouped by experiment."""
    selection = selection or StreamSelection()
    check_manifest(store)
    segments, unsealed = consistent_read(store, lambda: sealed_and_open(store))
    is_all = selection == StreamSelection()
    total = sum(segment.records for segment in segments) + len(unsealed) if is_all else None
    done = 0
    for experiment_id in sorted({each.experiment_id for each in segments} | {each.experiment_id for each in unsealed}):
        if selection.experiment_id in (None, experiment_id):
            here = [each for each in segments if each.experiment_id == experiment_id]
            rows = [each for each in unsealed if each.experiment_id == experiment_id and _takes(selection, each)]
            for stream in _of_experiment(store, here, rows, selection):
                done += len(stream)
                on_progress(done, total)
                yield _in_order(store, stream)


def _takes(selection: StreamSelection, envelope: Envelope) -> bool:
    return selection.stream_id in (None, envelope.stream_id) and (
        selection.trial_id is None or (envelope.trial_id or "").startswith(selection.trial_id)
    )


def _of_experiment(
    store: Store, segments: Iterable[StoreSegment], unsealed: Iterable[Envelope], selection: StreamSelection
) -> Iterator[list[Envelope]]:
    """Yield the streams of one experiment, each as soon as the last file that contains part of it has been read."""
    wanted = {segment: _selected(store, segment, selection) for segment in segments}
    journaled: dict[str, list[Envelope]] = defaultdict(list)
    for envelope in unsealed:
        journaled[envelope.stream_id].append(envelope)
    left = Counter(stream_id for stream_ids in (*wanted.values(), journaled) for stream_id in stream_ids)
    held: dict[str, list[Envelope]] = defaultdict(list)
    for parts in (*(_parts(store, segment, wanted[segment]) for segment in wanted), journaled.values()):
        for part in parts:
            stream_id = part[0].stream_id
            held[stream_id] += part
            left[stream_id] -= 1
            if left[stream_id] <= 0:
                yield held.pop(stream_id)
    yield from held.values()


def _selected(store: Store, segment: StoreSegment, selection: StreamSelection) -> frozenset[str]:
    """Return the selected streams of a segment."""
    with _readable(store, segment.path):
        if selection.trial_id is not None:
            import pyarrow.compute as pc

            columns = ["stream_id", "trial_id"]
            with pq.ParquetFile(where_now(segment.path), read_dictionary=columns, memory_map=True) as file:
                rows = file.read(columns).unify_dictionaries().group_by(columns).aggregate([])
            begins = pc.starts_with(rows["trial_id"].cast(pa.string()), selection.trial_id)
            stream_ids = frozenset(rows.filter(begins)["stream_id"].to_pylist())
        else:
            stream_ids = frozenset(load_index(store, segment.path)["stream_id"].to_pylist())
    return stream_ids if selection.stream_id is None else stream_ids & {selection.stream_id}


def _parts(store: Store, segment: StoreSegment, wanted: frozenset[str]) -> Iterator[list[Envelope]]:
    """Yield the records of each wanted stream in a segment."""
    rows = _some_rows if len(wanted) < _FEW_STREAMS else _all_rows
    with _readable(store, segment.path):
        for stream_id, part in groupby(rows(store, segment, wanted), key=lambda row: str(row["stream_id"])):
            if stream_id in wanted:
                yield [from_row(row) for row in part]


def _some_rows(store: Store, segment: StoreSegment, wanted: frozenset[str]) -> Iterator[dict[str, object]]:
    for stream_id in sorted(wanted):
        table = stream_rows(store, segment.path, stream_id)
        refuse_unknown(segment, table.schema)
        yield from table.to_pylist()


def _all_rows(store: Store, segment: StoreSegment, wanted: frozenset[str]) -> Iterator[dict[str, object]]:
    del store, wanted
    with pq.ParquetFile(where_now(segment.path), memory_map=True, page_checksum_verification=True) as file:
        refuse_unknown(segment, file.schema_arrow)
        for batch in file.iter_batches(_ROWS_AT_ONCE):
            yield from batch.to_pylist()


def refuse_unknown(segment: StoreSegment, schema: pa.Schema) -> None:
    """Refuse a segment with columns or fields that only a newer version knows."""
    if unknown := _unknown_columns(schema):
        raise NewerData(segment.path, unknown[0])


@contextmanager
def _readable(store: Store, path: Path) -> Iterator[None]:
    """Name the file in errors, including FileNotFoundError: a retry is impossible after streams were yielded."""
    try:
        with readable(path):
            yield
    except FileNotFoundError as error:
        raise StoreError(f"{path} vanished while {store.name} was being read; run the same command again") from error


def _in_order(store: Store, stream: list[Envelope]) -> list[Envelope]:
    stream.sort(key=lambda envelope: envelope.sequence)
    if [envelope.sequence for envelope in stream] != list(range(len(stream))):
        raise DamagedStore(
            f"stream {stream[0].stream_id} in {store.name} has a gap or a repeated event; "
            "'lhaw-record log verify' shows where"
        )
    return stream


def _unknown_columns(schema: pa.Schema) -> list[str]:
    """Return the columns and fields in a segment's schema that this version does not know, as dotted paths."""
    ours = event_schema()
    found = [name for name in schema.names if name not in ours.names]
    for name in set(schema.names) & set(ours.names):
        found += [f"{name}.{path}" for path in _unknown_fields(schema.field(name).type, ours.field(name).type)]
    return sorted(found)


def _unknown_fields(theirs: pa.DataType, ours: pa.DataType) -> Iterator[str]:
    if pa.types.is_list(theirs) and pa.types.is_list(ours):
        theirs, ours = theirs.value_type, ours.value_type
    if pa.types.is_struct(theirs) and pa.types.is_struct(ours):
        known = {field.name: field.type for field in ours}
        for field in theirs:
            if field.name not in known:
                yield field.name
            else:
                yield from (f"{field.name}.{path}" for path in _unknown_fields(field.type, known[field.name]))
