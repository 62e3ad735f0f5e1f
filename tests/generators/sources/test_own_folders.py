"""The folder form: what each file becomes, and what is refused, by file, line, key and value."""

import json
import os
import re

import pytest

from lhaw_record.generators.errors import SourceError
from lhaw_record.generators.protocol import TrajectoryStep
from lhaw_record.generators.sources.own import OwnSource
from tests.generators.sources.own_tasks import CHECKPOINTS, PROMPT, messages, only_task, read, write_folder


def test_a_whole_task(tmp_path):
    """Prompt, checkpoints, domain, trajectory and files each come from their own file."""
    write_folder(tmp_path)
    source = only_task(tmp_path)
    task = source.task
    assert (task.benchmark, task.task_id, task.prompt, task.domain) == ("mine", "sort-guests", PROMPT, "events")
    assert [(each.checkpoint_id, each.label, each.total) for each in task.checkpoints] == [
        ("c1", "sorted.csv is there", 1.0),
        ("order", "its rows are in order", 2.0),
    ]
    assert source.trajectory == (
        TrajectoryStep(name="read_file", arguments_json='{"path":"guests.csv"}', result="name\nZoë\nAda\n"),
        TrajectoryStep(name="submit", arguments_json="{}"),
    )
    assert dict(source.files) == {"guests.csv": "name\nZoë\nAda\n", "notes/old.txt": "older"}


def test_a_prompt_alone_is_a_task(tmp_path):
    """Everything but the prompt may be left out; without checkpoints a warning says what cannot be done."""
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "prompt.md").write_text(PROMPT)
    source = only_task(tmp_path)
    assert (source.task.checkpoints, source.trajectory, dict(source.files)) == ((), None, {})
    assert messages(read(tmp_path), errors=False) == [
        f"{tmp_path / 't'}: no checkpoints: variants can be made of it, but no trial of it can be graded"
    ]


def test_folders_come_in_the_order_of_their_names(tmp_path):
    """The order is the same on every machine; hidden entries are passed over, other files with a warning."""
    for name in ("b", "a10", "a2", "Z"):
        write_folder(tmp_path, name, **{"prompt.md": f"Do {name}."})
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("about")
    reading = read(tmp_path)
    assert [each.task.task_id for each in reading.tasks] == ["Z", "a10", "a2", "b"]
    assert messages(reading, errors=False) == [f"{tmp_path / 'README.md'} is not a task folder and is left out"]


def test_a_trajectory_may_be_json_lines(tmp_path):
    """Both files hold the same steps."""
    lines = '{"name": "read_file"}\r\n\r\n{"name": "submit", "arguments": {"n": 1}}\r\n'
    write_folder(tmp_path, trajectory__json=None, trajectory__jsonl=lines)
    assert [(each.name, each.arguments_json) for each in only_task(tmp_path).trajectory] == [
        ("read_file", "{}"),
        ("submit", '{"n":1}'),
    ]


def test_line_ends_and_a_byte_order_mark_of_a_prompt_stay(tmp_path):
    """A prompt is its file to the character, and a warning says what is in it; elsewhere they change nothing."""
    mark = b"\xef\xbb\xbf"
    write_folder(
        tmp_path,
        prompt__md=mark + b"One.\r\nTwo.\r\n",
        checkpoints__toml=mark + CHECKPOINTS.replace("\n", "\r\n").encode(),
        trajectory__json=mark + b'[\r\n{"name": "submit"}]\r\n',
    )
    source = only_task(tmp_path)
    assert source.task.prompt == "\ufeffOne.\r\nTwo.\r\n"
    assert [each.label for each in source.task.checkpoints] == ["sorted.csv is there", "its rows are in order"]
    assert [each.name for each in source.trajectory] == ["submit"]
    warned = " ".join(messages(read(tmp_path), errors=False))
    assert "byte order mark" in warned
    assert "Windows line ends" in warned


def test_a_prompt_of_100_kb_in_another_script(tmp_path):
    """A long prompt is a prompt like any other."""
    prompt = "Сортируй список гостей по имени.\n" * 3000
    write_folder(tmp_path, prompt__md=prompt)
    assert only_task(tmp_path).task.prompt == prompt


def test_files_without_text_are_named(tmp_path):
    """An image has an empty text; its bytes still make another environment."""
    folder = write_folder(tmp_path)
    first = only_task(tmp_path).task.environment_digest
    (folder / "files" / "logo.png").write_bytes(b"\x89PNG\x00\xff")
    second = only_task(tmp_path)
    (folder / "files" / "logo.png").write_bytes(b"\x89PNG\x00\xfe")
    assert second.files["logo.png"] == ""
    assert len({first, second.task.environment_digest, only_task(tmp_path).task.environment_digest}) == 3


