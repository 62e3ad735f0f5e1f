"""Compaction: many small segments of an experiment become one, and what it replaces goes after a time of grace.

The merged segment says which journals it covers, so the moment it gets its name every reader takes it in place of the
small ones. These stay for the readers that have already listed them.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from recorder.errors import DamagedStore
from recorder.schema import event_schema
from recorder.segment_writer import ROWS_PER_GROUP, write_segment
from recorder.segments import Segment, Segments, list_segments
from recorder.store import Store
from recorder.stream_index import remove_index

SMALL_RECORDS = 5_000
MOST_RECORDS = 500_000
GRACE_S = 3600.0


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """One merged segment, or one replaced segment that was removed; ``action`` says which."""

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
) -> list[Compacted]:
    """Merge small segments, and remove those that were replaced long enough ago.

    Another process that compacts the same store at the same time does the work; this one then does nothing.

    Args:
        store: The store, made for writing unless it is a dry run.
        experiment_id: Only segments of this experiment; of all if None.
        small_records: Segments with fewer records are merged.
        grace_s: Seconds for which a replaced segment stays.
        is_dry_run: Report only.

    Raises:
        DamagedStore: A segment cannot be read; everything is left as it is.
        OSError: The disk refuses; everything is left as it is.
    """
    if is_dry_run:
        return _planned(list_segments(store), experiment_id, small_records, grace_s)
    with store.hold_compaction() as is_held:
        if not is_held:
            return []
        merged = [
            Compacted(
                action="merged",
                experiment_id=group[0].experiment_id,
                segments=len(group),
                records=sum(segment.records for segment in group),
                path=_merge(store, group),
            )
            for group in _groups(list_segments(store).chosen, experiment_id, small_records)
        ]
        return merged + _remove_replaced(store, experiment_id, grace_s)


def _planned(segments: Segments, experiment_id: str | None, small_records: int, grace_s: float) -> list[Compacted]:
    groups = list(_groups(segments.chosen, experiment_id, small_records))
    merges = [
        Compacted(
            action="to merge",
            experiment_id=group[0].experiment_id,
            segments=len(group),
            records=sum(segment.records for segment in group),
            path=group[0].path.parent,
        )
        for group in groups
    ]
    return merges + [_removal("to remove", segment) for segment in _expired(segments, experiment_id, grace_s)]


def _groups(segments: Sequence[Segment], experiment_id: str | None, small_records: int) -> Iterator[list[Segment]]:
    """Small segments of one experiment that together stay below the largest size; at least two each."""
    for each in sorted({segment.experiment_id for segment in segments}):
        if experiment_id not in (None, each):
            continue
        group: list[Segment] = []
        for segment in segments:
            if segment.experiment_id == each and segment.records < small_records:
                if sum(other.records for other in group) + segment.records > MOST_RECORDS:
                    yield group
                    group = []
                group.append(segment)
        if len(group) > 1:
            yield group


def _merge(store: Store, group: Sequence[Segment]) -> Path:
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


def _whole(segment: Segment) -> pa.Table:
    """Every row of a segment, with the checksums of its pages: damage must not get a good checksum by being copied."""
    try:
        table = pq.read_table(segment.path, partitioning=None, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise DamagedStore(f"{segment.path} cannot be read ({error}); 'lhaw-record log verify' shows more") from error
    if table.num_rows != segment.records:
        raise DamagedStore(f"{segment.path} ends after {table.num_rows} of {segment.records} rows; restore it")
    return table


def _place(column: str) -> tuple[int, str]:
    """Columns in the order of the schema; those of a newer version last."""
    names = event_schema().names
    return (names.index(column) if column in names else len(names), column)


def _remove_replaced(store: Store, experiment_id: str | None, grace_s: float) -> list[Compacted]:
    removed = []
    for segment in _expired(list_segments(store), experiment_id, grace_s):
        remove_index(store, segment.path)
        store.disk.remove(segment.path)
        store.disk.sync_directory(segment.path.parent)
        removed.append(_removal("removed", segment))
    return removed


def _expired(segments: Segments, experiment_id: str | None, grace_s: float) -> list[Segment]:
    """Superseded segments whose replacement is at least ``grace_s`` old, by the times of the files."""
    holders = {name: segment for segment in segments.chosen for name in segment.covers}
    now_s = time.time()
    return [
        segment
        for segment in segments.superseded
        if experiment_id in (None, segment.experiment_id)
        and all(now_s - holders[name].path.stat().st_mtime >= grace_s for name in segment.covers)
    ]


def _removal(action: str, segment: Segment) -> Compacted:
    return Compacted(
        action=action, experiment_id=segment.experiment_id, segments=1, records=segment.records, path=segment.path
    )
