"""Sources of published tasks: the tasks that trials are recorded with, and what is odd about their files."""

import csv
import json
from pathlib import Path

import pytest

from lhaw_record.generators.errors import SourceError
from lhaw_record.generators.protocol import TrajectoryStep
from lhaw_record.generators.sources.desk import DeskSource
from lhaw_record.generators.sources.mcp_atlas import McpAtlasSource
from lhaw_record.generators.sources.published import SwebenchProSource, TacSource
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.mcp_atlas.availability import AtlasInstallation
from lhaw_record.runners.environments.benchmarks.mcp_atlas.benchmark import McpAtlasBenchmark
from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import read_rows
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import servers_directory
from tests.generators.sources.own_tasks import messages
from tests.runners.environments.benchmarks.swebench_pro.test_instances import ROW

TRAJECTORY = [
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "function": {"name": "git_git_log", "arguments": '{"n": 2, "a": "ü"}'}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "two commits"},
]


@pytest.fixture
def rows(tmp_path) -> Path:
    """A rows file: a task with a trajectory, and one without claims."""
    path = tmp_path / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["TASK", "ENABLED_TOOLS", "PROMPT", "TRAJECTORY", "GTFA_CLAIMS"])
        tools = '["calculator_calculate"]'
        writer.writerow(["a1", tools, "How many commits?", json.dumps(TRAJECTORY), "['Two.', 'By Ada.']"])
        writer.writerow(["b2", tools, "Who wrote them?", "", ""])
    return path


@pytest.fixture
def data(tmp_path) -> Path:
    """A data folder."""
    folder = tmp_path / "data"
    (folder / "repos").mkdir(parents=True)
    (folder / "sales.csv").write_text("a,b\n")
    (folder / "repos" / "image.png").write_bytes(b"\x89PNG\0")
    return folder


def test_desk_tasks_are_those_of_the_trials():
    """Every task is the benchmark's own, to the digest, and has its workspace with workbooks as text of cells."""
    sources = DeskSource().tasks()
    assert [each.task for each in sources] == list(DeskBenchmark().tasks())
    assert all(each.files and each.trajectory is None for each in sources)
    workbooks = [text for each in sources for path, text in each.files.items() if path.endswith(".xlsx")]
    assert workbooks
    assert all(text.startswith("[") and "," in text for text in workbooks)


def test_mcp_atlas_tasks_are_those_of_the_trials(rows, data):
    """With the data folder a task is the very task of the benchmark, so its recorded trials are found by digest."""
    source = McpAtlasSource([rows], data)
    benchmark = McpAtlasBenchmark(read_rows([rows]), AtlasInstallation(data=data, servers=servers_directory()))
    assert [each.task for each in source.tasks()] == list(benchmark.every_task())
    runnable = {task.task_id: task for task in benchmark.tasks()}
    assert all(each.task == runnable.get(each.task.task_id, each.task) for each in source.tasks())


def test_claims_trajectory_and_data_of_a_row(rows, data):
    """Claims are checkpoints, recorded calls are steps, and files stand where servers see them."""
    first, second = McpAtlasSource([rows], data).tasks()
    assert [each.label for each in first.task.checkpoints] == ["Two.", "By Ada."]
    assert first.trajectory == (
        TrajectoryStep(name="git_git_log", arguments_json='{"a":"ü","n":2}', result="two commits"),
    )
    assert second.trajectory is None
    assert dict(first.files) == {"/data/repos/image.png": "", "/data/sales.csv": "a,b\n"}


def test_without_data_nothing_is_claimed_about_the_environment(rows):
    """The environment's digest is empty, no file is shown, and a warning says what follows from it."""
    reading = McpAtlasSource([rows]).read()
    assert {each.task.environment_digest for each in reading.tasks} == {""}
    assert [dict(each.files) for each in reading.tasks] == [{}, {}]
    assert "no --data" in messages(reading, errors=False)[0]


def test_rows_that_cannot_run_here_are_told(rows, data):
    """Variants can be made of every row; a warning names those of which no trial can be run, and why."""
    warned = messages(McpAtlasSource([rows], data).read(), errors=False)
    assert any("b2" in message and "it has no claims" in message for message in warned)
    assert any("b2: no checkpoints" in message for message in warned)


def test_a_broken_row_is_an_error_of_the_source(rows):
    """What a rows file lacks is said in one finding, and asking for the tasks fails with it."""
    rows.write_text("TASK,PROMPT\na1,Count.\n")
    with pytest.raises(SourceError, match=r"rows\.csv, row 1: no ENABLED_TOOLS"):
        McpAtlasSource([rows]).tasks()


def test_link_in_the_data_is_told(rows, data):
    """A link out of the data folder is not followed."""
    (data / "out").symlink_to("/etc")
    assert any(
        "data out is not shown" in message for message in messages(McpAtlasSource([rows], data).read(), errors=False)
    )


