"""Imports complete streams through the journal and the sealing of a store, as if they had been recorded there.

Streams that the store already has are skipped. A stream with the same id but different events is a conflict and is not
imported. Nor is an open stream, because the next attempt of its trial would get the same id.
"""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.events import ArtifactStored, Envelope
from lhaw_record.recorder.events.closing import CLOSING, CLOSING_TYPES, covered
from lhaw_record.recorder.reading.reader import consistent_read, sealed_and_open
from lhaw_record.recorder.storage.blobs import load_blob, store_blob
from lhaw_record.recorder.storage.manifest_check import check_manifest
from lhaw_record.recorder.storage.segments import readable
from lhaw_record.recorder.storage.store import Store, check_experiment_id
from lhaw_record.recorder.storage.stream_index import load_index
from lhaw_record.recorder.transfer.export import Blob
from lhaw_record.recorder.writing.journal_writer import JournalWriter


class ImportedExperiment(msgspec.Struct, kw_only=True):
    """What was done with the streams of one experiment. ``open_streams`` and ``conflicts`` were not imported."""

    experiment_id: str
    streams: int = 0
    events: int = 0
    skipped: int = 0
    open_streams: list[str] = []
    conflicts: list[str] = []
    missing_blobs: int = 0


class _Target(msgspec.Struct):
    """The target experiment: the ends of its existing streams, the writer, and what was done so far."""

    ends: dict[str, str | None]
    writer: JournalWriter | None
    done: ImportedExperiment

    def take(self, stream: list[Envelope]) -> bool:
        """Import a checked stream unless it is open, present or in conflict, and return whether it was imported."""
        stream_id, end, done = stream[0].stream_id, _end(stream), self.done
        if end is None:
            done.open_streams.append(stream_id)
        elif stream_id not in self.ends:
            self.ends[stream_id] = end
            done.streams, done.events = done.streams + 1, done.events + len(stream)
            if self.writer is not None:
                self.writer.write(stream)
            return True
        elif self.ends[stream_id] == end:
            done.skipped += 1
        else:
            done.conflicts.append(stream_id)
        return False


def import_streams(
    store: Store | None,
    source: Iterable[Blob | list[Envelope]],
    *,
    is_dry_run: bool = False,
    on_progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> list[ImportedExperiment]:
    """Import streams and artifacts into a store, each stream completely or not at all."""
    if store is not None:
        check_manifest(store)
    targets: dict[str, _Target] = {}
    offered: set[str] = set()
    looked_at = 0
    with ExitStack() as opened:
        for each in source:
            if isinstance(each, Blob):
                offered.add(each.sha256)
                if store is not None and not is_dry_run:
                    store_blob(store, each.content)
                continue
            _check(each)
            experiment_id = each[0].experiment_id
            if experiment_id not in targets:
                check_experiment_id(experiment_id)
                targets[experiment_id] = _opened(store, experiment_id, opened, is_dry_run=is_dry_run)
            target = targets[experiment_id]
            if target.take(each):
                target.done.missing_blobs += sum(not _has_blob(store, sha256, offered) for sha256 in _blobs_of(each))
            looked_at += len(each)
            on_progress(looked_at, None)
    return [target.done for _, target in sorted(targets.items())]


def _opened(store: Store | None, experiment_id: str, opened: ExitStack, *, is_dry_run: bool) -> _Target:
    """Read which streams of an experiment the store has, after taking the experiment's lock unless it is a dry run."""
    done = ImportedExperiment(experiment_id=experiment_id)
    if store is None:
        return _Target({}, None, done)
    if is_dry_run:
        return _Target(_stream_ends(store, experiment_id), None, done)
    opened.enter_context(store.hold_experiment(experiment_id))
    ends = _stream_ends(store, experiment_id)
    return _Target(ends, opened.enter_context(JournalWriter(store, experiment_id)), done)


def _check(stream: list[Envelope]) -> None:
    """Check that a stream has no gap and the right digest."""
    chain = hashlib.sha256()
    for sequence, envelope in enumerate(stream):
        if envelope.sequence != sequence:
            raise _damaged(stream, f"event {envelope.sequence} is where event {sequence} belongs")
        if isinstance(envelope.event, CLOSING) and envelope is not stream[-1]:
            raise _damaged(stream, f"events follow the closing event {sequence}")
        chain.update(covered(envelope))
    if _end(stream) not in (None, chain.hexdigest()):
        raise _damaged(stream, "the digest in its closing event is not that of its events")


def _damaged(stream: list[Envelope], problem: str) -> DamagedStore:
    return DamagedStore(f"stream {stream[0].stream_id} is not as it was recorded: {problem}. Export it again")


def _end(stream: list[Envelope]) -> str | None:
    """Return the digest in a stream's closing event, or None if the stream is open."""
    event = stream[-1].event
    return event.stream_digest if isinstance(event, CLOSING) else None


def _blobs_of(stream: list[Envelope]) -> set[str]:
    return {each.event.sha256 for each in stream if isinstance(each.event, ArtifactStored)}


def _has_blob(store: Store | None, sha256: str, offered: set[str]) -> bool:
    if sha256 in offered:
        return True
    try:
        return store is not None and load_blob(store, sha256) is not None
    except FileNotFoundError:
        return False


def _stream_ends(store: Store, experiment_id: str) -> dict[str, str | None]:
    """Return the closing digest of each stream of an experiment by id, None for an open stream."""
    return consistent_read(store, lambda: _ends(store, experiment_id))


def _ends(store: Store, experiment_id: str) -> dict[str, str | None]:
    segments, envelopes = sealed_and_open(store, experiment_id)
    begun: dict[str, str | None] = dict.fromkeys(envelope.stream_id for envelope in envelopes)
    ended: dict[str, str | None] = {
        each.stream_id: each.event.stream_digest for each in envelopes if isinstance(each.event, CLOSING)
    }
    for segment in segments:
        begun |= dict.fromkeys(load_index(store, segment.path)["stream_id"].to_pylist())
        ended |= _sealed_ends(segment.path)
    return begun | ended


def _sealed_ends(segment: Path) -> dict[str, str | None]:
    import pyarrow.compute as pc

    with readable(segment), pq.ParquetFile(segment, memory_map=True) as file:
        present = [name for name in CLOSING_TYPES if name in file.schema_arrow.names]
        if not present:
            return {}
        rows = file.read(["stream_id", "type", *(f"{name}.stream_digest" for name in present)])
    is_closing = pc.is_in(rows["type"], pa.array(CLOSING_TYPES))
    return {row["stream_id"]: row[row["type"]]["stream_digest"] for row in rows.filter(is_closing).to_pylist()}
