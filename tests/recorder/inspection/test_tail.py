"""``log tail``: the newest events wherever they lie, and with --follow each new one exactly once."""

import random

import pyarrow.parquet as pq
import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.inspection.tail import Tail
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.recorder import Clock
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.workload import InProcess
from tests.recorder.stores import failed, finished, record_streams, started


def _keys(lines):
    return [(line.stream_id, line.sequence) for line in lines]


def _in_time(root, stream_id=None):
    found = sorted(
        read_envelopes(root, stream_id), key=lambda each: (each.recorded_at_us, each.stream_id, each.sequence)
    )
    return [(each.stream_id, each.sequence) for each in found]


async def test_the_last_events_are_those_of_a_full_read(tmp_path):
    """From many segments, a merged one and an open journal: the same as sorting every event."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp", rotate_bytes=5000, start_sealing=InProcess) as recorder:
        await record_streams(recorder, 5, 12)
        for _ in range(2):
            for count in (0, 1, 7, 60, 10_000):
                assert _keys(Tail(store.root).last(count)) == _in_time(store.root)[max(0, 125 - count) :]
            assert _keys(Tail(store.root, "s3").last(4)) == _in_time(store.root, "s3")[-4:]
            compact(store)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("week_us", [7 * 86_400_000_000, -7 * 86_400_000_000])
async def test_a_clock_that_jumps_a_week_hides_and_reorders_nothing(tmp_path, week_us):
    """Forth and back, or back and forth: events keep the order of recording, before and after sealing."""
    store = create_store(tmp_path / "store")
    now_us = 1_800_000_000_000_000
    clock = Clock(wall_us=lambda: now_us)
    recorded = []
    followed = Tail(store.root)
    followed.last(1)
    async with StoreRecorder(store, "exp", clock=clock, rotate_bytes=2000, start_sealing=InProcess) as recorder:
        streams = [recorder.stream(name, trial_id=name, attempt=1) for name in ("b", "a")]
        for jump_us in (0, week_us, -week_us, -week_us, week_us):
            now_us += jump_us
            for stream in streams:
                for index in range(6):
                    now_us += 1000
                    await stream.append(started(index) if index % 2 == 0 else finished(index))
            recorded += _keys(followed.new())
            compact(store)
            for name in "ab":
                sequences = [sequence for each, sequence in _in_time(store.root) if each == name]
                assert sequences == list(range(len(sequences)))
        for stream in streams:
            await stream.append(failed())
    assert len(recorded) == len(set(recorded)) == 60
    envelopes = read_envelopes(store.root)
    assert min(each.elapsed_ns for each in envelopes) >= 0
    assert verify(store.root).findings == ()


async def test_only_the_newest_row_groups_are_read(tmp_path, monkeypatch):
    """Of many segments with older events not one row is read."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp", rotate_bytes=5000, start_sealing=InProcess) as recorder:
        for prefix in "abcdef":
            await record_streams(recorder, 5, 5, prefix=prefix)
    read = []
    whole = pq.ParquetFile.read_row_group
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lambda file, *a, **k: read.append(1) or whole(file, *a, **k))
    assert len(Tail(store.root).last(3)) == 3
    assert len(store.segment_paths()) > 8
    assert len(read) <= 6


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(5))
async def test_following_shows_each_event_once(tmp_path, seed):
    """While streams grow, journals are sealed and segments merged between two looks, nothing is missed or doubled."""
    chance = random.Random(seed)
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp", rotate_bytes=3000, start_sealing=InProcess) as recorder:
        old = recorder.stream("old", trial_id="t", attempt=1)
        await old.append(*(started(index) for index in range(5)))
        tail = Tail(store.root)
        shown = _keys(tail.last(1000))
        streams = [old, *(recorder.stream(f"s{number}", trial_id="t", attempt=1) for number in range(3))]
        for _ in range(40):
            for _ in range(chance.randrange(12)):
                stream = chance.choice(streams)
                await stream.append(started(1), finished(1, "x" * chance.randrange(200)))
            if chance.random() < 0.2:
                compact(store, grace_s=3600.0)
            shown += _keys(tail.new())
        for stream in streams:
            await stream.append(failed())
    shown += _keys(tail.new())
    assert len(shown) == len(set(shown))
    assert sorted(shown) == sorted(_in_time(store.root))
    assert tail.new() == []


async def test_one_stream_can_be_followed(tmp_path):
    """Other streams' events are not shown."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp", start_sealing=InProcess) as recorder:
        stream, other = (recorder.stream(name, trial_id="t", attempt=1) for name in ("mine", "other"))
        await stream.append(started(1))
        tail = Tail(store.root, "mine")
        assert _keys(tail.last(10)) == [("mine", 0)]
        await other.append(started(1), failed())
        await stream.append(started(2), failed())
        assert _keys(tail.new()) == [("mine", 1), ("mine", 2)]


async def test_the_command_names_a_stream_that_is_not_there(tmp_path, capsys):
    """A mistyped stream is an error, not an empty table."""
    store = create_store(tmp_path / "store")
    assert main(["log", "tail", str(store.root), "--stream", "nobody"]) == 1
    assert "has no stream 'nobody'" in capsys.readouterr().err
    assert main(["log", "tail", str(store.root), "--format", "json"]) == 0
    assert capsys.readouterr().out == "[]\n"
