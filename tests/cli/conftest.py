"""The uninterrupted run that other runs are compared with; made once."""

from pathlib import Path

import pytest

from tests.cli.experiments import ALL_KINDS, BALANCED, OVER_CLARIFIER, write_experiment
from tests.cli.program import lhaw_record


def write_reference(folder: Path) -> Path:
    """Write the experiment that is run once in one go, and elsewhere with every kind of interruption."""
    return write_experiment(
        folder / "reference.toml",
        name="reference",
        conditions=ALL_KINDS,
        trials=3,
        concurrency=4,
        agents=(BALANCED, OVER_CLARIFIER),
    )


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """The experiment file and the store of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("reference")
    experiment, store = write_reference(folder), folder / "store"
    done = lhaw_record("run", experiment, "--store", store)
    assert done.returncode == 0, done.stderr
    return experiment, store
