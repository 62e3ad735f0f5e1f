"""Accepts the loss of files, and closes the streams that continued in them."""

import time
from collections.abc import Iterator
from itertools import groupby

from lhaw_record.recorder.events import Envelope
from lhaw_record.recorder.events.closing import closing_record
from lhaw_record.recorder.reading.reader import consistent_read, sealed_streams, stream_envelopes
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.storage import manifest_check
from lhaw_record.recorder.storage.manifest_check import FileProblem
from lhaw_record.recorder.storage.segments import list_segments
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.storage.stream_index import remove_damaged_indexes
from lhaw_record.recorder.writing.journal_writer import JournalWriter


def accept_loss(store: Store) -> list[FileProblem]:
    """Record that missing and damaged data is lost, recover the store, and return what was found.

    Streams that continued in a lost file are closed as interrupted, so that their trials can run again.
    """
    found = manifest_check.accept_loss(store)
    remove_damaged_indexes(store)
    recover(store)
    streams = consistent_read(store, lambda: list(_abandoned(store)))
    now_us = time.time_ns() // 1000
    for experiment_id, group in groupby(streams, key=lambda records: records[0].experiment_id):
        with JournalWriter(store, experiment_id) as writer:
            writer.write([closing_record(records, now_us) for records in group])
    return found


def _abandoned(store: Store) -> Iterator[list[Envelope]]:
    """Yield the records of each open stream that has no gap and whose writer has no journal.

    After recovery, only living writers have journals: a living writer opens a new journal before it closes the last.
    """
    living = {name.writer_id for name in store.journals()}
    segments = list_segments(store).chosen
    living |= {name.writer_id for name in store.journals()}
    for (experiment_id, stream_id), is_closed in sorted(sealed_streams(store, segments).items()):
        if not is_closed:
            here = [each for each in segments if each.experiment_id == experiment_id]
            records = stream_envelopes(store, here, stream_id)
            is_whole = [each.sequence for each in records] == list(range(len(records)))
            if is_whole and records[-1].writer_id not in living:
                yield records
