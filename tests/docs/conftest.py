"""The demo's store, made once for all tests of the documents."""

from pathlib import Path

import pytest

from tests.cli.program import lhaw_record
from tests.support.once import made_once

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """The store of the demo. Nobody writes to it."""

    def run(folder):
        done = lhaw_record("run", ROOT / "experiments" / "demo.toml", "--store", folder / "demo")
        assert done.returncode == 0, done.stderr

    return made_once(tmp_path_factory, "demo of the documents", run) / "demo"
