"""Segments are the immutable Parquet files of sealed events. This module decides which of them a reader uses.

A segment sealed from a journal covers that journal and has its name. A compacted segment covers the journals of all
segments it was merged from. Their names are in its metadata, so that readers know what it replaces.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.storage.store import Store

COVERS_KEY = b"lhaw_record.covers"
RETIRED_SUFFIX = ".replaced"


class StoreSegment(msgspec.Struct, frozen=True):
    """One segment file. ``covers`` are the journals whose events it holds. ``records`` is the row count in its name."""

    path: Path
    experiment_id: str
    records: int
    covers: tuple[JournalName, ...]


class StoreSegments(msgspec.Struct, frozen=True):
    """The segments of a store: ``chosen`` hold each event once, and ``superseded`` only duplicate those events."""

    chosen: tuple[StoreSegment, ...]
    superseded: tuple[StoreSegment, ...]

    @property
    def covered(self) -> frozenset[JournalName]:
        """The journals whose events are in the chosen segments."""
        return frozenset(name for segment in self.chosen for name in segment.covers)


def list_segments(store: Store) -> StoreSegments:
    """Return the current segments of the store."""
    return choose([describe(path) for path in store.segment_paths()])


def choose(segments: Iterable[StoreSegment]) -> StoreSegments:
    """Choose segments so that no journal is covered twice, preferring segments that cover more journals, then by name.

    All readers of the same files choose the same segments, even if two processes merged overlapping sets at once.
    """
    segments = list(segments)
    chosen: list[StoreSegment] = []
    superseded: list[StoreSegment] = []
    taken: set[JournalName] = set()
    for segment in sorted(segments, key=lambda each: (-len(each.covers), each.path.name)):
        is_free = taken.isdisjoint(segment.covers)
        (chosen if is_free else superseded).append(segment)
        taken.update(segment.covers if is_free else ())
    for segment in superseded:
        if missing := [name for name in segment.covers if name not in taken]:
            raise DamagedStore(
                f"{segment.path} overlaps with another compacted segment but is the only one with journal "
                f"{missing[0]}; restore the segments that it was merged from"
            )
    order = sorted(chosen, key=lambda each: each.covers)
    return StoreSegments(tuple(order), tuple(superseded))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Translate library errors from reading a segment into a DamagedStore error that names the file.

    A FileNotFoundError passes through: the segment was compacted away, and its replacement holds its events.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ArithmeticError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
        raise DamagedStore(
            f"{path} cannot be read ({error}); restore it from a backup. 'lhaw-record log verify' shows more"
        ) from error


def where_now(path: Path) -> Path:
    """Return the current path of a listed segment, which may have been retired."""
    if path.exists():
        return path
    retired = retired_path(path)
    return retired if retired.exists() else path


def retired_path(path: Path) -> Path:
    """Return the path of a segment after it was retired."""
    experiment = path.parent.name.removeprefix("experiment=")
    return path.parents[2] / "retired" / f"{experiment}@{path.name}{RETIRED_SUFFIX}"


def describe(path: Path, place: Path | None = None) -> StoreSegment:
    """Return the segment described by a file's name and, if it was compacted, its metadata."""
    name, _, records = path.stem.rpartition("-")
    covers = _covers(place or path) if name.startswith("c") else (JournalName.parse(name),)
    return StoreSegment(path, path.parent.name.removeprefix("experiment="), int(records), covers)


@lru_cache(maxsize=1024)
def _covers(path: Path) -> tuple[JournalName, ...]:
    try:
        metadata = pq.read_metadata(path).metadata or {}
        return tuple(JournalName.parse(text) for text in msgspec.json.decode(metadata[COVERS_KEY], type=list[str]))
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise DamagedStore(
            f"{path} does not say which journals it covers ({error}); restore it from a backup, or move it away "
            "while the segments that it was merged from are still there"
        ) from error
