"""Published instances are read in every way in which they are written, and composed as the benchmark does it."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lhaw_record.runners.environments.benchmarks.published import PublishedError, read_records
from lhaw_record.runners.environments.benchmarks.swebench_pro import instance_of, prompt_of, task_of

ROW = {
    "instance_id": "instance_acme__widget-1-vnan",
    "repo": "acme/widget",
    "base_commit": "abc",
    "problem_statement": "The widget leaks.",
    "requirements": "- It holds water.",
    "interface": "No new interfaces",
    "fail_to_pass": "['tests/b.py::test_b[x-\"y\"]', 'tests/a.py::test_a']",
    "pass_to_pass": '["tests/a.py::test_old"]',
    "repo_language": "python",
    "dockerhub_tag": "acme.widget-1",
}


def test_the_prompt_has_three_parts_under_the_benchmarks_headings():
    """Statement, requirements and interfaces, in this order; the headings stay where a part is empty."""
    assert prompt_of(instance_of(ROW, "row 1")) == (
        "The widget leaks.\n\nRequirements:\n- It holds water.\n\nNew interfaces introduced:\nNo new interfaces"
    )
    empty = instance_of({**ROW, "requirements": None, "interface": ""}, "row 1")
    assert prompt_of(empty) == "The widget leaks.\n\nRequirements:\n\n\nNew interfaces introduced:\n"


@pytest.mark.parametrize("write", [json.dumps, repr, lambda names: names], ids=["json", "python", "list"])
def test_tests_are_checkpoints_in_the_order_of_their_names(write):
    """A list, JSON and a Python literal give the same checkpoints, repeated names once."""
    names = ["t/b.py::test | zwei", "t/a.py::test_a['\"]", "t/b.py::test | zwei"]
    task = task_of(instance_of({**ROW, "fail_to_pass": write(names)}, "row 1"))
    assert [(each.checkpoint_id, each.label, each.total) for each in task.checkpoints] == [
        ("c1", "t/a.py::test_a['\"]", 1.0),
        ("c2", "t/b.py::test | zwei", 1.0),
    ]


def test_what_a_quoted_cell_says_is_taken():
    """A cell that is a JSON string from end to end holds what the string says; quotes inside a text stay."""
    instance = instance_of({**ROW, "problem_statement": json.dumps("# Title\nIt “leaks”.")}, "row 1")
    assert instance.problem_statement == "# Title\nIt “leaks”."
    assert instance.quoted_columns == ("problem_statement",)
    plain = instance_of({**ROW, "problem_statement": '"A" and "B"'}, "row 1")
    assert plain.problem_statement == '"A" and "B"'
    assert plain.quoted_columns == ()


def test_another_commit_image_or_list_of_old_tests_is_another_task():
    """Everything that decides a trial is part of a task's identity; the order of the old tests is not."""

    def digest(**changes):
        return task_of(instance_of({**ROW, **changes}, "row 1")).task_digest

    changed = [digest(base_commit="def"), digest(dockerhub_tag="other"), digest(pass_to_pass=["x"]), digest()]
    assert len(set(changed)) == 4
    assert digest(pass_to_pass=["a", "b"]) == digest(pass_to_pass="['b', 'a']")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem_statement": " "}, "row 7: problem_statement is ' ', expected a text"),
        ({"instance_id": 3}, "row 7: instance_id is 3, expected a text"),
        ({"fail_to_pass": "[1, 2]"}, r"row 7: fail_to_pass is '\[1, 2\]', expected a list of names"),
        ({"fail_to_pass": "__import__('os')"}, "row 7: fail_to_pass is .*, neither JSON nor a Python literal"),
        ({"interface": 5}, "row 7: 5 where a text is expected"),
        ({"dockerhub_tag": 5}, "row 7: dockerhub_tag is 5, expected a text"),
        ({"repo_language": ["go"]}, "row 7: repo_language is .*, expected a text"),
        ({"fail_to_pass": ["a\ud800"]}, "row 7: fail_to_pass has half of a surrogate pair"),
    ],
)
def test_a_wrong_cell_is_named(changes, message):
    """Place, column and value stand in the message, and no text is evaluated."""
    with pytest.raises(PublishedError, match=message):
        instance_of({**ROW, **changes}, "row 7")


def test_a_file_of_something_else_is_named():
    """A list of tests without prompts is refused with the column that is missing."""
    tests_only = {key: ROW[key] for key in ("instance_id", "repo", "base_commit", "fail_to_pass", "pass_to_pass")}
    with pytest.raises(PublishedError, match="no column problem_statement; found: instance_id, repo"):
        instance_of(tests_only, "row 1")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json", "a.csv", "a.parquet"])
def test_every_kind_of_file_gives_the_same_records(tmp_path, name):
    """JSON Lines, gzip, a JSON list, CSV and Parquet hold the same two instances."""
    rows = [ROW, {**ROW, "instance_id": "second", "problem_statement": "a,\r\nb \u2028 c"}]
    path = tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif name.endswith(".csv"):
        import csv

        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(ROW))
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        text = json.dumps(rows) if name.endswith(".json") else "\ufeff" + lines + "\n\n"
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    assert [record for _, record in read_records(path)] == rows


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"{}", "is of an unknown kind; its name must end in"),
        ("a.jsonl", b'{"a": 1}\n{"a"', "a.jsonl, line 2 is not JSON"),
        ("a.jsonl", b"[1]", "a.jsonl, line 1: expected an object"),
        ("a.jsonl", b"\xff", "is not UTF-8 text"),
        ("a.jsonl.gz", b"no", "is not a complete gzip file"),
        ("a.csv", b"a,b\n1\n", "a.csv, row 1: the number of cells"),
        ("a.parquet", b"PAR1", "a.parquet is not a Parquet file"),
        ("a.jsonl", b"\n", "a.jsonl has no record"),
        ("a.json", b"", "a.json has no record"),
        ("a.csv", b"a,b\n", "a.csv has no record"),
    ],
)
def test_a_file_that_is_damaged_is_named(tmp_path, name, content, message):
    """The message has the file with its folder, the place in it and the next step; an empty file is damaged, too."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(PublishedError, match=message) as caught:
        list(read_records(path))
    assert str(caught.value).startswith(str(path))
