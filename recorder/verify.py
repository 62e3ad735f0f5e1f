"""Verification: every checksum, gap and chain of a store, with the file and the row of each finding."""

import hashlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from recorder.blobs import load_blob
from recorder.digest import CLOSING, covered
from recorder.errors import DamagedStore
from recorder.events import ArtifactStored, Envelope
from recorder.journal import is_live, read_journal
from recorder.reader import at_rest
from recorder.schema import from_row
from recorder.segments import Segment, list_segments
from recorder.store import Store

_ROWS_AT_ONCE = 5_000


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it was written. ``row`` counts from 0 in the file; None concerns the whole file."""

    file: str
    row: int | None
    problem: str


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked and what was found; a store is good when ``findings`` is empty."""

    segments: int
    journals: int
    events: int
    streams: int
    open_streams: int
    findings: tuple[Finding, ...]


class _Record(msgspec.Struct, frozen=True):
    """One event and where it stands."""

    file: Path
    row: int
    envelope: Envelope


class _StreamState:
    """How far a stream has been followed; ``held`` are its later events that came before the earlier ones."""

    def __init__(self) -> None:
        self.following = 0
        self.chain = hashlib.sha256()
        self.is_closed = False
        self.held: list[_Record] = []


def verify(root: Path, on_progress: Callable[[int, int], None] = lambda done, total: None) -> Verified:
    """Check a whole store, also while it is being written.

    Args:
        root: The store.
        on_progress: Called with the number of files that were checked and that of all.

    Raises:
        StoreError: There is no store, or it never holds still.
        DamagedStore: A compacted segment does not say what it covers.
    """
    store = Store(root)
    findings: list[Finding] = []
    streams: dict[str, _StreamState] = {}
    events = 0
    journals, segments = at_rest(store, lambda: (store.journals(), list_segments(store)))
    unsealed = [path for name, path in journals.items() if name not in segments.covered]
    sources = [*(_segment_records(segment, findings) for segment in segments.chosen)]
    sources += [_journal_records(path, findings) for path in unsealed]
    for done, source in enumerate(sources):
        on_progress(done, len(sources))
        for record in source:
            events += 1
            findings += _follow(store, record, streams.setdefault(record.envelope.stream_id, _StreamState()))
    for state in streams.values():
        for record in sorted(state.held, key=lambda record: record.envelope.sequence):
            findings += _check_record(store, record, state)
    return Verified(
        segments=len(segments.chosen),
        journals=len(unsealed),
        events=events,
        streams=len(streams),
        open_streams=sum(not state.is_closed for state in streams.values()),
        findings=tuple(findings),
    )


def _segment_records(segment: Segment, findings: list[Finding]) -> Iterator[_Record]:
    """Every record of a segment, with the checksums of its pages."""
    row = 0
    try:
        with pq.ParquetFile(segment.path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE):
                for item in batch.to_pylist():
                    yield _Record(segment.path, row, from_row(item))
                    row += 1
        if row != segment.records:
            problem = f"ends after {row} of {segment.records} rows"
            findings.append(Finding(file=str(segment.path), row=row, problem=problem))
    except (OSError, ArithmeticError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
        findings.append(Finding(file=str(segment.path), row=row, problem=f"cannot be read: {error}"))


def _journal_records(path: Path, findings: list[Finding]) -> Iterator[_Record]:
    try:
        live = is_live(path)
        content = read_journal(path, path.read_bytes())
    except FileNotFoundError:
        return  # sealed while we looked
    except (DamagedStore, OSError) as error:
        findings.append(Finding(file=str(path), row=None, problem=str(error)))
        return
    if content is None:
        return
    if content.tail.torn_bytes and not live:
        problem = f"{content.tail.torn_bytes} bytes of an unfinished commit; 'lhaw-record log recover' cuts them"
        findings.append(Finding(file=str(path), row=len(content.payloads), problem=problem))
    try:
        yield from (_Record(path, row, envelope) for row, envelope in enumerate(content.envelopes()))
    except msgspec.MsgspecError as error:
        findings.append(Finding(file=str(path), row=None, problem=f"a record does not decode: {error}"))


def _follow(store: Store, record: _Record, state: _StreamState) -> Iterator[Finding]:
    """Check an event if it is its stream's turn, else hold it: a stream may lie in several files, in any order."""
    if record.envelope.sequence > state.following:
        state.held.append(record)
    else:
        yield from _check_record(store, record, state)


def _check_record(store: Store, record: _Record, state: _StreamState) -> Iterator[Finding]:
    envelope = record.envelope

    def finding(problem: str) -> Finding:
        return Finding(file=str(record.file), row=record.row, problem=f"stream {envelope.stream_id}: {problem}")

    if state.is_closed:
        yield finding(f"event {envelope.sequence} follows the closing event")
    if envelope.sequence != state.following:
        yield finding(f"event {envelope.sequence} stands where {state.following} belongs")
    state.chain.update(covered(envelope))
    if isinstance(envelope.event, CLOSING):
        state.is_closed = True
        if envelope.event.stream_digest != state.chain.hexdigest():
            yield finding("the digest in the closing event is not that of the stream")
    if isinstance(envelope.event, ArtifactStored):
        yield from (finding(problem) for problem in _check_blob(store, envelope.event))
    if not all(math.isfinite(value) for value in msgspec.structs.astuple(envelope.event) if isinstance(value, float)):
        yield finding(f"event {envelope.sequence} holds a number that is not finite")
    state.following = envelope.sequence + 1


def _check_blob(store: Store, event: ArtifactStored) -> Iterator[str]:
    try:
        content = load_blob(store, event.sha256)
    except FileNotFoundError:
        yield f"artifact {event.sha256} is not in {store.blobs_dir}"
        return
    if hashlib.sha256(content).hexdigest() != event.sha256:
        yield f"artifact {event.sha256} has other bytes than its name says"
