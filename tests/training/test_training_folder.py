"""The exported folder, read by the programs that it is for."""

import json

import pytest

from lhaw_record.analytics.exports import dataset_folder
from lhaw_record.analytics.exports.training_rows import FEATURES, TRAINING_VIEWS, training_of
from lhaw_record.analytics.views.store import connect
from tests.analytics.make_store import Store
from tests.runners.imports.files import dataset_row, imported, two_segment_row, write
from tests.support.needs import needs
from tests.support.trainers import loaded, training_step

pytestmark = needs("trainers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two tasks, one in each split; nobody asked in ``train``, so columns are null there that are not in ``test``."""
    store = Store(trials=1)
    for task in ("t", "b"):
        store.task(task, (1.0,))
        store.variant(task, f"{task}v", "goal")
        store.trial(f"{task}v", "underspecified", 0, is_told=True, scores=(0.0,))
    store.trial("tv", "ask_user", 0, is_told=True)
    store.trial("bv", "ask_user", 0, is_told=True, actions=("ask_user S1", "submit"))
    connection = connect(store.snapshot(), only=TRAINING_VIEWS)
    exported = training_of(connection, test_share=0.5, question_cost_pp=5.0)
    connection.close()
    assert len(exported.files) == 3
    path = tmp_path_factory.mktemp("training")
    for name, content in exported.files.items():
        (path / name).write_bytes(content)
    return path


def test_datasets_loads_every_row(folder, tmp_path):
    """Every split, row and value, with the types of the card."""
    found = loaded(folder, tmp_path)
    assert set(found) == {"train", "test"}
    for split, rows in found.items():
        written = [json.loads(line) for line in (folder / f"{split}.jsonl").read_text().splitlines()]
        assert rows == [{name: row[name] for name in FEATURES} for row in written]


@pytest.mark.thorough
def test_datasets_loads_the_dataset_rows(tmp_path):
    """The folder of ``export hf``: every row as it was written."""
    rows = [dataset_row(), two_segment_row()]
    imported("lhaw-dataset", write(tmp_path / "rows.json", rows), tmp_path / "s")
    for name, content in dataset_folder(tmp_path / "s").files.items():
        write(tmp_path / "hf" / name, content)
    assert loaded(tmp_path / "hf", tmp_path / "scratch") == {"test": rows}


def test_trl_trains_a_step(folder, tmp_path):
    """A tiny random model learns the turns of the agent and nothing else; its loss is that of guessing."""
    done = training_step(folder, tmp_path)
    assert done["steps"] == 1
    assert 5 < done["loss"] < 9
    assert "submit" in done["trained_on"].replace(" ", "")
    assert "doit" not in done["trained_on"].replace(" ", "")