@pytest.fixture
def company(tmp_path) -> Path:
    """Two published folders and one that is none."""
    for name, text in (
        ("sde-b", "This task has 5 points in total.\n## Checkpoint 1 (2pts)\n\nDone.\n\n## Checkpoint 2\n\nClean.\n"),
        ("admin-a", "There are 2 checkpoints.\n## Checkpoint 1 (1pt)\n\nDone.\n"),
    ):
        (tmp_path / "tasks" / name).mkdir(parents=True)
        (tmp_path / "tasks" / name / "task.md").write_text(f"Do {name}.")
        (tmp_path / "tasks" / name / "checkpoints.md").write_text(text)
    (tmp_path / "tasks" / "docs").mkdir()
    return tmp_path / "tasks"


def test_task_folders_of_the_company(company):
    """Folders come in the order of their names, with the text about grading as notes, and no solution as a file."""
    (company / "sde-b" / "Dockerfile").write_text("FROM base\nCOPY plan.csv solution.csv /workspace/\n")
    (company / "sde-b" / "plan.csv").write_text("a,b\n")
    (company / "sde-b" / "solution.csv").write_text("secret\n")
    admin, sde = TacSource([company]).tasks()
    assert (admin.task.task_id, sde.task.task_id) == ("admin-a", "sde-b")
    assert "5 points in total" in sde.checkpoint_notes
    assert dict(sde.files) == {"/workspace/plan.csv": "a,b\n"}
    assert [each.task.task_id for each in TacSource([company / "sde-b"]).tasks()] == ["sde-b"]


def test_texts_about_grading_that_contradict_themselves(company):
    """Stated totals, missing points and folders without a task are warnings, each with the numbers."""
    reading = TacSource([company]).read()
    assert reading.errors == ()
    assert messages(reading, errors=False) == [
        f"{company / 'admin-a'}: its text says 2 checkpoints, it has 1",
        f"{company / 'docs'} has no task.md and is not a task",
        f"{company / 'sde-b'}: 'Checkpoint 2' has no points and counts as 1 point",
        f"{company / 'sde-b'}: its text says 5 points, its checkpoints have 3",
    ]


def test_points_are_held_against_those_that_the_benchmark_grades_with(company):
    """Where the text of a published task has other points than the published results, a warning has both."""
    (company / "admin-a").rename(company / "ds-sql-exercise")
    (company / "ds-sql-exercise" / "checkpoints.md").write_text("## Checkpoint 1 (4pts)\n\nDone.\n")
    assert f"{company / 'ds-sql-exercise'}: its checkpoints have 4 points, the benchmark grades it with 6" in messages(
        TacSource([company]).read(), errors=False
    )


def test_a_text_without_checkpoints(company):
    """Prose about grading gives no checkpoints, and both that and what follows from it are told."""
    (company / "admin-a" / "checkpoints.md").write_text("The agent does well.")
    warned = messages(TacSource([company]).read(), errors=False)
    assert f"{company / 'admin-a'}: checkpoints.md has no checkpoint in a known form" in warned
    assert any(message.startswith(f"{company / 'admin-a'}: no checkpoints") for message in warned)


def test_a_folder_that_cannot_be_read_is_an_error(company):
    """A prompt in another encoding is named; the other folders are still read."""
    (company / "admin-a" / "task.md").write_bytes(b"\xff")
    reading = TacSource([company]).read()
    assert [each.task.task_id for each in reading.tasks] == ["sde-b"]
    assert "task.md is not UTF-8" in messages(reading)[0]


def test_no_points_are_an_error(company):
    """A checkpoint worth nothing cannot be graded."""
    (company / "admin-a" / "checkpoints.md").write_text("## Checkpoint 1 (0 pts)\n\nDone.\n")
    assert messages(TacSource([company]).read()) == [
        f"{company / 'admin-a'}: checkpoint c1 is worth 0 points; it must be worth more than 0"
    ]


def test_instances(tmp_path):
    """Instances come in the order of the files; a record that is none is named, and the others are still read."""
    path = tmp_path / "rows.jsonl"
    quoted = {**ROW, "instance_id": "quoted", "problem_statement": '"# It\\nleaks."'}
    path.write_text("\n".join(json.dumps(each) for each in (ROW, {**ROW, "fail_to_pass": 3}, quoted)))
    reading = SwebenchProSource([path]).read()
    assert [each.task.task_id for each in reading.tasks] == [ROW["instance_id"], "quoted"]
    assert reading.tasks[1].task.prompt.startswith("# It\nleaks.\n\nRequirements:\n")
    assert messages(reading) == [f"{path}, line 2: fail_to_pass is 3, expected a list of names of tests"]
    assert messages(reading, errors=False) == [
        f"{path}, line 3: problem_statement has a JSON string, whose content is used"
    ]


def test_an_instance_that_occurs_twice(tmp_path):
    """The same id in two files is an error that names both places."""
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(json.dumps(ROW))
    found = messages(SwebenchProSource([tmp_path / "a.jsonl", tmp_path / "b.jsonl"]).read())
    assert len(found) == 1
    assert "b.jsonl, line 1" in found[0]
    assert "a.jsonl, line 1" in found[0]
