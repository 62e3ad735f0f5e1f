"""Grading again: equal results from equal files, differences counted, and no guess where something is not stored."""

from functools import partial
from pathlib import Path

import msgspec
import pytest

from lhaw_record.analytics.views import store as stores
from lhaw_record.recorder.events import CheckpointScored, RunFinished
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.storage.blobs import load_blob, store_blob
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import CheckpointNotMet
from lhaw_record.runners.environments.benchmarks.desk.task import DeskTask, desk_tasks
from lhaw_record.runners.judging.regrading import DeskChecks, Regrading, StoredDelivery
from lhaw_record.runners.judging.stored_graders import NotGradable
from lhaw_record.runners.judging.stored_trials import StreamReader, load_stored
from tests.analytics.make_store import Store as Written
from tests.runners.environments.benchmarks.desk.solutions import grade_after, solutions_of
from tests.runners.judging.stores import artifact, events_of, leave_behind, on_disk

TASKS = {task.task_id: task for task in desk_tasks()}
RECORDED = {task.task_id: task for task in DeskBenchmark().tasks()}
GRADER = DeskBenchmark().grader


async def graded(tmp_path: Path, task: DeskTask, scores=None, **fields) -> Store:
    """A store with trials of a desk task as a run leaves them: each way of solving or failing it, and doing nothing."""
    ways = (*solutions_of(task).CORRECT, *solutions_of(task).WRONG, None)
    written = Written(trials=len(ways))
    written.register(RECORDED[task.task_id])
    store = await on_disk(tmp_path / "store", Written(experiment="other"))
    for index, way in enumerate(ways):
        grade = grade_after(task, way, tmp_path / f"{task.task_id}-{index}")
        found = scores or [result.score for result in grade.results]
        written.trial(task.task_id, "full", index, scores=found, actions=[], **{"grader": GRADER, **fields})
        details = iter(grade.results)
        for place, envelope in enumerate(written.envelopes):
            if isinstance(envelope.event, CheckpointScored) and not envelope.event.details:
                event = msgspec.structs.replace(envelope.event, details=next(details).details)
                written.envelopes[place] = msgspec.structs.replace(envelope, event=event)
        files = [artifact(each.name, each.content, store_blob(store, each.content)) for each in grade.artifacts]
        leave_behind(written, written.streams[task.task_id, "full", index, "a"], *files)
    return await on_disk(store.root, written)


@pytest.mark.thorough
@pytest.mark.sampled(8)
@pytest.mark.parametrize("task_id", sorted(TASKS))
async def test_stored_files_give_the_results_that_they_gave(tmp_path, task_id):
    """Every solution, every failure and the untouched workspace of each task: not one result differs."""
    store = await graded(tmp_path, TASKS[task_id])
    regrading = Regrading(store)
    regrading.look()
    (row,) = [row for row in regrading.ledger.rows() if row["task_id"] == task_id]
    assert row["graded"] == row["found"] > 3
    assert (row["differing_results"], row["changed_successes"], row["not_gradable"]) == (0, 0, 0)


@pytest.mark.thorough
async def test_new_results_stand_beside_the_old_ones(tmp_path):
    """Recorded once, not primary, naming grader and attempt; no number changes, ``gradings`` shows what differs."""
    store = await graded(tmp_path, TASKS["log-triage"], scores=[0.0] * len(TASKS["log-triage"].checkpoints))
    before = numbers(store)
    await Regrading(store).run()
    later = [event for event in events_of(store, CheckpointScored) if not event.is_primary]
    streams = {trial.stream_id for trial in load_stored(read_snapshot(store.root)).trials}
    assert {event.graded_stream_id for event in later} == streams
    assert {(event.grader, event.grading_id) for event in later} == {(GRADER, f"regrade:{GRADER}")}
    assert numbers(store) == before
    connection = stores.open(store.root, only={"gradings"})
    try:
        query = "select count(*), count(difference), max(difference) > 0 from gradings"
        assert connection.execute(query).fetchall() == [(len(later), len(later), True)]
    finally:
        connection.close()
    assert events_of(store, RunFinished)[-1].outcome == "completed"
    again = Regrading(store)
    await again.run()
    assert {row["graded"] for row in again.ledger.rows()} == {0}
    assert {row["graded_before"] for row in again.ledger.rows()} == {len(streams)}
    assert sum(not event.is_primary for event in events_of(store, CheckpointScored)) == len(later)


