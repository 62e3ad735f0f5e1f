"""The program broken on purpose: each is a fault that a recorder might well have, and that the harness must catch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import lhaw_record.recorder.recovery.recovery
import lhaw_record.recorder.sealing.compaction
import lhaw_record.recorder.sealing.seal
import lhaw_record.recorder.storage.journal
import lhaw_record.recorder.storage.journal_format
import lhaw_record.recorder.storage.manifest_check
import lhaw_record.recorder.writing.recorder
from tests.crash.tracing import TracingDisk


@contextmanager
def no_sync_of_directories() -> Iterator[None]:
    """Names are never made durable."""
    with mock.patch.object(TracingDisk, "sync_directory"):
        yield


@contextmanager
def acknowledged_before_the_sync() -> Iterator[None]:
    """A commit is acknowledged when it is written; the sync comes with the next one."""

    def late(self: lhaw_record.recorder.storage.journal.JournalFile, data: bytes) -> None:
        self._disk.sync(self.descriptor)
        self._disk.write(self.descriptor, data)
        self.size += len(data)

    with mock.patch.object(lhaw_record.recorder.storage.journal.JournalFile, "_write", late):
        yield


@contextmanager
def checksums_skipped() -> Iterator[None]:
    """A commit counts when it is long enough."""
    with mock.patch.object(lhaw_record.recorder.storage.journal_format, "_crc", return_value=0):
        yield


@contextmanager
def journal_dropped_before_the_segment() -> Iterator[None]:
    """The journal is removed first, then the segment gets its name."""
    right = lhaw_record.recorder.sealing.seal.write_segment

    def wrong(store, experiment_id, name, **arguments):
        store.disk.remove(store.journal_dir / f"{name}.journal")
        store.disk.sync_directory(store.journal_dir)
        return right(store, experiment_id, name, **arguments)

    with mock.patch.object(lhaw_record.recorder.sealing.seal, "write_segment", wrong):
        yield


@contextmanager
def renamed_before_the_sync() -> Iterator[None]:
    """Whole files get their name before their bytes are durable."""

    def sync(self: TracingDisk, descriptor: int) -> None:
        if self.path_of(descriptor).parent.name == "journal":
            self.really_sync(descriptor)

    with mock.patch.object(TracingDisk, "sync", sync):
        yield


@contextmanager
def replaced_removed_before_the_merge() -> Iterator[None]:
    """Compaction removes the small segments, then writes the merged one."""
    right = lhaw_record.recorder.sealing.compaction.write_segment

    def wrong(store, experiment_id, name, *, schema, tables, covers):
        tables = list(tables)
        for path in store.segment_paths():
            store.disk.remove(path)
            store.disk.sync_directory(path.parent)
        return right(store, experiment_id, name, schema=schema, tables=tables, covers=covers)

    with mock.patch.object(lhaw_record.recorder.sealing.compaction, "write_segment", wrong):
        yield


@contextmanager
def replaced_left_in_place() -> Iterator[None]:
    """What a merged segment replaces stays in the public folder for its time of grace."""
    with (
        mock.patch.object(lhaw_record.recorder.sealing.compaction, "retire"),
        mock.patch.object(lhaw_record.recorder.recovery.recovery, "retire"),
    ):
        yield


@contextmanager
def streams_left_open() -> Iterator[None]:
    """A recorder that ends leaves the streams of failed tasks as they are, and closes its journal in order."""
    with mock.patch.object(lhaw_record.recorder.writing.recorder.Recorder, "_close_streams"):
        yield


@contextmanager
def names_given_twice() -> Iterator[None]:
    """A recorder does not look which streams there are."""
    with mock.patch.object(lhaw_record.recorder.writing.recorder, "names_in_use", return_value=frozenset()):
        yield


ARTIFACT_MUTATIONS: tuple[Callable, ...] = (streams_left_open, names_given_twice)
"""Faults that show where an artifact cannot be kept."""


@contextmanager
def checksums_of_files_not_compared() -> Iterator[None]:
    """A segment counts as good when it is there."""
    with mock.patch.object(lhaw_record.recorder.storage.manifest_check, "_changed", return_value=None):
        yield


@contextmanager
def missing_files_not_looked_for() -> Iterator[None]:
    """What is in the store counts, whatever was begun."""
    with mock.patch.object(lhaw_record.recorder.storage.manifest_check, "_missing", return_value=[]):
        yield


@contextmanager
def marks_not_read() -> Iterator[None]:
    """A journal is as long as it is."""
    with mock.patch.object(lhaw_record.recorder.storage.manifest_check, "truncation", return_value=None):
        yield


DAMAGE_MUTATIONS: tuple[Callable, ...] = (
    checksums_of_files_not_compared,
    missing_files_not_looked_for,
    marks_not_read,
)
"""Faults that show where files are deleted, cut or changed."""

MUTATIONS: tuple[Callable, ...] = (
    no_sync_of_directories,
    acknowledged_before_the_sync,
    checksums_skipped,
    journal_dropped_before_the_segment,
    renamed_before_the_sync,
    replaced_removed_before_the_merge,
    replaced_left_in_place,
)
"""Each is a context in which the program is wrong."""
