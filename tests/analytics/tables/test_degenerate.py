"""Stores with too little in them: every table says what it cannot say, and nothing is made up."""

import math
from functools import cache

import pytest

from lhaw_record.analytics.tables.render import to_csv, to_json, to_latex, to_markdown, to_text
from lhaw_record.analytics.tables.tables import TABLES, table, tables
from lhaw_record.analytics.views.store import checks, claims, connect, read_for
from tests.analytics.make_store import Store

MAY_BE_NULL = ("question_cost_pp", "judge", "other_judge")
"""The break-even row of net_value has no cost of its own; what the chosen judge says is compared with nobody."""
ALL_CONDITIONS = ("underspecified", "ask_user", "inject_10", "inject_30", "inject_50", "inject_70", "inject_90")


def nothing():
    """No event but the start of a run."""
    return Store()


def only_registered():
    """A task and a variant that nobody ran."""
    store = Store()
    store.task("t")
    store.variant("t", "v")
    return store


def one_trial():
    """A single full trial."""
    store = Store()
    store.task("t")
    store.trial("t", "full", 0)
    return store


def only_failed():
    """Every trial failed at a boundary."""
    store = only_registered()
    store.trial("t", "full", 0, ends="failed")
    for condition in ALL_CONDITIONS:
        store.trial("v", condition, 0, ends="failed", budget=3)
    return store


def only_running():
    """Every trial is on its way."""
    store = only_registered()
    store.trial("t", "full", 0, ends="running")
    store.trial("v", "ask_user", 0, ends="running")
    return store


def without(missing):
    """Everything but one condition."""

    def made():
        store = only_registered()
        for condition in ("full", *ALL_CONDITIONS):
            for index in range(3 if condition != missing else 0):
                unit = "t" if condition == "full" else "v"
                actions = (
                    ["read a", "ask_user S1", "submit"] if condition == "ask_user" else ["read a", "x b", "submit"]
                )
                store.trial(unit, condition, index, actions=actions, budget=3, injected_after=1)
        return store

    made.__doc__ = f"Everything but {missing}."
    return made


def without_segments():
    """A variant from which nothing was removed, as an import may have it."""
    store = Store()
    store.task("t")
    store.variant("t", "v", "", origin="control")
    for condition in ALL_CONDITIONS:
        for index in range(3):
            store.trial("v", condition, index, budget=3, injected_after=1, actions=["read a", "x b", "submit"])
    return store


def unknown_dimension():
    """A dimension that nobody has heard of, beside a known one."""
    store = Store()
    store.task("t")
    store.variant("t", "v", "mood goal")
    for condition in ("full", *ALL_CONDITIONS):
        for index in range(3):
            unit = "t" if condition == "full" else "v"
            store.trial(unit, condition, index, budget=3, injected_after=1, actions=["read a", "x b", "submit"])
    return store


def mixed_versions():
    """A task whose prompt changed between the trials, and a variant of each version."""
    store = Store()
    for version in ("1", "2"):
        store.task("t", version=version)
        store.variant("t", "v", prompt=f"version {version}")
        for condition in ("underspecified", "ask_user"):
            for index in range(3):
                store.trial("v", condition, index, benchmark_version=version)
    return store


def no_points():
    """Checkpoints that are worth nothing, actions that are none, and nobody asked."""
    store = Store()
    store.task("t", (0.0,))
    store.variant("t", "v")
    for condition in ("full", *ALL_CONDITIONS):
        for index in range(3):
            unit = "t" if condition == "full" else "v"
            store.trial(unit, condition, index, scores=(0,), actions=(), budget=3, cost_usd=None)
    return store


STORES = {
    "nothing": nothing,
    **{f"without_{name}": without(name) for name in ("ask_user", "full", "underspecified", "inject_50")},
    "only_registered": only_registered,
    "one_trial": one_trial,
    "only_failed": only_failed,
    "only_running": only_running,
    "without_segments": without_segments,
    "unknown_dimension": unknown_dimension,
    "mixed_versions": mixed_versions,
    "no_points": no_points,
}


