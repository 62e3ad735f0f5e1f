"""The published tasks themselves: every one is read, and what is odd about them is what was counted by hand."""

import csv
import re

import pytest

from lhaw_record.generators.sources.mcp_atlas import McpAtlasSource
from lhaw_record.generators.sources.published import SwebenchProSource, TacSource
from lhaw_record.generators.sources.task_checks import is_blank
from lhaw_record.runners.environments.benchmarks.tac import published_points, read_task
from tests.runners.imports.files import REAL
from tests.support.needs import needs

pytestmark = needs("published")
TASKS = REAL / "tac" / "tasks"
MCP_ATLAS = REAL / "mcpatlas"
ROWS = [MCP_ATLAS / name for name in ("rows_v1_format.csv", "rows_v2_format.csv", "offline_prompts.jsonl")]
INSTANCES = REAL / "swebenchpro" / "rows_openlibrary_27.jsonl"


def sources():
    """Every real source."""
    return {
        "tac": TacSource([TASKS]),
        "mcp_atlas": McpAtlasSource(ROWS, MCP_ATLAS / "data"),
        "swebench_pro": SwebenchProSource([INSTANCES]),
    }


@pytest.mark.parametrize(("name", "count"), [("tac", 43), ("mcp_atlas", 21), ("swebench_pro", 27)])
def test_every_task_is_read(name, count):
    """No published task is an error; each has a prompt and checkpoints worth points."""
    tasks = sources()[name].tasks()
    assert len(tasks) == count
    assert not any(is_blank(each.task.prompt) for each in tasks)
    assert all(checkpoint.total > 0 for each in tasks for checkpoint in each.task.checkpoints)
    assert all(each.task.checkpoints for each in tasks)


def test_the_points_of_every_folder_are_those_of_published_results():
    """The checkpoints of all 43 folders add up to what published results grade the task with, and prompts are whole."""
    with (REAL / "tac" / "tasks_index.csv").open(newline="") as file:
        index = {row["task"]: row for row in csv.DictReader(file)}
    for source in TacSource([TASKS]).tasks():
        task = source.task
        assert sum(each.total for each in task.checkpoints) == published_points()[task.task_id]
        assert len((TASKS / task.task_id / "task.md").read_bytes().decode()) == len(task.prompt)
        assert "+".join(read_task(TASKS / task.task_id).services) == index[task.task_id]["services"]


def test_three_texts_about_grading_contradict_themselves():
    """In three of 43 folders the stated total differs from the points of the checkpoints; nothing else is odd."""
    reading = TacSource([TASKS]).read()
    assert reading.errors == ()
    odd = {each.task_id: re.findall(r"\d+", each.message.rpartition(":")[2]) for each in reading.findings}
    assert odd == {
        "admin-remove-pages-pdf": ["4", "3"],
        "ds-coffee-shop-database-management": ["7", "10"],
        "ds-janusgraph-exercise": ["4", "6"],
    }


def test_no_file_of_a_grader_is_shown():
    """The folders here have no Dockerfile, so no file in them is known to be an agent's."""
    assert [dict(each.files) for each in TacSource([TASKS]).tasks() if each.files] == []


def test_rows_of_mcp_atlas():
    """Twelve rows bring a trajectory, nine do not; every task sees the same twelve files of the data."""
    tasks = McpAtlasSource(ROWS, MCP_ATLAS / "data").tasks()
    assert sum(each.trajectory is not None for each in tasks) == 12
    assert {len(each.files) for each in tasks} == {12}
    assert all(step.name for each in tasks for step in each.trajectory or ())


def test_instances_of_swebench_pro():
    """Eight of 27 instances are written as JSON strings in all three parts; none of that is left in a prompt."""
    reading = SwebenchProSource([INSTANCES]).read()
    quoted = {each.task_id for each in reading.findings}
    assert (len(quoted), len(reading.findings)) == (8, 8)
    for each in reading.tasks:
        assert not each.task.prompt.startswith('"')
        labels = [checkpoint.label for checkpoint in each.task.checkpoints]
        assert labels == sorted(labels)
