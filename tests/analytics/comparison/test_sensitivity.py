"""Which readings matter: every one does on a store made for it, and what is said of a change is true."""

import json

import pytest

from lhaw_record.analytics.comparison.sensitivity import ASKED, STATED, ParameterOverride, readings, sensitivity
from lhaw_record.analytics.errors import UnknownName
from lhaw_record.analytics.tables.tables import TABLES, comparable, table
from lhaw_record.analytics.views.parameters import PARAMETERS, check
from lhaw_record.analytics.views.store import connect, read_for
from lhaw_record.command_line import main
from lhaw_record.recorder.storage.creation import create_store
from tests.analytics.make_store import Store
from tests.analytics.sensitive_store import others, second_classifier, sensitive_store
from tests.support.depth import IS_DEEP

MOVED = [
    "archetypes",
    "claims",
    "endings",
    "kendall",
    "optimal_window",
    "task_selection",
    "variant_breakdown",
    "wasted",
]
"""A few tables in which every reading changes something."""


@pytest.fixture(scope="module")
def found():
    """All changes of all readings on the sensitive store."""
    names = TABLES if IS_DEEP else MOVED
    return sensitivity(sensitive_store().snapshot(), names, {"draws": 200, "permutations": 100})


@pytest.mark.thorough
def test_every_reading_changes_a_table(found):
    """No parameter with another reading is without effect where its case occurs.

    ``ask_scale`` places questions in a window, which needs a gain that this store's few tasks do not show; a golden
    case has it.
    """
    changes, tried = found
    assert {str(reading) for reading in tried} - {change.reading for change in changes} == {"ask_scale = own_length"}


@pytest.mark.thorough
def test_every_closed_choice_is_tried(found):
    """All allowed values but the default, and stated values that their parameters allow."""
    _, tried = found
    closed = {(each.name, value) for each in PARAMETERS for value in each.choices if value != each.default}
    assert closed <= {(reading.parameter, reading.value) for reading in tried}
    names = {each.name for each in PARAMETERS}
    for name in STATED.keys() & names:
        for value in STATED[name]:
            check(name, value)


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(4))
def test_what_is_said_of_a_change_is_true(found, number):
    """Counts, means and the largest difference are those of the two tables themselves."""
    change = [each for each in found[0] if each.column == "value" and each.n_changed][number * 7]
    snapshot = sensitive_store().snapshot()
    name, _, value = change.reading.partition(" = ")
    parameter = next(each for each in PARAMETERS if each.name == name)
    chosen = {"true": True, "false": False}.get(value, int(value) if parameter.sql_type == "bigint" else value)
    sides = []
    for parameters in ({}, {name: chosen}):
        settings = {"draws": 200, "permutations": 100, **parameters}
        connection = connect(snapshot, parameters=settings, only=read_for([change.table]))
        try:
            one = table(connection, change.table)
        finally:
            connection.close()
        rows = [row for row in one.rows if row["measure"] == change.measure]
        sides.append({tuple(str(row[key]) for key in one.keys): row["value"] for row in rows})
    was, becomes = sides
    both = [key for key in was if was[key] is not None and becomes.get(key) is not None]
    differences = [abs(was[key] - becomes[key]) for key in both]
    assert change.n_cells == len(was.keys() | becomes.keys())
    assert change.n_changed == sum(difference > 0 for difference in differences)
    assert change.mean_difference == pytest.approx(sum(differences) / len(both), abs=1e-6)
    assert change.largest_difference == pytest.approx(max(differences), abs=1e-6)
    assert abs(change.was - change.becomes) == pytest.approx(change.largest_difference, abs=1e-6)


CHOSEN = {  # parameters that no list of readings can hold: a value that differs, and a table that it changes
    "classifier_agent": ("d", "by_class"),
    "classifier_experiment": ("later", "by_class"),
    "experiment": ("later", "overall"),
    "user_simulator": ("llm", "overall"),
    "judge": ("strict", "failure_modes"),
    "exchange_judge": ("rules", "question_quality"),
    "reference_agents": ("a", "task_selection"),
    "trial": (None, "trajectory"),
    "confidence": (0.8, "overall"),
    "seed": (7, "gain_tests"),
    "permutations": (120, "gain_tests"),
    "exclude_endings": ("submitted", "overall"),
    "medium": ("built_in, prose", "natural_ask"),
}


@pytest.mark.thorough
def test_every_parameter_is_proven_to_matter(found):
    """What the list of readings holds and what is chosen below are together all parameters there are."""
    elsewhere = {"settings", "draws"}  # test_tables has two settings; draws are in the test of bounds
    assert {each.parameter for each in found[1]} | CHOSEN.keys() | elsewhere == {each.name for each in PARAMETERS}


