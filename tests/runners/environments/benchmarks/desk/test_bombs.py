"""Deliverables that try to exhaust or crash a grader: the runner survives, and the trial is graded."""

import io
import os
import resource
import zipfile
from pathlib import Path

import openpyxl
import pytest

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks, grade_desk, modules_of
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import write_files
from lhaw_record.runners.environments.grading.confined import ConfinedLimits
from lhaw_record.runners.environments.grading.confined_grading import grade_apart
from tests.runners.environments.benchmarks.desk.solutions import solutions_of
from tests.support.depth import at_depth

TASKS = {task.task_id: task for task in desk_tasks()}
SMALL = ConfinedLimits(memory_mb=64, cpu_seconds=1)


def far_cell():
    """A workbook of a few KB whose last cell is the last there can be."""
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    book.active["A1"] = "expense_id"
    book.active["XFD1048576"] = 1
    book.save(buffer)
    return buffer.getvalue()


def zip_bomb(size):
    """A workbook whose sheet unpacks to as many bytes of spaces."""
    book, buffer, packed = openpyxl.Workbook(), io.BytesIO(), io.BytesIO()
    book.save(buffer)
    with zipfile.ZipFile(buffer) as plain, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in plain.namelist():
            content = plain.read(name)
            archive.writestr(name, content + b" " * size if "sheet1" in name else content)
    return packed.getvalue()


def many_laughs():
    """A workbook whose sheet defines entities that grow tenfold at each of nine steps."""
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    sheet = f'<!DOCTYPE x [<!ENTITY l0 "lol">{entities}]><worksheet><a>&l9;</a></worksheet>'
    book, buffer, packed = openpyxl.Workbook(), io.BytesIO(), io.BytesIO()
    book.save(buffer)
    with zipfile.ZipFile(buffer) as plain, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in plain.namelist():
            archive.writestr(name, sheet if "sheet1" in name else plain.read(name))
    return packed.getvalue()


WORKBOOKS = {"far_cell": far_cell, "zip_bomb": lambda: zip_bomb(49_000_000), "laughs": many_laughs}
TEXTS = {
    "nested": lambda: b"[" * 3_900_000,
    "one_line": lambda: b"a" * 3_900_000,
    "digits": lambda: b"9" * 3_900_000,
    "groups": lambda: b"1,1.1'1 " * 400_000,
    "cells": lambda: b"," * 3_900_000,
    "lines": lambda: b"\n" * 3_900_000,
    "quotes": lambda: b'"' * 3_900_001,
    "numbers": lambda: b'[{"sku": 1e999, "supplier": ' + b"9" * 5000 + b"}]",
    "surrogates": lambda: b'[{"sku": "\\ud800", "supplier": "\\ud800", "quantity": 1, "delivery_day": 1}]',
    "headings": lambda: b"# \n" * 1_300_000,
    "marks": lambda: b"BEGIN:VEVENT\n" * 300_000,
    "folds": lambda: b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nX;A=" + b"\n B=;" * 700_000 + b"\nEND:VEVENT\n",
}
QUICK = ("far_cell", "laughs", "nested", "surrogates", "numbers", "fifo", "sparse", "device")
SLOW = tuple(sorted({*WORKBOOKS, *TEXTS} - {*QUICK}))


def deliverables_of(task, folder: Path):
    """Fill a workspace, solve the task, and return the deliverables."""
    write_files(task.build(task.parameters), folder)
    given = {path for path in folder.rglob("*") if path.is_file()}
    answer = solutions_of(task).CORRECT[0](folder, task.parameters)
    return answer or "", [path for path in folder.rglob("*") if path.is_file() and path not in given]


def put(path: Path, kind: str):
    """Put a bomb in the place of a deliverable."""
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes((WORKBOOKS | TEXTS)[kind]())


async def graded(task, folder, answer, limits=SMALL):
    """Grade in a child with small limits."""
    return await grade_apart(
        grade_desk,
        OfficeDeliverables(folder, answer),
        task,
        checkpoints=task.recorded_checkpoints(),
        modules=modules_of(task),
        limits=limits,
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kinds", [QUICK, pytest.param(SLOW, marks=pytest.mark.thorough)], ids=["quick", "slow"])
@pytest.mark.parametrize("task_id", list(TASKS)[:: at_depth(3, 1)])
async def test_no_bomb_leaves_the_denominator(task_id, kinds, tmp_path):
    """Whatever kind of bomb replaces whatever deliverable, the trial is graded, and never as a success."""
    task = TASKS[task_id]
    for kind in kinds:
        folder = tmp_path / kind
        folder.mkdir()
        answer, paths = deliverables_of(task, folder)
        bombed = [path for path in paths if kind not in WORKBOOKS or path.suffix == ".xlsx"]
        for path in bombed:
            put(path, kind)
        grade = await graded(task, folder, answer)
        assert {result.checkpoint_id for result in grade.results} == {item.checkpoint_id for item in task.checkpoints}
        assert not (bombed and grade.is_success), kind


@pytest.mark.thorough
async def test_the_far_cell(tmp_path):
    """A workbook that once took 5.2 GB fails only the checkpoints that read it; the runner's memory stays small."""
    task = TASKS["expense-audit"]
    answer, paths = deliverables_of(task, tmp_path)
    (report,) = [path for path in paths if path.name == task.parameters.report_file]
    report.write_bytes(far_cell())
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    has_time = ConfinedLimits(memory_mb=64, cpu_seconds=20)  # a busy machine needs more of it to use up the memory
    grade = await graded(task, tmp_path, answer, has_time)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 20_000
    assert grade.resource_abuse == f"{report.name} could not be read within 64 MB of memory"
    failed = {result.checkpoint_id: result.details for result in grade.results if not result.score}
    assert failed == dict.fromkeys(("receipts", "limits", "details", "order"), grade.resource_abuse)
    assert report.name in {artifact.name for artifact in grade.artifacts}, "kept, so that it can be graded again"


async def test_a_final_answer_without_end(tmp_path):
    """A final answer that takes a grader too long is graded as unreadable."""
    task = TASKS["log-triage"]
    answer, _ = deliverables_of(task, tmp_path)
    grade = await graded(task, tmp_path, answer + "1 1" * 1_000_000)
    assert len(grade.results) == len(task.checkpoints)
