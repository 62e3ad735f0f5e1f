"""The importers on real files: counted by hand from the files themselves."""

import json

import pytest

from lhaw_record.runners.imports import ImportFailed
from lhaw_record.runners.imports.source_files import read_instances
from tests.runners.imports.files import REAL, broken_claims, imported, query
from tests.support.needs import needs

pytestmark = needs("published")
RUNS = {
    "claude-45sonnet-10132025": (730, 319),
    "claude-sonnet-4-paper": (663, 166),
    "gemini-2-5-pro-preview-paper": (955, 105),
    "gpt-4o-paper": (619, 36),
    "gpt-5-250-turns-10132025": (729, 265),
}


@pytest.mark.thorough
def test_five_runs_of_swebench_pro(tmp_path):
    """Each run has as many trials and successes as its file has entries and trues; every instance is known."""
    folder = REAL / "swebenchpro"
    instances = read_instances(folder / "instance_tests.jsonl.gz")
    done = imported("swebench-pro-results", folder / "eval_results", tmp_path / "s", instances=instances)
    assert done.trials == sum(entries for entries, _ in RUNS.values())
    assert not any("not in the file of instances" in remark for file in done.files for remark in file.remarks)
    rows = query(
        tmp_path / "s",
        "select agent, count(*), count(*) filter (where is_success) from trials where trial_state = 'valid' group by 1",
    )
    assert {agent: (count, successes) for agent, count, successes in rows} == RUNS
    assert broken_claims(tmp_path / "s") == []


@pytest.mark.thorough
def test_the_combined_results_of_theagentcompany(tmp_path):
    """Every task and arm is a valid trial with the raw points of its checkpoints, in both spellings."""
    path = next((REAL / "tac" / "eval_results").glob("*.json"))
    imported("tac-evals", path, tmp_path / "s")
    expected = {
        (task, f"{path.stem}/{arm}"): [float(each["result"]) for each in result["checkpoints"]]
        for task, arms in json.loads(path.read_bytes()).items()
        for arm, result in arms.items()
    }
    rows = query(tmp_path / "s", "select task_id, agent, scores from trials where trial_state = 'valid'")
    assert {(task, agent): scores for task, agent, scores in rows} == expected
    assert len(expected) == 8
    assert broken_claims(tmp_path / "s") == []


@pytest.mark.parametrize("name", ["rows_v1_format.csv", "rows_v2_format.csv"])
def test_rows_that_were_never_scored_are_refused(name, tmp_path):
    """Task rows of MCP-Atlas are no results, and the message says what is missing."""
    with pytest.raises(ImportFailed, match="no column coverage_score"):
        imported("mcp-atlas-scores", REAL / "mcpatlas" / name, tmp_path / "s")


@pytest.mark.parametrize("path", sorted(REAL.rglob("*.json"))[:20], ids=lambda path: path.name)
def test_real_files_of_other_formats_are_refused(path, tmp_path):
    """A file that is no dataset is refused with its name."""
    with pytest.raises(ImportFailed, match="json"):
        imported("lhaw-dataset", path, tmp_path / "s")
