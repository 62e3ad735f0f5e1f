"""The command ``note``: what a person writes about trials is shown wherever a trial is."""

import json

import anyio
import pytest

from lhaw_record.recorder.storage.store import Store as RecordedStore
from lhaw_record.runners.runs.run_record import experiments_of
from tests.analytics.make_store import Store, write_events
from tests.cli.program import called


def test_a_note_is_shown_replaced_and_taken_back(tmp_path):
    """It needs a name, trials and words; list, show and export tell it; --undo removes that author's only."""
    made, store = Store(trials=1), tmp_path / "store"
    made.task("t", (1.0,))
    made.trial("t", "full", 0)
    (stream,) = made.streams.values()
    anyio.run(write_events, store, made.envelopes)

    assert called("note", store).returncode == 1
    for lacking in (("odd",), ("odd", "--by", "anna"), ("odd", "--trial", stream), ("--by", "anna", "--trial", stream)):
        assert called("note", store, *lacking).returncode == 2
    assert called("note", store, " ", "--by", "anna", "--trial", stream).returncode == 2
    assert called("note", store, " odd\n", "--by", "anna ", "--trial", stream, "--cause", "grader").returncode == 0
    assert called("note", store, "fine", "--by", "ben", "--task", "t").returncode == 0
    rows = json.loads(called("note", store, "--format", "json").stdout)
    assert [(row["stream_id"], row["author"], row["cause"], row["note"]) for row in rows] == [
        (stream, "anna", "grader", "odd"),
        (stream, "ben", None, "fine"),
    ]
    shown = called("show", store, stream).stdout
    assert "note by anna, blames the grader: odd\nnote by ben: fine\n" in shown
    assert called("note", store, "--undo", "--by", "nobody", "--trial", stream).returncode == 2
    assert called("note", store, "--undo", "--by", "anna", "--trial", stream).returncode == 0
    assert [row["author"] for row in json.loads(called("note", store, "--format", "json").stdout)] == ["ben"]


@pytest.mark.thorough
def test_judges_and_graders_leave_the_notes_alone(tmp_path):
    """They hold the experiments of a store for hours, and notes are no experiment with trials."""
    made, store = Store(trials=1), tmp_path / "store"
    made.task("t", (1.0,))
    made.trial("t", "full", 0)
    anyio.run(write_events, store, made.envelopes)
    assert called("note", store, "fine", "--by", "ben", "--task", "t").returncode == 0
    assert experiments_of(RecordedStore(store), None) == ("e",)
