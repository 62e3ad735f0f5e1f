"""The export ``harbor``: task folders that are their task's but for the prompt, which Harbor's own classes load."""

import json
import os

import anyio
import pytest

from recorder.events import TaskRegistered, VariantGenerated
from recorder.events.canonical_json import digest
from recorder.events.values import Segment, Variant
from recorder.storage.creation import create_store
from recorder.writing.recorder import Recorder
from runners.benchmarks.harbor.new_task import write_task
from runners.benchmarks.harbor.task_folder import is_task_folder, read_task, task_of
from tests.cli.program import called
from tests.support.harbor_classes import loaded_tasks
from tests.support.needs import PUBLISHED, needs

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


def _register(store, dataset):
    """Record a variant without its first word of each task of a dataset, and return them by task."""
    variants = {}
    found = (task_of(read_task(folder)) for folder in sorted(filter(is_task_folder, dataset.iterdir())))
    tasks = [task for task in found if task.prompt]

    async def record():
        async with Recorder(create_store(store), "lab") as recorder:
            stream = recorder.stream("run-1")
            for task in tasks:
                first, _, rest = task.prompt.partition(" ")
                segment = Segment(segment_id="S1", value=first, dimension="goal", subdimension="x")
                variant = Variant(
                    benchmark="harbor",
                    task_id=task.task_id,
                    variant_id=f"{task.task_id}/no first/word",
                    prompt=rest,
                    segments=(segment,),
                    origin="hand_written",
                    severity="delete",
                )
                variants[task.task_id] = variant
                await stream.append(TaskRegistered(task=task, task_digest=task.task_digest))
                event = VariantGenerated(variant=variant, variant_digest=digest(variant), task_digest=task.task_digest)
                await stream.append(event)

    anyio.run(record)
    return variants


def _files(folder):
    """What is in a folder: bytes and whether it can be executed, by path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), os.access(path, os.X_OK)) for path in files}


@pytest.mark.thorough
def test_a_folder_differs_from_its_task_by_the_prompt_alone(tmp_path, monkeypatch):
    """The task is copied as it is; the variant has its prompt after the canary, and no file that tells the answer."""
    monkeypatch.chdir(tmp_path)
    dataset = _dataset(tmp_path / "tasks", name='"lab/sort-guests"  # theirs')
    variants = _register(tmp_path / "store", dataset)
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
    _register(tmp_path / "store", dataset)
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


@needs("harbor")
@needs("published")
@pytest.mark.thorough
def test_harbor_loads_every_exported_folder(tmp_path):
    """Published tasks and their variants: valid to Harbor, no two of one name, and the prompt is the variant's."""
    variants = _register(tmp_path / "store", PUBLISHED / "harbor")
    done = called("export", "harbor", tmp_path / "store", "--tasks", PUBLISHED / "harbor", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert len(variants) > 5
    folders = sorted(path for path in (tmp_path / "out").iterdir() if path.is_dir())
    found = loaded_tasks(map(str, folders))
    assert len({task["name"] for task in found}) == len(folders) == 2 * len(variants)
    for folder, task in zip(folders, found, strict=True):
        assert task["is_valid"], folder.name
        if "--" in folder.name:
            assert task["instruction"] == variants[folder.name.partition("--")[0]].prompt
