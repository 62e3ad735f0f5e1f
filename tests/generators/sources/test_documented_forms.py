"""docs/own-tasks.md agrees with the program: its examples are tasks, and every key and command stands in it."""

import re
from pathlib import Path

import msgspec

from lhaw_record.command_line import build_parser
from lhaw_record.generators.sources.own import CheckpointsFile, OwnCheckpoint, OwnRecord, OwnSource, OwnStep

PAGE = Path(__file__).resolve().parents[3] / "docs" / "own-tasks.md"
TEXT = PAGE.read_text(encoding="utf-8")


def block(name: str) -> str:
    """The fenced block that is a file of this name."""
    (found,) = re.findall(rf"^`{re.escape(name)}`:\n\n```\w+\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    return found


def test_the_examples_are_tasks(tmp_path):
    """The files of the folder form and the lines of the other are accepted as they stand in the document."""
    folder = tmp_path / "tasks" / "sort-guests"
    folder.mkdir(parents=True)
    (folder / "prompt.md").write_text("Sort guests.csv by name and write it to sorted.csv.")
    (folder / "variants.toml").write_text(block("variants.toml"), encoding="utf-8")
    (folder / "checkpoints.toml").write_text(block("checkpoints.toml"), encoding="utf-8")
    (folder / "trajectory.json").write_text(block("trajectory.json"), encoding="utf-8")
    (source,) = OwnSource(tmp_path / "tasks", "mine").tasks()
    assert [each.total for each in source.task.checkpoints] == [1.0, 2.0]
    assert len(source.trajectory) == 3
    assert [each.variant_id for each in source.variants] == ["sort-guests/order"]
    (tmp_path / "tasks.jsonl").write_text(block("tasks.jsonl"), encoding="utf-8")
    tasks = OwnSource(tmp_path / "tasks.jsonl", "mine").tasks()
    assert [each.task.task_id for each in tasks] == ["sort-guests", "next-task"]


def test_every_key_is_documented():
    """Whatever a user may write is named on the page."""
    kinds = (OwnRecord, OwnCheckpoint, OwnStep, CheckpointsFile)
    keys = {field.encode_name for kind in kinds for field in msgspec.structs.fields(kind)}
    assert {key for key in keys if key not in TEXT} == set()


def test_the_commands_parse():
    """Every command line on the page is one that the program takes."""
    lines = [line.split() for line in TEXT.splitlines() if line.startswith("lhaw-record ")]
    assert len(lines) >= 5
    for words in lines:
        build_parser().parse_args(words[1:])
