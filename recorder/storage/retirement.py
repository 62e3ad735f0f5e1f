"""Retires segments: moves them out of ``events`` once a merged segment replaces them, so that no event is read twice.

``STORE/retired/<experiment>@<name>.replaced`` keeps their bytes for a while, for readers of this program that already
have the old path. The merged segment is already durable, so losing a retired file loses nothing.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lhaw_record.recorder.storage.segments import RETIRED_SUFFIX, StoreSegment, StoreSegments, describe, retired_path
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.storage.stream_index import remove_index

GRACE_S = 3600.0
"""How long a replaced segment is kept for readers that have already listed it, in seconds."""


def retire(store: Store, superseded: Iterable[StoreSegment]) -> list[StoreSegment]:
    """Move superseded segments out of ``events``, and return the segments that this call moved."""
    moved = []
    folders = set()
    for segment in superseded:
        store.disk.make_directory(store.retired_dir)
        remove_index(store, segment.path)
        with suppress(FileNotFoundError):  # another process retired it
            store.disk.rename(segment.path, retired_path(segment.path))
            moved.append(segment)
            folders.add(segment.path.parent)
    if moved:
        store.disk.sync_directory(store.root)
        for folder in (store.retired_dir, *sorted(folders)):
            store.disk.sync_directory(folder)
    return moved


def over_age(store: Store, grace_s: float) -> list[Path]:
    """Return the files that were retired at least ``grace_s`` seconds ago."""
    now_s = time.time()
    return [path for path in sorted(store.retired_dir.glob(f"*{RETIRED_SUFFIX}")) if _age_s(path, now_s) >= grace_s]


def _age_s(path: Path, now_s: float) -> float:
    try:
        return now_s - path.stat().st_ctime  # the rename set it
    except FileNotFoundError:
        return -1.0


def retired_segment(path: Path) -> StoreSegment:
    """Return the segment that a retired file was, with its old path."""
    experiment, _, name = path.name.removesuffix(RETIRED_SUFFIX).rpartition("@")
    return describe(path.parents[1] / "events" / f"experiment={experiment}" / name, path)


def list_retired(store: Store) -> list[StoreSegment]:
    """Return the retired segments, under their old paths."""
    return [retired_segment(path) for path in sorted(store.retired_dir.glob(f"*{RETIRED_SUFFIX}"))]


def expired(segments: StoreSegments, grace_s: float = GRACE_S) -> list[StoreSegment]:
    """Return superseded segments whose replacement is at least ``grace_s`` seconds old, by its file time."""
    holders = {name: segment for segment in segments.chosen for name in segment.covers}
    now_s = time.time()
    return [
        segment
        for segment in segments.superseded
        if all(now_s - holders[name].path.stat().st_mtime >= grace_s for name in segment.covers)
    ]