@pytest.mark.thorough
@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", CHOSEN)
def test_every_chosen_value_changes_a_table(name):
    """A parameter without a list of values changes a table too, where its case occurs."""
    store = sensitive_store()
    trial_id = others(store)
    second_classifier(store)
    value, changed = CHOSEN[name]
    sides = []
    for parameters in ({}, {name: trial_id if name == "trial" else value}):
        opened = connect(store.snapshot(), parameters={"permutations": 100, **parameters}, only=read_for([changed]))
        try:
            sides.append(comparable(table(opened, changed)).rows)
        finally:
            opened.close()
    assert sides[0] != sides[1]


@pytest.mark.thorough
def test_bounds_are_shown_where_only_they_move():
    """Other draws, confidence and clusters move bounds and no value; below, the jackknife is further out than draws."""
    store = Store(trials=2)
    for place in range(12):
        store.task(f"t{place}", domain=f"d{place // 2}")
        store.variant(f"t{place}", f"v{place}")
        for index in range(2):
            store.trial(f"v{place}", "underspecified", index, scores=[place % 3 == 0])
            asked = ["ask_user S1"] * (9 if place < 2 else 1 + place % 2)  # skewed, so the bootstrap decides
            store.trial(f"v{place}", "ask_user", index, scores=[place % 4 > 0], actions=[*asked, "submit"])
    rows = {}
    for name, value in (("k", 1), ("draws", 150), ("confidence", 0.8), ("cluster", "domain")):
        opened = connect(store.snapshot(), parameters={"k": 1, name: value}, only=read_for(["overall"]))
        try:
            rows[name] = table(opened, "overall").rows
        finally:
            opened.close()
    was = rows.pop("k")
    for name, becomes in rows.items():
        assert [row["value"] for row in was] == [row["value"] for row in becomes], name
        pairs = list(zip(was, becomes, strict=True))
        moved = {bound for bound in ("low", "high") if any(one[bound] != other[bound] for one, other in pairs)}
        assert moved == {"high"} if name == "draws" else moved == {"low", "high"}, name
    changes, _ = sensitivity(store.snapshot(), ["overall"], {"k": 1})
    assert {change.column for change in changes if change.parameter == "cluster"} == {"low", "high"}


@pytest.mark.thorough
def test_judges_and_reference_agents_are_readings_where_there_are_several():
    """Each judge and each agent with full trials alone is a reading; a single one is no choice."""
    store = sensitive_store()
    others(store)
    found = []
    for snapshot in (sensitive_store().snapshot(), store.snapshot()):
        connection = connect(snapshot, only=ASKED)
        try:
            found.append({str(reading) for reading in readings(connection, {})})
        finally:
            connection.close()
    assert found[1] - found[0] == {"judge = mild", "judge = strict"}
    assert {"reference_agents = a", "reference_agents = b"} <= found[0]


def test_classifiers_are_readings_where_there_are_several():
    """A store with two classifiers has a reading for each, by agent and by experiment; one classifier is no choice."""
    store = sensitive_store()
    second_classifier(store)
    connection = connect(store.snapshot(), only=ASKED)
    try:
        names = {str(reading) for reading in readings(connection, {})}
    finally:
        connection.close()
    assert {"classifier_agent = c", "classifier_agent = d", "classifier_experiment = later"} <= names


@pytest.mark.thorough
def test_what_both_sides_share_is_no_reading():
    """With per = segment on both sides the default is another reading, and segment is none."""
    connection = connect(Store().snapshot(), only=ASKED)
    try:
        tried = [each.value for each in readings(connection, {"per": "segment"}) if each.parameter == "per"]
    finally:
        connection.close()
    assert tried == ["variant_dimension", "primary"]
    assert str(ParameterOverride("reuse_classifying_trials", True)) == "reuse_classifying_trials = true"


@pytest.mark.thorough
def test_the_command(tmp_path, capsys):
    """Progress and what changes nothing are narrated, the changes are data; a table that is none is named."""
    root = create_store(tmp_path / "store").root
    assert main(["sensitivity", str(root), "--tables", "wasted", "--format", "json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == []
    assert "these tables do not change under: k = 1, k = 2, reading = paper, reading = readme" in printed.err
    assert "1 of" in printed.err
    with pytest.raises(UnknownName, match="'waste'"):
        sensitivity(Store().snapshot(), ["waste"], {})
