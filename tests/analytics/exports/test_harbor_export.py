"""The export ``harbor``: task folders that are their task's but for the prompt, which Harbor's own classes load."""

import json
import os
import tomllib

import pytest

from lhaw_record.analytics.errors import UnknownName
from lhaw_record.analytics.exports.harbor_tasks import renamed
from lhaw_record.runners.environments.benchmarks.new_benchmark import write_task
from tests.cli.program import called
from tests.support.harbor_variants import register_variants

NAMES = (
    '[task]\nname = "a/b"\n',
    "[task]\nname='a/b' # it's theirs\n",
    'task.name="a/b"\n[metadata]\n',
    'task = { keywords = ["a/b"], name = "a/b" }',
    "[ task ]\n'name' = '''a/b'''\n",
    '["task"]\n"na\\u006De" = """\na/b"""\n',
    "# name = 'a/b'\n[metadata]\nname = 'a/b'\n[task]\r\nname = \"a\\u002fb\"\r\n",
    "[task]\nname = 'a/b'\n[task.more]\nname = 'a/b'\n",
)
CANARY = "<!-- canary GUID 0123 -->\n\n"


def _dataset(folder, *, name=""):
    """A dataset of one new task with a canary, and with a name in task.toml if there is one."""
    folder.mkdir()
    os.chdir(folder)
    write_task("sort-guests", "debian:bookworm-slim", has_docker=True)
    task = folder / "sort-guests"
    (task / "instruction.md").write_text(CANARY + (task / "instruction.md").read_text())
    if name:
        (task / "task.toml").write_text((task / "task.toml").read_text() + f"\n[task]\nname = {name}\n")
    return folder


def _files(folder):
    """What is in a folder: bytes and whether it can be executed, by path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), os.access(path, os.X_OK)) for path in files}


@pytest.mark.thorough
def test_a_folder_differs_from_its_task_by_the_prompt_alone(tmp_path, monkeypatch):
    """The task is copied as it is; the variant has its prompt after the canary, and no file that tells the answer."""
    monkeypatch.chdir(tmp_path)
    dataset = _dataset(tmp_path / "tasks", name='"lab/sort-guests"  # theirs')
    variants = register_variants(tmp_path / "store", dataset)
    done = called("export", "harbor", tmp_path / "store", "--tasks", dataset, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr

    original = _files(dataset / "sort-guests")
    made = _files(tmp_path / "out" / "sort-guests--no-first-word")
    assert _files(tmp_path / "out" / "sort-guests") == original
    assert original.keys() - made.keys() == {"variants.toml"}
    changed = {name for name in made if made[name] != original[name]}
    assert changed == {"instruction.md", "task.toml"}
    assert made["instruction.md"][0].decode() == CANARY + variants["lab/sort-guests"].prompt
    assert b'name = "lab/sort-guests--no-first-word"  # theirs' in made["task.toml"][0]
    assert [each["folder"] for each in json.loads((tmp_path / "out" / "variants.json").read_text())] == [
        "sort-guests--no-first-word"
    ]
    again = called("export", "harbor", tmp_path / "store", "--tasks", dataset, "-o", tmp_path / "out")
    assert "already exists" in again.stderr
    assert _files(tmp_path / "out" / "sort-guests") == original


@pytest.mark.thorough
def test_of_a_task_of_several_steps_the_first_prompt_differs(tmp_path, monkeypatch):
    """Its prompt is the instruction of the first step; the others are copied as they are."""
    monkeypatch.chdir(tmp_path)
    dataset = _dataset(tmp_path / "tasks")
    task = dataset / "sort-guests"
    for name in ("first", "then"):
        (task / "steps" / name).mkdir(parents=True)
        (task / "steps" / name / "instruction.md").write_text(f"{CANARY}Do the {name} thing.\n")
    for name in ("instruction.md", "variants.toml", "checkpoints.toml"):
        (task / name).unlink()
    config = (task / "task.toml").read_text()
    (task / "task.toml").write_text(config + '\n[[steps]]\nname = "first"\n\n[[steps]]\nname = "then"\n')
    register_variants(tmp_path / "store", dataset)
    done = called("export", "harbor", tmp_path / "store", "--tasks", dataset, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    original, made = _files(task), _files(tmp_path / "out" / "sort-guests--no-first-word")
    assert {name for name in made if made[name] != original[name]} == {"steps/first/instruction.md"}
    assert made["steps/first/instruction.md"][0].decode() == f"{CANARY}the first thing.\n"


@pytest.mark.thorough
def test_the_name_of_a_task_is_found_however_toml_writes_it():
    """Only the name changes, to TOML's own reader; comments and other strings stay."""
    for config in NAMES:
        wanted = tomllib.loads(config)
        wanted["task"]["name"] += "--x"
        made = renamed(config, "--x", "task.toml")
        assert tomllib.loads(made) == wanted
        assert len(made) == len(config) + 3
    for config in ("[task]\nkeywords = []", "task = 3", "version = '1'"):
        assert renamed(config, "--x", "task.toml") == config
    with pytest.raises(UnknownName, match="is not TOML"):
        renamed("[task", "--x", "task.toml")


