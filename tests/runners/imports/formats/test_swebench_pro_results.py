"""SWE-bench Pro's results: true, false and absent stay three things."""

import gzip
import json

import pytest

from lhaw_record.runners.imports import ImportFailed
from lhaw_record.runners.imports.source_files import read_instances
from tests.runners.imports.files import imported, parsed, query, write

NAMES = ("instance_a__a-1-vnan", "instance_b__b-2", "instance_c__c-3")


def test_true_false_and_absent(tmp_path):
    """True is a success, false a valid trial with score 0, null is skipped, absent has no trial."""
    path = write(tmp_path / "model-1" / "eval_results.json", {NAMES[0]: True, NAMES[1]: False, NAMES[2]: None})
    done = imported("swebench-pro-results", path, tmp_path / "s")
    assert [(each.kind, each.count) for each in done.files[0].skipped] == [("instances", 1)]
    rows = query(
        tmp_path / "s", "select task_id, agent, condition, trial_state, is_success, scores from trials order by 1"
    )
    assert rows == [
        (NAMES[0], "model-1", "full", "valid", True, [1.0]),
        (NAMES[1], "model-1", "full", "valid", False, [0.0]),
    ]


def test_a_folder_gives_each_run_its_name(tmp_path):
    """Runs below a folder are agents named by their own folders."""
    for name in ("m1", "m2"):
        write(tmp_path / "all" / name / "eval_results.json", {NAMES[0]: True})
    assert imported("swebench-pro-results", tmp_path / "all", tmp_path / "s", is_dry_run=True).trials == 2


def test_instances_describe_the_task(tmp_path):
    """With the instances a task has its repository, its commit and the number of its tests, in all three list forms."""
    rows = [
        {"instance_id": NAMES[0], "repo": "a/a", "base_commit": "c0", "fail_to_pass": ["x"], "pass_to_pass": []},
        {
            "instance_id": NAMES[1],
            "repo": "b/b",
            "base_commit": "c1",
            "fail_to_pass": "['x y']",
            "pass_to_pass": '["p", "q"]',
        },
    ]
    path = tmp_path / "instances.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    found = parsed("swebench-pro-results", dict.fromkeys(NAMES, True), instances=read_instances(path))
    tasks = [trial.task for trial in found.trials]
    assert [(each.domain, each.environment_digest) for each in tasks] == [("a/a", "c0"), ("b/b", "c1"), (None, "")]
    assert [each.checkpoints[0].label.partition("(")[2] for each in tasks] == ["1 and 0 tests)", "1 and 2 tests)", ""]
    assert any("1 instances are not in the file" in remark for remark in found.remarks)


INSTANCES = {
    name: {"instance_id": name, "repo": "a/a", "base_commit": "c0", "fail_to_pass": ["x"], "pass_to_pass": []}
    for name in NAMES
}


@pytest.mark.thorough
def test_results_without_and_then_with_instances_are_refused(tmp_path):
    """Described tasks would be others: the same results would count twice, so the second import adds nothing."""
    path = write(tmp_path / "m" / "eval_results.json", dict.fromkeys(NAMES, True))
    assert imported("swebench-pro-results", path, tmp_path / "s").trials == 3
    with pytest.raises(ImportFailed, match=f"has {NAMES[0]} from an import without --instances.* count twice"):
        imported("swebench-pro-results", path, tmp_path / "s", instances=INSTANCES)
    changed = {name: {**row, "base_commit": "c1"} for name, row in INSTANCES.items()}
    other = write(tmp_path / "n" / "eval_results.json", dict.fromkeys(NAMES, False))
    imported("swebench-pro-results", path, tmp_path / "t", instances=INSTANCES)
    with pytest.raises(ImportFailed, match="from an import with another file of instances"):
        imported("swebench-pro-results", other, tmp_path / "t", instances=changed)
    assert query(tmp_path / "s", "select count(*) from stg_trials_started") == [(3,)]


@pytest.mark.thorough
def test_results_with_and_then_without_instances_are_the_same_trials(tmp_path):
    """A store that knows the instances needs no file of them again: nothing is added, and another run joins."""
    path = write(tmp_path / "m" / "eval_results.json", dict.fromkeys(NAMES, True))
    imported("swebench-pro-results", path, tmp_path / "s", instances=INSTANCES)
    again = imported("swebench-pro-results", path, tmp_path / "s")
    assert (again.is_known, again.trials, again.already) == (True, 0, 3)
    other = write(tmp_path / "n" / "eval_results.json", dict.fromkeys(NAMES, False))
    assert imported("swebench-pro-results", other, tmp_path / "s").trials == 3
    assert query(tmp_path / "s", "select count(distinct task_digest) from stg_trials_started") == [(3,)]


@pytest.mark.parametrize("content", [["a"], {"a": 1}, {"a": "true"}, {"a": {"b": True}}])
def test_anything_but_booleans_is_refused(content):
    """The file says true or false of an instance; nothing else is guessed at."""
    with pytest.raises(ImportFailed, match="expected"):
        parsed("swebench-pro-results", content)


def test_a_key_that_occurs_twice_with_two_values_is_refused():
    """JSON would keep the last one silently."""
    with pytest.raises(ImportFailed, match="occurs twice"):
        parsed("swebench-pro-results", '{"a": true, "a": false}')
    assert len(parsed("swebench-pro-results", '{"a": true, "a": true}').trials) == 1
