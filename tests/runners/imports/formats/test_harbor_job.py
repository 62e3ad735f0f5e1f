"""Folders of Harbor: rewards and errors as Harbor reads them, trajectories beside them, repetitions as indexes."""

import json

import pytest

from lhaw_record.analytics.exports import harbor_jobs
from lhaw_record.recorder.events import TrialFailed, TrialFinished
from lhaw_record.runners.imports import ImportFailed
from tests.runners.imports.files import REAL, broken_claims, dataset_row, imported, query, write
from tests.runners.imports.formats.test_atif import PLAIN, document, events, step
from tests.support.needs import needs

JOB = REAL / "harbor" / "jobs"


def trial(number=0, rewards=None, error=None, task="t", **fields):
    """The result of a trial; ``error`` is the type of its exception."""
    raised = {
        "exception_type": error,
        "exception_message": "m",
        "exception_traceback": "",
        "occurred_at": "2026-01-01T00:00:00Z",
    }
    phase = {"started_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:01.500000Z"}
    return {
        "id": f"00000000-0000-4000-8000-{number:012}",
        "task_name": task,
        "trial_name": f"{task}__{number:07}",
        "trial_uri": "file:///x",
        "task_id": {"path": f"tasks/{task}"},
        "task_checksum": "0" * 64,
        "config": {"task": {"path": f"tasks/{task}"}, "agent": {"name": "a", "model_name": "p/m"}},
        "agent_info": {"name": "a", "version": "1", "model_info": {"name": "m", "provider": "p"}},
        "agent_result": {"n_input_tokens": 10, "n_output_tokens": 3, "cost_usd": 0.25},
        "verifier_result": None if rewards is None else {"rewards": rewards},
        "exception_info": raised if error else None,
        "started_at": f"2026-01-01T00:00:{number:02}Z",
        "agent_execution": phase,
        **fields,
    }


def job(folder, *trials):
    """A job with these trials; returns its folder."""
    for each in trials:
        write(folder / "job" / each["trial_name"] / "result.json", each)
    return folder / "job"


def test_a_reward_is_a_checkpoint_and_an_error_is_missing_data(tmp_path):
    """Half a reward is no success; no reward and a broken verifier are no zeros; a timeout of the agent is graded."""
    trials = [
        trial(0, {"reward": 1.0}),
        trial(1, {"reward": 0.5}),
        trial(2),
        trial(3, None, "VerifierTimeoutError"),
        trial(4, {"reward": 0.0}, "AgentTimeoutError"),
        trial(5, {"reward": 1.0}, "NonZeroAgentExitCodeError"),
    ]
    imported("harbor-job", job(tmp_path, *trials), tmp_path / "s")
    rows = query(
        tmp_path / "s", "select trial_index, trial_state, scores, is_success, ended_by, wall_seconds from trials"
    )
    assert sorted(rows, key=lambda row: row[0]) == [
        (0, "valid", [1.0], True, None, 1.5),
        (1, "valid", [0.5], False, None, 1.5),
        (2, "missing", None, None, None, None),
        (3, "missing", None, None, None, None),
        (4, "valid", [0.0], False, "time_limit", 1.5),
        (5, "missing", None, None, None, None),
    ]
    failed = [(each.boundary, each.error_kind) for each in events(tmp_path / "s", TrialFailed)]
    assert sorted(failed, key=str) == [
        ("grader", "VerifierTimeoutError"),
        ("grader", "no_reward"),
        (None, "NonZeroAgentExitCodeError"),
    ]
    assert [each.action_count for each in events(tmp_path / "s", TrialFinished)] == [None] * 3
    assert broken_claims(tmp_path / "s") == []


def test_several_rewards_are_several_checkpoints(tmp_path):
    """A name that one trial lacks counts 0 there, as in Harbor's mean; without any reward the trial has none."""
    imported("harbor-job", job(tmp_path, trial(0, {"a": 1, "b": True}), trial(1, {"a": 1})), tmp_path / "s")
    rows = query(tmp_path / "s", "select trial_index, scores, is_success from trials")
    assert sorted(rows) == [(0, [1.0, 1.0], True), (1, [1.0, 0.0], False)]


