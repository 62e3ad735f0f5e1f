"""Checks every checksum, sequence number and digest in a store."""

import hashlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.errors import DamagedStore, NewerData
from lhaw_record.recorder.events import ArtifactStored, Envelope
from lhaw_record.recorder.events.arrow_schema import from_row
from lhaw_record.recorder.events.closing import CLOSING, covered
from lhaw_record.recorder.reading.reader import consistent_read
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.journal import is_live, read_journal, read_mark
from lhaw_record.recorder.storage.manifest import has_manifest
from lhaw_record.recorder.storage.manifest_check import find_problems, schema_problem
from lhaw_record.recorder.storage.segments import StoreSegment, list_segments, where_now
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.storage.stream_index import index_path, index_problem
from lhaw_record.recorder.transfer.whole_streams import refuse_unknown


class VerifyProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem in a file. ``row`` counts from 0, and is None if the problem concerns the whole file."""

    file: str
    row: int | None
    problem: str


class Record(msgspec.Struct, frozen=True):
    """One event, its location, and the experiment that the file belongs to."""

    file: Path
    row: int
    envelope: Envelope
    experiment_id: str


class _StreamState:
    """How far a stream has been checked.

    ``following`` is the next expected sequence number. ``held`` are events that were read before an earlier event in
    the stream. ``chain`` is the digest so far, and None once the stream is closed. ``is_disordered`` is set at the
    first event out of order, so that only this event is reported.
    """

    __slots__ = ("chain", "following", "held", "is_disordered")

    def __init__(self) -> None:
        self.following = 0
        self.chain: hashlib._Hash | None = hashlib.sha256()
        self.held: list[Record] | None = None
        self.is_disordered = False


class StreamChecks:
    """Checks every stream of a store across all files. A closed stream needs little memory."""

    def __init__(self, store: Store) -> None:
        self.events = 0
        self._store = store
        self._streams: dict[tuple[str, str], _StreamState] = {}
        self._good_blobs: set[str] = set()

    @property
    def streams(self) -> int:
        """The number of streams seen so far."""
        return len(self._streams)

    @property
    def open_streams(self) -> int:
        """The number of streams seen so far without a closing event."""
        return sum(state.chain is not None for state in self._streams.values())

    def follow(self, record: Record) -> Iterator[VerifyProblem]:
        """Check an event, or hold it until the earlier events of its stream are read."""
        self.events += 1
        key = (record.experiment_id, record.envelope.stream_id)
        state = self._streams.get(key) or self._streams.setdefault(key, _StreamState())
        if record.envelope.sequence > state.following:
            state.held = state.held or []
            state.held.append(record)
            return
        yield from self._check(record, state)

    def rest(self) -> Iterator[VerifyProblem]:
        """Check the events that are still held after all files have been read."""
        for state in self._streams.values():
            for record in sorted(state.held or (), key=lambda record: record.envelope.sequence):
                yield from self._check(record, state)

    def _check(self, record: Record, state: _StreamState) -> Iterator[VerifyProblem]:
        for problem in self._problems(record, state):
            where = f"stream {record.envelope.stream_id}"
            yield VerifyProblem(file=str(record.file), row=record.row, problem=f"{where}: {problem}")

    def _problems(self, record: Record, state: _StreamState) -> Iterator[str]:
        envelope = record.envelope
        if envelope.experiment_id != record.experiment_id:
            yield f"its event is of experiment {envelope.experiment_id}, but the file is for {record.experiment_id}"
        if not state.is_disordered and (state.chain is None or envelope.sequence != state.following):
            state.is_disordered = True
            where = "follows the closing event" if state.chain is None else f"is where event {state.following} belongs"
            yield f"event {envelope.sequence} {where}"
        if state.chain is not None:
            state.chain.update(covered(envelope))
        if isinstance(envelope.event, CLOSING):
            if state.chain is not None and envelope.event.stream_digest != state.chain.hexdigest():
                yield "the digest in the closing event is not that of the stream"
            state.chain = None
        if isinstance(envelope.event, ArtifactStored):
            yield from self._blob_problems(envelope.event)
        if not all(math.isfinite(each) for each in msgspec.structs.astuple(envelope.event) if isinstance(each, float)):
            yield f"event {envelope.sequence} holds a number that is not finite"
        state.following = envelope.sequence + 1

    def _blob_problems(self, event: ArtifactStored) -> Iterator[str]:
        if event.sha256 in self._good_blobs:
            return
        try:
            content = load_blob(self._store, event.sha256)
        except FileNotFoundError:
            yield f"artifact {event.sha256} is not in {self._store.blobs_dir}"
            return
        except DamagedStore as error:
            yield f"artifact {event.sha256}: {error}"
            return
        if hashlib.sha256(content).hexdigest() == event.sha256:
            self._good_blobs.add(event.sha256)
        else:
            yield f"artifact {event.sha256} does not have the SHA-256 that is its name"


_ROWS_AT_ONCE = 5_000


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked and found. The store is intact if ``findings`` is empty."""

    segments: int
    journals: int
    events: int
    streams: int
    open_streams: int
    findings: tuple[VerifyProblem, ...]
    has_manifest: bool = True


