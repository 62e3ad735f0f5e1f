"""Small journals are sealed where they were written, large ones by a child process, with the same result."""

import pyarrow.parquet as pq
import pytest

from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.sealing import seal, seal_child
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.recorder.stores import record_streams


@pytest.fixture
def children(monkeypatch):
    """The journals for which a child process was started."""
    started, start = [], seal_child.start_child
    monkeypatch.setattr(seal_child, "start_child", lambda *given: (started.append(given[1].path), start(*given))[1])
    return started


@pytest.mark.parametrize(("most", "is_small"), [(seal_child.SMALL_BYTES, True), (0, False)])
async def test_only_a_large_journal_needs_a_child(tmp_path, monkeypatch, children, most, is_small):
    """Either way all events are in a segment and no journal is left."""
    monkeypatch.setattr(seal_child, "SMALL_BYTES", most)
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp") as recorder:
        await record_streams(recorder, 2, 3)
    assert len(children) == (0 if is_small else 1)
    assert list(store.journal_dir.glob("*.journal")) == []
    assert len(store.segment_paths()) == 1
    assert len(list(read_envelopes(store.root))) == 2 * (2 * 3 + 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError()])
async def test_what_cannot_be_sealed_here_is_left_to_a_child(tmp_path, monkeypatch, children, error):
    """It tries again, and says why if it fails too. The recorder goes on."""

    def refuse(*_):
        raise error

    monkeypatch.setattr("lhaw_record.recorder.sealing.seal.seal", refuse)
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp") as recorder:
        await record_streams(recorder, 1, 1)
    assert len(children) == len(store.segment_paths()) == 1


async def test_a_row_group_is_made_of_parts(tmp_path, monkeypatch):
    """Some lack event types that others have. The rows stay the same, in one row group."""
    monkeypatch.setattr(seal, "_DECODED_AT_ONCE", 2)
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp") as recorder:
        await record_streams(recorder, 2, 3)
        before = list(read_envelopes(store.root))
    (segment,) = store.segment_paths()
    assert pq.read_metadata(segment).num_row_groups == 1
    assert sorted(read_envelopes(store.root), key=_place) == sorted(before, key=_place)


def _place(envelope):
    return envelope.stream_id, envelope.sequence
