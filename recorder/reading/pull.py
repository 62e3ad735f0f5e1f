"""Updates a working copy: fetches segments that other hosts published, and removes segments that were merged.

A segment appears in the working copy only after it has appeared in the remote store, whether it was fetched or sealed
on this host. So a segment that is in the working copy but no longer in the remote store was replaced by a merged one.
It is removed after a grace period for readers on this host.
"""

import os
import secrets
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, pairwise
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.errors import DamagedStore, StoreError
from lhaw_record.recorder.files.layout import is_segment
from lhaw_record.recorder.files.remote import Remote
from lhaw_record.recorder.storage.creation import check_remote
from lhaw_record.recorder.storage.retirement import expired
from lhaw_record.recorder.storage.segments import StoreSegment, StoreSegments, choose, describe
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.storage.stream_index import remove_index, write_index

_MOST_LISTINGS = 100
_LISTINGS_WITH_A_GAP = 3
_FETCHES_AT_ONCE = 8


def pull(store: Store, remote: Remote) -> StoreSegments:
    """Fetch all chosen segments into a working copy, and return the segments of the remote store.

    Processes on one host wait for each other, so that each segment is fetched once.
    """
    with store.hold("pull"):
        check_remote(store, remote)
        for look in range(_MOST_LISTINGS):
            here = store.segment_paths()  # before the remote: a segment published meanwhile must not look lost
            wanted = {store.root / name: name for name in remote.names("events") if is_segment(Path(name))}
            try:
                segments = _fetch(store, remote, wanted, is_gap_allowed=look >= _LISTINGS_WITH_A_GAP)
                if segments is not None:
                    _drop_replaced(store, segments, [path for path in here if path not in wanted])
                    return segments
            except FileNotFoundError:
                continue  # merged away after it was listed
    raise StoreError(f"{store.name} changed {_MOST_LISTINGS} times while it was being read; try again")


def _fetch(store: Store, remote: Remote, wanted: Mapping[Path, str], *, is_gap_allowed: bool) -> StoreSegments | None:
    """Fetch all merged segments to see which journals they cover, then the other segments that none of them covers.

    A listing is not a snapshot: it may miss a file but show a later one. Each writer's segments are published in order,
    so a gap in the numbers of a writer's journals reveals this.
    """
    with _Download(store, remote) as download:
        download.fetch({path: name for path, name in wanted.items() if path.name.startswith("c")})
        segments = choose([describe(path, download.place(path)) for path in wanted])
        if _has_gap(segments.chosen) and not is_gap_allowed:
            return None
        download.fetch({segment.path: wanted[segment.path] for segment in segments.chosen})
        download.install()
    return segments


def _has_gap(segments: Iterable[StoreSegment]) -> bool:
    covered = sorted(name for segment in segments for name in segment.covers)
    by_writer = (list(group) for _, group in groupby(covered, key=lambda name: name.writer_id))
    return any(
        group[0].number > 1 or any(after.number > before.number + 1 for before, after in pairwise(group))
        for group in by_writer
    )


class _Download:
    """Segments that are being fetched, all durable under temporary names before any is renamed."""

    def __init__(self, store: Store, remote: Remote) -> None:
        self._store = store
        self._remote = remote
        self._places: dict[Path, Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for place in self._places.values():
            self._store.disk.remove(place)

    def place(self, path: Path) -> Path:
        """Return the current path of a segment's bytes, temporary or final."""
        return self._places.get(path, path)

    def fetch(self, wanted: Mapping[Path, str]) -> None:
        """Fetch the segments that are missing in the working copy, several in parallel."""
        missing = {path: name for path, name in wanted.items() if path not in self._places and not path.exists()}
        for folder in {path.parent for path in missing}:
            self._store.disk.make_directory(folder)
            self._store.disk.sync_directory(folder.parent)
        for path in missing:
            self._places[path] = path.with_name(f"pull-{secrets.token_hex(4)}-{path.name}.tmp")
        with ThreadPoolExecutor(_FETCHES_AT_ONCE) as pool:
            list(pool.map(self._fetch_one, missing, missing.values()))

    def install(self) -> None:
        """Rename every segment to its final path, merged segments last because they may replace others."""
        for path in sorted(self._places, key=lambda path: (path.name.startswith("c"), path)):
            self._store.disk.rename(self._places.pop(path), path)
            self._store.disk.sync_directory(path.parent)

    def _fetch_one(self, path: Path, name: str) -> None:
        content = self._remote.get(name)
        try:
            rows = pq.read_table(pa.BufferReader(content), columns=["stream_id", "type"])
        except (pa.ArrowException, OSError) as error:
            raise DamagedStore(f"{name} in {self._remote.address} cannot be read ({error}); restore it") from error
        disk = self._store.disk
        descriptor = disk.create(self._places[path])
        try:
            disk.write(descriptor, content)
            disk.sync(descriptor)
        finally:
            os.close(descriptor)
        write_index(self._store, path, rows)


def _drop_replaced(store: Store, segments: StoreSegments, gone: Iterable[Path]) -> None:
    """Remove segments that the remote store no longer has, once their replacements are old enough."""
    replaced = [describe(path) for path in gone]
    for segment in replaced:
        if not segments.covered.issuperset(segment.covers):
            raise DamagedStore(
                f"{store.name} has lost {segment.path.relative_to(store.root)}, and no other segment there holds its "
                f"events. This host still has it: put {segment.path} back there, or move it away to go on without it"
            )
    for segment in expired(StoreSegments(segments.chosen, tuple(replaced))):
        remove_index(store, segment.path)
        store.disk.remove(segment.path)
