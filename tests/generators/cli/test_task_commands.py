"""``tasks list``, ``tasks show`` and ``tasks check`` as a user calls them."""

import csv
import io
import json

import pytest

from lhaw_record.command_line import main
from tests.generators.sources.own_tasks import PROMPT, RECORD, write_folder, write_lines


@pytest.fixture
def call(capsys):
    """Run the program; gives exit code, standard output and standard error."""

    def run(*words):
        code = main([str(word) for word in words])
        done = capsys.readouterr()
        return code, done.out, done.err

    return run


def test_list_has_one_row_for_each_task(call, tmp_path):
    """Counts and sizes of each task, in CSV and JSON alike."""
    write_folder(tmp_path / "errands")
    words = ("tasks", "list", "own", "--from", tmp_path / "errands", "--format")
    code, out, _ = call(*words, "csv")
    assert code == 0
    (row,) = csv.DictReader(io.StringIO(out))
    assert row == {
        "benchmark": "errands",
        "task_id": "sort-guests",
        "domain": "events",
        "prompt_characters": str(len(PROMPT)),
        "checkpoints": "2",
        "points": "3.0",
        "has_trajectory": "True",
        "files": "2",
    }
    (as_json,) = json.loads(call(*words, "json")[1])
    assert as_json["points"] == 3
    assert as_json["has_trajectory"] is True


def test_list_of_the_bundled_tasks(call):
    """The bundled benchmark needs no argument."""
    code, out, _ = call("tasks", "list", "desk")
    assert code == 0
    assert "expense-audit" in out


def test_list_of_a_source_with_errors_fails(call, tmp_path):
    """A source that cannot be used is no list of fewer tasks: it is an error and exit code 1."""
    write_folder(tmp_path / "errands", prompt__md="")
    code, out, err = call("tasks", "list", "own", "--from", tmp_path / "errands")
    assert (code, out) == (1, "")
    assert "the prompt is empty" in err


def test_show_prints_a_task_for_a_reader(call, tmp_path):
    """The prompt in full, every checkpoint, and files and steps in short."""
    path = write_lines(tmp_path / "errands.jsonl", RECORD)
    code, out, _ = call("tasks", "show", "own", "--from", path, "sort-guests")
    assert code == 0
    assert "errands sort-guests (events)" in out
    assert f"--- prompt, {len(PROMPT)} characters\n{PROMPT}\n" in out
    assert "order (2): its rows are in order" in out
    assert "guests.csv, 13 characters" in out
    assert 'read_file {"path":"guests.csv"}' in out


def test_show_as_data(call, tmp_path):
    """As JSON every part is a row with its kind, name, points and text."""
    path = write_lines(tmp_path / "errands.jsonl", RECORD)
    rows = json.loads(call("tasks", "show", "own", "--from", path, "sort-guests", "--format", "json")[1])
    assert [row["part"] for row in rows if row["part"] != "task"] == [
        "prompt",
        "checkpoint",
        "checkpoint",
        "file",
        "file",
        "step",
        "step",
    ]
    assert {row["name"]: row["points"] for row in rows if row["part"] == "checkpoint"} == {"c1": 1, "order": 2}
    assert next(row["text"] for row in rows if row["part"] == "prompt") == PROMPT


def test_show_of_an_unknown_task(call):
    """A misspelt id is answered with those that are near."""
    code, _, err = call("tasks", "show", "desk", "expense-adit")
    assert code == 1
    assert "source desk has no task 'expense-adit'; similar: expense-audit" in err


def test_check_of_a_sound_source(call):
    """The bundled tasks have nothing wrong or suspicious."""
    code, out, err = call("tasks", "check", "desk", "--format", "json")
    assert (code, json.loads(out)) == (0, [])
    assert "8 tasks read, 0 errors, 0 warnings" in err


def test_check_tells_errors_from_warnings(call, tmp_path):
    """Everything is printed, errors first; only errors make the exit code 1."""
    root = tmp_path / "errands"
    write_folder(root, "a", checkpoints__toml=None)
    words = ("tasks", "check", "own", "--from", root, "--format", "json")
    code, out, err = call(*words)
    assert code == 0
    assert [(each["kind"], each["task_id"]) for each in json.loads(out)] == [("warning", "a")]
    assert "1 tasks read, 0 errors, 1 warnings" in err
    write_folder(root, "b", prompt__md=b"\xff")
    code, out, _ = call(*words)
    assert code == 1
    assert [(each["kind"], each["task_id"]) for each in json.loads(out)] == [("error", "b"), ("warning", "a")]


def test_usage(call, tmp_path):
    """An argument that does not fit is usage, exit code 2, before anything is read."""
    code, _, err = call("tasks", "list", "tac")
    assert code == 2
    assert "source tac needs --from PATH" in err
    assert call("tasks", "check", "own", "--from", tmp_path / "none")[0] == 2
