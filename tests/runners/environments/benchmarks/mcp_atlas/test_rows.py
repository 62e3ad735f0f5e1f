"""Rows in both published forms become the same typed rows; what cannot be read is named by file, row and column."""

import csv
import json

import pytest

from lhaw_record.runners.environments.benchmarks.mcp_atlas.availability import AtlasInstallation, availability
from lhaw_record.runners.environments.benchmarks.mcp_atlas.benchmark import McpAtlasBenchmark
from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import (
    parse_claims,
    parse_names,
    parse_trajectory,
    read_rows,
)
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import catalog
from lhaw_record.runners.environments.benchmarks.published import PublishedError

TRAJECTORY = [
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {
                "id": "a",
                "type": "function",
                "function": {"name": "git_git_log", "arguments": '{"repo_path": "/data/r"}'},
            },
            {"id": "b", "type": "function", "function": {"name": "git_git_status", "arguments": ""}},
        ],
    },
    {"role": "tool", "tool_call_id": "b", "content": "clean"},
    {
        "role": "tool",
        "tool_call_id": "a",
        "content": [{"type": "text", "text": "one\n"}, {"type": "text", "text": "two"}],
    },
]


def write_csv(path, rows):
    """Write rows as CSV and return the path."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def row(**cells):
    """Return a row in the first published form, with some cells changed."""
    return {
        "TASK": "t1",
        "ENABLED_TOOLS": '["git_git_log"]',
        "PROMPT": 'Line one,\nline "two".',
        "TRAJECTORY": json.dumps(TRAJECTORY),
        "GTFA_CLAIMS": '["It is so.", "It isn\'t else."]',
        **cells,
    }


def test_json_and_python_claims_are_the_same(tmp_path):
    """The first form has JSON lists, the second Python literals; both give the same row."""
    first = write_csv(tmp_path / "v1.csv", [row()])
    second = write_csv(
        tmp_path / "v2.csv", [row(GTFA_CLAIMS=repr(["It is so.", "It isn't else."]), GTFA="x", SPLIT="public")]
    )
    (one,), (two,) = read_rows([first]), read_rows([second])
    assert one.claims == two.claims == ("It is so.", "It isn't else.")
    assert one.prompt == 'Line one,\nline "two".'


def test_json_lines_and_csv_give_the_same_row(tmp_path):
    """Lower-case keys and real lists are as good as cells."""
    lines = tmp_path / "rows.jsonl"
    record = {"task": "t1", "prompt": row()["PROMPT"], "claims": ["It is so.", "It isn't else."]}
    lines.write_text(json.dumps({**record, "enabled_tools": [{"name": "git_git_log"}]}) + "\n\n")
    (from_lines,) = read_rows([lines])
    (from_csv,) = read_rows([write_csv(tmp_path / "v1.csv", [row(TRAJECTORY="")])])
    for field in ("task_id", "prompt", "claims", "enabled_tools", "trajectory"):
        assert getattr(from_lines, field) == getattr(from_csv, field)


def test_a_task_in_two_files_is_one_row(tmp_path):
    """The second file adds what the first lacks; another prompt under the same id is an error with both places."""
    first = write_csv(tmp_path / "a.csv", [row()])
    second = write_csv(tmp_path / "b.csv", [row(REQUIRED_SERVERS='["git"]')])
    (merged,) = read_rows([first, second])
    assert merged.required_servers == ("git",)
    third = write_csv(tmp_path / "c.csv", [row(PROMPT="Another one.")])
    with pytest.raises(
        PublishedError, match=r"t1 occurs twice with another prompt: \S+/a\.csv, row 1 and \S+/c\.csv, row 1"
    ):
        read_rows([first, third])


def test_cells_longer_than_the_csv_module_allows(tmp_path):
    """A cell of 800,000 characters is read, and the module's own limit is as before afterwards."""
    limit = csv.field_size_limit()
    long = json.dumps([*TRAJECTORY, {"role": "tool", "tool_call_id": "c", "content": "x" * 800_000}])
    (read,) = read_rows([write_csv(tmp_path / "long.csv", [row(TRAJECTORY=long)])])
    assert len(read.trajectory) == 2
    assert csv.field_size_limit() == limit


def test_calls_meet_their_results_by_id():
    """Results may come in another order, as text or as parts; a call without arguments has none."""
    log, status = parse_trajectory(TRAJECTORY)
    assert (log.name, log.arguments, log.result) == ("git_git_log", {"repo_path": "/data/r"}, "one\n\ntwo")
    assert (status.arguments, status.result) == ({}, "clean")


@pytest.mark.parametrize(
    ("cell", "claims"),
    [
        ('[{"claim": "A.", "essential": true}, {"claim": "B."}]', ("A.", "B.")),
        ("1. First,\n   over two lines.\n2) Second.", ("First, over two lines.", "Second.")),
        ("- one\n* two\n• three", ("one", "two", "three")),
        ("Just one sentence.", ("Just one sentence.",)),
        (["a real list"], ("a real list",)),
        ("[]", ()),
    ],
)
def test_forms_of_claims(cell, claims):
    """Objects, numbered and bulleted text, one sentence and real lists all occur."""
    assert parse_claims(cell) == claims


