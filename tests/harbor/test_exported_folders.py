"""Harbor's own classes load every folder that the export ``harbor`` writes."""

from tests.analytics.exports.test_harbor_export import NAMES
from tests.cli.program import called
from tests.support.harbor_classes import loaded_tasks
from tests.support.harbor_variants import register_variants
from tests.support.needs import PUBLISHED, needs


@needs("harbor")
def test_harbor_reads_the_name_however_toml_writes_it(tmp_path):
    """A variant has the task's name with its own ending, and is another task to Harbor."""
    for number, config in enumerate(NAMES):
        task = tmp_path / "tasks" / f"task-{number}"
        for name in ("environment", "tests"):
            (task / name).mkdir(parents=True)
        (task / "tests" / "test.sh").write_text("exit 0\n")
        (task / "instruction.md").write_text("Do it now.\n")
        (task / "task.toml").write_bytes(config.encode())
    register_variants(tmp_path / "store", tmp_path / "tasks")
    done = called("export", "harbor", tmp_path / "store", "--tasks", tmp_path / "tasks", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    found = loaded_tasks(str(path) for path in sorted((tmp_path / "out").glob("task-*")))
    assert [task["name"] for task in found] == ["a/b", "a/b--no-first-word"] * len(NAMES)


@needs("harbor", "published")
def test_harbor_loads_every_exported_folder(tmp_path):
    """Published tasks and their variants: valid to Harbor, no two of one name, and the prompt is the variant's."""
    variants = register_variants(tmp_path / "store", PUBLISHED / "harbor")
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
