"""Ours beside the printed values: the index fits the files, agents are found by name, and a cell says what it is."""

import pytest

from lhaw_record.analytics.comparison.published import (
    COLUMNS,
    comparison,
    folded,
    index,
    printed_benchmarks,
    printed_cells,
    printed_model,
    read_file,
)
from lhaw_record.analytics.errors import UnknownName
from lhaw_record.analytics.tables.tables import TABLES, Table, table
from lhaw_record.analytics.views.headers import headers
from lhaw_record.analytics.views.store import connect, read_for
from lhaw_record.command_line import main
from lhaw_record.recorder.resources import data_path
from lhaw_record.recorder.storage.creation import create_store
from tests.analytics.make_store import Store


def overall(value, low=None, high=None, agent="gpt-5.2", measure="pass_at_k", condition="underspecified", **more):
    """A table with one row."""
    row = {"benchmark": "mcp_atlas", "agent": agent, "condition": condition, "measure": measure}
    row |= {"value": value, "low": low, "high": high, "reason": None, **more}
    keys = ("benchmark", "agent", "condition", "measure")
    return Table(name="overall", title="", keys=keys, columns=tuple(row), rows=(row,), notes=())


def test_the_index_names_files_metrics_tables_and_columns():
    """Every printed file and metric has its cells, every table is a view, every key is one of its columns."""
    files = {path.stem for path in data_path("published").glob("*.csv")}
    assert set(index().files) == files
    columns = {each.view: {column.name for column in each.columns} for each in headers()}
    for name, file in index().files.items():
        metrics = {row["metric"] for row in read_file(name)}
        assert {cell["metric"] for cell in file.cells} == metrics, name
        tables = {file.table, *(cell["table"] for cell in file.cells if "table" in cell)}
        for each in tables & set(TABLES):
            assert {key for cell in printed_cells(each) for key in cell.keys} <= columns[each]


def test_every_value_has_a_place():
    """No printed value is lost on the way; a share of trials that ask stands in two places."""
    tables = {file.table for file in index().files.values()} | {"trial_counts_and_cost"}
    cells = sum(len(printed_cells(name)) for name in tables)
    twice = sum(row["metric"] == "ask_pct" for name in ("lhaw_overall", "lhaw_by_strategy") for row in read_file(name))
    assert cells == sum(len(read_file(name)) for name in index().files) + twice
    assert printed_benchmarks() == {"mcp_atlas", "tac", "swebench_pro"}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-5.2", "GPT-5.2"),
        ("openai/GPT 5.2", "GPT-5.2"),
        ("claude_sonnet-4.5#1f3a", "Claude Sonnet 4.5"),
        ("gpt-5.2-2025-12-11", "GPT-5.2"),
        ("gpt-5", None),
    ],
)
def test_agents_are_found_by_name(name, model):
    """Case, spaces, dots, dashes, the provider and our digest make no difference; other digits do."""
    assert printed_model(name) == model
    assert folded("A b-C.1") == "abc1"


@pytest.mark.parametrize(
    ("ours", "is_within", "is_as_printed"),
    [
        ((0.42, 0.33, 0.52), True, True),
        ((0.4204, 0.421, 0.52), False, True),
        ((0.421, 0.33, 0.52), True, False),
        ((0.421, None, None), None, False),
    ],
)
def test_a_cell_stands_beside_the_printed_one(ours, is_within, is_as_printed):
    """42.0 is printed: ours comes in per cent, with the difference; the interval and the digits are looked at."""
    (row,) = comparison([overall(*ours)]).rows
    assert (row["printed"], row["ours"], row["source"]) == ("42.0", pytest.approx(100 * ours[0]), "LHAW Table 3")
    assert row["difference"] == pytest.approx(100 * ours[0] - 42)
    assert (row["is_within"], row["is_as_printed"]) == (is_within, is_as_printed)
    assert tuple(row) == COLUMNS


def test_what_is_undefined_or_not_printed_stays_empty():
    """A null of ours keeps its reason; an empty printed value stays empty; neither is compared."""
    (row,) = comparison([overall(None, reason="too_few_trials")]).rows
    assert (row["ours"], row["difference"], row["is_within"], row["reason"]) == (None, None, None, "too_few_trials")
    keys = ("benchmark", "dimension", "ambiguity_class", "agent", "timing", "measure")
    values = ("all", "input", "benign", "all", "all", "point_of_no_return_pct")
    one = {**dict(zip(keys, values, strict=True)), "value": 30.0, "low": None, "high": None, "reason": None}
    (row,) = comparison(
        [Table(name="point_of_no_return", title="", keys=keys, columns=tuple(one), rows=(one,), notes=())]
    ).rows
    assert (row["printed"], row["ours"], row["is_as_printed"]) == (None, 30.0, None)


