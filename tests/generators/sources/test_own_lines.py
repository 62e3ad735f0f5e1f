"""The JSON Lines form: the same tasks as in folders, and faults named by line and key."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.generators.errors import SourceError
from lhaw_record.generators.sources.own import OwnSource
from lhaw_record.generators.sources.task_checks import SourceFinding
from tests.generators.sources.own_tasks import RECORD, VARIANTS, messages, only_task, read, write_folder, write_lines


def test_both_forms_give_the_same_task(tmp_path):
    """A task moves from a folder to a line without becoming another: prompt, checkpoints, files, steps and digest."""
    write_folder(tmp_path / "tasks", variants__toml=VARIANTS)
    from_folder = only_task(tmp_path / "tasks")
    from_line = only_task(write_lines(tmp_path / "tasks.jsonl", RECORD))
    assert from_line == from_folder
    assert from_line.task.task_digest == from_folder.task.task_digest


def test_only_an_id_and_a_prompt_are_needed(tmp_path):
    """The shortest line is a task; null says the same as leaving out."""
    path = write_lines(
        tmp_path / "t.jsonl",
        {"task_id": "a", "prompt": "Do it."},
        {"task_id": "b", "prompt": "Do that.", "trajectory": None, "domain": None},
    )
    tasks = OwnSource(path, "mine").tasks()
    assert [(each.task.task_id, each.trajectory, each.task.domain) for each in tasks] == [
        ("a", None, None),
        ("b", None, None),
    ]


def test_windows_files_and_blank_lines(tmp_path):
    """A byte order mark and CRLF belong to the file, not to its texts; blank lines are nothing."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"task_id": "a", "prompt": "One\\r\\ntwo\\u2028."}\r\n\r\n')
    assert only_task(path).task.prompt == "One\r\ntwo\u2028."


LINE = {"task_id": "b", "prompt": "Do it."}
WRONG = [
    ("{", r"line 2, column 2: not JSON"),
    ("[]", r"line 2: \[\], where an object with keys is expected"),
    ("null", r"line 2: null, where an object"),
    ({"prompt": "x"}, r"line 2: key 'task_id' is missing; add it"),
    ({"task_id": "b"}, r"line 2: key 'prompt' is missing; add it"),
    ({**LINE, "task": 1}, r"line 2: unknown key 'task'; did you mean 'task_id'.*; known: task_id, prompt, checkpoints"),
    ({**LINE, "prompt": None}, r"line 2: key 'prompt': null, where a text is expected"),
    ({**LINE, "task_id": 7}, r"line 2: key 'task_id': 7, where a text is expected"),
    ({**LINE, "task_id": ""}, r"line 2: '' is not a valid id"),
    ({**LINE, "task_id": " b"}, r"line 2: ' b' is not a valid id"),
    ({**LINE, "task_id": "b\nc"}, r"line 2: 'b\\nc' is not a valid id"),
    ({**LINE, "prompt": " \n"}, r"line 2: the prompt is empty"),
    ({**LINE, "task_id": "a"}, r"line 2: task 'a' already exists: .*t\.jsonl, line 1; give each task a unique id"),
    ({**LINE, "checkpoints": [{"label": "x", "total": True}]}, r"key 'checkpoints\[0\]\.total': true, where a number"),
    ({**LINE, "checkpoints": ["x"]}, r"key 'checkpoints\[0\]': \"x\", where an object with keys is expected"),
    ({**LINE, "files": {"ok": "t", "bad": 3}}, r"key 'files\.bad': 3, where a text is expected"),
    ({**LINE, "files": {"/etc/passwd": "x"}}, r"key 'files': '/etc/passwd' is not a path inside the task's folder"),
    ({**LINE, "files": {"a/../../b": "x"}}, r"is not a path inside"),
    ({**LINE, "files": {"a//b": "x"}}, r"is not a path inside"),
    ({**LINE, "files": {"a\\b": "x"}}, r"is not a path inside"),
    ({**LINE, "files": {"": "x"}}, r"is not a path inside"),
    ('{"task_id": "b", "prompt": "x", "prompt": "y"}', r"line 2: key 'prompt' occurs twice; remove one"),
    ('{"task_id": "b", "prompt": "half \\ud83d"}', r"line 2: .* is half a surrogate pair"),
    ('{"task_id": "b", "prompt": "x", "domain": Infinity}', r"line 2: Infinity is not a JSON number"),
]


@pytest.mark.parametrize(("line", "message"), WRONG, ids=[message[:50] for _, message in WRONG])
def test_what_is_wrong_is_named(tmp_path, line, message):
    """File, line, key, value and remedy stand in the one error that comes of a line."""
    path = write_lines(tmp_path / "t.jsonl", {"task_id": "a", "prompt": "First."}, line)
    found = messages(read(path))
    assert len(found) == 1
    assert found[0].startswith(str(path))
    assert re.search(message, found[0]), found[0]


def test_a_whole_pair_of_surrogates_is_a_character(tmp_path):
    """JSON writes characters beyond the first plane as two escapes; together they are fine."""
    path = write_lines(tmp_path / "t.jsonl", '{"task_id": "a", "prompt": "smile \\ud83d\\ude00"}')
    assert only_task(path).task.prompt == "smile \U0001f600"


def test_a_file_in_another_encoding_is_refused(tmp_path):
    """UTF-16, as some editors write it, is named with what to do."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(json.dumps(LINE).encode("utf-16"))
    assert re.search(r"t\.jsonl, line 1: byte 0 \(0xff\) is not UTF-8; save it as UTF-8", messages(read(path))[0])


def test_a_file_of_another_kind_is_refused(tmp_path):
    """Only the names that the documents give are read."""
    path = tmp_path / "tasks.txt"
    path.write_text("{}")
    assert messages(read(path)) == [f"{path} is neither a folder nor named .jsonl or .ndjson; rename it"]


@given(
    st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(
                    st.sampled_from(
                        ["task_id", "prompt", "checkpoints", "label", "total", "trajectory", "files", "name"]
                    ),
                    inner,
                    max_size=5,
                ),
            ),
            max_leaves=12,
        ),
    )
)
def test_no_line_is_worse_than_an_error(tmp_path_factory, content):
    """Whatever stands in a file, reading gives tasks and findings, and asking for tasks at most a SourceError."""
    path = tmp_path_factory.getbasetemp() / "fuzz.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    for found in OwnSource(path, "mine").found():
        assert not isinstance(found, SourceFinding) or found.message.startswith(str(path))
    source = OwnSource(path, "mine")
    if source.read().errors:
        with pytest.raises(SourceError):
            source.tasks()
    else:
        assert source.tasks()
