"""Repair separates a stream that was begun twice into two streams. It only appends events and changes no stored byte.

If two recordings have the same stream id, the one that was closed keeps the id. The other one, which an error left
open, is closed under a new id, and counts as a failed attempt of its trial.
"""

import time
from itertools import groupby

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lhaw_record.recorder.errors import DamagedStore, StoreError
from lhaw_record.recorder.events import Envelope, TrialFailed
from lhaw_record.recorder.events.stream_digest import CLOSING
from lhaw_record.recorder.reading.reader import consistent_read, stream_envelopes
from lhaw_record.recorder.reading.streams import stream_ids
from lhaw_record.recorder.recovery.orphans import write_records
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.storage.segments import list_segments, readable
from lhaw_record.recorder.storage.separation import Separation, named, read_separations, write_separations
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.closing import RECORDER_ENDED, chained, closing_record


class SeparatedRecording(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, or would be done, with one recording. ``own_id`` is its new stream id."""

    action: str
    experiment_id: str
    stream_id: str
    writer_id: str
    events: int
    own_id: str


def repair(store: Store, *, is_dry_run: bool = False) -> list[SeparatedRecording]:
    """Recover the store, then separate the streams that were begun twice."""
    if store.address is not None:
        raise StoreError(f"{store.name} is a shared store, where no stream is begun twice; it needs no repair")
    if not is_dry_run:
        recover(store)
    doubles = consistent_read(store, lambda: _find_doubles(store))
    reports: list[SeparatedRecording] = []
    for experiment_id, recordings in groupby(doubles, key=lambda each: each[0].experiment_id):
        found = list(recordings)
        reports += [_described(each, is_dry_run=is_dry_run) for each in found]
        if not is_dry_run:
            with store.hold_experiment(experiment_id):
                _separate(store, experiment_id, found)
    if reports and not is_dry_run:
        recover(store)  # if all recordings were open, the last one keeps the id and is closed here
    return reports


def _find_doubles(store: Store) -> list[list[Envelope]]:
    """Return the recordings that need a new id, sorted by experiment. The events of each recording are in order."""
    separations = read_separations(store)
    segments = list_segments(store).chosen
    begun: dict[tuple[str, str], int] = {}
    for segment in segments:
        columns = ["experiment_id", "stream_id", "sequence", "writer_id"]
        with readable(segment.path):
            rows = pq.read_table(segment.path, columns=columns, partitioning=None)
        rows = named(rows.filter(pc.equal(rows["sequence"], 0)), separations)
        for name in rows["stream_id"].to_pylist():
            begun[segment.experiment_id, name] = begun.get((segment.experiment_id, name), 0) + 1
    found = []
    for (experiment_id, stream_id), times in sorted(begun.items()):
        if times > 1:
            here = [segment for segment in segments if segment.experiment_id == experiment_id]
            found += _to_separate(stream_id, stream_envelopes(store, here, stream_id))
    return found


def _to_separate(stream_id: str, envelopes: list[Envelope]) -> list[list[Envelope]]:
    """Return all recordings of a stream except the one that keeps its id.

    The closed recording keeps the id. If none is closed, the one that began last keeps it.
    """
    in_order = sorted(envelopes, key=lambda each: (each.writer_id, each.sequence))
    recordings = [list(each) for _, each in groupby(in_order, key=lambda each: each.writer_id)]
    if any([each.sequence for each in records] != list(range(len(records))) for records in recordings):
        raise DamagedStore(f"stream {stream_id} was begun twice and has a gap; 'lhaw-record log verify' shows where")
    ended = [records for records in recordings if isinstance(records[-1].event, CLOSING)]
    if len(ended) > 1:
        writers = " and ".join(records[0].writer_id for records in ended)
        raise DamagedStore(
            f"stream {stream_id} was closed twice, in the recordings of {writers}: two processes ran it at once. "
            "A program cannot decide which one counts: move the segments of one of them out of the store"
        )
    keeper = ended[0] if ended else max(recordings, key=lambda records: records[0].recorded_at_us)
    return [records for records in recordings if records is not keeper]


def _separate(store: Store, experiment_id: str, recordings: list[list[Envelope]]) -> None:
    """Close recordings under new ids, then write the separations that readers apply.

    If repair dies in between, running it again completes the work.
    """
    closed = stream_ids(store.root)
    closings = [_closing(records) for records in recordings if _own_id(records) not in closed]
    if closings:
        write_records(store, experiment_id, closings)
    write_separations(
        store,
        [
            Separation(experiment_id, records[0].stream_id, records[0].writer_id, _own_id(records))
            for records in recordings
        ],
    )


def _closing(records: list[Envelope]) -> Envelope:
    own_id = _own_id(records)
    renamed = [msgspec.structs.replace(each, stream_id=own_id) for each in records]
    closing = closing_record(renamed, time.time_ns() // 1000, RECORDER_ENDED)
    if not isinstance(closing.event, TrialFailed):
        return closing
    event = msgspec.structs.replace(closing.event, separated_from=records[0].stream_id, stream_digest="")
    return chained(renamed, msgspec.structs.replace(closing, event=event))


def _own_id(records: list[Envelope]) -> str:
    return f"{records[0].stream_id}-{records[0].writer_id}"


def _described(records: list[Envelope], *, is_dry_run: bool) -> SeparatedRecording:
    return SeparatedRecording(
        action="to separate" if is_dry_run else "separated",
        experiment_id=records[0].experiment_id,
        stream_id=records[0].stream_id,
        writer_id=records[0].writer_id,
        events=len(records),
        own_id=_own_id(records),
    )
