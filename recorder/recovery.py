"""Recovery: what a dead writer left behind is closed in order and sealed; doing it twice equals doing it once.

A journal whose lock can be taken has no living writer. Its torn tail is cut, the streams that its writer left open get
their closing event (``trial_failed`` at boundary ``recorder``: a new attempt is owed; ``run_finished`` with outcome
``interrupted``), the footer is written, and the journal is sealed. A death in the middle of this leaves a journal that
the next recovery finishes the same way.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from recorder.digest import CLOSING, covered, with_digest
from recorder.events import AnyEvent, Envelope, RunFinished, RunStarted, TrialFailed
from recorder.frames import frame
from recorder.journal import JournalContent, JournalFile, JournalHeader, read_journal
from recorder.schema import from_row
from recorder.seal import seal
from recorder.store import JournalName, Store, sync_directory, try_lock

_encoder = msgspec.msgpack.Encoder()


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, or would be done, with one journal."""

    journal: str
    records: int
    torn_bytes: int
    closed_streams: tuple[str, ...]
    action: str


def recover(store: Store, *, is_dry_run: bool = False, experiment_id: str | None = None) -> list[Recovered]:
    """Recover every journal of a store that no living process writes.

    Args:
        store: The store, made for writing unless it is a dry run.
        is_dry_run: Report only.
        experiment_id: Only journals of this experiment; all of them if None.

    Raises:
        DamagedStore: A journal is damaged in the middle; it and everything else is left as it is.
        OSError: The disk refuses.
    """
    done = []
    for name, path in store.journals().items():
        try:
            descriptor = os.open(path, (os.O_RDONLY if is_dry_run else os.O_RDWR | os.O_APPEND) | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # sealed meanwhile
        try:
            if try_lock(descriptor, is_shared=is_dry_run) and path.exists():
                report = _recover_one(store, name, path, descriptor, experiment_id, is_dry_run=is_dry_run)
                done += [report] if report else []
        finally:
            os.close(descriptor)
    if not is_dry_run:
        _remove_temporaries(store)
    return done


def _recover_one(
    store: Store, name: JournalName, path: Path, descriptor: int, experiment_id: str | None, *, is_dry_run: bool
) -> Recovered | None:
    content = read_journal(path, path.read_bytes())
    if content is None:
        return _drop(path, "removed: it was never begun", is_dry_run=is_dry_run)
    if experiment_id not in (None, content.header.experiment_id):
        return None
    if name in store.segments():
        return _drop(path, "removed: its segment is complete", is_dry_run=is_dry_run)
    closings = [] if content.footer else _closing_records(store, content)
    if not is_dry_run:
        if content.footer is None:
            journal = JournalFile.reopen(path, descriptor, content)
            journal.append(b"".join(frame(_encoder.encode(record)) for record in closings), len(closings))
            journal.write_footer()
        seal(store, path)
    return Recovered(
        journal=path.name,
        records=len(content.payloads) + len(closings),
        torn_bytes=content.tail.torn_bytes,
        closed_streams=tuple(record.stream_id for record in closings),
        action="sealed",
    )


def _drop(path: Path, action: str, *, is_dry_run: bool) -> Recovered:
    if not is_dry_run:
        path.unlink(missing_ok=True)
        sync_directory(path.parent)
    return Recovered(journal=path.name, records=0, torn_bytes=0, closed_streams=(), action=action)


def _closing_records(store: Store, content: JournalContent) -> list[Envelope]:
    """The closing events that the dead writer owes, one for each stream it left open, in order of their beginning."""
    streams: dict[str, list[Envelope]] = {}
    for envelope in (*_earlier_records(store, content.header), *content.envelopes()):
        streams.setdefault(envelope.stream_id, []).append(envelope)
    now_us = time.time_ns() // 1000
    return [
        _closing_record(records, now_us) for records in streams.values() if not isinstance(records[-1].event, CLOSING)
    ]


def _earlier_records(store: Store, header: JournalHeader) -> Iterator[Envelope]:
    """What the writer recorded in its earlier journals, sealed or not: a stream may have begun in one of them."""
    for number in range(1, header.number):
        name = JournalName(header.writer_id, number)
        path = store.journals().get(name)
        content = None
        with suppress(FileNotFoundError):  # its sealer has just finished
            content = read_journal(path, path.read_bytes()) if path else None
        if content is not None:
            yield from content.envelopes()
        elif name in (segments := store.segments()):
            yield from (from_row(row) for row in pq.read_table(segments[name], partitioning=None).to_pylist())


def _closing_record(records: list[Envelope], now_us: int) -> Envelope:
    last = records[-1]
    closing = msgspec.structs.replace(
        last,
        sequence=last.sequence + 1,
        recorded_at_us=max(now_us, last.recorded_at_us),
        event=_closing_event(records[0].event),
        version=1,
    )
    chain = hashlib.sha256()
    for record in (*records, closing):
        chain.update(covered(record))
    return with_digest(closing, chain.hexdigest())


def _closing_event(first: AnyEvent) -> AnyEvent:
    message = "the process that recorded this stream ended before it was finished"
    if isinstance(first, RunStarted):
        return RunFinished(
            run_id=first.run_id,
            outcome="interrupted",
            trials_finished=0,
            trials_failed=0,
            trials_blocked=0,
            trials_left=0,
            message=message,
        )
    return TrialFailed(boundary="recorder", error_kind="interrupted", message=message, is_retry_owed=True)


def _remove_temporaries(store: Store) -> None:
    """Remove what a dead sealer was writing; a living one holds its journal's lock, so its journal is still there."""
    busy = {str(name) for name in store.journals()}
    for path in store.events_dir.glob("experiment=*/*.tmp"):
        if not any(path.name.startswith(name) for name in busy):
            path.unlink(missing_ok=True)