@pytest.mark.thorough
@pytest.mark.parametrize("rewards", [{"a": 1, "b": 0.5}, {"a": 0, "reward": 1}])
def test_an_exported_job_has_a_reward_and_its_checkpoints(rewards, tmp_path):
    """Harbor compares by ``reward``: the success, unless a checkpoint has this name. Read again, it is none."""
    imported("harbor-job", job(tmp_path, trial(0, rewards)), tmp_path / "s")
    for name, content in harbor_jobs(tmp_path / "s").files.items():
        write(tmp_path / "jobs" / name, content)
    (path,) = (tmp_path / "jobs").glob("*/*/result.json")
    success = float(min(rewards.values()) == 1)
    assert json.loads(path.read_bytes())["verifier_result"]["rewards"] == {"reward": success} | rewards
    (of_job,) = (tmp_path / "jobs").glob("*/result.json")
    totals = {"n_input_tokens": 10, "n_output_tokens": 3, "cost_usd": 0.25}
    assert totals.items() <= json.loads(of_job.read_bytes())["stats"].items()
    imported("harbor-job", tmp_path / "jobs", tmp_path / "again")
    values = "select scores, checkpoint_progress, is_success from trials"
    assert query(tmp_path / "again", values) == query(tmp_path / "s", values)


@pytest.mark.thorough
def test_the_trajectory_beside_the_result(tmp_path):
    """Its actions and tokens are the trial's; the steps of a task follow each other."""
    folder = job(tmp_path, trial(0, {"reward": 1.0}, step_results=[{"step_name": "one"}, {"step_name": "two"}]))
    for name in ("one", "two"):
        write(folder / "t__0000000" / "steps" / name / "agent" / "trajectory.json", PLAIN)
    imported("harbor-job", folder, tmp_path / "s")
    rows = query(tmp_path / "s", "select action_count, agent_input_tokens, agent_cost_usd, wall_seconds from trials")
    assert rows == [(6, 10, 0.25, None)]
    assert broken_claims(tmp_path / "s") == []


@pytest.mark.thorough
def test_a_cut_trajectory_leaves_the_result(tmp_path):
    """One broken file does not stop the import of a job; what the agent did is then unknown."""
    folder = job(tmp_path, trial(0, {"reward": 1.0}))
    write(folder / "t__0000000" / "agent" / "trajectory.json", json.dumps(PLAIN)[:100])
    done = imported("harbor-job", folder, tmp_path / "s")
    assert "the result is kept" in done.files[1].skipped[0].reason
    assert query(tmp_path / "s", "select is_success, action_count from trials") == [(True, None)]


@pytest.mark.thorough
def test_a_task_with_the_name_of_a_variant_is_one(tmp_path):
    """Variants that were run as task folders come back as variants."""
    row = dataset_row()
    imported("lhaw-dataset", write(tmp_path / "d.json", [row]), tmp_path / "s")
    imported("harbor-job", job(tmp_path, trial(0, {"reward": 1.0}, task=row["variant_id"])), tmp_path / "s")
    rows = query(tmp_path / "s", "select benchmark, variant_id, condition from trials")
    assert rows == [("mcp_atlas", row["variant_id"], "underspecified")]


@pytest.mark.thorough
def test_a_task_of_the_store_with_that_name_is_said_to_be_another_version(tmp_path):
    """Whose trials leave the tables is no surprise."""
    chat = [{"role": "user", "content": "Do it."}, {"role": "assistant", "content": "done"}]
    options = {"benchmark": "harbor", "task": "t", "agent": "b", "reward": 1.0}
    imported("openai-messages", write(tmp_path / "chat.json", chat), tmp_path / "s", **options)
    for task, is_said in (("t", True), ("u", False)):
        done = imported("harbor-job", job(tmp_path / task, trial(0, {"reward": 1.0}, task=task)), tmp_path / "s")
        assert any("another version of harbor/t" in each for file in done.files for each in file.remarks) is is_said