@pytest.mark.thorough
def test_only_the_root_of_a_task_loses_its_variants_and_links_are_not_written_through(tmp_path, monkeypatch):
    """A task's files may have any name; an instruction that is a link to the dataset's text leaves that as it is."""
    monkeypatch.chdir(tmp_path)
    dataset = _dataset(tmp_path / "tasks")
    task = dataset / "sort-guests"
    (task / "environment" / "variants.toml").write_text("a file of the task")
    (task / "instruction.md").rename(dataset / "text.md")
    (task / "instruction.md").symlink_to(dataset / "text.md")
    before = _files(dataset)
    register_variants(tmp_path / "store", dataset)
    done = called("export", "harbor", tmp_path / "store", "--tasks", dataset, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    made = tmp_path / "out" / "sort-guests--no-first-word"
    assert (made / "environment" / "variants.toml").read_text() == "a file of the task"
    assert not (made / "variants.toml").exists()
    assert _files(dataset) == before


@pytest.mark.thorough
def test_kinds_of_variants_are_told_and_a_second_request_is_left_out(tmp_path, monkeypatch):
    """Controls and faulty requests have their kind beside them; what a plain folder cannot say is counted."""
    monkeypatch.chdir(tmp_path)
    dataset = _dataset(tmp_path / "tasks")
    again = {"fault": "underspecified_follow_up", "follow_up": "And now?"}
    kinds = {"control": {"origin": "control"}, "wrong": {"fault": "conflicting_instructions"}, "twice": again}
    register_variants(tmp_path / "store", dataset, kinds)
    done = called("export", "harbor", tmp_path / "store", "--tasks", dataset, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "3 variants exported; left out: 1 variants with a second request" in done.stderr
    listing = json.loads((tmp_path / "out" / "variants.json").read_text())
    assert {(each["variant_id"].partition("/")[2], each["origin"], each["fault"]) for each in listing} == {
        ("no first/word", "hand_written", None),
        ("control", "control", None),
        ("wrong", "hand_written", "conflicting_instructions"),
    }


@pytest.mark.thorough
def test_what_does_not_fit_the_dataset_is_left_out_and_counted(tmp_path, monkeypatch):
    """An edited instruction, a missing task, and a folder without tasks."""
    monkeypatch.chdir(tmp_path)
    dataset = _dataset(tmp_path / "tasks")
    register_variants(tmp_path / "store", dataset)
    empty = called("export", "harbor", tmp_path / "store", "--tasks", tmp_path / "store", "-o", tmp_path / "out")
    assert empty.returncode == 1
    assert "has a task.toml" in empty.stderr
    (dataset / "sort-guests" / "instruction.md").write_text("Something else.")
    done = called("export", "harbor", tmp_path / "store", "--tasks", dataset, "-o", tmp_path / "out")
    assert done.returncode == 1
    assert "left out: 1 variants made from another instruction.md" in done.stderr
    (dataset / "sort-guests").rename(dataset / "other")
    done = called("export", "harbor", tmp_path / "store", "--tasks", dataset, "-o", tmp_path / "out")
    assert "left out: 1 variants whose task is not in the dataset" in done.stderr
    assert not (tmp_path / "out").exists()
