"""The core of the analysis opens a store without parameters, statistics, notes or figures: they are plugged in."""

import json
import subprocess
import sys

import pytest

from tests.synthetic.design import Design
from tests.synthetic.making import make_store

OURS = {"lhaw_record.analytics", "lhaw_record.analytics.errors", "lhaw_record.analytics.views"} | {
    f"lhaw_record.analytics.views.{name}" for name in ("at_once", "build_order", "database")
}
PROGRAM = """
import json, sys
from pathlib import Path
from lhaw_record.analytics.views.build_order import query_of
from lhaw_record.analytics.views.database import database_of
from lhaw_record.recorder.reading.reader import read_snapshot

def prepare(connection):
    connection.execute("set variable k = 3")
    names = "kind, units, n_dropped, reason, confidence, draws, permutations, seed"
    found = (
        "{value: list_avg(list_transform(units, lambda unit: unit.above)), low: null, high: null, p_value: null, "
        "p_greater: null, n_units: len(units), n_dropped: n_dropped, n_clusters: 0, method: null, reason: reason}"
    )
    for name in ("estimate", "shared", "contrast", "f1", "kappa", "tau"):
        connection.execute(f"create macro cell_{name}({names}) as {found}")
    for name in ("family_p_values", "band_halves"):
        connection.execute(f"create macro {name}(cells, confidence, draws, permutations, seed) as cells")

connection = database_of(read_snapshot(Path(sys.argv[1])), prepare, {"trials", "pass_at_k", "overall"})
counted = connection.execute("select count(*) from trials where trial_state = 'valid'").fetchall()
cells = connection.execute("select count(*) from pass_at_k where pass_at_k between 0 and 1").fetchall()
table = connection.execute(query_of("overall")).fetchall()
connection.close()
rooms = tuple(f"lhaw_record.{room}" for room in ("analytics", "runners", "generators"))
loaded = [name for name in sys.modules if name.startswith(rooms)]
print(json.dumps([counted[0][0], cells[0][0], len(table), loaded]))
"""


@pytest.mark.thorough
def test_a_view_and_a_table_need_three_files_of_ours(tmp_path):
    """The marts trials and pass_at_k and the table overall, with a mean in place of all intervals."""
    made = make_store(tmp_path / "store", Design(events=2_000, seed=1))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    trials, cells, rows, loaded = json.loads(done.stdout)
    assert 0 < trials <= made.trials
    assert cells > 0
    assert rows > 0
    assert set(loaded) == OURS