@pytest.mark.parametrize("cell", ["[1, 2]", "{'a': 1}", "['unclosed", '["x", ""]', "[__import__('os')]"])
def test_claims_that_are_none(cell):
    """Broken lists and other values are errors, and text is never evaluated."""
    with pytest.raises(ValueError, match=r"claim|literal|list"):
        parse_claims(cell)


def test_names_are_texts_or_objects():
    """ENABLED_TOOLS is a list of names or of objects with a name."""
    assert parse_names('["a", {"name": "b"}]') == ("a", "b")
    with pytest.raises(ValueError, match="entry 1"):
        parse_names("[3]")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"GTFA_CLAIMS": "[1]"}, r"bad\.csv, row 1, column GTFA_CLAIMS: claim 1 is not a text"),
        ({"TRAJECTORY": '[{"role": "tool"}]'}, r"row 1, column TRAJECTORY"),
        ({"TRAJECTORY": '["text"]'}, r"row 1, column TRAJECTORY"),
        ({"ENABLED_TOOLS": ""}, r"row 1: no ENABLED_TOOLS; columns found: TASK"),
        ({"ENABLED_TOOLS": "git_git_log"}, r"column ENABLED_TOOLS: neither JSON nor a Python literal"),
    ],
)
def test_errors_name_file_row_and_column(tmp_path, cells, message):
    """Somebody with ten thousand rows has to find the one."""
    with pytest.raises(PublishedError, match=message):
        read_rows([write_csv(tmp_path / "bad.csv", [row(**cells)])])


def test_broken_files_are_named(tmp_path):
    """Missing files, other encodings, ragged rows, broken JSON lines and empty files say which file and where."""
    (tmp_path / "latin.csv").write_bytes(b"TASK,PROMPT,ENABLED_TOOLS\nt,caf\xe9,[]\n")
    (tmp_path / "ragged.csv").write_text("TASK,PROMPT\nt\n")
    (tmp_path / "broken.jsonl").write_text('{"task": "t"\n')
    (tmp_path / "half.jsonl").write_text('{"task": "t", "prompt": "\\ud83d"}\n')
    (tmp_path / "empty.csv").write_text("TASK,PROMPT\n")
    for name, message in (
        ("absent.csv", "No such file"),
        ("latin.csv", "not UTF-8 text"),
        ("ragged.csv", "row 1: the number of cells"),
        ("broken.jsonl", "line 1 is not JSON"),
        ("half.jsonl", "line 1: prompt has half of a surrogate pair"),
        ("empty.csv", "has no record"),
    ):
        with pytest.raises(PublishedError, match=message):
            read_rows([tmp_path / name])


@pytest.mark.parametrize(
    ("tool", "split"),
    [
        ("git_git_log", ("git", "git_log")),
        ("desktop-commander_read_file", ("desktop-commander", "read_file")),
        ("weather-data_weather_history", ("weather-data", "weather_history")),
        ("duckdb_motherduck_query", ("duckdb_motherduck", "query")),
        ("read_file", None),
    ],
)
def test_tool_names_split_at_known_servers_only(tool, split):
    """Hyphens, underscores and repeated names leave no other way."""
    assert catalog().split(tool) == split


def test_published_rows(real_rows):
    """All published rows here are read: 12 tasks with and 9 without a trajectory, every tool of a known server."""
    rows = read_rows(
        [real_rows / name for name in ("rows_v1_format.csv", "rows_v2_format.csv", "offline_prompts.jsonl")]
    )
    assert sum(row.trajectory is not None for row in rows) == 12
    assert sum(row.trajectory is None for row in rows) == 9
    assert all(1 <= len(row.claims) <= 23 for row in rows)
    assert all(catalog().split(tool) for row in rows for tool in row.enabled_tools)
    assert all(call.result for row in rows for call in row.trajectory or ())


@pytest.mark.parametrize(
    "cells", [{"TRAJECTORY": "[]"}, {"TRAJECTORY": ""}, {"REQUIRED_SERVERS": "[]", "TRAJECTORY": "[]"}]
)
def test_a_row_without_reference_calls_needs_what_it_enables(tmp_path, cells):
    """It says nothing of what the task needs, so without its servers the task cannot run."""
    (read,) = read_rows([write_csv(tmp_path / "rows.csv", [row(**cells)])])
    place = AtlasInstallation(data=tmp_path, servers=tmp_path)
    found = availability(read, place)
    assert (found.needed, found.is_runnable) == (None, False)
    assert McpAtlasBenchmark([read], place).needed_tools(read.task_id) == frozenset(read.enabled_tools)