def test_two_agents_of_one_name_are_refused(tmp_path):
    """Their trials would be taken for repetitions."""
    other = {"task": {"path": "x"}, "agent": {"name": "a", "model_name": "p/m", "kwargs": {"n": 2}}}
    with pytest.raises(ImportFailed, match="different versions or settings"):
        imported("harbor-job", job(tmp_path, trial(0), trial(1, config=other)), tmp_path / "s")


@pytest.mark.parametrize("value", [-1, 3, 1.5])
def test_a_reward_without_a_scale_is_skipped(value, tmp_path):
    """Nobody knows its maximum."""
    done = imported("harbor-job", job(tmp_path, trial(0, {"reward": value}), trial(1, {"reward": 1})), tmp_path / "s")
    assert (done.trials, "maximum is unknown" in done.files[0].skipped[0].reason) == (1, True)


def test_another_file_is_refused(tmp_path):
    """The message says which format it looks like."""
    path = write(tmp_path / "result.json", document(step(1, "user", "x")))
    with pytest.raises(ImportFailed, match="looks like atif"):
        imported("harbor-job", path, tmp_path / "s")


@needs("published")
@pytest.mark.thorough
def test_a_real_job(tmp_path):
    """The tokens of the trajectory's calls are those of Harbor's result."""
    imported("harbor-job", JOB, tmp_path / "s")
    result = json.loads(next(JOB.glob("*/*/result.json")).read_bytes())
    rows = query(
        tmp_path / "s", "select task_id, is_success, action_count, agent_input_tokens, agent_output_tokens from trials"
    )
    used = result["agent_result"]
    assert rows == [("ivanleomk/hello-world", True, 2, used["n_input_tokens"], used["n_output_tokens"])]
    assert broken_claims(tmp_path / "s") == []


@pytest.mark.thorough
def test_a_run_without_a_trajectory_has_its_totals(tmp_path):
    """Harbor's totals are the agent's usage and its time the trial's, also of a trial that failed."""
    folder = job(tmp_path, trial(0, {"reward": 1.0}), trial(1, None, error="ApiError"))
    imported("harbor-job", folder, tmp_path / "s")
    rows = "select agent_input_tokens, agent_output_tokens, agent_cost_usd, started_at_us from trials order by 4"
    started = 1767225600000000
    assert query(tmp_path / "s", rows) == [(10, 3, 0.25, started), (None, None, None, started + 1_000_000)]
    costs = "select cost_usd from costs where purpose = 'agent'"
    assert query(tmp_path / "s", costs) == [(0.25,), (0.25,)]
    assert broken_claims(tmp_path / "s") == []


@pytest.mark.thorough
def test_tasks_whose_folders_have_one_name_stay_apart(tmp_path):
    """Their ids are their paths; one name for different tasks is an error, and copies of one task are one."""

    def of(number, name, path, checksum):
        same = trial(number, {"reward": 1.0})
        return {**same, "task_name": name, "task_id": {"path": path}, "task_checksum": checksum * 64}

    clash = [of(0, "baseline", "/d/swe_1/baseline", "1"), of(1, "baseline", "/d/swe_2/baseline", "2")]
    imported("harbor-job", job(tmp_path / "a", *clash), tmp_path / "s")
    rows = "select task_id, trial_index from trials order by all"
    assert query(tmp_path / "s", rows) == [("swe_1/baseline", 0), ("swe_2/baseline", 0)]
    copies = [of(0, "org/x", "/d/x", "1"), of(1, "org/x", "/e/x", "1")]
    imported("harbor-job", job(tmp_path / "b", *copies), tmp_path / "t")
    assert query(tmp_path / "t", rows) == [("org/x", 0), ("org/x", 1)]
    with pytest.raises(ImportFailed, match="are different tasks named org/x"):
        imported("harbor-job", job(tmp_path / "c", copies[0], of(1, "org/x", "/e/y", "2")), tmp_path / "u")