def numbers(store):
    """What the views say of the trials."""
    connection = stores.open(store.root, only={"trials"})
    try:
        return connection.execute(
            "select trial_id, trial_state, is_success, scores from trials order by all"
        ).fetchall()
    finally:
        connection.close()


@pytest.mark.thorough
async def test_a_dry_run_records_nothing(tmp_path):
    """It grades and compares only."""
    store = await graded(tmp_path, TASKS["log-triage"], scores=[0.0] * len(TASKS["log-triage"].checkpoints))
    before = read_snapshot(store.root).segments
    regrading = Regrading(store)
    regrading.look()
    assert regrading.ledger.rows()[0]["differing_trials"] > 0
    assert read_snapshot(store.root).segments == before


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"benchmark": "tac"}, "the graders of tac cannot work from stored files"),
        ({"origin": "tac_eval"}, "it was imported (tac_eval), without its files"),
    ],
)
async def test_other_trials_are_not_graded(tmp_path, fields, reason):
    """Trials of other benchmarks and imported ones are counted with the reason; only desk's make the command fail."""
    store = await graded(tmp_path, TASKS["log-triage"], **fields)
    regrading = Regrading(store)
    regrading.look()
    (row,) = regrading.ledger.rows()
    assert (row["graded"], row["not_gradable"], row["reason"]) == (0, row["found"], reason)
    assert regrading.ledger.has_refused == (row["benchmark"] == "desk")


@pytest.mark.thorough
async def test_a_changed_task_is_not_graded(tmp_path):
    """Its checks are about other parameters than those of the trial."""
    written = Written()
    written.task("log-triage")
    written.trial("log-triage", "full", 0)
    store = await on_disk(tmp_path / "store", written)
    regrading = Regrading(store)
    regrading.look()
    assert regrading.ledger.rows()[0]["reason"] == "its task has changed since"


@pytest.mark.thorough
async def test_lost_bytes_are_no_missing_file(tmp_path):
    """An artifact whose bytes are gone makes its trial not gradable; the others are graded."""
    store = await graded(tmp_path, TASKS["log-triage"])
    lost = next(path for path in store.blobs_dir.rglob("*") if path.is_file())
    lost.unlink()
    regrading = Regrading(store)
    regrading.look()
    (row,) = regrading.ledger.rows()
    assert row["not_gradable"] >= 1
    assert row["graded"] + row["not_gradable"] == row["found"]
    assert "are not in the store" in row["reason"]


@pytest.mark.thorough
async def test_another_grader_may_not_look_where_the_first_did_not(tmp_path):
    """A file that was neither kept nor named as missing is unknown; one that the old grader missed is missing."""
    store = await graded(tmp_path, TASKS["log-triage"], grader="desk-checks/0")
    task = RECORDED["log-triage"]
    checks = DeskChecks({task.task_digest: TASKS["log-triage"]}, GRADER, lambda sha256: load_blob(store, sha256))
    snapshot = read_snapshot(store.root)
    reader = StreamReader(store, snapshot)
    trials = [trial for trial in load_stored(snapshot).trials if trial.started.benchmark == "desk"]
    regraded = [checks.regrade(trial, task, partial(reader.read, trial.stream_id)) for trial in trials]
    assert {each.differing_results for each in regraded} == {0}
    untouched = trials[-1]
    silent = {name: msgspec.structs.replace(each, details="") for name, each in untouched.results.items()}
    with pytest.raises(NotGradable, match="was not kept: the grader of the trial did not read it"):
        checks.regrade(
            msgspec.structs.replace(untouched, results=silent), task, partial(reader.read, untouched.stream_id)
        )


def test_a_name_is_missing_only_by_itself():
    """What is stored is given, what is known to be absent is unmet, anything else is refused."""
    left = StoredDelivery({"a.md": b"text"}, "", ["b.md is missing"])
    assert left.text("a.md") == "text"
    with pytest.raises(CheckpointNotMet, match=r"b\.md is missing"):
        left.content("b.md")
    with pytest.raises(NotGradable):
        left.content("old_b.md")
