"""Rows of MCP-Atlas with the trajectories of reference solutions."""

import json

import pytest

from lhaw_record.runners.imports import ImportFailed
from tests.runners.imports.files import MCP_TASK, REAL, as_csv, imported, query, scored_row, write
from tests.support.needs import needs

CALL = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}
TRAJECTORY = [
    {"role": "assistant", "content": "First, look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "rows"}]},
    {"role": "assistant", "content": "Two."},
]


def row(**cells):
    """A row of the dataset."""
    kept = {name: scored_row((1.0, 1.0))[name] for name in ("TASK", "PROMPT", "GTFA_CLAIMS")}
    return {**kept, "TRAJECTORY": json.dumps(TRAJECTORY), **cells}


@pytest.mark.thorough
def test_a_reference_is_a_trial_of_the_same_task(tmp_path):
    """Without a reward it is missing data; with it every claim has it; scored rows are of the same task."""
    path = write(tmp_path / "rows.csv", as_csv(row()))
    imported("mcp-atlas-references", path, tmp_path / "s")
    assert query(tmp_path / "s", "select task_id, agent_name, trial_state from trials") == [
        (MCP_TASK, "reference", "missing")
    ]
    imported("mcp-atlas-references", path, tmp_path / "s", reward=1.0)
    found = "select trial_state, is_success, scores, action_count, attempts from trials"
    assert query(tmp_path / "s", found) == [("valid", True, [1.0, 1.0], 2, 2)]
    assert query(tmp_path / "s", "select action_name, result from actions where is_counted order by action_index") == [
        ("read_file", "rows"),
        ("message", ""),
    ]
    imported("mcp-atlas-scores", write(tmp_path / "scored_m.csv", as_csv(scored_row((1.0, 1.0)))), tmp_path / "s")
    assert query(tmp_path / "s", "select count(*), count(distinct task_digest) from trials") == [(2, 1)]


def test_what_is_no_row_is_named(tmp_path):
    """A file of another kind is refused; a row whose trajectory is cut is skipped with the reason."""
    other = {name: cell for name, cell in row().items() if name != "TRAJECTORY"}
    with pytest.raises(ImportFailed, match="no column TRAJECTORY"):
        imported("mcp-atlas-references", write(tmp_path / "x.csv", as_csv(other)), tmp_path / "s")
    cut = row(TRAJECTORY=json.dumps(TRAJECTORY)[:-9])
    with pytest.raises(ImportFailed, match="1 rows: TRAJECTORY"):
        imported("mcp-atlas-references", write(tmp_path / "y.csv", as_csv(cut)), tmp_path / "s")


@pytest.mark.thorough
@needs("published")
def test_every_published_row_is_read(tmp_path):
    """All rows of both published forms."""
    for name in ("rows_v1_format.csv", "rows_v2_format.csv"):
        done = imported("mcp-atlas-references", REAL / "mcpatlas" / name, tmp_path / "s", reward=1.0)
        assert (done.trials, done.skipped) == (6, ())
