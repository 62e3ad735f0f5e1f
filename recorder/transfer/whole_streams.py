"""Whole streams of a store, one after another: what an export writes, without holding all events.

Segments are read in order. A stream that lies in one segment is handed on at once; one that lies in several waits until
the last of them was read, so that memory holds the streams that were open when a journal was closed, and no others.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from recorder.errors import DamagedStore, StoreError
from recorder.events import Envelope
from recorder.journal import read_journal
from recorder.manifest_check import insist
from recorder.reader import at_rest, stream_rows
from recorder.schema import event_schema, from_row
from recorder.segments import Segment, list_segments, where_now
from recorder.separation import Separations, read_separations
from recorder.store import Store
from recorder.stream_index import load_index

_ROWS_AT_ONCE = 5_000
_FEW_STREAMS = 50


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which streams: all that fit what is not None. ``trial_id`` may be the beginning of one."""

    experiment_id: str | None = None
    trial_id: str | None = None
    stream_id: str | None = None


def whole_streams(
    store: Store,
    selection: Selection | None = None,
    on_progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> Iterator[list[Envelope]]:
    """Yield the events of each stream as they are now, in order; the streams of one experiment together.

    Args:
        store: The store.
        selection: Which streams; all if None.
        on_progress: Called with the number of events that were handed on, and that of all where it is known.

    Raises:
        StoreError: A file vanished meanwhile, or a newer version wrote events.
        DamagedStore: A file cannot be read, or a stream has a gap.
    """
    selection = selection or Selection()
    insist(store)
    segments, unsealed = at_rest(store, lambda: _look(store))
    is_all = selection == Selection()
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


def unknown_columns(schema: pa.Schema) -> list[str]:
    """Return the columns and fields that a newer version has added, as dotted paths."""
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


def _look(store: Store) -> tuple[tuple[Segment, ...], list[Envelope]]:
    journals = store.journals()
    segments = list_segments(store)
    unsealed: list[Envelope] = []
    for name, path in journals.items():
        content = None if name in segments.covered else read_journal(path, path.read_bytes())
        unsealed += content.envelopes() if content else []
    return segments.chosen, unsealed


def _takes(selection: Selection, envelope: Envelope) -> bool:
    return selection.stream_id in (None, envelope.stream_id) and (
        selection.trial_id is None or (envelope.trial_id or "").startswith(selection.trial_id)
    )


def _of_experiment(
    store: Store, segments: Iterable[Segment], unsealed: Iterable[Envelope], selection: Selection
) -> Iterator[list[Envelope]]:
    """The streams of one experiment, each when the last of the files that hold a part of it was read."""
    separations = read_separations(store)
    wanted = {segment: _selected(store, segment, selection, separations) for segment in segments}
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


def _selected(store: Store, segment: Segment, selection: Selection, separations: Separations) -> frozenset[str]:
    """The streams of a segment that are meant."""
    with _readable(store, segment.path):
        if selection.trial_id is not None:
            columns = ["stream_id", "trial_id"]
            with pq.ParquetFile(where_now(segment.path), read_dictionary=columns, memory_map=True) as file:
                rows = file.read(columns).unify_dictionaries().group_by(columns).aggregate([])
            begins = pc.starts_with(rows["trial_id"].cast(pa.string()), selection.trial_id)
            stream_ids = frozenset(rows.filter(begins)["stream_id"].to_pylist())
        else:
            stream_ids = frozenset(load_index(store, segment.path)["stream_id"].to_pylist())
        stream_ids = _with_own_names(store, segment, stream_ids, separations)
    return stream_ids if selection.stream_id is None else stream_ids & {selection.stream_id}


def _with_own_names(store: Store, segment: Segment, stored: frozenset[str], separations: Separations) -> frozenset[str]:
    """The streams of a segment by the names that they have; some rows may have another one than the stored one."""
    names = set(stored)
    for (experiment_id, stream_id, _), own_id in separations.items():
        if experiment_id == segment.experiment_id and stream_id in stored:
            for name in (stream_id, own_id):
                (names.add if stream_rows(store, segment.path, name).num_rows else names.discard)(name)
    return frozenset(names)


def _parts(store: Store, segment: Segment, wanted: frozenset[str]) -> Iterator[list[Envelope]]:
    """What a segment holds of each wanted stream."""
    is_by_stream = len(wanted) < _FEW_STREAMS or bool(read_separations(store))
    rows = _some_rows if is_by_stream else _all_rows
    with _readable(store, segment.path):
        for stream_id, part in groupby(rows(store, segment, wanted), key=lambda row: str(row["stream_id"])):
            if stream_id in wanted:
                yield [from_row(row) for row in part]


def _some_rows(store: Store, segment: Segment, wanted: frozenset[str]) -> Iterator[dict[str, object]]:
    for stream_id in sorted(wanted):
        table = stream_rows(store, segment.path, stream_id)
        _refuse_unknown(segment, table.schema)
        yield from table.to_pylist()


def _all_rows(store: Store, segment: Segment, wanted: frozenset[str]) -> Iterator[dict[str, object]]:
    del store, wanted
    with pq.ParquetFile(where_now(segment.path), memory_map=True, page_checksum_verification=True) as file:
        _refuse_unknown(segment, file.schema_arrow)
        for batch in file.iter_batches(_ROWS_AT_ONCE):
            yield from batch.to_pylist()


def _refuse_unknown(segment: Segment, schema: pa.Schema) -> None:
    if unknown := unknown_columns(schema):
        raise StoreError(
            f"{segment.path} holds what a newer version has added ({unknown[0]}), and this one would lose it; "
            "take the newest lhaw-record that wrote to the store"
        )


@contextmanager
def _readable(store: Store, path: Path) -> Iterator[None]:
    """Turn what a library raises into an error that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise StoreError(f"{path} vanished while {store.name} was being read; run the same command again") from error
    except (OSError, ArithmeticError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
        raise DamagedStore(f"{path} cannot be read ({error}); 'lhaw-record log verify' shows more") from error


def _in_order(store: Store, stream: list[Envelope]) -> list[Envelope]:
    stream.sort(key=lambda envelope: envelope.sequence)
    if [envelope.sequence for envelope in stream] != list(range(len(stream))):
        raise DamagedStore(
            f"stream {stream[0].stream_id} in {store.name} has a gap or an event twice; "
            "'lhaw-record log verify' shows where"
        )
    return stream
