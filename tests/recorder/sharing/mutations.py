"""Shared stores broken on purpose: each is a fault that publishing might well have, and that a test catches."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import lhaw_record.recorder.reading.pull
import lhaw_record.recorder.recovery.recovery
import lhaw_record.recorder.sealing.seal
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.files.remote import Remote
from lhaw_record.recorder.sharing.uploader import Uploader

MUTATION_VARIABLE = "LHAW_RECORD_TEST_MUTATION"
_UPLOAD_S = 20.0  # no test looks later than this after an acknowledgement


@contextmanager
def decisions_acknowledged_before_publication() -> Iterator[None]:
    """A decision is acknowledged when it is durable on its host; the way to the bucket is slow."""
    right = Remote.put

    async def at_once(self, number):
        self._ask_rotation()

    def slow(self, name, content):
        time.sleep(_UPLOAD_S if "experiment=exp/" in name else 0.0)
        right(self, name, content)

    with mock.patch.object(Uploader, "published", at_once), mock.patch.object(Remote, "put", slow):
        yield


@contextmanager
def journal_removed_before_the_upload() -> Iterator[None]:
    """The journal goes first, then its segment is uploaded."""
    right = lhaw_record.recorder.sealing.seal.write_segment

    def wrong(store, experiment_id, name, **arguments):
        store.disk.remove(store.journal_path(JournalName.parse(name)))
        return right(store, experiment_id, name, **arguments)

    with mock.patch.object(lhaw_record.recorder.sealing.seal, "write_segment", wrong):
        yield


@contextmanager
def named_here_before_the_upload() -> Iterator[None]:
    """A segment gets its name in the working copy first, then it is uploaded."""
    right = lhaw_record.recorder.sealing.seal.write_segment

    def wrong(store, experiment_id, name, **arguments):
        held = []
        with mock.patch.object(Remote, "put", lambda self, *file: held.append(file)):
            path = right(store, experiment_id, name, **arguments)
        for file in held:
            store.remote.put(*file)
        return path

    with mock.patch.object(lhaw_record.recorder.sealing.seal, "write_segment", wrong):
        yield


@contextmanager
def recovery_does_not_upload() -> Iterator[None]:
    """Recovery seals what a dead writer left, on its host only."""
    right = lhaw_record.recorder.recovery.recovery.seal

    def wrong(store, path):
        with mock.patch.object(Remote, "put"):
            return right(store, path)

    with mock.patch.object(lhaw_record.recorder.recovery.recovery, "seal", wrong):
        yield


@contextmanager
def publishing_goes_on_after_a_failure() -> Iterator[None]:
    """A journal is published though an earlier one of its writer was not."""

    def wrong(self, journal):
        return self._child.publish(journal)

    with mock.patch.object(Uploader, "_publish", wrong):
        yield


@contextmanager
def artifacts_stay_on_their_host() -> Iterator[None]:
    """Events that name an artifact are published without its bytes."""
    with mock.patch.object(lhaw_record.recorder.sealing.seal, "publish_blob"):
        yield


@contextmanager
def every_listing_is_believed() -> Iterator[None]:
    """A listing that misses a file is taken as it is."""
    with mock.patch.object(lhaw_record.recorder.reading.pull, "_has_gap", return_value=False):
        yield


MUTATIONS: tuple[Callable, ...] = (
    decisions_acknowledged_before_publication,
    journal_removed_before_the_upload,
    named_here_before_the_upload,
    recovery_does_not_upload,
    publishing_goes_on_after_a_failure,
    artifacts_stay_on_their_host,
    every_listing_is_believed,
)
"""Each is a context in which the program is wrong."""
