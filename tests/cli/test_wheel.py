"""The wheel: it carries SQL and data inside the layers, and runs outside the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.experiments import write_experiment

ROOT = Path(__file__).parents[2]
LAYERS = ("recorder", "runners", "analytics", "generators")
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "lhaw_record.py", "sql", "data", "examples", *LAYERS)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of what it is built from."""
    pytest.importorskip("hatchling", reason="building a wheel without network needs hatchling in this environment")
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "copy"
    copy.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    build = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"
    built = subprocess.run(
        [sys.executable, "-c", build, str(folder)], cwd=copy, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_carries_sql_and_data_and_no_stray_packages(wheel):
    """What layers read travels inside them, file for file; nothing else stands at the top."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    places = {"sql": "analytics/sql", "data": "recorder/data", "examples/agents": "recorder/examples/agents"}
    for source, inside in places.items():
        files = [path for path in (ROOT / source).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert files
        assert {f"{inside}/{path.relative_to(ROOT / source)}" for path in files} <= names
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"lhaw_record.py", *LAYERS}


def test_the_wheel_runs_outside_the_checkout(wheel, tmp_path):
    """Unpacked elsewhere, the program plans, runs and prints tables from the wheel's own files."""
    inside = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(inside)
    experiment = write_experiment(tmp_path / "a.toml", conditions=["full"])
    environment = {**os.environ, "PYTHONPATH": str(inside)}
    found = "import recorder, runners, analytics; print(recorder.__file__, runners.__file__, analytics.__file__)"
    steps = (
        ["-c", found],
        ["-m", "lhaw_record", "run", str(experiment), "--store", "store"],
        ["-m", "lhaw_record", "tables", "store", "overall"],
    )
    outputs = []
    for step in steps:
        done = subprocess.run(
            [sys.executable, *step], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert all(path.startswith(str(inside)) for path in outputs[0].split())
    assert "pass_at_k" in outputs[2]
