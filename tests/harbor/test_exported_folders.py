"""Harbor's own classes load every folder that the export ``harbor`` writes."""

from tests.cli.program import called
from tests.support.harbor_classes import loaded_tasks
from tests.support.harbor_variants import register_variants
from tests.support.needs import PUBLISHED, needs


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
