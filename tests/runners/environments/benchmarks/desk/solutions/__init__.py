"""Solutions of each desk task by hand, in other ways than the grader's and the scripted model's.

A module ``<task>`` (dashes become underscores) defines

- ``CORRECT``: at least two ways to solve the task that differ in approach and in every format the prompt leaves open;
- ``WRONG``: ways to fail it, chosen so that each checkpoint fails in at least two of them;
- ``ALTERNATIVES``: parameter -> other values that the template allows, valid in any combination.

A way is a function ``(folder, parameters) -> final answer or None`` that works in a folder with the workspace.
"""

import csv
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import openpyxl

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.task import DeskTask, grade_desk
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import write_files, write_workbook
from lhaw_record.runners.environments.grading.grade import Grade

Way = Callable[[Path, Any], str | None]


def solutions_of(task: DeskTask) -> ModuleType:
    """Return the module with the solutions of a task."""
    return import_module(f"{__name__}.{task.task_id.replace('-', '_')}")


def grade_after(task: DeskTask, way: Way | None, folder: Path) -> Grade:
    """Grade a fresh workspace in an empty folder after one way of working in it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_files(task.build(task.parameters), folder)
    answer = way(folder, task.parameters) if way else None
    return grade_desk(OfficeDeliverables(folder, answer or ""), task)


def csv_rows(path):
    """Read the rows of a CSV file by column."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def sheet_rows(path, sheet):
    """Read the rows of a sheet below its header."""
    return openpyxl.load_workbook(path)[sheet].iter_rows(min_row=2, values_only=True)


def save(path, text):
    """Write a text as it is, in a folder that may be missing."""
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, newline="")


def write_table(path, rows, delimiter=",", sheet="Table"):
    """Write rows as a workbook or as text with a delimiter, as the file name says."""
    path.parent.mkdir(exist_ok=True, parents=True)
    if path.suffix == ".xlsx":
        plain = [[float(cell) if isinstance(cell, Decimal) else cell for cell in row] for row in rows]
        write_workbook(path, {sheet: plain})
        return
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)


def another(folder, pattern, name):
    """Return the path of the first file or folder that matches a pattern and is not the named one."""
    paths = (str(path.relative_to(folder)) for path in sorted(folder.glob(pattern)))
    return next(path for path in paths if path != name)
