"""The demo's store, made once for all tests of the documents."""

import os
from pathlib import Path

import pytest

from tests.cli.program import lhaw_record
from tests.support.once import made_once

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """The store of the demo. Nobody writes to it. ``LHAW_RECORD_DEMO`` names one that ``make demo`` has made."""
    if made := os.environ.get("LHAW_RECORD_DEMO"):
        return Path(made)

    def run(folder):
        done = lhaw_record("run", ROOT / "experiments" / "demo.toml", "--store", folder / "demo")
        assert done.returncode == 0, done.stderr

    return made_once(tmp_path_factory, "demo of the documents", run) / "demo"
