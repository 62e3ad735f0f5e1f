"""Verification: every checksum, gap and chain of a store, with the file and the row of each finding."""

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from recorder.blobs import load_blob
from recorder.digest import CLOSING, covered
from recorder.errors import DamagedStore
from recorder.events import ArtifactStored, Envelope
from recorder.journal import is_live, read_journal
from recorder.schema import from_row
from recorder.store import Store


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


class _StreamState:
    """How far a stream has been followed."""

    def __init__(self) -> None:
        self.following = 0
        self.chain = hashlib.sha256()
        self.is_closed = False


def verify(root: Path) -> Verified:
    """Check a whole store, also while it is being written.

    A writer's segments and journals are read in the order of their numbers, so that a stream is followed across them.

    Raises:
        StoreError: There is no store.
    """
    store = Store(root)
    findings: list[Finding] = []
    streams: dict[str, _StreamState] = {}
    events = 0
    journals = store.journals()
    segments = store.segments()
    for name in sorted({*journals, *segments}, key=str):
        path = segments.get(name) or journals[name]
        records = _segment_records if name in segments else _journal_records
        for row, envelope in records(path, findings):
            events += 1
            findings += _check_record(store, path, row, envelope, streams)
    return Verified(
        segments=len(segments),
        journals=len(journals),
        events=events,
        streams=len(streams),
        open_streams=sum(not state.is_closed for state in streams.values()),
        findings=tuple(findings),
    )


def _segment_records(path: Path, findings: list[Finding]) -> Iterator[tuple[int, Envelope]]:
    """Every record of a segment, read the way readers read it, with the checksums of its pages."""
    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    row = 0
    try:
        segment = ds.dataset(path, format=ds.ParquetFileFormat(default_fragment_scan_options=checked))
        for item in segment.to_table().to_pylist():
            yield row, from_row(item)
            row += 1
        promised = int(path.stem.rpartition("-")[2])
        if row != promised:
            findings.append(Finding(file=str(path), row=row, problem=f"ends after {row} of {promised} rows"))
    except (OSError, pa.ArrowException, msgspec.ValidationError, KeyError, TypeError) as error:
        findings.append(Finding(file=str(path), row=row, problem=f"cannot be read: {error}"))


def _journal_records(path: Path, findings: list[Finding]) -> Iterator[tuple[int, Envelope]]:
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
        problem = f"{content.tail.torn_bytes} bytes of an unfinished record; 'lhaw-record log recover' cuts them"
        findings.append(Finding(file=str(path), row=len(content.payloads), problem=problem))
    try:
        yield from enumerate(content.envelopes())
    except msgspec.MsgspecError as error:
        findings.append(Finding(file=str(path), row=None, problem=f"a record does not decode: {error}"))


def _check_record(
    store: Store, path: Path, row: int, envelope: Envelope, streams: dict[str, _StreamState]
) -> Iterator[Finding]:
    def finding(problem: str) -> Finding:
        return Finding(file=str(path), row=row, problem=f"stream {envelope.stream_id}: {problem}")

    state = streams.setdefault(envelope.stream_id, _StreamState())
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
