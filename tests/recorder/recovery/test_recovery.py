"""What a death leaves behind: nothing acknowledged lost, nothing half-written seen, recovering twice equals once."""

import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter

import msgspec
import pytest

from lhaw_record.recorder.errors import DamagedStore, NewerData, RecordingFailed
from lhaw_record.recorder.events import Envelope, RunFinished, TrialFailed
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes, read_snapshot
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.journal import JournalFile, new_header, read_journal
from lhaw_record.recorder.storage.journal_format import record, scan
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.recorder.stores import record_streams, started
from tests.support.needs import skip_for

WRITER = """
    import sys
    from pathlib import Path
    import anyio
    from lhaw_record.recorder.writing.store_recorder import StoreRecorder
    from lhaw_record.recorder.storage.creation import create_store
    from tests.recorder.stores import record_streams

    async def main():
        acknowledged = open(sys.argv[2], "a", buffering=1)
        async with StoreRecorder(create_store(Path(sys.argv[1])), "exp", rotate_bytes=20000) as recorder:
            await record_streams(recorder, 8, 100, lambda stream: acknowledged.write(stream + "\\n"))

    anyio.run(main)
"""


def killed_writer(tmp_path, delay_s):
    """Kill a writer some seconds after its first event; return its store and each stream's acknowledged events."""
    root, log = tmp_path / "store", tmp_path / "acknowledged.txt"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITER), str(root), str(log)], env=environment)
    while not (log.exists() and log.stat().st_size):
        assert child.poll() is None
        time.sleep(0.005)
    time.sleep(delay_s)
    child.send_signal(signal.SIGKILL)
    child.wait()
    return root, Counter(log.read_text().splitlines())


def recover_everything(root):
    """Recover until no journal is left: children of the dead writer may still be sealing some."""
    store = create_store(root)
    for _ in range(200):
        recover(store)
        if not store.journals():
            return
        time.sleep(0.05)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(8))
def test_nothing_acknowledged_is_lost_to_sigkill(tmp_path, seed):
    """Killed at a random instant: every acknowledged event is there once, in order, before and after recovery."""
    root, acknowledged = killed_writer(tmp_path, random.Random(seed).uniform(0.0, 0.4))
    for is_recovered in (False, True):
        if is_recovered:
            recover_everything(root)
        streams = {}
        for envelope in read_envelopes(root):
            streams.setdefault(envelope.stream_id, []).append(envelope.sequence)
        for stream_id, count in acknowledged.items():
            assert len(streams[stream_id]) >= count
        for sequences in streams.values():
            assert sorted(sequences) == list(range(len(sequences)))
    report = verify(root)
    assert (report.findings, report.open_streams, report.journals) == ((), 0, 0)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*.parquet")}
    assert recover(create_store(root)) == []
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*.parquet")} == before


async def _abandoned(tmp_path):
    """A store whose writer died without a word: its journal as it was in the middle of a run."""
    store = create_store(tmp_path / "running")
    async with StoreRecorder(store, "exp") as recorder:
        await record_streams(recorder, 3, 2)
        stream = recorder.stream("open", trial_id="t-open", attempt=4)
        await stream.append(started(1), started(2))
        shutil.copytree(store.root, tmp_path / "dead")
    return tmp_path / "dead"


async def test_open_streams_are_closed_as_interrupted(tmp_path):
    """Recovery appends trial_failed at boundary recorder with a retry owed, chained to the stream, and seals."""
    root = await _abandoned(tmp_path)
    assert read_snapshot(root).live_streams == frozenset()
    (report,) = recover(create_store(root))
    assert (report.records, report.closed_streams, report.action) == (18, ("open",), "sealed")
    last = [envelope for envelope in read_envelopes(root) if envelope.stream_id == "open"][-1]
    assert (last.sequence, last.trial_id, last.attempt) == (2, "t-open", 4)
    assert isinstance(last.event, TrialFailed)
    assert (last.event.boundary, last.event.is_retry_owed) == ("recorder", True)
    assert verify(root).findings == ()


@pytest.mark.parametrize("added", [{"type": "robot_waved"}, {"weather": "sunny"}], ids=["a type", "a field"])
def test_a_journal_of_a_newer_version_is_left_to_it(added, tmp_path):
    """Sealing would drop what this version does not know, and the stream's digest would fail."""
    store = create_store(tmp_path / "store")
    journal = JournalFile(store, new_header(JournalName("w92164c1d1ca4", 1), "exp", 0))
    plain = msgspec.to_builtins(
        Envelope(
            stream_id="s",
            sequence=0,
            recorded_at_us=1,
            elapsed_ns=0,
            writer_id="w92164c1d1ca4",
            experiment_id="exp",
            event=started(1),
        )
    )
    journal.append([record(msgspec.msgpack.encode({**plain, "event": plain["event"] | added}))])
    journal.close()
    written = journal.path.read_bytes()
    with pytest.raises(NewerData, match="use the newest lhaw-record"):
        recover(store)
    assert journal.path.read_bytes() == written
    assert recover(store, experiment_id="another") == []