def test_the_share_that_asks_stands_beside_both_readings():
    """ask_pct and ask_variant_pct are both set beside the printed Ask %."""
    tables = [overall(60.0, measure=measure, condition="ask_user") for measure in ("ask_pct", "ask_variant_pct")]
    assert [row["printed"] for one in tables for row in comparison([one]).rows] == ["97", "97"]


def test_a_pair_stands_in_either_order_and_a_bound_is_kept():
    """Kendall's tau is the same both ways; a p-value that is printed as a bound is met or not."""
    keys = ("benchmark", "agent", "other_agent", "measure")
    one = dict(zip(keys, ("tac", "GPT-5.2", "Claude Sonnet 4.5", "kendall_tau"), strict=True))
    one |= {"value": 0.82, "low": None, "high": None, "p_asymptotic": 2e-5, "reason": "one_cluster"}
    rows = comparison([Table(name="kendall", title="", keys=keys, columns=tuple(one), rows=(one,), notes=())]).rows
    assert [(row["printed"], row["is_as_printed"]) for row in rows] == [("0.82", True), ("0.82", True), ("<1e-4", True)]


@pytest.mark.thorough
def test_counts_are_added_up():
    """The trials of a benchmark are those of all its conditions and agents."""
    store = Store(benchmark="swebench_pro")
    store.task("t")
    store.variant("t", "v")
    for agent in ("a", "b"):
        for condition in ("underspecified", "inject_10", "ask_user"):
            store.trial("v", condition, 0, agent=agent, budget=3, injected_after=1, actions=["x a", "x b", "x c"])
    connection = connect(store.snapshot(), only=read_for(["trial_counts_and_cost"]))
    try:
        rows = comparison([table(connection, "trial_counts_and_cost")]).rows
    finally:
        connection.close()
    found = {row["metric"]: row["ours"] for row in rows if "benchmark=swebench_pro" in row["keys"]}
    assert found["forced_injection_trials"] == 4
    assert found["total_trials"] == 6
    assert found["natural_ask_sessions"] == 2


@pytest.mark.thorough
def test_the_trials_of_all_benchmarks_are_the_evaluated_ones():
    """They are added up over the papers' benchmarks, without classifying trials, and only where all are there."""
    store = Store()
    for benchmark in ("mcp_atlas", "swebench_pro", "tac"):
        before = _totals(store)
        store.benchmark = benchmark
        store.task(benchmark)
        store.variant(benchmark, f"v-{benchmark}")
        for place in range(2):
            store.trial(f"v-{benchmark}", "underspecified", place)
        store.trial(f"v-{benchmark}", "underspecified", 0, agent="c", role="classifier")
        assert "mcp_atlas + tac + swebench_pro" not in before
    assert _totals(store) == {"mcp_atlas": 2, "swebench_pro": 2, "tac": 2, "mcp_atlas + tac + swebench_pro": 6}


def _totals(store):
    connection = connect(store.snapshot(), only=read_for(["trial_counts_and_cost"]))
    try:
        rows = comparison([table(connection, "trial_counts_and_cost")]).rows
    finally:
        connection.close()
    names = ((row, row["keys"].removeprefix("benchmark=").partition(" role=")[0]) for row in rows)
    return {name: row["ours"] for row, name in names if row["metric"] == "total_trials"}


def test_an_agent_can_be_said_to_be_a_model():
    """--printed-as maps an agent; unknown agents and models are named with those that there are."""
    tables = [overall(0.42, agent="mine")]
    assert comparison(tables).rows == ()
    assert any("mine" in note and "--printed-as" in note for note in comparison(tables).notes)
    assert len(comparison(tables, ["mine=gpt 5.2"]).rows) == 1
    with pytest.raises(UnknownName, match=r"no printed table has a model 'GPT-9'.*Gemini 3 Pro"):
        comparison(tables, ["mine=GPT-9"])
    with pytest.raises(UnknownName, match="no agent 'yours'; they have: mine"):
        comparison(tables, ["yours=GPT-5.2"])


@pytest.mark.thorough
def test_the_command_compares(tmp_path, capsys):
    """Tables --compare prints one table; in a benchmark that no paper has it says so."""
    root = create_store(tmp_path / "store").root
    assert main(["tables", str(root), "--compare", "--format", "csv"]) == 0
    assert capsys.readouterr().out == ",".join((*COLUMNS, "reading")) + "\n"
    assert main(["tables", str(root), "overall", "--compare"]) == 0
    assert (
        "no printed values for: overall; the papers have the benchmarks mcp_atlas, swebench_pro, tac"
        in capsys.readouterr().out
    )
