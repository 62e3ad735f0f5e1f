"""Trials are set aside and taken back in by ``discard``, and are paid for again only where that is asked for."""

import json

import pytest

from tests.cli.experiments import write_experiment
from tests.cli.program import called, query


@pytest.mark.thorough
def test_discarded_trials_are_owed_only_if_asked(tmp_path):
    """A run repeats trials that were set aside with --rerun and no others; --undo brings everything back."""
    experiment, store = write_experiment(tmp_path / "a.toml", trials=1), tmp_path / "store"
    assert called("run", experiment, "--store", store).returncode == 0
    count = "select count(*) from trials where trial_state = 'valid'"
    before = query(store, count)
    condition = query(store, "select min(condition) from trials")[0][0]

    lacking = called("discard", store, "--condition", condition)
    assert lacking.returncode == 2
    assert "--reason" in lacking.stderr
    unknown = called("discard", store, "--agent", "nobody", "--reason", "x")
    assert unknown.returncode == 2
    assert "no ended trial has the agent 'nobody'" in unknown.stderr
    assert called("discard", store, "--condition", condition, "--reason", "x", "--dry-run").returncode == 0
    assert query(store, count) == before

    assert called("discard", store, "--condition", condition, "--reason", "a typing error").returncode == 0
    assert query(store, count) != before
    assert "nothing to run" in called("run", experiment, "--store", store).stderr
    listed = json.loads(called("discard", store, "--format", "json").stdout)
    assert {(row["condition"], row["reason"], row["is_owed"]) for row in listed} == {
        (condition, "a typing error", False)
    }
    assert "set aside by hand" in called("tables", store, "overall").stdout

    assert called("discard", store, "--condition", condition, "--reason", "again", "--rerun").returncode == 0
    assert called("run", experiment, "--store", store).returncode == 0
    assert query(store, count) == before
    assert query(store, f"select distinct attempts, failed_attempts from trials where condition = '{condition}'") == [
        (1, 0)
    ]
    assert query(store, "select max(attempt) from stg_trials_finished") == [(2,)]
    assert "nothing to run" in called("run", experiment, "--store", store).stderr
    notes = called("tables", store, "overall").stdout
    assert "and replaced by another attempt: 1 trials of desk; the attempts that were set aside cost 0.0" in notes
    assert "are missing" not in notes

    repeated = called("discard", store, "--condition", condition, "--reason", "again", "--rerun")
    assert (repeated.returncode, "--repeats" in repeated.stderr) == (1, True)
    assert query(store, count) == before
    repeats = ("--condition", condition, "--reason", "again", "--rerun", "--repeats", "--dry-run")
    assert "1 trials would be set aside" in called("discard", store, *repeats).stderr

    assert called("discard", store, "--condition", condition, "--undo").returncode == 0
    assert query(store, f"select distinct attempts from trials where condition = '{condition}'") == [(2,)]
    assert called("discard", store, "--condition", condition, "--undo").returncode == 1


@pytest.mark.thorough
def test_a_mistaken_version_of_an_agent_is_named_with_the_way_out(tmp_path):
    """Tables say that an agent has two versions, and no longer once one is set aside by the name that they print."""
    experiment, store = write_experiment(tmp_path / "a.toml", trials=1), tmp_path / "store"
    assert called("run", experiment, "--store", store).returncode == 0
    assert "several versions" not in called("tables", store, "overall").stdout
    name = query(store, "select distinct agent from trials")[0][0]
    text = experiment.read_text()
    experiment.write_text(text.replace("scripted/balanced", "scripted/over_clarifier"))
    assert called("run", experiment, "--store", store).returncode == 0
    notes = called("tables", store, "overall").stdout
    assert "agents ran in several versions" in notes
    assert "discard STORE --agent NAME#DIGEST" in notes
    assert query(store, "select kind, n from exclusions where kind = 'arms_by_version'") == [("arms_by_version", 1)]
    ((mistaken,),) = query(store, "select distinct agent from trials where model = 'scripted/balanced'")
    assert mistaken.startswith(f"{name}#")
    assert called("discard", store, "--agent", mistaken, "--reason", "a typing error").returncode == 0
    assert "several versions" not in called("tables", store, "overall").stdout
    assert query(store, "select distinct agent from trials") == [(name,)]
