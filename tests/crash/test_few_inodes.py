"""A real file system that runs out of names in the middle of a run, and has more when the run is repeated."""

import os
import shutil
import subprocess

import pytest

from lhaw_record.recorder.events import TrialFailed
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from tests.cli.experiments import ALL_KINDS, write_experiment
from tests.cli.program import called, lhaw_record, query
from tests.support.depth import IS_DEEP

FOUR = (
    "expense-audit/which-ledger",
    "log-triage/window",
    "meeting-planner/title-and-invitation-file",
    "ticket-digest/what-is-a-breach",
)


@pytest.fixture(params=[30, 36, 44] if IS_DEEP else [30, 44])
def few_inodes(request, tmp_path):
    """A file system with room for some files, and how to make it larger."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    options = f"size=60m,nr_inodes={request.param}"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    yield folder, lambda: subprocess.run(["mount", "-o", "remount,nr_inodes=20000", folder], check=True)
    subprocess.run(["umount", folder], check=True)


@pytest.mark.thorough
def test_a_run_without_room_for_an_artifact_is_repeated_whole(few_inodes, tmp_path):
    """No name for one more artifact: exit 1; with more names the run finishes, and the store is good and exportable."""
    folder, grow = few_inodes
    store = folder / "store"
    experiment = write_experiment(tmp_path / "a.toml", conditions=ALL_KINDS, trials=2, concurrency=4, variants=FOUR)
    done = lhaw_record("run", experiment, "--store", store)
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr
    grow()
    done = lhaw_record("run", experiment, "--store", store)
    assert done.returncode == 0, done.stderr
    report = verify(store)
    assert (report.findings, report.open_streams, report.journals) == ((), 0, 0)
    assert query(store, "select count(*), count(distinct trial_id) from trials") == [(32, 32)]
    ends = [each.event for each in read_envelopes(store) if isinstance(each.event, TrialFailed)]
    assert {each.boundary for each in ends} == {"recorder"}
    assert called("log", "export", store, "-o", tmp_path / "a.jsonl.zst").returncode == 0
