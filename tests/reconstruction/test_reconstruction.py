"""The printed tables come out of single trials: the same queries, fed with outcomes that have the printed shares.

What cannot come out is listed with the reason, cell by cell, in not_realised.toml; a cell that leaves the list or joins
it fails a test.
"""

import ast
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from lhaw_record.analytics.comparison.published import comparison, printed_cells
from lhaw_record.analytics.paper import make, spec_and_text
from lhaw_record.analytics.tables.tables import TABLES, tables
from lhaw_record.analytics.views.store import checks
from lhaw_record.analytics.views.store import open as open_store
from tests.reconstruction.__main__ import main, prepared_file
from tests.reconstruction.ask_early import ask_early, point_of_no_return
from tests.reconstruction.ask_early_agreement import agreement
from tests.reconstruction.lhaw import lhaw
from tests.reconstruction.lhaw_mcp_runs import lhaw_mcp_runs
from tests.reconstruction.lhaw_tac_runs import lhaw_tac_runs
from tests.reconstruction.recording import write

FOLDER = Path(__file__).parent
NOT_REALISED = tomllib.loads((FOLDER / "not_realised.toml").read_text(encoding="utf-8"))
OF_LHAW = (
    "overall",
    "by_class",
    "by_dimension_pass",
    "by_dimension_progress",
    "by_segments_removed",
    "generality",
)
OF_TAC_RUNS = ("by_strategy", "by_severity", "task_selection")
OF_MCP_RUNS = ("fidelity", "by_persona", "failure_modes", "failure_modes_failed")
OF_ASK_EARLY = (
    "voi",
    "wasted",
    "natural_ask",
    "archetypes",
    "experiment_setup",
    "trial_counts_and_cost",
    "variant_breakdown",
)
STORES = {  # every fourth is quick
    "point_of_no_return": (point_of_no_return, ("point_of_no_return",), {}),
    "mcp_atlas": (lambda: lhaw("mcp_atlas"), OF_LHAW, {"per": "segment"}),
    "tac": (lambda: lhaw("tac"), (*OF_LHAW, "fidelity"), {}),
    "mcp_atlas_further": (lhaw_mcp_runs, OF_MCP_RUNS, {}),
    "swebench_pro": (lambda: lhaw("swebench_pro"), (*OF_LHAW, "fidelity"), {}),
    "tac_further": (lhaw_tac_runs, OF_TAC_RUNS, {}),
    "ask_early": (ask_early, OF_ASK_EARLY, {}),
    "agreement": (agreement, ("kendall",), {}),
}


@pytest.fixture(scope="module", params=[*STORES])
def compared(request, tmp_path_factory):
    """The name of a store, the tables of it that there are, the rows beside printed ones, and the broken claims."""
    tell, names, parameters = STORES[request.param]
    root = tmp_path_factory.mktemp("reconstruction") / request.param
    write(root, tell())
    present = [name for name in names if name in TABLES]
    connection = open_store(root, parameters={"reading": "paper", "draws": 100, **parameters})
    try:
        rows = comparison(tables(connection, present)).rows
        yield request.param, present, rows, checks(connection)
    finally:
        connection.close()


@pytest.mark.thorough
def test_what_is_printed_comes_out(compared):
    """Every printed cell that single trials can have comes out to the printed digits, and no other does."""
    name, present, rows, _ = compared
    missed = {_cell(row) for row in rows if row["printed"] is not None and row["is_as_printed"] is not True}
    listed = {cell for cells in NOT_REALISED[name].values() for cell in cells if cell.split(" ")[0] in present}
    assert missed == listed


@pytest.mark.thorough
def test_every_printed_value_has_a_row(compared):
    """No printed value of these benchmarks is passed over because nothing stands for it, but those listed."""
    name, present, rows, _ = compared
    benchmarks = {"all", *(each for row in rows for each in _values(row["keys"])[0].split(" + "))}
    cells = (cell for each in present for cell in printed_cells(each) if {*cell.keys["benchmark"]} <= benchmarks)
    printed = Counter(f"{cell.table} {cell.metric} {cell.value}" for cell in cells if cell.value)
    found = Counter(f"{row['table']} {row['metric']} {row['printed']}" for row in rows)
    listed = NOT_REALISED["no_row"].get(name, {}).values()
    assert printed - found == Counter({cell: number for numbers in listed for cell, number in numbers.items()})


@pytest.mark.thorough
def test_the_trials_are_real(compared):
    """The stores keep every claim about event streams, so what the tables read are trials as a run records them."""
    assert compared[3] == ()


@pytest.mark.thorough
def test_what_is_not_printed_does_not_come_out(compared):
    """Where nothing is printed, the point of no return is undefined for us too."""
    name, present, rows, _ = compared
    if name == "point_of_no_return" and present:
        assert {row["reason"] for row in rows if row["printed"] is None} == {"not_significant"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_what_tells_the_trials_computes_no_table(path):
    """Nothing but this test imports analytics: the trials are made without the code that they are to test."""
    if path.stem.startswith("test_"):
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name for name in named if name.startswith(("lhaw_record.analytics", "duckdb"))}


@pytest.mark.thorough
def test_a_paper_comes_out_of_a_real_run(tmp_path, capsys):
    """Table 5 as printed, after its 300 sessions were planned, run and recorded as any others; paper.md has it."""
    assert main(["ask-early", str(tmp_path / "s"), "ask-early-natural"]) == 0
    assert "300 of 300 trials" in capsys.readouterr().out
    paper = make(tmp_path / "s", spec_and_text("ask-early")[0], is_compared=True)
    (found,) = (each for each in paper.compared if each.name == "natural_ask")
    assert len(found.rows) == 12
    assert {row["is_as_printed"] for row in found.rows if row["printed"]} == {True}
    assert {row["source"] for each in paper.compared for row in each.rows} >= {"Ask Early Table 5"}
    assert not {row["source"] for each in paper.compared for row in each.rows if "LHAW" in row["source"]}
    paper.write(tmp_path)
    assert found.title in (tmp_path / "paper.md").read_text()


def test_the_papers_designs_have_what_is_told_of_each_trial():
    """Every planned trial of Ask Early's smallest design has its own course."""
    prepared, told = prepared_file("ask-early-swebench-pro", ask_early())
    assert len(prepared.plan.trials) == len(told) == len(set(told.values())) == 1134


def _cell(row):
    """A cell in one line."""
    return f"{row['table']} {'/'.join(_values(row['keys']))} {row['measure']} {row['printed']}"


def _values(keys):
    """The values of ``a=b c=d e`` in order; a value may hold blanks."""
    values = []
    for part in keys.split(" "):
        if "=" in part:
            values.append(part.split("=", 1)[1])
        else:
            values[-1] += f" {part}"
    return values
