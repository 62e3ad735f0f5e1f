"""Compaction: small segments become larger ones and no event changes, in bounded groups, one process at a time."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.sealing import compaction
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.segment_writer import write_segment
from lhaw_record.recorder.storage.segments import list_segments
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.workload import InProcess
from tests.recorder.stores import record_streams


async def _small_segments(root, *experiments, rotate_bytes=6000):
    store = create_store(root)
    for experiment in experiments:
        async with StoreRecorder(store, experiment, rotate_bytes=rotate_bytes, start_sealing=InProcess) as recorder:
            await record_streams(recorder, 6, 10, prefix=experiment)
    return store


def _all(root):
    return sorted(read_envelopes(root), key=lambda each: (each.experiment_id, each.stream_id, each.sequence))


async def test_every_event_is_there_once_after_merging(tmp_path):
    """Small segments of one experiment become one; each event is read once, before and after their removal."""
    store = await _small_segments(tmp_path / "store", "a", "b")
    before, small = _all(store.root), len(list_segments(store).chosen)
    assert small > 4
    merged = compact(store)
    assert [each.action for each in merged] == ["merged", "merged"]
    assert sum(each.segments for each in merged) == small
    assert _all(store.root) == before
    assert list_segments(store).superseded == ()
    assert len(list(store.retired_dir.iterdir())) == small
    removed = compact(store, grace_s=0.0)
    assert [each.action for each in removed] == ["removed"] * small
    assert _all(store.root) == before
    assert list(store.retired_dir.iterdir()) == []
    assert len(store.segment_paths()) == len(list(store.index_dir.iterdir())) == 2
    assert verify(store.root).findings == ()


async def test_groups_stay_below_the_largest_size(tmp_path, monkeypatch):
    """No merged segment is larger than the limits in records and in bytes: they bound the memory."""
    store = await _small_segments(tmp_path / "store", "a")
    records = max(segment.records for segment in list_segments(store).chosen)
    monkeypatch.setattr(compaction, "MOST_RECORDS", 3 * records)
    merged = compact(store, is_dry_run=True)
    assert len(merged) > 1
    assert all(each.records <= 3 * records for each in merged)
    monkeypatch.setattr(compaction, "MOST_BYTES", 1)
    assert compact(store, is_dry_run=True) == []


async def test_columns_of_a_newer_version_are_kept(tmp_path):
    """An event type that this version does not know goes through a merge unchanged."""
    store = await _small_segments(tmp_path / "store", "a")
    known = pa.table(
        {
            "stream_id": ["new"], "sequence": pa.array([0], pa.int64()), "type": ["robot_waved"],
            "version": pa.array([1], pa.int32()), "recorded_at_us": pa.array([5], pa.int64()),
            "elapsed_ns": pa.array([5], pa.int64()), "writer_id": ["w00000000000f"], "experiment_id": ["a"],
            "trial_id": pa.array([None], pa.string()), "attempt": pa.array([None], pa.int32()),
            "robot_waved": [{"hands": 2}],
        }
    )  # fmt: skip
    name = JournalName("w00000000000f", 1)
    write_segment(store, "a", str(name), schema=known.schema, tables=[known], covers=(name,))
    compact(store, grace_s=0.0)
    (path,) = store.segment_paths()
    rows = pq.read_table(path, partitioning=None).to_pylist()
    assert [row["robot_waved"] for row in rows if row["stream_id"] == "new"] == [{"hands": 2}]


async def test_damage_is_not_merged(tmp_path):
    """A segment with a flipped bit stops the merge before its bytes get a good checksum."""
    store = await _small_segments(tmp_path / "store", "a")
    path = store.segment_paths()[0]
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedStore, match="cannot be read"):
        compact(store)
    assert not any(path.name.startswith("c") for path in store.segment_paths())


@pytest.mark.thorough
async def test_the_command_says_what_it_would_do_and_does_it(tmp_path, capsys):
    """--dry-run changes nothing; without it the same is done."""
    store = await _small_segments(tmp_path / "store", "a", "b")
    before = sorted(store.root.rglob("*"))
    assert main(["log", "compact", str(store.root), "--dry-run", "--experiment", "b", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("to merge,b,")
    assert sorted(store.root.rglob("*")) == before
    assert main(["log", "compact", str(store.root), "--experiment", "b", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("merged,b,")
    assert main(["log", "compact", str(store.root), "--experiment", "b", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == []


async def test_a_second_compactor_says_that_another_is_at_it(tmp_path, capsys):
    """While another process holds the lock, the command says so and exits 1."""
    store = await _small_segments(tmp_path / "store", "a")
    with store.try_to_hold("compaction"):
        assert compact(store) is None
        assert main(["log", "compact", str(store.root)]) == 1
    assert "another process is compacting" in capsys.readouterr().err
