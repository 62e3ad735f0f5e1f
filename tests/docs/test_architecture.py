"""The map of ARCHITECTURE.md: it has every folder, in the order of the contracts, and a core for one afternoon."""

import re
import tomllib
from pathlib import Path

import pytest

from lhaw_record.recorder.wording import CONDITION_LABELS
from tests.lines_of_code import lines_of_code

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LINES_OF_AN_AFTERNOON = 3_080


def core() -> list[Path]:
    """The files of the core's table: a name without a folder is in the folder of the one before it."""
    files, folder = [], ROOT
    table = PAGE.partition("## The core")[2].partition("|---|---|")[2].partition("\n\n")[0]
    for name in re.findall(r"`([\w./]+\.(?:py|sql))`", table):
        path = ROOT / name if "/" in name else folder / name
        files.append(path)
        folder = path.parent
    return files


def code_in(path: Path) -> int:
    """Lines of code, in SQL those that are neither blank nor a comment."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return lines_of_code(text)
    return sum(bool(line.strip()) and not line.lstrip().startswith("--") for line in text.splitlines())


def test_the_core_is_read_in_an_afternoon():
    """Its files are there, each once, and together they are not longer than that."""
    files = core()
    assert len(files) == len(set(files)) > 30
    assert sum(map(code_in, files)) <= LINES_OF_AN_AFTERNOON


@pytest.mark.parametrize("package", ["recorder", "runners", "analytics", "generators"])
def test_every_folder_is_on_the_map_in_the_order_of_its_imports(package):
    """The table of a package lists the folders of its import contract from top to bottom, and no others."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = [each["layers"] for each in contracts if each.get("containers") == [f"lhaw_record.{package}"]]
    rooms = [name for layer in layers for name in layer.split(" | ") if (ROOT / package / name).is_dir()]
    table = PAGE.partition(f"**{package}**")[2].partition("\n\n**")[0].partition("\n## ")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    mapped = [name for cell in cells for name in re.findall(r"`(\w+)/`", cell)]
    assert set(mapped) == set(rooms)
    assert mapped == sorted(
        mapped, key=lambda name: next(i for i, layer in enumerate(layers) if name in layer.split(" | "))
    )


def test_each_condition_has_the_names_that_are_shown():
    """Those for machines and those for people, each pair in one row of the glossary."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    for name, label in CONDITION_LABELS.items():
        shown = any(f"`{name}`" in row and label in row for row in rows)
        assert shown or (name.startswith("inject_") and label.startswith("told at"))
