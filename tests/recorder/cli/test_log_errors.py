"""Every ``log`` command meets what is not a store with one line that names it, and writes nothing where it must not."""

import json
import re
import shutil
import subprocess
from contextlib import suppress

import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.cli.terminal import Progress
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.recorder.stores import record_streams, started
from tests.support.needs import skip_for

READING = (["stat"], ["tail"], ["verify"], ["recover", "--dry-run"], ["compact", "--dry-run"], ["export"])
WRITING = (["recover"], ["compact"])


@pytest.fixture
async def dead(tmp_path):
    """A store as a killed writer leaves it: one journal, one open stream."""
    store = create_store(tmp_path / "running")
    async with StoreRecorder(store, "exp") as recorder:
        await record_streams(recorder, 3, 4)
        await recorder.stream("open", trial_id="t", attempt=1).append(started(1))
        shutil.copytree(store.root, tmp_path / "dead")
    return tmp_path / "dead"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", [*READING, *WRITING], ids=" ".join)
def test_what_is_no_store_is_named(tmp_path, command, capsys):
    """A missing folder, an empty one and a file: exit code 1, one line, nothing made."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "letter.txt").write_text("hello")
    for name in ("missing", "empty", "letter.txt"):
        path = tmp_path / name
        assert main(["log", command[0], str(path), *command[1:]]) == 1
        complaint = capsys.readouterr().err
        assert complaint.count("\n") == 1
        assert str(path) in complaint
        assert re.search("(not a|no) store", complaint)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["empty", "letter.txt"]


@pytest.fixture
async def small_disk(tmp_path, dead):
    """A file system of 400 kB with the dead store on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if _mount("-t", "tmpfs", "-o", "size=400k", "tmpfs", folder) != 0:
        skip_for("mount")
    shutil.copytree(dead, folder / "store")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)  # noqa: ASYNC221


def _mount(*arguments):
    return subprocess.run(["mount", *map(str, arguments)], check=False, capture_output=True).returncode


def _fill(folder):
    with (folder / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_full", [True, False], ids=["full", "read-only"])
async def test_a_disk_that_refuses_loses_nothing(small_disk, dead, tmp_path, is_full, capsys):
    """Reading goes on; recovering, importing and exporting to it say why not, and succeed when there is room."""
    root, whole = small_disk / "store", read_envelopes(dead)
    if is_full:
        _fill(small_disk)
    else:
        _mount("-o", "remount,ro", small_disk)
    for command in READING:
        assert main(["log", command[0], str(root), *command[1:]]) == 0
    assert main(["log", "export", str(root), "-o", str(tmp_path / "all.jsonl")]) == 0
    capsys.readouterr()
    refused = [["recover", str(root)], ["export", str(dead), "-o", str(small_disk / "all.jsonl")]]
    for arguments in refused:
        assert main(["log", *arguments]) == 1
        complaint = capsys.readouterr().err
        assert ("No space left" if is_full else "Read-only file system") in complaint
        assert str(small_disk) in complaint
    assert not list(small_disk.glob("all*"))
    assert set(whole) <= set(read_envelopes(root))
    _mount("-o", "remount,rw", small_disk)
    (small_disk / "filler").unlink(missing_ok=True)
    assert main(["log", "recover", str(root)]) == 0
    capsys.readouterr()
    assert main(["log", "verify", str(root), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["open_streams"] == 0


def test_progress_is_silent_on_short_work_and_speaks_on_long(capsys, monkeypatch):
    """Nothing for work that is done at once; a line with the share where it takes long; no control codes in a file."""
    with Progress("events checked") as progress:
        progress(1, 10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("lhaw_record.recorder.cli.terminal.SECONDS_BETWEEN_LINES", 0.0)
    with Progress("events checked") as progress:
        progress(1, 10)
        progress(5, None)
    assert capsys.readouterr().err.splitlines() == ["0 s  1 of 10 (10%) events checked", "0 s  5 events checked"]
