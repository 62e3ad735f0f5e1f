"""The export ``harbor``: task folders that are their task's but for the prompt, which Harbor's own classes load."""

import json
import os

import pytest

from runners.benchmarks.harbor.new_task import write_task
from tests.cli.program import called
from tests.support.harbor_variants import register_variants

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
    assert made["instruction.md"][0].decode() == CANARY + variants["sort-guests"].prompt
    assert b'name = "lab/sort-guests--no-first-word"  # theirs' in made["task.toml"][0]
    assert [each["folder"] for each in json.loads((tmp_path / "out" / "variants.json").read_text())] == [
        "sort-guests--no-first-word"
    ]
    again = called("export", "harbor", tmp_path / "store", "--tasks", dataset, "-o", tmp_path / "out")
    assert "is there already" in again.stderr
    assert _files(tmp_path / "out" / "sort-guests") == original


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
    assert "left out: 1 variants made of another instruction.md" in done.stderr
    (dataset / "sort-guests").rename(dataset / "other")
    done = called("export", "harbor", tmp_path / "store", "--tasks", dataset, "-o", tmp_path / "out")
    assert "left out: 1 variants whose task is not in the dataset" in done.stderr
    assert not (tmp_path / "out").exists()
