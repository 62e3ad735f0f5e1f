"""Finds orphans: open streams that no writer will close, because all their journals are closed or sealed.

An earlier version left orphans when an error ended a run. Recovery closes them.
"""

import secrets
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lhaw_record.recorder.events import Envelope
from lhaw_record.recorder.events.stream_digest import CLOSING
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.reading.reader import sealed_streams, stream_envelopes
from lhaw_record.recorder.sealing.seal import seal
from lhaw_record.recorder.storage.journal import JournalFile, is_live, new_header, read_journal
from lhaw_record.recorder.storage.journal_format import record
from lhaw_record.recorder.storage.segments import list_segments
from lhaw_record.recorder.storage.store import Store

_encoder = msgspec.msgpack.Encoder()


def find_orphans(store: Store, experiment_id: str | None = None) -> list[list[Envelope]]:
    """Return the records of each orphan, in order. Streams that were begun twice are left to repair.

    A living writer always holds the lock of a journal: it opens a new journal before the earlier ones are sealed. So
    journals are checked again after the segments were read.
    """
    living = _living(store)
    segments = list_segments(store)
    wanted = [each for each in segments.chosen if experiment_id in (None, each.experiment_id)]
    open_ids = {key for key, is_closed in sealed_streams(store, wanted).items() if not is_closed}
    unsealed = _unsealed(store, segments.covered, experiment_id)
    ended = {(each.experiment_id, each.stream_id) for each in unsealed if isinstance(each.event, CLOSING)}
    begun = {(each.experiment_id, each.stream_id) for each in unsealed}
    found = []
    for experiment, stream_id in sorted((open_ids | begun) - ended):
        here = [each for each in wanted if each.experiment_id == experiment]
        records = stream_envelopes(store, here, stream_id)
        records += [each for each in unsealed if (each.experiment_id, each.stream_id) == (experiment, stream_id)]
        records.sort(key=lambda each: each.sequence)
        is_whole = [each.sequence for each in records] == list(range(len(records)))
        if is_whole and not any(isinstance(each.event, CLOSING) for each in records):
            found.append(records)
    living |= _living(store)
    return [records for records in found if records[-1].writer_id not in living]


def write_records(store: Store, experiment_id: str, envelopes: Sequence[Envelope]) -> str:
    """Write records to a new journal in one commit, seal it, and return its name."""
    name = JournalName(f"w{secrets.token_hex(6)}", 1)
    journal = JournalFile(store, new_header(name, experiment_id, time.time_ns() // 1000))
    try:
        journal.append([record(_encoder.encode(each)) for each in envelopes])
        journal.write_footer()
        seal(store, journal.path)
    finally:
        journal.close()
    return journal.path.name


def _living(store: Store) -> set[str]:
    """Return the writers that are alive or left a journal without a footer.

    Recovering a journal without a footer closes its streams.
    """
    return {name.writer_id for name, path in store.journals().items() if is_live(path) or not _is_whole(path)}


def _is_whole(path: Path) -> bool:
    content = read_journal(path, path.read_bytes())
    return content is not None and content.footer is not None


def _unsealed(store: Store, covered: frozenset[JournalName], experiment_id: str | None) -> list[Envelope]:
    """Return the records in closed journals that are not sealed yet."""
    found: list[Envelope] = []
    for name, path in store.journals().items():
        content = None if name in covered or is_live(path) else read_journal(path, path.read_bytes())
        if content and content.footer and experiment_id in (None, content.header.experiment_id):
            found += content.envelopes()
    return found
