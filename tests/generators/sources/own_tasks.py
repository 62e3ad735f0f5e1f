"""A user's own tasks as files, and the tasks of either form."""

import json
from pathlib import Path
from typing import Any

from lhaw_record.generators.protocol import SourceTask
from lhaw_record.generators.sources.own import OwnSource
from lhaw_record.generators.sources.task_checks import SourceReport

PROMPT = "Sort guests.csv by name and write it to sorted.csv."
CHECKPOINTS = """\
domain = "events"

[[checkpoints]]
label = "sorted.csv is there"

[[checkpoints]]
checkpoint_id = "order"
label = "its rows are in order"
total = 2
"""
STEPS = [
    {"name": "read_file", "arguments": {"path": "guests.csv"}, "result": "name\nZoë\nAda\n"},
    {"name": "submit"},
]
RECORD = {
    "task_id": "sort-guests",
    "prompt": PROMPT,
    "checkpoints": [
        {"label": "sorted.csv is there"},
        {"checkpoint_id": "order", "label": "its rows are in order", "total": 2},
    ],
    "trajectory": STEPS,
    "files": {"guests.csv": "name\nZoë\nAda\n", "notes/old.txt": "older"},
    "domain": "events",
    "variants": [
        {
            "name": "order",
            "severity": "delete",
            "prompt": "Sort guests.csv and write it to sorted.csv.",
            "segments": [
                {
                    "value": "by name",
                    "dimension": "constraint",
                    "subdimension": "selection",
                    "expected_questions": ["In which order do you want the names sorted?"],
                    "synonyms": ["order", "sort by name"],
                }
            ],
        }
    ],
}
VARIANTS = """\
[[variants]]
name = "order"
severity = "delete"
prompt = "Sort guests.csv and write it to sorted.csv."
[[variants.segments]]
value = "by name"
dimension = "constraint"
subdimension = "selection"
expected_questions = ["In which order do you want the names sorted?"]
synonyms = ["order", "sort by name"]
"""


def write_folder(root: Path, name: str = "sort-guests", **changes: str | bytes | None) -> Path:
    """Write a whole task folder below ``root``; a keyword names a file, its dots as double underscores."""
    files: dict[str, str | bytes | None] = {
        "prompt.md": PROMPT,
        "checkpoints.toml": CHECKPOINTS,
        "trajectory.json": json.dumps(STEPS),
        "files/guests.csv": "name\nZoë\nAda\n",
        "files/notes/old.txt": "older",
    }
    files.update({key.replace("__", "."): content for key, content in changes.items()})
    for path, content in files.items():
        if content is not None:
            target = root / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
    return root / name


def write_lines(path: Path, *records: Any) -> Path:
    """Write records as JSON Lines; texts stay as they are."""
    lines = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(path: Path, benchmark: str = "mine") -> SourceReport:
    """Read a source with everything that is wrong with it."""
    return OwnSource(path, benchmark).read()


def only_task(path: Path) -> SourceTask:
    """The one task of a source without errors."""
    (task,) = OwnSource(path, "mine").tasks()
    return task


def messages(reading: SourceReport, *, errors: bool = True) -> list[str]:
    """What the errors of a reading say, or its warnings."""
    return [each.message for each in reading.findings if each.is_error == errors]
