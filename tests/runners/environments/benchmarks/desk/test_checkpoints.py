"""Every checkpoint of every desk task tells right from wrong."""

import os

import pytest

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks, grade_desk
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import write_files
from tests.runners.environments.benchmarks.desk.solutions import grade_after, solutions_of

TASKS = desk_tasks()
IDS = [task.task_id for task in TASKS]


def _reached(task, grade):
    return {
        result.checkpoint_id: result.score >= item.total
        for result, item in zip(grade.results, task.checkpoints, strict=True)
    }


@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_untouched_workspace_reaches_nothing(task, tmp_path):
    """An agent that does nothing gets no points."""
    grade = grade_after(task, None, tmp_path)
    assert {result.score for result in grade.results} == {0.0}
    assert not grade.is_success


@pytest.mark.sampled(8)
@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_correct_work_reaches_everything(task, tmp_path):
    """Two correct solutions in different formats get every point, and the files that were read are kept."""
    ways = solutions_of(task).CORRECT
    assert len(ways) >= 2
    for way in ways:
        grade = grade_after(task, way, tmp_path / way.__name__)
        assert [result.details for result in grade.results if not result.score] == []
        assert grade.is_success
        assert grade.artifacts or not task.build(task.parameters)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_each_checkpoint_fails_on_two_wrong_workspaces(task, tmp_path):
    """No checkpoint is free: at least two kinds of wrong work miss it."""
    reached = [_reached(task, grade_after(task, way, tmp_path / way.__name__)) for way in solutions_of(task).WRONG]
    misses = {item.checkpoint_id: sum(not row[item.checkpoint_id] for row in reached) for item in task.checkpoints}
    assert {name: count for name, count in misses.items() if count < 2} == {}


@pytest.mark.sampled(13)
@pytest.mark.parametrize("kind", ["folder", "link", "noise", "empty", "text"])
@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_strange_deliverables_are_unmet_not_a_crash(task, kind, tmp_path):
    """Whatever replaces a deliverable, grading ends with a verdict."""
    write_files(task.build(task.parameters), tmp_path)
    given = {path for path in tmp_path.rglob("*") if path.is_file()}
    solutions_of(task).CORRECT[0](tmp_path, task.parameters)
    for path in [path for path in tmp_path.rglob("*") if path.is_file() and path not in given]:
        path.unlink()
        match kind:
            case "folder":
                path.mkdir()
            case "link":
                path.symlink_to("/etc/passwd")
            case "noise":
                path.write_bytes(b"PK\x03\x04\0\xff" + os.urandom(200))
            case "empty":
                path.touch()
            case "text":
                path.write_text('"unclosed, 1\n2;3\n\n,,,\n# 12\n')
    grade = grade_desk(OfficeDeliverables(tmp_path, ""), task)
    assert not grade.is_success


@pytest.mark.parametrize("task", TASKS, ids=IDS)
def test_task_has_three_to_six_checkpoints(task):
    """A task has three to six sub-goals with different names."""
    names = [item.checkpoint_id for item in task.checkpoints]
    assert 3 <= len(set(names)) == len(names) <= 6
