"""Counts a store's events, trials, streams and bytes by file footers, narrow columns and indexes.

Every file is compared with the manifest, as before all numbers.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.events import type_name
from lhaw_record.recorder.events.closing import CLOSING
from lhaw_record.recorder.reading.reader import consistent_read
from lhaw_record.recorder.sealing.compaction import mergeable
from lhaw_record.recorder.storage.journal import is_live, read_journal
from lhaw_record.recorder.storage.manifest_check import find_problems
from lhaw_record.recorder.storage.segments import StoreSegment, StoreSegments, list_segments, readable
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.storage.stream_index import load_index

_THREADS = 4
_COLUMNS = ["type", "trial_id"]
_NO_STREAMS = pa.schema({"stream_id": pa.string(), "is_closed": pa.bool_()}).empty_table()


class FileCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number and total size in bytes of files of one kind."""

    files: int
    bytes: int


class ExperimentStat(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one experiment. ``attempts`` counts started attempts."""

    experiment_id: str
    events: int
    trials: int
    attempts: int
    finished: int
    failed: int


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of streams by state. An open stream is ``live`` if its writer is alive, otherwise ``interrupted``.

    ``repeated`` counts further ends of closed streams, which a store has after a restored backup.
    """

    closed: int
    live: int
    interrupted: int
    repeated: int


class Stat(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of a store. Times are UTC in microseconds since the epoch, None in a store without events.

    In ``files``, ``replaced`` counts segments that compaction replaced and keeps for a while. Compaction would merge
    ``mergeable_segments`` small segments into ``merged_segments`` larger ones. ``problems`` lists what differs
    from the manifest or was noticed while counting; only verification checks everything.
    """

    store: str
    events: int
    first_us: int | None
    last_us: int | None
    event_types: dict[str, int]
    experiments: tuple[ExperimentStat, ...]
    streams: Streams
    files: dict[str, FileCount]
    bytes_per_event: float | None
    mergeable_segments: int
    merged_segments: int
    problems: tuple[str, ...]
    is_damaged: bool


def stat(root: Path) -> Stat:
    """Return the current statistics of a store, without writing anything."""
    store = Store(root)
    return consistent_read(store, lambda: _read(store))


class _Part(msgspec.Struct, kw_only=True):
    """The statistics of one segment or journal. ``live_writer`` is the id of a journal's writer if it is alive.

    ``streams`` has the columns stream_id and is_closed. Streams and trials stay in Arrow, because counting 170,000
    Python objects took a second.
    """

    experiment_id: str
    writers: frozenset[str] = frozenset()
    live_writer: str | None = None
    types: Counter[str] = msgspec.field(default_factory=Counter)
    trials: list[pa.Array] = msgspec.field(default_factory=list)
    streams: pa.Table = msgspec.field(default_factory=lambda: _NO_STREAMS)
    times_us: list[int] = msgspec.field(default_factory=list)
    problems: list[str] = msgspec.field(default_factory=list)
    is_damaged: bool = False


def _read(store: Store) -> Stat:
    journals = store.journals()
    segments = list_segments(store)
    with ThreadPoolExecutor(_THREADS) as pool:
        parts = [*pool.map(partial(_segment_part, store), segments.chosen)]
    readable_segments = [segment for segment, part in zip(segments.chosen, parts, strict=True) if not part.problems]
    unsealed = [path for name, path in journals.items() if name not in segments.covered]
    parts += [part for path in unsealed if (part := _journal_part(path)) is not None]
    types = sum((part.types for part in parts), Counter[str]())
    times_us = [each for part in parts for each in part.times_us]
    files = _files(store, segments, journals.values())
    events = types.total()
    merges = list(mergeable(readable_segments))
    streams = _streams(parts)
    differing = find_problems(store)
    problems = [f"{each.file} {each.text}" for each in differing] + [text for part in parts for text in part.problems]
    if streams.repeated:
        problems.append(f"{streams.repeated} streams are stored more than once; 'log verify' names their files")
    return Stat(
        store=store.name,
        events=events,
        first_us=min(times_us, default=None),
        last_us=max(times_us, default=None),
        event_types=dict(types.most_common()),
        experiments=tuple(_experiment(name, parts) for name in sorted({part.experiment_id for part in parts})),
        streams=streams,
        files=files,
        bytes_per_event=sum(each.bytes for each in files.values()) / events if events else None,
        mergeable_segments=sum(map(len, merges)),
        merged_segments=len(merges),
        problems=tuple(problems),
        is_damaged=bool(streams.repeated or differing) or any(part.is_damaged for part in parts),
    )


def _segment_part(store: Store, segment: StoreSegment) -> _Part:
    """Return the statistics of a segment from its footer, two columns and its index."""
    writers = frozenset(name.writer_id for name in segment.covers)
    part = _Part(experiment_id=segment.experiment_id, writers=writers)
    try:
        index = load_index(store, segment.path)
        with (
            readable(segment.path),
            pq.ParquetFile(segment.path, read_dictionary=_COLUMNS, memory_map=True) as file,
        ):
            rows = file.read(_COLUMNS, use_threads=False)
            statistics = column_statistics(file.metadata, "recorded_at_us")
    except DamagedStore as error:
        part.problems.append(str(error))
        part.is_damaged = True
        return part
    part.times_us = [time_us for each in statistics if each is not None for time_us in (each.min, each.max)]
    for chunk in rows["type"].chunks:
        for each in pc.value_counts(chunk.indices).to_pylist():
            part.types[chunk.dictionary[each["values"]].as_py()] += each["counts"]
    for chunk in rows["trial_id"].chunks:
        part.trials.append(chunk.dictionary.cast(pa.string()))
    part.streams = index.select(["stream_id", "is_closed"])
    return part


def _journal_part(path: Path) -> _Part | None:
    """Return the statistics of an unsealed journal, or None if it has no complete header."""
    try:
        live = is_live(path)
        content = read_journal(path, path.read_bytes())
        envelopes = content.envelopes() if content else []
    except FileNotFoundError:
        raise
    except (DamagedStore, OSError) as error:
        return _Part(experiment_id="unknown", problems=[str(error)], is_damaged=True)
    if content is None:
        return None
    writer_id = content.header.writer_id
    part = _Part(
        experiment_id=content.header.experiment_id,
        writers=frozenset([writer_id]),
        live_writer=writer_id if live else None,
    )
    ends = {envelope.stream_id: isinstance(envelope.event, CLOSING) for envelope in envelopes}
    part.types = Counter(type_name(type(envelope.event)) for envelope in envelopes)
    part.trials = [pa.array([each.trial_id for each in envelopes if each.trial_id], pa.string())]
    part.streams = pa.table(
        {"stream_id": pa.array(ends, pa.string()), "is_closed": pa.array(ends.values(), pa.bool_())}
    )
    part.times_us = [envelope.recorded_at_us for envelope in envelopes]
    if content.tail.torn_bytes and not live:
        part.problems.append(
            f"{path}: {content.tail.torn_bytes} bytes of an unfinished commit; 'log recover' cuts them"
        )
    elif not live:
        part.problems.append(f"{path} has no living writer; 'log recover' closes and seals it")
    return part


def _experiment(experiment_id: str, parts: Iterable[_Part]) -> ExperimentStat:
    here = [part for part in parts if part.experiment_id == experiment_id]
    types = sum((part.types for part in here), Counter[str]())
    return ExperimentStat(
        experiment_id=experiment_id,
        events=types.total(),
        trials=_distinct([each for part in here for each in part.trials]),
        attempts=types["trial_started"],
        finished=types["trial_finished"],
        failed=types["trial_failed"],
    )


def _streams(parts: Sequence[_Part]) -> Streams:
    """Count streams by state, separately for each experiment, because two may plan the same trial."""
    live_writers = {part.live_writer for part in parts}
    closed = interrupted = live = ends = 0
    for experiment_id in {part.experiment_id for part in parts}:
        here = [part for part in parts if part.experiment_id == experiment_id]
        tables = [part.streams for part in here]
        living = [part.streams for part in here if not live_writers.isdisjoint(part.writers)]
        is_open, is_live = _open_count(tables), _open_count(living)
        closed += _distinct([chunk for table in tables for chunk in table["stream_id"].chunks]) - is_open
        ends += sum(_true_values(table["is_closed"]) for table in tables)
        live += is_live
        interrupted += is_open - is_live
    return Streams(closed=closed, live=live, interrupted=interrupted, repeated=ends - closed)


def _open_count(tables: Sequence[pa.Table]) -> int:
    """Count the streams that have no closing event in any table."""
    if not tables:
        return 0
    ends = pa.concat_tables(tables).group_by("stream_id").aggregate([("is_closed", "max")])
    return int(ends.num_rows) - _true_values(ends["is_closed_max"])


def _distinct(arrays: Sequence[pa.Array]) -> int:
    return int(pc.count_distinct(pa.chunked_array(arrays, pa.string())).as_py())


def _true_values(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)


def _files(store: Store, segments: StoreSegments, journals: Iterable[Path]) -> dict[str, FileCount]:
    return {
        "journals": _sizes(journals),
        "segments": _sizes(segment.path for segment in segments.chosen),
        "replaced": _sizes([*store.retired_dir.glob("*"), *(each.path for each in segments.superseded)]),
        "indexes": _sizes(store.index_dir.glob("*.arrow")),
        "blobs": _sizes(path for path in store.blobs_dir.glob("??/*") if not path.name.endswith(".tmp")),
    }


def _sizes(paths: Iterable[Path]) -> FileCount:
    sizes = [path.stat().st_size for path in paths]
    return FileCount(files=len(sizes), bytes=sum(sizes))


def column_statistics(metadata: pq.FileMetaData, column: str) -> list[pq.Statistics | None]:
    """Return the statistics of a column for each row group."""
    names = [metadata.schema.column(place).path for place in range(len(metadata.schema))]
    place = names.index(column)
    return [metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)]
