"""Filters show rows and change none; every command that prints tables takes them, and unknown values are answered."""

import json
from xml.etree import ElementTree as ET

import anyio
import pytest

from lhaw_record.analytics.errors import UnknownName
from lhaw_record.analytics.figures import FIGURES, draw, to_bytes
from lhaw_record.analytics.tables.filters import Filter, known_filter
from lhaw_record.analytics.tables.render import to_csv, to_latex, to_markdown, to_text
from lhaw_record.analytics.tables.tables import TABLES, Table, tables
from lhaw_record.command_line import main
from tests.analytics.make_store import write_events
from tests.analytics.views.test_views import busy_store
from tests.support.once import made_once


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store with the busy store's events."""
    return made_once(
        tmp_path_factory, "busy-store", lambda folder: anyio.run(write_events, folder, busy_store().envelopes)
    )


def test_a_filter_keeps_rows_as_they_are():
    """Values of one key are alternatives, keys go together, and a table about something else keeps all its rows."""
    rows = [
        {"agent": agent, "condition": condition, "value": n}
        for n, (agent, condition) in enumerate(
            [("a", "full"), ("a#123456", "ask_user"), ("b", "full"), ("all", "full")]
        )
    ]
    assert Filter({"agent": ("a",)}).rows(rows) == rows[:2]
    assert Filter({"agent": ("a", "b"), "condition": ("full",)}).rows(rows) == [rows[0], rows[2]]
    assert Filter({"agent": ("a",)}).rows([{"agent": "all", "value": 1}]) == [{"agent": "all", "value": 1}]
    assert Filter({"measure": ("x",)}).rows(rows) == rows
    assert Filter({"agent": ("b",)}).rows([{"agent": "a", "other_agent": "b"}]) == [{"agent": "a", "other_agent": "b"}]
    with pytest.raises(
        UnknownName, match=r"no row has the condition 'fulll'; did you mean 'full'\?; there are: full, ask"
    ):
        known_filter({"condition": ["fulll"]}, rows)
    assert known_filter({"condition": ["inject_50"]}, rows).rows(rows) == []


def test_a_pool_of_one_is_in_csv_and_not_in_print():
    """Rows that pool one agent or benchmark are printed by no format for readers; CSV and JSON have every row."""
    keys, texts = ("benchmark", "agent", "measure"), {"measure": "pass_at_k", "reason": None, "low": None, "high": None}
    counts = {"n_clusters": 3, "n_trials": 9, "n_missing": 0}
    rows = [
        {"benchmark": benchmark, "agent": agent, "value": 0.5, "n_units": 3, **counts, **texts}
        for benchmark, agent in (("tac", "a"), ("tac", "all"), ("all", "a"), ("all", "all"))
    ]

    def printed(rows):
        one = Table(name="t", title="T", keys=keys, columns=(*keys, "value"), rows=tuple(rows), notes=())
        assert len(to_csv(one).splitlines()) == 1 + len(rows)
        return "".join((to_text(one), to_markdown(one), to_latex(one)))

    assert "all" not in printed(rows)
    assert "all" in printed([*rows, {**rows[0], "agent": "b"}])
    assert "all" in printed([rows[0], {**rows[1], "n_trials": 18}]), "a filter hides the others of the pool"
    assert "all" in printed(rows[3:])


@pytest.mark.thorough
def test_every_table_and_figure_can_be_filtered(connection):
    """What a filter shows are rows of the whole table, and every figure can be drawn of them."""
    only = Filter({"agent": ("a",), "condition": ("ask_user", "inject_30")})
    for whole in tables(connection, TABLES):
        part = only.table(whole)
        assert all(row in whole.rows for row in part.rows)
        assert part.notes[: len(whole.notes)] == whole.notes
    for name in FIGURES:
        texts = _texts(to_bytes(draw(connection, name, only.of_figures().rows), "svg"))
        assert name == "kendall" or not {"b", "b first asks"} & set(texts), name  # it is about pairs


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["voi", "ask_timing", "wasted"])
def test_what_a_figure_says_of_the_pool_is_not_filtered(connection, name):
    """Without an agent, its curve is gone; units, baselines, the window and the pooled curve of asks are as before."""
    whole, part = (draw(connection, name, Filter({"agent": agents} if agents else {}).rows) for agents in ((), ("a",)))
    for before, after in zip(whole.axes, part.axes, strict=True):
        counts = [
            [text.get_text() for text in axes.texts if text.get_text().startswith("n =")] for axes in (before, after)
        ]
        assert counts[0] == counts[1] != []
        levels = [_drawn(axes, "full prompt", "underspecified", "all agents") for axes in (before, after)]
        assert levels[0] == levels[1] or name != "ask_timing"
        assert {key: each for key, each in levels[0].items() if key != "all agents"} == {
            key: each for key, each in levels[1].items() if key != "all agents"
        }
        windows = [
            [patch.get_extents().bounds for patch in axes.patches if patch.get_label() == "optimal window"]
            for axes in (before, after)
        ]
        assert len(windows[0]) == len(windows[1])
    labels = [{text.get_text() for each in figure.legends for text in each.get_texts()} for figure in (whole, part)]
    gone = {each for each in labels[0] - labels[1] if each != "all agents"}
    assert gone
    assert all(each.startswith("b") for each in gone)


def _drawn(axes, *labels):
    """The heights of the lines with these labels, error bars included."""
    lines = [line for line in axes.lines if line.get_label() in labels]
    bars = [each for each in axes.containers if each.get_label() in labels]
    return {each.get_label(): list(each.get_ydata()) for each in lines} | {
        each.get_label(): list(each[0].get_ydata()) for each in bars
    }


def _texts(svg):
    """The texts of a picture."""
    return ["".join(each.itertext()) for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.thorough
def test_the_commands_filter(stored, tmp_path, capsys):
    """tables, findings and figures show what was asked for, and refuse names that there are not."""
    main(["tables", str(stored), "overall", "voi", "--format", "json", "--agent", "a", "--measure", "pass_at_1"])
    found = json.loads(capsys.readouterr().out)
    assert {(row["agent"], row["measure"]) for each in found.values() for row in each["rows"]} == {("a", "pass_at_1")}
    main(["findings", str(stored), "--format", "json", "--agent", "a"])
    assert {each["keys"].get("agent", "a") for each in json.loads(capsys.readouterr().out)} == {"a"}
    assert main(["figures", str(stored), "wasted", "--output", str(tmp_path), "--agent", "a"]) == 0
    texts = _texts((tmp_path / "wasted.svg").read_bytes())
    assert "a" in texts
    assert "b" not in texts
    capsys.readouterr()
    for command in (["tables", "overall"], ["findings"], ["figures", "wasted", "--output", str(tmp_path)]):
        assert main([command[0], str(stored), *command[1:], "--agent", "zz"]) == 1
        assert "no row has the agent 'zz'" in capsys.readouterr().err
