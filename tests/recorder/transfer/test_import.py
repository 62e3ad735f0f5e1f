"""Import: nothing that is wrong gets in, and nothing half, whenever it ends."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from lhaw_record.recorder.errors import DamagedStore, RecordingFailed, StoreError
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.transfer.export import contents
from lhaw_record.recorder.transfer.import_file import read_export
from lhaw_record.recorder.transfer.import_streams import import_streams
from lhaw_record.recorder.writing import journal_writer
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.workload import InProcess
from tests.recorder.stores import failed, finished, record_streams, started
from tests.recorder.transfer.stores import all_events, export_lines_of, export_to, import_from, make_source


async def test_a_conflict_is_named_and_changes_nothing(tmp_path, capsys):
    """A stream of the same name with other events stays as it is, the others come in, and the exit code is 1."""
    for name, text in (("from", "mine"), ("to", "yours")):
        store = create_store(tmp_path / name)
        async with StoreRecorder(store, "exp", start_sealing=InProcess) as recorder:
            await recorder.stream("same", trial_id="t", attempt=1).append(finished(1, text), failed())
            await recorder.stream(f"only-{name}", trial_id="t", attempt=1).append(failed())
    before = read_envelopes(tmp_path / "to", "same")
    assert import_from(tmp_path / "from", tmp_path / "to") == 1
    assert f"stream same is in {tmp_path / 'to'} with other events" in capsys.readouterr().err
    assert read_envelopes(tmp_path / "to", "same") == before
    assert {each.stream_id for each in read_envelopes(tmp_path / "to")} == {"same", "only-from", "only-to"}
    assert verify(tmp_path / "to").findings == ()


async def test_open_streams_are_left_out(tmp_path, capsys):
    """A stream without its end would never get one here, and the next attempt of its trial would take its name."""
    store = create_store(tmp_path / "from")
    async with StoreRecorder(store, "exp", start_sealing=InProcess) as recorder:
        stream = recorder.stream("growing", trial_id="t", attempt=1)
        await stream.append(started(1))
        assert import_from(store.root, tmp_path / "to") == 0
        assert "stream growing has not ended and was left out" in capsys.readouterr().err
        assert read_envelopes(tmp_path / "to") == []
        await stream.append(failed())
        assert import_from(store.root, tmp_path / "to") == 0
        assert len(read_envelopes(tmp_path / "to")) == 2


async def test_a_running_experiment_is_not_written_to(tmp_path, capsys):
    """An import waits its turn: a run of the experiment could begin the same attempt meanwhile."""
    store = await make_source(tmp_path / "from", "a")
    target = create_store(tmp_path / "to")
    with target.hold_experiment("a"):
        assert import_from(store.root, target.root) == 1
        assert import_from(store.root, target.root, "--dry-run") == 0
    assert "is being run by process" in capsys.readouterr().err
    assert import_from(store.root, target.root) == 0


CHANGES = {
    "an event is gone": (lambda lines: lines[:5] + lines[6:], "is where|other totals"),
    "a value was changed": (lambda lines: _with(lines, b'"t2"', b'"t3"'), "digest|sums"),
    "spaces were added": (lambda lines: _with(lines, b'"sequence":', b'"sequence": '), "was changed"),
    "a field was added": (lambda lines: _with(lines, b'"sequence":', b'"colour":1,"sequence":'), "newer version"),
    "a type is unknown": (lambda lines: _with(lines, b"action_started", b"action_painted"), "is not a line"),
    "the end is missing": (lambda lines: lines[:-1], "ends early"),
    "lines follow": (lambda lines: lines + lines, "follows the last line"),
    "an artifact was changed": (lambda lines: _with(lines, b'"base64":"Y', b'"base64":"Z'), "not have the SHA-256"),
    "it is something else": (lambda lines: [b"hello\n"], "first line of an export"),
    "a newer format": (lambda lines: [b'{"export":{"format":3}}\n', *lines[1:]], "format 2"),
    "it is empty": (lambda lines: [], "ends early"),
}


def _with(lines, old, new):
    place = next(number for number, line in enumerate(lines) if old in line)
    return [*lines[:place], lines[place].replace(old, new), *lines[place + 1 :]]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("what", CHANGES)
async def test_a_changed_export_is_refused(tmp_path, what):
    """Every change is noticed, and only whole, unchanged streams are in the store then."""
    store = await make_source(tmp_path / "from", "a")
    change, message = CHANGES[what]
    target = create_store(tmp_path / "to")
    with pytest.raises((DamagedStore, StoreError), match=message):
        import_streams(target, read_export(change(export_lines_of(store)), "test"))
    report = verify(target.root)
    assert (report.findings, report.open_streams, report.journals) == ((), 0, 0)
    whole = {each.stream_id: [] for each in read_envelopes(target.root)}
    for stream_id in whole:
        assert read_envelopes(target.root, stream_id) == read_envelopes(store.root, stream_id)


@pytest.mark.thorough
async def test_a_cut_file_is_damaged(tmp_path, capsys):
    """Exit code 3, whichever way it is compressed; a file that is not there is 1."""
    store = await make_source(tmp_path / "from", "a")
    for name in ("a.jsonl", "a.jsonl.zst", "a.jsonl.gz"):
        path = export_to(store, tmp_path / name)
        path.write_bytes(path.read_bytes()[:-30])
        assert import_from(path, tmp_path / "to") == 3
    assert import_from(tmp_path / "nothing", tmp_path / "to") == 1
    assert "cannot read" in capsys.readouterr().err


@pytest.mark.thorough
async def test_large_imports_fill_several_journals(tmp_path, monkeypatch):
    """A journal that grew long is sealed while the import goes on."""
    store = await make_source(tmp_path / "from", "a")
    monkeypatch.setattr(journal_writer, "_COMMIT_BYTES", 1)
    monkeypatch.setattr(journal_writer, "ROTATE_BYTES", 4000)
    target = create_store(tmp_path / "to")
    import_streams(target, contents(store))
    assert len(target.segment_paths()) > 1
    assert all_events(target.root) == all_events(store.root)
    assert (verify(target.root).findings, target.journals()) == ((), {})


async def test_a_full_disk_loses_no_stream_that_was_committed(tmp_path, monkeypatch):
    """Where sealing fails, the journal stays whole, and recovery seals it."""
    store = await make_source(tmp_path / "from", "a")
    target = create_store(tmp_path / "to")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal_writer, "seal", full)
    with pytest.raises(RecordingFailed, match="free space, then"):
        import_streams(target, contents(store))
    assert all_events(target.root) == all_events(store.root)
    assert [each.action for each in recover(target)] == ["sealed"]
    assert all_events(target.root) == all_events(store.root)


IMPORTER = """
    import sys
    from pathlib import Path
    from lhaw_record.recorder.writing import journal_writer
    from lhaw_record.recorder.transfer.export import contents
    from lhaw_record.recorder.transfer.import_streams import import_streams
    from lhaw_record.recorder.storage.creation import create_store
    from lhaw_record.recorder.storage.store import Store

    journal_writer._COMMIT_BYTES = 1
    journal_writer.ROTATE_BYTES = 20_000
    import_streams(
        create_store(Path(sys.argv[2])), contents(Store(Path(sys.argv[1]))),
        on_progress=lambda done, total: print(done, flush=True),
    )
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("events", [1, 400, 1500])
async def test_a_killed_import_leaves_whole_streams(tmp_path, events):
    """Killed anywhere, while others recover: then each stream is whole or absent, and importing again completes it."""
    store = create_store(tmp_path / "from")
    async with StoreRecorder(store, "exp", start_sealing=InProcess) as recorder:
        await record_streams(recorder, 100, 10)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    target = create_store(tmp_path / "to")
    child = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", textwrap.dedent(IMPORTER), str(store.root), str(target.root)],
        env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in child.stdout:
        recover(target)
        if int(line) >= events:
            break
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    recover(target)
    report = verify(target.root)
    assert (report.findings, report.open_streams, report.journals) == ((), 0, 0)
    whole = all_events(store.root)
    assert set(all_events(target.root)) <= set(whole)
    import_streams(target, contents(store))
    assert all_events(target.root) == whole