WRONG = [
    ({"prompt__md": b"caf\xe9"}, r"prompt\.md, line 1: byte 3 \(0xe9\) is not UTF-8; save it as UTF-8"),
    ({"prompt__md": b"a\nb\n\xff"}, r"prompt\.md, line 3: byte 4"),
    ({"prompt__md": ""}, r"sort-guests: the prompt is empty; write"),
    ({"prompt__md": "\ufeff \r\n\t"}, r"sort-guests: the prompt is empty; write"),
    ({"prompt__md": None}, r"sort-guests has no prompt\.md; write"),
    ({"checkpoint__toml": "x"}, r"checkpoint\.toml: a task's folder has no such file; known: prompt\.md, checkpoints"),
    ({"trajectory__jsonl": "{}"}, r"has trajectory\.json and trajectory\.jsonl; keep one"),
    ({"checkpoints__toml": "domain = 'x'\nb = \n"}, r"checkpoints\.toml: not TOML: .*line 2"),
    ({"checkpoints__toml": "domain = 3"}, r"checkpoints\.toml: key 'domain': 3, where a text is expected"),
    ({"checkpoints__toml": "points = 3"}, r"unknown key 'points'.*; known: checkpoints, domain"),
    (
        {"checkpoints__toml": "[[checkpoints]]\nlabel = 'a'\n[[checkpoints]]\nlabel = 'b'\ntotal = 'two'"},
        r"checkpoints\.toml: key 'checkpoints\[1\]\.total': \"two\", where a number is expected",
    ),
    (
        {"checkpoints__toml": "[[checkpoints]]\nlable = 'a'"},
        r"unknown key 'checkpoints\[0\]\.lable'; did you mean 'label'\?; known: label, total, checkpoint_id",
    ),
    ({"checkpoints__toml": "[[checkpoints]]\ntotal = 1"}, r"key 'checkpoints\[0\]\.label' is missing; add it"),
    ({"checkpoints__toml": "[checkpoints]\nlabel = 'a'"}, r"key 'checkpoints': .*, where a list is expected"),
    ({"checkpoints__toml": "[[checkpoints]]\nlabel = 'a'\ntotal = 0"}, r"c1 is worth 0 points; it must be worth more"),
    ({"checkpoints__toml": "[[checkpoints]]\nlabel = 'a'\ntotal = -1"}, r"c1 is worth -1 points"),
    ({"checkpoints__toml": "[[checkpoints]]\nlabel = 'a'\ntotal = nan"}, r"c1 is worth nan points"),
    ({"checkpoints__toml": "[[checkpoints]]\nlabel = ' '"}, r"checkpoint c1 has no label"),
    (
        {"checkpoints__toml": "[[checkpoints]]\nlabel = 'a'\n[[checkpoints]]\nlabel = 'b'\ncheckpoint_id = 'c1'"},
        r"checkpoint 'c1' occurs 2 times",
    ),
    ({"trajectory__json": "{"}, r"trajectory\.json, column 2: not JSON"),
    ({"trajectory__json": '[\n{"name": }]'}, r"trajectory\.json, line 2, column 10: not JSON"),
    ({"trajectory__json": "{}"}, r"trajectory\.json: \{\}, where a list is expected"),
    (
        {"trajectory__json": '[{"name": "a", "args": {}}]'},
        r"unknown key '\[0\]\.args'; did you mean 'arg[a-z_]*'.*; known: name, arg",
    ),
    ({"trajectory__json": '[{"name": 3}]'}, r"key '\[0\]\.name': 3, where a text is expected"),
    ({"trajectory__json": '[{"name": "a", "arguments": []}]'}, r"key '\[0\]\.arguments': \[\], where an object"),
    ({"trajectory__json": '[{"name": "a", "name": "b"}]'}, r"key 'name' occurs twice"),
    ({"trajectory__json": '[{"name": "a", "result": NaN}]'}, r"NaN is not a JSON number"),
    ({"trajectory__json": '[{"name": ""}]'}, r"step 1 of the trajectory has no name"),
    ({"trajectory__json": "[" * 100_000}, r"trajectory\.json: .*recursion"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=[message[:50] for _, message in WRONG])
def test_what_is_wrong_is_named(tmp_path, changes, message):
    """The task's folder or file, the place, the value and the remedy stand in the one error that comes of it."""
    write_folder(tmp_path, **changes)
    found = messages(read(tmp_path))
    assert len(found) == 1
    assert str(tmp_path / "sort-guests") in found[0]
    assert re.search(message, found[0]), found[0]


def test_every_wrong_task_is_reported_and_none_is_used(tmp_path):
    """One reading names all faults, and asking for the tasks fails with the first and the number of the others."""
    write_folder(tmp_path, "a", prompt__md="")
    write_folder(tmp_path, "b", checkpoints__toml="x = 1")
    write_folder(tmp_path, "c")
    assert len(messages(read(tmp_path))) == 2
    with pytest.raises(SourceError, match=r"unknown key.* \(1 more; 'lhaw-record tasks check' shows all\)"):
        OwnSource(tmp_path, "mine").tasks()


def test_links_that_leave_the_folder_are_refused(tmp_path):
    """Nothing outside a task's folder becomes part of it: not through a file, a folder, or the task's folder itself."""
    outside = tmp_path / "outside"
    write_folder(outside, "far")
    (outside / "secret.txt").write_text("secret")
    root = tmp_path / "tasks"
    for name, link, target in (
        ("a", "files/s.txt", outside / "secret.txt"),
        ("b", "files/all", outside),
        ("c", "prompt.md", outside / "secret.txt"),
        ("d", "checkpoints.toml", outside / "far" / "checkpoints.toml"),
        ("e", "files/gone.txt", outside / "gone.txt"),
    ):
        folder = write_folder(root, name, **({link.replace(".", "__"): None} if "files" not in link else {}))
        (folder / link).symlink_to(target)
    (root / "f").symlink_to(outside / "far")
    found = messages(read(root))
    assert len(found) == 6
    assert all("a link that leaves" in message for message in found), found
    assert "secret" not in " ".join(found).replace("secret.txt", "")


def test_links_inside_the_folder(tmp_path):
    """A link to a file of the task is that file; a link to a folder could lead in a circle and is refused."""
    folder = write_folder(tmp_path)
    (folder / "files" / "copy.csv").symlink_to("guests.csv")
    assert only_task(tmp_path).files["copy.csv"] == "name\nZoë\nAda\n"
    (folder / "files" / "again").symlink_to(".")
    assert "a link to no file" in messages(read(tmp_path))[0]


def test_special_files_are_refused(tmp_path):
    """A pipe is never opened: reading it would wait for ever."""
    folder = write_folder(tmp_path)
    os.mkfifo(folder / "files" / "pipe")
    assert "no regular file" in messages(read(tmp_path))[0]


def test_the_folder_of_one_task_is_told_from_a_folder_of_tasks(tmp_path):
    """Naming one level too deep says which folder to name."""
    folder = write_folder(tmp_path)
    assert messages(read(folder)) == [
        f"{folder} is the folder of one task; name the folder above it, which holds a folder for each task"
    ]


def test_a_folder_without_tasks(tmp_path):
    """Nothing to do is an error, not an empty benchmark."""
    assert messages(read(tmp_path)) == ["there is no task; name files or folders with tasks"]


def test_odd_ids_and_repeated_prompts_are_suspicious(tmp_path):
    """A space in an id and the prompt of another task are warnings: nothing breaks, and they are rarely meant."""
    write_folder(tmp_path, "a b")
    write_folder(tmp_path, "c")
    reading = read(tmp_path)
    assert reading.errors == ()
    assert messages(reading, errors=False) == [
        f"{tmp_path / 'a b'}: its id 'a b' has ' ', which is awkward in file names and commands",
        f"{tmp_path / 'c'}: it has the same prompt as task 'a b'",
    ]


def test_a_large_file_is_named_and_not_read(tmp_path):
    """Two megabytes and more are data, not text to read a rule from; a warning says so."""
    folder = write_folder(tmp_path)
    (folder / "files" / "big.csv").write_bytes(b"1,2\n" * 600_000)
    assert only_task(tmp_path).files["big.csv"] == ""
    assert messages(read(tmp_path), errors=False) == [
        f"{folder / 'files' / 'big.csv'} is too large to be read; only its name is used"
    ]


def test_a_huge_number_in_arguments_is_kept(tmp_path):
    """Arguments are data: a number beyond 64 bits comes through as it is."""
    write_folder(tmp_path, trajectory__json='[{"name": "a", "arguments": {"n": 1234567890123456789012}}]')
    assert json.loads(only_task(tmp_path).trajectory[0].arguments_json) == {"n": 1234567890123456789012}
