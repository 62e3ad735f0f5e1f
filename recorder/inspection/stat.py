"""What is in a store and what it takes on disk, from the ends of files, two narrow columns and the indexes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from recorder.compaction import mergeable
from recorder.inspection.stat_parts import Part, journal_part, segment_part
from recorder.reader import at_rest
from recorder.segments import Segments, list_segments
from recorder.store import Store

_THREADS = 4


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one kind."""

    files: int
    bytes: int


class ExperimentStat(msgspec.Struct, frozen=True, kw_only=True):
    """What one experiment has; ``attempts`` are those that were started, of ``trials`` different trials."""

    experiment_id: str
    events: int
    trials: int
    attempts: int
    finished: int
    failed: int


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    """Streams by their end: ``live`` ones have none yet but a living writer, ``interrupted`` ones neither."""

    closed: int
    live: int
    interrupted: int


class Stat(msgspec.Struct, frozen=True, kw_only=True):
    """A store in numbers. Times are UTC in microseconds since the epoch; None in a store without events.

    ``replaced`` are segments that compaction replaced and that stay for a while. ``mergeable_segments`` would become
    ``merged_segments`` by compaction. ``problems`` are what was seen in passing, ``is_damaged`` whether any of it is
    damage; only verification looks everywhere.
    """

    store: str
    events: int
    first_us: int | None
    last_us: int | None
    event_types: dict[str, int]
    experiments: tuple[ExperimentStat, ...]
    streams: Streams
    files: dict[str, Files]
    bytes_per_event: float | None
    mergeable_segments: int
    merged_segments: int
    problems: tuple[str, ...]
    is_damaged: bool


def stat(root: Path) -> Stat:
    """Return what is in a store now. Nothing is written.

    Raises:
        StoreError: There is no store, or it never holds still.
        DamagedStore: A compacted segment does not say what it covers.
    """
    store = Store(root)
    return at_rest(store, lambda: _look(store))


def _look(store: Store) -> Stat:
    journals = store.journals()
    segments = list_segments(store)
    with ThreadPoolExecutor(_THREADS) as pool:
        parts = [*pool.map(partial(segment_part, store), segments.chosen)]
    unsealed = {path: name for name, path in journals.items() if name not in segments.covered}
    parts += [part for path in unsealed if (part := journal_part(path)) is not None]
    types = sum((part.types for part in parts), Counter[str]())
    times_us = [each for part in parts for each in part.times_us]
    files = _files(store, segments, journals.values())
    events = types.total()
    readable = [segment for segment, part in zip(segments.chosen, parts, strict=False) if not part.problems]
    merges = list(mergeable(readable))
    return Stat(
        store=store.name,
        events=events,
        first_us=min(times_us, default=None),
        last_us=max(times_us, default=None),
        event_types=dict(types.most_common()),
        experiments=tuple(_experiment(name, parts) for name in sorted({part.experiment_id for part in parts})),
        streams=_streams(parts),
        files=files,
        bytes_per_event=sum(each.bytes for each in files.values()) / events if events else None,
        mergeable_segments=sum(map(len, merges)),
        merged_segments=len(merges),
        problems=tuple(problem for part in parts for problem in part.problems),
        is_damaged=any(part.is_damaged for part in parts),
    )


def _experiment(experiment_id: str, parts: Iterable[Part]) -> ExperimentStat:
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


def _streams(parts: Sequence[Part]) -> Streams:
    """Streams are told apart by their experiment too: two experiments may plan the same trial."""
    live_writers = {part.live_writer for part in parts}
    closed = begun = live = 0
    for experiment_id in {part.experiment_id for part in parts}:
        here = [part for part in parts if part.experiment_id == experiment_id]
        tables = [part.streams for part in here]
        living = [part.streams for part in here if not live_writers.isdisjoint(part.writers)]
        begun += _distinct([chunk for table in tables for chunk in table["stream_id"].chunks])
        closed += sum(_true_values(table["is_closed"]) for table in tables)
        live += _open(living)
    return Streams(closed=closed, live=live, interrupted=begun - closed - live)


def _open(tables: Sequence[pa.Table]) -> int:
    """How many streams of some tables have no end in any of them."""
    if not tables:
        return 0
    ends = pa.concat_tables(tables).group_by("stream_id").aggregate([("is_closed", "max")])
    return int(ends.num_rows) - _true_values(ends["is_closed_max"])


def _distinct(arrays: Sequence[pa.Array]) -> int:
    return int(pc.count_distinct(pa.chunked_array(arrays, pa.string())).as_py())


def _true_values(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)


def _files(store: Store, segments: Segments, journals: Iterable[Path]) -> dict[str, Files]:
    return {
        "journals": _sizes(journals),
        "segments": _sizes(segment.path for segment in segments.chosen),
        "replaced": _sizes([*store.retired_dir.glob("*"), *(each.path for each in segments.superseded)]),
        "indexes": _sizes(store.index_dir.glob("*.arrow")),
        "blobs": _sizes(path for path in store.blobs_dir.glob("??/*") if not path.name.endswith(".tmp")),
    }


def _sizes(paths: Iterable[Path]) -> Files:
    sizes = [path.stat().st_size for path in paths]
    return Files(files=len(sizes), bytes=sum(sizes))