DIES_IN_ROTATION = """
    import os
    import sys
    from pathlib import Path
    import anyio
    from lhaw_record.recorder.writing import recorder as recorder_module
    from lhaw_record.recorder.writing.store_recorder import StoreRecorder
    from lhaw_record.recorder.storage.creation import create_store
    from tests.recorder.stores import record_streams

    async def main():
        recorder_module.JournalFile.write_footer = lambda journal: os._exit(9)
        async with StoreRecorder(create_store(Path(sys.argv[1])), "exp", rotate_bytes=20000) as recorder:
            await record_streams(recorder, 8, 100, lambda stream: None)

    anyio.run(main)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("held", [None, 0, 1], ids=["nothing held", "the first held", "the second held"])
def test_two_unfinished_journals_of_one_writer_close_a_stream_once(tmp_path, held):
    """A death in rotation leaves two journals without a footer; in whatever order they are recovered, one closing."""
    root = tmp_path / "store"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(DIES_IN_ROTATION), str(root)]
    assert subprocess.run(command, env=environment, check=False).returncode == 9
    store = create_store(root)
    paths = list(store.journals().values())
    assert [read_journal(path, path.read_bytes()).footer for path in paths] == [None, None]
    if held is not None:
        with paths[held].open("rb") as busy:
            fcntl.flock(busy, fcntl.LOCK_EX)
            assert [report.journal for report in recover(store)] == [paths[1 - held].name]
    recover(store)
    assert not store.journals()
    streams = {}
    for envelope in read_envelopes(root):
        streams.setdefault(envelope.stream_id, []).append(envelope)
    for envelopes in streams.values():
        in_order = sorted(envelopes, key=lambda each: each.sequence)
        assert [each.sequence for each in in_order] == list(range(len(in_order)))
        assert [isinstance(each.event, TrialFailed) for each in in_order] == [False] * (len(in_order) - 1) + [True]
    assert verify(root).findings == ()


async def test_a_dry_run_changes_nothing(tmp_path):
    """--dry-run reports what recovery would do and leaves every byte."""
    root = await _abandoned(tmp_path)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    (report,) = recover(Store(root), is_dry_run=True)
    assert report.closed_streams == ("open",)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


async def test_a_journal_cut_anywhere_recovers_a_prefix(tmp_path):
    """Cut at every byte, a journal gives the whole records before the cut, and never an error."""
    root = await _abandoned(tmp_path)
    ((_, path),) = Store(root).journals().items()
    data = path.read_bytes()
    whole = read_journal(path, data).payloads
    last = 0
    for cut in range(len(data) + 1):
        content = read_journal(path, data[:cut])
        if content is not None:
            assert content.payloads == whole[: len(content.payloads)]
            last = len(content.payloads)
    assert last == len(whole)


async def test_a_torn_journal_is_recovered_and_reported(tmp_path):
    """The bytes of a record that never finished are cut, counted, and recovery goes on."""
    root = await _abandoned(tmp_path)
    ((_, path),) = Store(root).journals().items()
    path.write_bytes(path.read_bytes() + b"\xc1LHW\x40\x00")
    assert any("unfinished commit" in warning for warning in read_snapshot(root).warnings)
    (report,) = recover(create_store(root))
    assert report.torn_bytes > 0
    assert verify(root).findings == ()


async def test_damage_in_the_middle_is_no_torn_tail(tmp_path):
    """A flipped bit before whole records stops reading and recovery, with the file and the byte named."""
    root = await _abandoned(tmp_path)
    ((_, path),) = Store(root).journals().items()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)
    assert scan(bytes(data))[1].is_corrupt
    with pytest.raises(DamagedStore, match="damaged at byte"):
        read_snapshot(root)
    with pytest.raises(DamagedStore):
        recover(create_store(root))
    assert path.read_bytes() == data
    assert "damaged at byte" in verify(root).findings[0].problem


@pytest.mark.thorough
async def test_flipped_bits_in_a_segment_are_found(tmp_path):
    """A flipped bit is found with its file named, or it changed no event (a statistic that nobody reads)."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp") as recorder:
        await record_streams(recorder, 3, 50)
    (path,) = store.segment_paths()
    good, whole = path.read_bytes(), read_envelopes(store.root)
    found_count = 0
    for position in range(4, len(good), len(good) // 60):
        path.write_bytes(good[:position] + bytes([good[position] ^ 0x10]) + good[position + 1 :])
        findings = verify(store.root).findings
        assert all(found.file == str(path) for found in findings)
        assert findings or read_envelopes(store.root) == whole
        found_count += bool(findings)
    assert found_count > 20  # the others hit statistics and headers that change nothing


async def test_a_run_that_died_is_closed_too(tmp_path):
    """The run's own stream ends with run_finished, outcome interrupted."""
    from lhaw_record.recorder.events import RunStarted

    store = create_store(tmp_path / "running")
    async with StoreRecorder(store, "exp") as recorder:
        stream = recorder.stream("run-1")
        await stream.append(
            RunStarted(
                run_id="run-1", config_json="{}", config_digest="d", code_version="0", packages=(),
                python_version="3", platform="p", cpu_count=1, planned_trials=1, finished_before=0,
            )
        )  # fmt: skip
        shutil.copytree(store.root, tmp_path / "dead")
    recover(create_store(tmp_path / "dead"))
    last = read_envelopes(tmp_path / "dead")[-1].event
    assert isinstance(last, RunFinished)
    assert last.outcome == "interrupted"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        skip_for("mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_stops_the_recorder_and_spares_the_store(small_disk):
    """On a small real file system: appending fails with advice, what was acknowledged stays, the store is readable."""
    store = create_store(small_disk / "store")
    acknowledged = 0

    async def fill():
        nonlocal acknowledged
        async with StoreRecorder(store, "exp") as recorder:
            stream = recorder.stream("s", trial_id="t", attempt=1)
            while True:
                await stream.append(started(acknowledged))
                acknowledged += 1

    with pytest.raises(RecordingFailed, match="No space left on device"):
        await fill()
    assert acknowledged > 100
    assert len(read_envelopes(store.root)) >= acknowledged
    assert verify(store.root).findings == ()