def verify(root: Path, on_progress: Callable[[int, int | None], None] = lambda done, total: None) -> VerifyReport:
    """Check a whole store. This also works while the store is being written."""
    store = Store(root)
    findings: list[VerifyProblem] = []
    newer: list[NewerData] = []  # or damaged where its columns are named, as the manifest then says
    checks = StreamChecks(store)
    journals, segments = consistent_read(store, lambda: (store.journals(), list_segments(store)))
    unsealed = [path for name, path in journals.items() if name not in segments.covered]
    total = sum(segment.records for segment in segments.chosen)
    sources = [*(_segment_records(store, segment, findings, newer) for segment in segments.chosen)]
    sources += [_journal_records(path, findings) for path in unsealed]
    for source in sources:
        for record in source:
            findings += checks.follow(record)
            if checks.events % _ROWS_AT_ONCE == 0:
                on_progress(checks.events, max(total, checks.events))
    findings += checks.rest()
    schema = schema_problem(store)
    damaged_files = [*consistent_read(store, lambda: find_problems(store)), *([schema] if schema else [])]
    findings += [VerifyProblem(file=each.file, row=None, problem=each.text) for each in damaged_files]
    for each in newer:
        if str(each.path) not in {changed.file for changed in damaged_files}:
            raise each
    return VerifyReport(
        segments=len(segments.chosen),
        journals=len(unsealed),
        events=checks.events,
        streams=checks.streams,
        open_streams=checks.open_streams,
        findings=tuple(findings),
        has_manifest=has_manifest(store),
    )


def _segment_records(
    store: Store, segment: StoreSegment, findings: list[VerifyProblem], newer: list[NewerData]
) -> Iterator[Record]:
    """Yield every record of a segment, and check its page checksums, row order and index."""
    row = 0
    last = ("", -1)
    unsorted_row: int | None = None
    indexed: list[pa.RecordBatch] = []
    try:
        with pq.ParquetFile(where_now(segment.path), page_checksum_verification=True) as file:
            refuse_unknown(segment, file.schema_arrow)
            for batch in file.iter_batches(_ROWS_AT_ONCE):
                indexed.append(batch.select(["stream_id", "type"]))
                for item in batch.to_pylist():
                    key = (item["stream_id"], item["sequence"])
                    if key <= last and unsorted_row is None:
                        unsorted_row = row
                    last = key
                    yield Record(segment.path, row, from_row(item), segment.experiment_id)
                    row += 1
    except NewerData as error:
        newer.append(error)
        return
    except (OSError, ArithmeticError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
        findings.append(VerifyProblem(file=str(segment.path), row=row, problem=f"cannot be read: {error}"))
        return
    if row != segment.records:  # the segment is wrong, not the index
        problem = f"ends after {row} of {segment.records} rows"
        findings.append(VerifyProblem(file=str(segment.path), row=row, problem=problem))
    elif unsorted_row is not None:
        problem = "rows are not sorted by stream and sequence"
        findings.append(VerifyProblem(file=str(segment.path), row=unsorted_row, problem=problem))
    elif indexed and (wrong := index_problem(store, segment.path, pa.Table.from_batches(indexed))):
        problem = f"{wrong}; remove this file: it is derived, so nothing is lost"
        findings.append(VerifyProblem(file=str(index_path(store, segment.path)), row=None, problem=problem))


def _journal_records(path: Path, findings: list[VerifyProblem]) -> Iterator[Record]:
    try:
        live = is_live(path)
        content = read_journal(path, path.read_bytes())
    except FileNotFoundError:
        return  # sealed meanwhile
    except (DamagedStore, OSError) as error:
        findings.append(VerifyProblem(file=str(path), row=None, problem=str(error)))
        return
    if content is None:
        return
    mark = path.with_suffix(".mark")
    if not live and mark.is_file() and read_mark(mark) is None and mark.read_bytes().strip(b"\0"):
        problem = "the mark of a journal fails its checksum; remove this file: nothing is lost"
        findings.append(VerifyProblem(file=str(mark), row=None, problem=problem))
    if content.tail.torn_bytes and not live:
        problem = f"{content.tail.torn_bytes} bytes of an unfinished commit; 'lhaw-record log recover' cuts them"
        findings.append(VerifyProblem(file=str(path), row=len(content.payloads), problem=problem))
    if content.footer is not None and content.footer.records != len(content.payloads):
        problem = f"the footer says {content.footer.records} records, but there are {len(content.payloads)}"
        findings.append(VerifyProblem(file=str(path), row=None, problem=problem))
    try:
        for row, envelope in enumerate(content.envelopes()):
            yield Record(path, row, envelope, content.header.experiment_id)
    except msgspec.MsgspecError as error:
        findings.append(VerifyProblem(file=str(path), row=None, problem=f"a record does not decode: {error}"))