@cache
def tables_of(name):
    """Return all tables of a store."""
    few = {"draws": 100, "permutations": 100}
    opened = connect(STORES[name]().snapshot(), parameters=few, only=read_for(TABLES))
    try:
        return {each.name: each for each in tables(opened, TABLES)}
    finally:
        opened.close()


@pytest.mark.sampled(14)
@pytest.mark.parametrize("store", STORES)
def test_every_table_says_what_it_cannot_say(store):
    """No table fails; a null value or interval has a reason, numbers are finite, and no count is negative."""
    for name, one in tables_of(store).items():
        for row in one.rows:
            assert all(not isinstance(value, float) or math.isfinite(value) for value in row.values()), (name, row)
            assert all(value is None or value >= 0 for column, value in row.items() if column.startswith("n_")), row
            assert all(row[key] is not None for key in one.keys if key not in MAY_BE_NULL), (name, row)
            if "reason" in row and "value" in row:
                assert None not in (row["value"], row["low"]) or row["reason"], (name, row)
                assert None in (row["value"], row["low"]) or row["low"] <= row["value"] <= row["high"], (name, row)


@pytest.mark.thorough
@pytest.mark.parametrize("store", STORES)
def test_every_format_takes_every_table(store):
    """Text, CSV, JSON, Markdown and LaTeX of every table, empty ones too, without a nan."""
    for name, one in tables_of(store).items():
        for text in (to_text(one), to_csv(one), to_json([one]), to_markdown(one), to_latex(one)):
            assert text
            assert not any(word in text.replace(",", " ").lower().split() for word in ("nan", "inf", "-inf")), name


def test_missing_data_are_counted_not_scored():
    """Where every trial failed, no table has a value of success, and the missing trials are counted."""
    connection = connect(only_failed().snapshot(), only={"overall", "by_class", "voi", "exclusions", *claims()})
    try:
        rows = [row for name in ("overall", "by_class", "voi") for row in table(connection, name).rows]
        assert rows
        assert {row["value"] for row in rows} == {None}
        assert all(row["n_missing"] for row in rows if row["measure"] == "pass_at_k")
        assert "missing trials of desk" in to_text(table(connection, "overall"))
        assert checks(connection) == ()
    finally:
        connection.close()


def test_an_empty_table_says_what_it_would_need():
    """A store without trials gives no table without a word of why it is empty."""
    for name, one in tables_of("nothing").items():
        assert one.rows == (), name
        assert any(note.startswith("no rows: this store has no ") for note in one.notes), name


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("made", "name", "note"),
    [
        (without("ask_user"), "overall", "desk lacks rows under ask_user, and gains and tests that need them"),
        (without("full"), "by_dimension_pass", "desk lacks rows under full, and gains and tests that need them"),
        (without("inject_50"), "wasted", "desk lacks rows under inject_50, and gains and tests that need them"),
        (without("none"), "overall", None),
        (unknown_dimension, "voi", "dimensions of variants other than goal, constraint, input, context:"),
    ],
)
def test_what_is_not_there_is_named(made, name, note):
    """A condition without trials and an unknown dimension are noted; otherwise there is no note."""
    opened = connect(made().snapshot(), only=read_for([name]))
    try:
        notes = table(opened, name).notes
    finally:
        opened.close()
    found = [each for each in notes if each.startswith(("desk lacks rows", "dimensions of"))]
    assert len(found) == (note is not None)
    assert note is None or found[0].startswith(note)


@pytest.mark.thorough
def test_variants_without_segments_are_counted():
    """Variants of which a source does not name the segments stand in no dimension, and the table says how many."""
    store = Store()
    store.task("t")
    store.variant("t", "v", "", origin="imported")
    store.trial("v", "underspecified", 0)
    opened = connect(store.snapshot(), only=read_for(["by_dimension_pass"]))
    try:
        notes = table(opened, "by_dimension_pass").notes
    finally:
        opened.close()
    assert any(note.startswith("variants of desk whose removed segments are unknown: 1;") for note in notes)
