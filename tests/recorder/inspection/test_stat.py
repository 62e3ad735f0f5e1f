"""``log stat``: the numbers of a store agree with its events, and looking writes nothing."""

import json
import shutil
from collections import Counter

from lhaw_record.command_line import main
from lhaw_record.recorder.events import type_name
from lhaw_record.recorder.inspection.stat import stat
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.workload import InProcess
from tests.recorder.stores import record_streams, started


async def _busy_store(root):
    """Segments and an open journal: closed streams, and one that goes on; a copy as a death would leave it."""
    store = create_store(root)
    async with StoreRecorder(store, "exp", rotate_bytes=6000, start_sealing=InProcess) as recorder:
        await record_streams(recorder, 4, 10)
        stream = recorder.stream("open", trial_id="t0", attempt=2)
        await stream.append(started(1))
        yield store
        shutil.copytree(store.root, root.with_name("dead"))
    yield Store(root.with_name("dead"))


async def test_the_numbers_are_those_of_the_events(tmp_path):
    """Types, trials, experiments and times agree with a full read; live and interrupted streams are told apart."""
    looks = []
    async for store in _busy_store(tmp_path / "store"):
        found, envelopes = stat(store.root), read_envelopes(store.root)
        assert found.events == len(envelopes)
        assert found.event_types == Counter(type_name(type(each.event)) for each in envelopes)
        times_us = [each.recorded_at_us for each in envelopes]
        assert (found.first_us, found.last_us) == (min(times_us), max(times_us))
        (experiment,) = found.experiments
        assert (experiment.experiment_id, experiment.events) == ("exp", len(envelopes))
        assert (experiment.trials, experiment.failed) == (4, 4)
        looks.append((found.streams.closed, found.streams.live, found.streams.interrupted))
    assert looks == [(4, 1, 0), (4, 0, 1)]


async def test_what_compaction_would_do_is_what_it_does(tmp_path):
    """Mergeable segments and replaced files are counted, and bytes are those of the files."""
    async for store in _busy_store(tmp_path / "store"):
        last = store
    recover(create_store(last.root))
    before = stat(last.root)
    (merged,) = compact(create_store(last.root))
    assert (before.mergeable_segments, before.merged_segments) == (merged.segments, 1)
    after = stat(last.root)
    assert (after.mergeable_segments, after.files["replaced"].files) == (0, merged.segments)
    assert after.files["segments"].bytes == merged.path.stat().st_size
    assert (after.events, after.streams, after.problems) == (before.events, before.streams, ())


async def test_two_experiments_with_one_trial_are_two(tmp_path):
    """Streams of the same name in two experiments are counted apart."""
    store = create_store(tmp_path / "store")
    for experiment in ("a", "b"):
        async with StoreRecorder(store, experiment, start_sealing=InProcess) as recorder:
            await record_streams(recorder, 2, 1)
    found = stat(store.root)
    assert [(each.experiment_id, each.trials) for each in found.experiments] == [("a", 2), ("b", 2)]
    assert found.streams.closed == 4


async def test_damage_seen_in_passing_is_named(tmp_path, capsys):
    """A dead journal is a problem and no damage (0); a segment that is cut is damage (3), and the rest is counted."""
    async for store in _busy_store(tmp_path / "store"):
        last = store
    assert main(["log", "stat", str(last.root)]) == 0
    assert "has no living writer; 'log recover'" in capsys.readouterr().err
    path = last.segment_paths()[0]
    path.write_bytes(path.read_bytes()[:-20])
    (last.index_dir / f"{path.stem}.arrow").unlink()
    assert main(["log", "stat", str(last.root), "--format", "json"]) == 3
    shown = json.loads(capsys.readouterr().out)
    assert str(path) in shown["problems"][0]
    assert shown["events"] > 0


async def test_an_empty_and_a_read_only_store(tmp_path, capsys):
    """A store without events has no times; looking at a store writes nothing."""
    store = create_store(tmp_path / "store")
    before = {path: path.stat().st_mtime_ns for path in store.root.rglob("*")}
    assert main(["log", "stat", str(store.root), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["events"], shown["first_us"], shown["bytes_per_event"]) == (0, None, None)
    assert {path: path.stat().st_mtime_ns for path in store.root.rglob("*")} == before
