"""Recovery closes and seals the journals that dead writers left behind. Running it twice is the same as once.

A journal whose lock can be taken has no living writer. Recovery cuts off an unfinished commit at the end of the journal
and appends closing events for its open streams: ``trial_failed`` at boundary ``recorder``, so that the trial gets a new
attempt, or ``run_finished`` with outcome ``interrupted``. Then it writes the footer and seals the journal. If recovery
dies, the next one finishes the same journal.
"""

import os
import re
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import msgspec

from lhaw_record.recorder.errors import DamagedStore, NewerData
from lhaw_record.recorder.events import Envelope, type_name
from lhaw_record.recorder.events.closing import CLOSING, closing_record
from lhaw_record.recorder.events.encoding import encoded
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.reading.reader import consistent_read, sealed_streams, stream_envelopes
from lhaw_record.recorder.sealing.seal import seal
from lhaw_record.recorder.storage import manifest_check
from lhaw_record.recorder.storage.journal import JournalContent, JournalFile, JournalHeader, read_journal
from lhaw_record.recorder.storage.journal_format import record
from lhaw_record.recorder.storage.manifest_check import FileProblem, truncation
from lhaw_record.recorder.storage.retirement import retire
from lhaw_record.recorder.storage.segments import list_segments
from lhaw_record.recorder.storage.store import Store, try_lock
from lhaw_record.recorder.storage.stream_index import remove_damaged_indexes
from lhaw_record.recorder.writing.journal_writer import JournalWriter

_LONGEST_WRITE_S = 3600.0


