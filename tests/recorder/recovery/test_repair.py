"""Repair: a stream that an earlier version began twice becomes two, for every reader, and no stored byte changes."""

import errno
import hashlib
import shutil
from unittest import mock

import anyio
import pytest

from lhaw_record.analytics.views import store as stores
from lhaw_record.command_line import main
from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.events import TrialFailed
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.reading.streams import stream_ids
from lhaw_record.recorder.recovery.repair import repair
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from tests.crash.mutations import names_given_twice, streams_left_open
from tests.crash.test_io_errors import whatever_fails
from tests.crash.unsynced import UnsyncedDisk
from tests.crash.workload import record


@pytest.fixture(params=[False, True], ids=["as it was left", "merged"])
def damaged(request, tmp_path):
    """A store whose streams s0 and s1 were left open by an error, and begun again by the next run."""
    root = tmp_path / "store"
    no_recovery = mock.patch("lhaw_record.recorder.recovery.recovery.close_orphans", return_value=[])
    no_merging = mock.patch("tests.crash.workload.compact")
    with streams_left_open(), names_given_twice(), no_recovery, no_merging:
        whatever_fails(root, 3, errno.ENOSPC, root / "blobs", streams=2)
        anyio.run(lambda: record(root, UnsyncedDisk(), lambda stream_id: None, streams=2))
    if request.param:
        compact(Store(root), grace_s=0.0)
    return root


def _sealed(root):
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in Store(root).segment_paths()}


def _sequences(root):
    streams = {}
    for each in read_envelopes(root):
        streams.setdefault(each.stream_id, []).append(each.sequence)
    return {name: sorted(found) for name, found in streams.items()}


def test_both_recordings_are_whole_streams_afterwards(damaged, tmp_path, capsys):
    """Verified, counted once by queries, exported and imported; what was stored is as it was."""
    assert any("log repair" in found.problem for found in verify(damaged).findings)
    assert main(["log", "export", str(damaged), "-o", str(tmp_path / "no.jsonl")]) == 3
    before, events = _sealed(damaged), len(read_envelopes(damaged))
    planned = repair(Store(damaged), is_dry_run=True)
    assert [each.stream_id for each in planned] == ["s0", "s1"]
    assert _sealed(damaged) == before
    assert main(["log", "repair", str(damaged), "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("separated,exp,s0,")
    assert before.items() <= _sealed(damaged).items()

    own = {each.own_id for each in planned}
    assert stream_ids(damaged) == {"s0", "s1", *own}
    assert all(found == list(range(len(found))) for found in _sequences(damaged).values())
    assert sum(map(len, _sequences(damaged).values())) == events + 2
    for name in own:
        records = read_envelopes(damaged, name)
        assert {each.stream_id for each in records} == {name}
        assert isinstance(records[-1].event, TrialFailed)
        assert (records[-1].event.separated_from, records[-1].event.is_retry_owed) == (name.partition("-")[0], True)
    report = verify(damaged)
    assert (report.findings, report.open_streams, report.streams) == ((), 0, 4)
    with stores.open(damaged, only={"trials"}) as connection:
        found = connection.execute("select count(*), count(distinct (stream_id, sequence)) from events").fetchall()
    assert found == [(events + 2, events + 2)]

    assert main(["log", "export", str(damaged), "-o", str(tmp_path / "a.jsonl")]) == 0
    assert main(["log", "import", str(tmp_path / "a.jsonl"), "--store", str(tmp_path / "other")]) == 0
    assert _sequences(tmp_path / "other") == _sequences(damaged)
    assert repair(create_store(damaged)) == []
    compact(Store(damaged), grace_s=0.0)
    assert verify(damaged).findings == ()
    assert sum(map(len, _sequences(damaged).values())) == events + 2


def test_a_death_between_the_events_and_the_note_is_made_good(damaged):
    """Without the file of separations a repair writes it again, and closes nothing a second time."""
    repair(create_store(damaged))
    events = len(read_envelopes(damaged))
    shutil.rmtree(damaged / "repairs")
    assert verify(damaged).findings != ()
    repair(create_store(damaged))
    assert len(read_envelopes(damaged)) == events
    assert verify(damaged).findings == ()


def test_two_recordings_that_ended_are_left_to_a_person(tmp_path):
    """Two processes ran the same attempt: an error names both writers, and nothing is changed."""
    root = tmp_path / "store"
    with names_given_twice(), mock.patch("tests.crash.workload.compact"):
        for _ in range(2):
            anyio.run(lambda: record(root, UnsyncedDisk(), lambda stream_id: None, streams=1))
    before = _sealed(root)
    with pytest.raises(DamagedStore, match=r"was closed twice, in the recordings of w\w+ and w\w+"):
        repair(create_store(root))
    assert _sealed(root) == before
