"""What is exported and imported again has the values that it had."""

import asyncio
import shutil

import pytest

from lhaw_record.analytics.exports import EXPORTS
from lhaw_record.runners.imports import FORMATS
from tests.analytics.make_store import write_events
from tests.analytics.random_stores import random_store
from tests.cli.program import all_tables, assert_same_rows, called
from tests.runners.imports.files import query
from tests.support.depth import at_depth

PAIRS = {"inspect": "inspect-eval", "atif": "atif", "harbor-job": "harbor-job"}
"""The exports that our imports read, but for ``hf`` and ``trials``, whose laws are in test_exports.py."""
SCORES = "select task_id, variant_id, condition, agent, label, score, total, details from checkpoints order by all"
TRIALS = """select task_id, variant_id, condition, agent_name, is_success, checkpoint_progress, terminal_state
    from trials where trial_state = 'valid' order by all"""


@pytest.fixture
def store(tmp_path):
    """A random store on disk."""
    asyncio.run(write_events(tmp_path / "store", random_store(5, "task").envelopes))
    return tmp_path / "store"


def moved(store, export, *options, change=lambda folder: None):
    """The store that an import of an export makes, and what the import said."""
    done = called("export", export, store, "-o", store.parent / export)
    assert done.returncode == 0, done.stderr
    change(store.parent / export)
    again = called("import", PAIRS[export], store.parent / export, "--store", store.parent / "again", *options)
    return store.parent / "again", again


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(at_depth(2, 12)))
def test_a_whole_store_comes_back(tmp_path, seed):
    """Every value of every table, of trials that failed and of what nobody knows too."""
    scope = "variant" if seed % 2 else "task"
    asyncio.run(write_events(tmp_path / "store", random_store(seed, scope).envelopes))
    whole = all_tables(tmp_path / "store")
    for export in PAIRS:
        again, done = moved(tmp_path / "store", export)
        assert done.returncode == 0, done.stderr
        assert_same_rows(all_tables(again), whole)
        shutil.rmtree(again)


@pytest.mark.thorough
def test_scores_come_back_without_the_events(store):
    """From the logs of inspect_ai alone: success, progress, each checkpoint with its points and its explanation."""
    again, done = moved(store, "inspect", change=lambda folder: next(folder.glob("events-*")).unlink())
    assert done.returncode == 0, done.stderr
    assert query(again, TRIALS) == query(store, TRIALS)
    assert query(again, SCORES) == query(store, SCORES)
    assert query(store, "select count(*) from checkpoints where score < total")[0][0] > 10


@pytest.mark.thorough
def test_changed_files_are_read_themselves(store):
    """Events beside files that are no longer those of the export are not taken, and it is said."""
    again, done = moved(store, "inspect", change=lambda folder: next(folder.glob("*.eval")).unlink())
    assert "is not read: files beside it have changed, or one is missing or new" in done.stderr
    assert query(again, "select distinct experiment_id from trials") == [("imported-inspect-eval",)]


@pytest.mark.thorough
def test_options_read_the_files(store):
    """Who says how to read the files gets that, although events lie beside them."""
    again, done = moved(store, "inspect", "--agent", "mine")
    assert "is not read, because options say how to read the files beside it" in done.stderr
    assert query(again, "select distinct agent_name from trials") == [("mine",)]


def test_every_pair_is_tried():
    """A format that is exported and imported under one name is in the list."""
    assert {*EXPORTS} & {*FORMATS} <= {*PAIRS.values()}