class RecoveryAction(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, or would be done, with one journal."""

    journal: str
    records: int
    torn_bytes: int
    closed_streams: tuple[str, ...]
    action: str


def recover(store: Store, *, is_dry_run: bool = False, experiment_id: str | None = None) -> list[RecoveryAction]:
    """Recover every journal in a store whose writer is dead, in one process at a time."""
    if is_dry_run:
        return list(_recovered(store, experiment_id, is_dry_run=True))
    with store.hold("recovery"):  # a writer's journals must not change while its open streams are determined
        done = list(_recovered(store, experiment_id, is_dry_run=False))
        if store.address is None:
            # Compaction may have died between merging segments and retiring the old ones.
            retire(store, consistent_read(store, lambda: list_segments(store)).superseded)
        _remove_temporaries(store)
    return done


def _recovered(store: Store, experiment_id: str | None, *, is_dry_run: bool) -> Iterator[RecoveryAction]:
    busy: set[str] = set()
    for name, path in store.journals().items():
        if store.address is not None and name.writer_id in busy:
            continue  # a child is still publishing an earlier journal of this writer, which must come first
        try:
            descriptor = os.open(path, (os.O_RDONLY if is_dry_run else os.O_RDWR | os.O_APPEND) | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # sealed meanwhile
        try:
            if try_lock(descriptor, is_shared=is_dry_run) and path.exists():
                report = _recover_one(store, name, path, descriptor, experiment_id, is_dry_run=is_dry_run)
                yield from (report,) if report else ()
            else:
                busy.add(name.writer_id)
        finally:
            os.close(descriptor)


def _recover_one(
    store: Store, name: JournalName, path: Path, descriptor: int, experiment_id: str | None, *, is_dry_run: bool
) -> RecoveryAction | None:
    if text := truncation(store, name, path):
        raise DamagedStore(
            f"{path} {text}. Restore it from a backup, or go on without it: 'lhaw-record log repair --accept-loss'"
        )
    content = read_journal(path, path.read_bytes())
    if content is None:
        return _drop(store, path, "removed: it has no complete record", is_dry_run=is_dry_run)
    if experiment_id not in (None, content.header.experiment_id):
        return None
    if name in consistent_read(store, lambda: list_segments(store)).covered:
        return _drop(store, path, "removed: its segment is complete", is_dry_run=is_dry_run)
    for payload, envelope in zip(content.payloads, content.envelopes(), strict=True):
        if encoded(envelope) != payload:  # sealing would drop a field
            raise NewerData(path, type_name(type(envelope.event)))
    closings = [] if content.footer else consistent_read(store, lambda: _closing_records(store, name, content))
    if not is_dry_run:
        if content.footer is None:
            journal = JournalFile.reopen(store, path, descriptor, content)
            if closings:
                journal.append([record(encoded(closing)) for closing in closings])
            journal.write_footer()
        seal(store, path)
    return RecoveryAction(
        journal=path.name,
        records=len(content.payloads) + len(closings),
        torn_bytes=content.tail.torn_bytes,
        closed_streams=tuple(closing.stream_id for closing in closings),
        action="sealed",
    )


def _drop(store: Store, path: Path, action: str, *, is_dry_run: bool) -> RecoveryAction:
    if not is_dry_run:
        store.disk.remove(path)
        store.disk.sync_directory(path.parent)
    return RecoveryAction(journal=path.name, records=0, torn_bytes=0, closed_streams=(), action=action)


def _closing_records(store: Store, name: JournalName, content: JournalContent) -> list[Envelope]:
    """Return a closing event for each stream that the dead writer left open, in the order in which the streams began.

    The closing events belong in the writer's last journal. A writer that dies during rotation leaves two journals
    without a footer. If the first one is still locked, recovery handles the second one before it.
    """
    if _has_later(store, name):
        return []
    streams: dict[str, list[Envelope]] = {}
    for envelope in (*_earlier_envelopes(store, content.header), *content.envelopes()):
        streams.setdefault(envelope.stream_id, []).append(envelope)
    in_order = [sorted(records, key=lambda each: each.sequence) for records in streams.values()]
    now_us = time.time_ns() // 1000
    return [closing_record(records, now_us) for records in in_order if not isinstance(records[-1].event, CLOSING)]


def _has_later(store: Store, name: JournalName) -> bool:
    """Return whether the writer began a later journal, sealed or not."""
    for other, path in store.journals().items():
        if other.writer_id == name.writer_id and other.number > name.number and read_journal(path, path.read_bytes()):
            return True
    covered_names = list_segments(store).covered
    return any(other.writer_id == name.writer_id and other.number > name.number for other in covered_names)


def _earlier_envelopes(store: Store, header: JournalHeader) -> list[Envelope]:
    """Return the records from the writer's earlier journals whose streams are not closed in a sealed journal.

    Journals are read before segments are listed, because a child of the dead writer may still be sealing one.
    """
    unsealed: dict[JournalName, list[Envelope]] = {}
    for name, path in store.journals().items():
        if name.writer_id == header.writer_id and name.number < header.number:
            content = read_journal(path, path.read_bytes())
            unsealed[name] = content.envelopes() if content else []
    segments = list_segments(store)
    sealed = [each for each in segments.chosen if any(name.writer_id == header.writer_id for name in each.covers)]
    is_closed = {stream_id: closed for (_, stream_id), closed in sealed_streams(store, sealed).items()}
    still_open = [stream_id for stream_id, closed in is_closed.items() if not closed]
    found = [each for stream_id in still_open for each in stream_envelopes(store, sealed, stream_id)]
    found += [each for name, held in unsealed.items() if name not in segments.covered for each in held]
    return [each for each in found if each.writer_id == header.writer_id and not is_closed.get(each.stream_id)]


def _remove_temporaries(store: Store) -> None:
    """Remove the temporary files of dead processes.

    A process that seals a journal holds its lock, and a process that compacts the store holds the compaction lock. No
    other process takes an hour to write a file.
    """
    for mark in store.journal_dir.glob("*.mark"):
        if not mark.with_suffix(".journal").exists():
            mark.unlink(missing_ok=True)
    patterns = ("*.tmp", "journal/*.tmp", "events/*/*.tmp", "index/*.tmp", "blobs/*/*.tmp")
    found = [path for pattern in patterns for path in store.root.glob(pattern)]
    busy = {str(name) for name in store.journals()}  # listed after the files: a journal exists before them
    with store.try_to_hold("compaction") as is_held:
        for path in found:
            if re.match(r"w.*\.(parquet|arrow)", path.name):
                is_dead = not any(path.name.startswith(name) for name in busy)
            elif path.name.startswith("c"):
                is_dead = is_held
            else:
                is_dead = _age_s(path) > _LONGEST_WRITE_S
            if is_dead:
                store.disk.remove(path)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:  # renamed into place meanwhile
        return 0.0


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
