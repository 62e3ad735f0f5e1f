"""Verification: every checksum, gap and chain of a store, with the file and the row of each finding."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from recorder.errors import DamagedStore
from recorder.inspection.verify_index import IndexCheck
from recorder.inspection.verify_streams import Finding, Record, StreamChecks
from recorder.journal import is_live, read_journal
from recorder.manifest import has_manifest
from recorder.manifest_check import problems
from recorder.reader import at_rest
from recorder.schema import from_row
from recorder.segments import Segment, list_segments, where_now
from recorder.separation import Separations, read_separations
from recorder.store import Store
from recorder.transfer.whole_streams import unknown_columns

_ROWS_AT_ONCE = 5_000


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked and what was found; a store is good when ``findings`` is empty."""

    segments: int
    journals: int
    events: int
    streams: int
    open_streams: int
    findings: tuple[Finding, ...]
    has_manifest: bool = True


def verify(root: Path, on_progress: Callable[[int, int | None], None] = lambda done, total: None) -> Verified:
    """Check a whole store, also while it is being written.

    Args:
        root: The store.
        on_progress: Called with the number of events that were checked and that of all sealed ones.

    Raises:
        StoreError: There is no store, or it never holds still.
        DamagedStore: A compacted segment does not say what it covers.
    """
    store = Store(root)
    findings: list[Finding] = []
    checks = StreamChecks(store)
    separations = read_separations(store)
    journals, segments = at_rest(store, lambda: (store.journals(), list_segments(store)))
    unsealed = [path for name, path in journals.items() if name not in segments.covered]
    total = sum(segment.records for segment in segments.chosen)
    sources = [*(_segment_records(store, segment, separations, findings) for segment in segments.chosen)]
    sources += [_journal_records(path, findings) for path in unsealed]
    for source in sources:
        for record in source:
            findings += checks.follow(record)
            if checks.events % _ROWS_AT_ONCE == 0:
                on_progress(checks.events, max(total, checks.events))
    findings += checks.rest()
    findings += [
        Finding(file=each.file, row=None, problem=each.text) for each in at_rest(store, lambda: problems(store))
    ]
    return Verified(
        segments=len(segments.chosen),
        journals=len(unsealed),
        events=checks.events,
        streams=checks.streams,
        open_streams=checks.open_streams,
        findings=tuple(findings),
        has_manifest=has_manifest(store),
    )


def _segment_records(
    store: Store, segment: Segment, separations: Separations, findings: list[Finding]
) -> Iterator[Record]:
    """Every record of a segment, with the checksums of its pages; at the end its index is compared."""
    row = 0
    index = IndexCheck(store, segment, frozenset(stream_id for _, stream_id, _ in separations))
    try:
        with pq.ParquetFile(where_now(segment.path), page_checksum_verification=True) as file:
            _refuse_unknown(file.schema_arrow)
            for batch in file.iter_batches(_ROWS_AT_ONCE):
                for item in batch.to_pylist():
                    index.add(item["stream_id"], item["sequence"], item["type"])
                    key = item["experiment_id"], item["stream_id"], item["writer_id"]
                    item["stream_id"] = separations.get(key, item["stream_id"])
                    yield Record(segment.path, row, from_row(item), segment.experiment_id)
                    row += 1
    except (OSError, ArithmeticError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
        findings.append(Finding(file=str(segment.path), row=row, problem=f"cannot be read: {error}"))
    else:
        if row == segment.records:
            findings += index.findings()
        else:  # the index is compared with whole segments only: it is not the one that is wrong here
            problem = f"ends after {row} of {segment.records} rows"
            findings.append(Finding(file=str(segment.path), row=row, problem=problem))


def _refuse_unknown(schema: pa.Schema) -> None:
    if unknown := unknown_columns(schema):
        raise ValueError(f"a newer version has added {unknown[0]}; verify with the newest lhaw-record that wrote here")


def _journal_records(path: Path, findings: list[Finding]) -> Iterator[Record]:
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
    if content.footer is not None and content.footer.records != len(content.payloads):
        problem = f"the footer counts {content.footer.records} records, there are {len(content.payloads)}"
        findings.append(Finding(file=str(path), row=None, problem=problem))
    try:
        for row, envelope in enumerate(content.envelopes()):
            yield Record(path, row, envelope, content.header.experiment_id)
    except msgspec.MsgspecError as error:
        findings.append(Finding(file=str(path), row=None, problem=f"a record does not decode: {error}"))
