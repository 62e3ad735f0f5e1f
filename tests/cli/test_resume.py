"""Plan, run, run again: what a plan says, and that nothing is run or written twice."""

import csv
import io
import json
import shutil

import pytest

from lhaw_record.recorder.storage.store import Store
from tests.cli.conftest import TRIALS
from tests.cli.experiments import ALL_KINDS, BALANCED, write_experiment
from tests.cli.program import called, lhaw_record, query, verify


def plan_of(*arguments):
    """Return the rows of a plan by agent and condition."""
    done = called("run", *arguments, "--dry-run", "--format", "json")
    assert done.returncode == 0, done.stderr
    return {(row["agent"], row["condition"]): row for row in json.loads(done.stdout)}


def files_of(store):
    """Every file of a store with its size and time of change."""
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in store.rglob("*") if path.is_file()}


def test_a_dry_run_shows_the_plan_and_makes_no_store(tmp_path):
    """--dry-run counts the trials of every agent and condition, expects no price it cannot know, and writes nothing."""
    experiment = write_experiment(tmp_path / "a.toml", conditions=ALL_KINDS, trials=3)
    rows = plan_of(experiment, "--store", tmp_path / "store")
    assert {condition: row["to_run"] for (_, condition), row in rows.items()} == {**dict.fromkeys(ALL_KINDS, 3), "": 12}
    assert rows["all", ""]["expected_cost_usd"] is None
    assert list(tmp_path.iterdir()) == [experiment]


def test_the_same_command_again_runs_nothing(reference):
    """A second run of a finished experiment exits 0, says so, changes no byte, and its plan has nothing to run."""
    experiment, store = reference
    before = files_of(store)
    done = lhaw_record("run", experiment, "--store", store)
    assert done.returncode == 0, done.stderr
    assert f"all {8 * TRIALS} trials are finished; nothing to run" in done.stderr
    assert files_of(store) == before
    rows = plan_of(experiment, "--store", store)
    assert rows["all", ""]["finished"] == 8 * TRIALS
    assert rows["all", ""]["to_run"] == 0
    assert rows["all", ""]["expected_cost_usd"] == 0


@pytest.mark.parametrize("way", [["--dry-run"], []])
def test_a_finished_store_that_is_damaged_is_refused(reference, tmp_path, way):
    """One changed bit of a segment: what is finished there cannot be believed, and the next step is named."""
    experiment, store = reference
    copy = tmp_path / "s"
    shutil.copytree(store, copy)
    (segment,) = copy.glob("events/experiment=reference/*.parquet")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 4
    segment.write_bytes(data)
    done = called("run", experiment, "--store", copy, *way)
    assert done.returncode == 3
    assert f"{segment} has other bytes than were written" in done.stderr
    assert "'lhaw-record log verify' lists all such files" in done.stderr
    assert "nothing to run" not in done.stderr


@pytest.mark.thorough
def test_more_trials_run_only_what_is_new(tmp_path):
    """After raising ``trials`` the plan prices the new ones at the mean of the finished ones, and only those run."""
    experiment = write_experiment(tmp_path / "a.toml", trials=1)
    store = tmp_path / "store"
    assert called("run", experiment, "--store", store).returncode == 0
    (mean_usd,) = query(store, "select sum(cost_usd) / 2 from costs")[0]

    rows = plan_of(write_experiment(experiment, trials=2), "--store", store)
    assert (rows["all", ""]["finished"], rows["all", ""]["to_run"]) == (2, 2)
    assert rows["all", ""]["expected_cost_usd"] == pytest.approx(2 * mean_usd)

    done = called("run", experiment, "--store", store)
    assert done.returncode == 0, done.stderr
    assert "2 trials finished now, 0 left" in done.stderr
    assert query(store, "select count(*), max(attempt) from stg_trials_started") == [(4, 1)]
    verify(store)


def test_a_changed_agent_is_a_new_trial(reference, tmp_path):
    """What is measured is in a trial's identity: another strategy plans new trials beside the finished ones."""
    _, store = reference
    agents = (BALANCED, {**BALANCED, "name": "reacting", "strategy": "react"})
    experiment = write_experiment(
        tmp_path / "b.toml", name="reference", conditions=ALL_KINDS, trials=TRIALS, agents=agents
    )
    rows = plan_of(experiment, "--store", store)
    assert rows["balanced", "full"]["to_run"] == 0
    assert rows["reacting", "full"]["to_run"] == TRIALS


@pytest.mark.thorough
def test_the_plan_is_data_in_every_format(tmp_path):
    """A plan as CSV and as JSON parses to the same rows; the narration of a real run never mixes with data."""
    experiment = write_experiment(tmp_path / "a.toml")
    as_csv = called("run", experiment, "--store", tmp_path / "s", "--dry-run", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(as_csv)))
    assert [row["trials"] for row in rows] == ["1", "1", "2"]
    done = lhaw_record("run", experiment, "--store", tmp_path / "s")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.thorough
def test_what_a_store_has_lost_is_not_paid_again_unasked(tmp_path):
    """A run on a store without one of its files exits 3 and runs nothing, until the loss is accepted."""
    experiment = write_experiment(tmp_path / "a.toml", trials=1)
    store = tmp_path / "store"
    assert called("run", experiment, "--store", store).returncode == 0
    (segment,) = Store(store).segment_paths()
    segment.unlink()
    before = files_of(store)
    refused = called("run", experiment, "--store", store)
    assert refused.returncode == 3
    assert f"{segment} is gone" in refused.stderr
    assert files_of(store).keys() == before.keys()
    assert called("log", "repair", store, "--accept-loss").returncode == 0
    again = called("run", experiment, "--store", store)
    assert again.returncode == 0, again.stderr
    assert "2 trials finished now" in again.stderr
