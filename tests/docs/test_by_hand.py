"""The demo, for real: it verifies, resumes, prints what the README shows, and cells are recomputed from events."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lhaw_record.analytics import TABLES, table
from lhaw_record.analytics.tables.tables import COMPUTED_TABLES, tables
from lhaw_record.analytics.views.store import checks
from lhaw_record.analytics.views.store import open as open_store
from tests.analytics.interval_law import broken_rows

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(
    r"^-- cell=(?P<table>\w+)/(?P<keys>\S+)(?: column=(?P<column>\w+))?\n(?P<query>.*?);$", re.DOTALL | re.MULTILINE
)
pytestmark = [pytest.mark.slow, pytest.mark.thorough]
CELLS = [
    match.groupdict() for match in _BLOCK.finditer((ROOT / "examples" / "by_hand.sql").read_text(encoding="utf-8"))
]


def program(*arguments):
    """Run the command line as a child process."""
    command = [sys.executable, "-m", "lhaw_record", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def connection(demo):
    """Its views."""
    opened = open_store(demo)
    yield opened
    opened.close()


def test_every_kind_of_number_has_a_cell_on_the_page():
    """The page has a cell of each table that others are cut from; the others have golden cases worked by hand."""
    on_page = {cell["table"] for cell in CELLS}
    assert on_page <= set(TABLES)
    assert on_page >= {
        "overall",
        "by_class",
        "by_dimension_pass",
        "voi",
        "wasted",
        "natural_ask",
        "trial_counts_and_cost",
    }


@pytest.mark.parametrize("cell", CELLS, ids=[cell["table"] for cell in CELLS])
def test_a_cell_can_be_recomputed_from_raw_events(connection, cell):
    """The page's query over raw events gives the number in the table."""
    wanted = dict(part.split("=", 1) for part in cell["keys"].split("/"))
    rows = [row for row in table(connection, cell["table"]).rows if wanted.items() <= row.items()]
    assert len(rows) == 1
    ((by_hand,),) = connection.execute(cell["query"].rstrip().rstrip(";")).fetchall()
    assert by_hand == pytest.approx(rows[0][cell["column"] or "value"], abs=1e-6)


def test_the_demo_store_is_whole_and_keeps_every_claim(demo, connection):
    """Every checksum is good, every claim about the events holds, and only tables of agents that it lacks are empty."""
    assert program("log", "verify", demo).returncode == 0
    assert checks(connection) == ()
    empty = {each.name for each in tables(connection, TABLES) if not each.rows}
    of_others = {
        "by_persona",
        "by_strategy",
        "controls",
        "grader_agreement",
        "input_faults",
        "late_answers",
        "review_agreement",
        "trajectory",
    }
    assert empty <= {*of_others, "failure_modes_failed"}


def test_intervals_and_p_values_of_the_demo_agree(connection):
    """In every row of every table, those that Python computes included."""
    found = {each.name: each.rows for each in tables(connection, (*TABLES, *COMPUTED_TABLES))}
    assert list(broken_rows(found, 0.05)) == []


def test_the_readme_shows_what_the_demo_prints(demo):
    """Every line of the table in the README is in the headline, apart from its blanks."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```\n(overall: .*?)```", readme, re.DOTALL)
    shown = [line.split() for line in block.splitlines() if line]
    printed = [line.split() for line in program("findings", demo).stdout.splitlines()]
    assert len(shown) > 5
    assert [line for line in shown if line not in printed] == []


def test_the_demo_runs_nothing_twice(demo, tmp_path):
    """A second run finds everything finished and prints the same tables."""
    before = program("tables", demo).stdout
    demo = shutil.copytree(demo, tmp_path / "demo")
    again = program("run", "experiments/demo.toml", "--store", demo)
    assert again.returncode == 0
    assert "nothing to run" in again.stderr
    assert program("tables", demo).stdout == before


def test_the_demo_shows_the_effects_that_it_is_for(connection):
    """Full prompts succeed, removing information hurts, asking helps, and late injections cost more than early ones."""
    rows = {(row["agent"], row["condition"], row["measure"]): row["value"] for row in table(connection, "overall").rows}
    for agent in ("balanced", "over_clarifier"):
        assert rows[agent, "full", "pass_at_k"] == 1
        assert rows[agent, "underspecified", "pass_at_k"] < rows[agent, "ask_user", "pass_at_k"]
    ((early, late),) = connection.execute(
        "select avg(action_count) filter (condition = 'inject_10'), avg(action_count) filter (condition = 'inject_90') "
        "from trials where is_injected"
    ).fetchall()
    assert early < late
