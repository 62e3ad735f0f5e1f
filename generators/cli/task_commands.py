"""The commands ``tasks list``, ``tasks show`` and ``tasks check``: print the tasks of a source and their errors."""

import argparse
import difflib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from lhaw_record.generators.cli.source_options import SOURCE_ARGUMENTS, source_of
from lhaw_record.generators.errors import SourceError
from lhaw_record.recorder.cli.arguments import FORMAT
from lhaw_record.recorder.cli.command import Command, CommandGroup, argument
from lhaw_record.recorder.cli.output import print_rows, say

if TYPE_CHECKING:
    from lhaw_record.generators.protocol import SourceTask

_LIST_COLUMNS = (
    "benchmark",
    "task_id",
    "domain",
    "prompt_characters",
    "checkpoints",
    "points",
    "has_trajectory",
    "files",
)
_SHOW_COLUMNS = ("part", "name", "points", "characters", "text")
_CHECK_COLUMNS = ("kind", "task_id", "message")
_SHORT = 200  # characters of a shortened text


def list_command(options: argparse.Namespace) -> int:
    """Print the tasks of a source."""
    rows = [_list_row(source) for source in source_of(options).tasks()]
    print_rows(rows, _LIST_COLUMNS, options.format)
    return 0


def show_command(options: argparse.Namespace) -> int:
    """Print one task."""
    sources = {source.task.task_id: source for source in source_of(options).tasks()}
    chosen = sources.get(options.task)
    if chosen is None:
        near = difflib.get_close_matches(options.task, sources, n=3, cutoff=0.4)
        hint = f"; similar: {', '.join(near)}" if near else "; 'lhaw-record tasks list' prints them"
        raise SourceError(f"source {options.source} has no task {options.task!r}{hint}")
    if options.format == "table":
        _print_task(chosen, sys.stdout)
    else:
        print_rows(list(_parts(chosen)), _SHOW_COLUMNS, options.format)
    return 0


def check_command(options: argparse.Namespace) -> int:
    """Print the errors and warnings about a source's tasks. The exit code is 1 if there are errors."""
    reading = source_of(options).read()
    rows = [
        {"kind": "error" if each.is_error else "warning", "task_id": each.task_id, "message": each.message}
        for each in sorted(reading.findings, key=lambda each: not each.is_error)
    ]
    print_rows(rows, _CHECK_COLUMNS, options.format)
    errors = len(reading.errors)
    counts = f"{len(reading.tasks)} tasks read, {errors} errors, {len(rows) - errors} warnings"
    say(counts)
    return 1 if errors else 0


def _list_row(source: "SourceTask") -> dict[str, object]:
    task = source.task
    return {
        "benchmark": task.benchmark,
        "task_id": task.task_id,
        "domain": task.domain,
        "prompt_characters": len(task.prompt),
        "checkpoints": len(task.checkpoints),
        "points": sum(each.total for each in task.checkpoints),
        "has_trajectory": source.trajectory is not None,
        "files": len(source.files),
    }


def _parts(source: "SourceTask") -> Iterator[dict[str, object]]:
    """Yield the parts of a task as rows. The texts of files are shortened, and the results of steps are left out."""
    task = source.task
    about = {"benchmark": task.benchmark, "task_id": task.task_id, "domain": task.domain, "licence": task.licence}
    for name, value in {**about, "task_digest": task.task_digest}.items():
        yield {"part": "task", "name": name, "text": value}
    yield {"part": "prompt", "characters": len(task.prompt), "text": task.prompt}
    for each in task.checkpoints:
        yield {"part": "checkpoint", "name": each.checkpoint_id, "points": each.total, "text": each.label}
    if source.checkpoint_notes:
        notes = source.checkpoint_notes
        yield {"part": "checkpoint notes", "characters": len(notes), "text": notes}
    for path, text in source.files.items():
        yield {"part": "file", "name": path, "characters": len(text), "text": text[:_SHORT]}
    for step in source.trajectory or ():
        yield {"part": "step", "name": step.name, "characters": len(step.result or ""), "text": step.arguments_json}


def _print_task(source: "SourceTask", out: TextIO) -> None:
    """Write a task as readable text."""
    task = source.task
    out.write(f"{task.benchmark} {task.task_id}" + (f" ({task.domain})" if task.domain else "") + "\n")
    out.write(f"\n--- prompt, {len(task.prompt)} characters\n{task.prompt.rstrip()}\n")
    out.write(f"\n--- {len(task.checkpoints)} checkpoints, {sum(each.total for each in task.checkpoints):g} points\n")
    out.writelines(f"{each.checkpoint_id} ({each.total:g}): {each.label}\n" for each in task.checkpoints)
    if source.checkpoint_notes:
        out.write(f"\n--- the benchmark's text about grading\n{source.checkpoint_notes.rstrip()}\n")
    out.write(f"\n--- {len(source.files)} files\n")
    out.writelines(f"{path}, {len(text)} characters\n" for path, text in source.files.items())
    if source.trajectory is None:
        out.write("\n--- no trajectory\n")
        return
    out.write(f"\n--- trajectory of {len(source.trajectory)} steps\n")
    for step in source.trajectory:
        arguments = step.arguments_json
        short = arguments if len(arguments) <= _SHORT else f"{arguments[: _SHORT - 3]}..."
        out.write(f"{step.name} {short}\n")


COMMANDS = (
    CommandGroup(
        name="tasks",
        help="list, show and check tasks for generation",
        description="List, show and check the tasks for generation: bundled, published, or your own.",
        commands=(
            Command(
                name="list",
                help="print one row for each task",
                description="Print one row for each task of a source.",
                example="tasks list own --from my-tasks",
                arguments=(*SOURCE_ARGUMENTS, FORMAT),
                function=list_command,
            ),
            Command(
                name="show",
                help="print one task: prompt, checkpoints, files, trajectory",
                description="Print one task: its prompt, its checkpoints, and an excerpt of its files and trajectory.",
                example="tasks show desk expense-audit",
                arguments=(*SOURCE_ARGUMENTS, argument("task", help="the task's id"), FORMAT),
                function=show_command,
            ),
            Command(
                name="check",
                help="print errors and warnings; exit code 1 if there are errors",
                description="Print errors and warnings about the tasks of a source. Exit code 1 if there are errors, 0 "
                "otherwise.",
                example="tasks check tac --from tasks --format json",
                arguments=(*SOURCE_ARGUMENTS, FORMAT),
                function=check_command,
            ),
        ),
    ),
)
