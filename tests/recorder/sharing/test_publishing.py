"""What is published and in which order, and what readers make of a listing that is behind."""

import hashlib
import sys
from pathlib import Path

import anyio
import pytest

from lhaw_record.recorder.errors import RecordingFailed, StoreError
from lhaw_record.recorder.events import ArtifactStored
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.files.remote import Remote
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.sharing.uploader import Uploader
from lhaw_record.recorder.storage.blobs import load_blob, store_blob
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.journal import JournalFile, new_header
from lhaw_record.recorder.storage.journal_format import record
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.recorder.sharing.hosts import ended_well
from tests.recorder.stores import failed

CONTENT = b"diff --git a/report.csv b/report.csv\n" * 100
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.mark.sampled(2)
def test_an_artifact_is_there_where_its_event_is(address, new_host):
    """When a trial's end is acknowledged, other hosts have its artifacts, also when its host is lost with its disk."""
    host, elsewhere = new_host(address), new_host(address)
    done = host.run("tests.recorder.sharing.test_publishing", host.root)
    assert done.returncode == 0, done.stderr
    host.lose_disk()
    assert len(read_envelopes(elsewhere.root)) == 2
    assert load_blob(elsewhere.store(), SHA256) == CONTENT
    assert verify(elsewhere.root).findings == ()


def test_hosts_that_make_a_store_at_once_make_one(address, new_host, monkeypatch):
    """A host that saw an empty place while another made a store there joins that store; neither refuses it later."""
    first, second = new_host(address), new_host(address)
    first_store = first.store()
    with monkeypatch.context() as late:
        late.setattr(Remote, "is_made", lambda self: False)
        late.setattr(Remote, "names", lambda self, folder: set())
        with pytest.raises(StoreError, match="holds no shared store"):
            second.store()  # it has made it, as it sees the place, and looks once more
    assert len(Remote(address).makers) == 2
    for root in (first_store.root, second.store().root, new_host(address).root):
        assert read_envelopes(root) == []


def test_nothing_is_published_after_a_journal_that_was_not(tmp_path):
    """The journals of a writer are published in order; after one that could not be, none is, and waiters are told."""
    store = create_store(tmp_path)
    publisher = Uploader(store, ask_rotation=lambda: None)
    publisher._child = child = _Child(failing=2)
    publications = [publisher.start(store, _closed_journal(store, number)) for number in (1, 2, 3)]
    exit_codes = [publication.wait() for publication in publications]
    publisher.close()
    assert child.published == [1]
    assert exit_codes == [0, 1, 1]
    with pytest.raises(RecordingFailed, match="log recover"):
        anyio.run(publisher.published, 3)


@pytest.mark.thorough
@pytest.mark.sampled(2)
def test_a_listing_that_misses_a_file_is_taken_again(address, new_host, monkeypatch):
    """Where a listing shows a later segment of a writer and not the first, readers list again and see no gap."""
    writer = new_host(address)
    ended_well([writer.start("tests.recorder.sharing.writer", address, "s", 2, 20)])
    right = Remote.names
    stale = []

    def names(self, folder):
        found = right(self, folder)
        if folder == "events" and len(stale) < 2:
            stale.append(min(name for name in found if "-000001-" in name))
            return found - {stale[-1]}
        return found

    monkeypatch.setattr(Remote, "names", names)
    sequences = {}
    for envelope in read_envelopes(new_host(address).root):
        sequences.setdefault(envelope.stream_id, []).append(envelope.sequence)
    assert {stream_id: sorted(found) for stream_id, found in sequences.items()} == {
        "s0": list(range(41)),
        "s1": list(range(41)),
    }
    assert len(stale) == 2


class _Child:
    """Stands for the child process that seals and uploads; one journal fails."""

    def __init__(self, failing):
        self._failing = failing
        self.published = []

    def publish(self, journal):
        if journal.name.number == self._failing:
            return False
        self.published.append(journal.name.number)
        return True

    def close(self):
        pass


def _closed_journal(store, number):
    journal = JournalFile(store, new_header(JournalName("w0123456789ab", number), "exp", 1))
    journal.append([record(b"an event")])
    journal.write_footer()
    return journal


async def _record(root):
    """Record one artifact and the end of its trial."""
    store = create_store(root)
    async with StoreRecorder(store, "exp") as recorder:
        stream = recorder.stream("s", trial_id="s", attempt=1)
        sha256 = store_blob(store, CONTENT)
        patch = ArtifactStored(
            sha256=sha256, media_type="text/x-diff", size_bytes=len(CONTENT), role="patch", name="report.diff"
        )
        await stream.append(patch, failed())


if __name__ == "__main__":
    anyio.run(_record, Path(sys.argv[1]))
