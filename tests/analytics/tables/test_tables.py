"""Tables as a reader meets them: fixed order, intervals with every mean, notes, text, CSV and JSON."""

import csv
import io
import json
import re
from itertools import product
from pathlib import Path
from random import Random

import duckdb
import msgspec
import pytest

from lhaw_record.analytics.cli.table_output import print_list
from lhaw_record.analytics.comparison.compare import compare
from lhaw_record.analytics.comparison.groups import parse_group
from lhaw_record.analytics.errors import BadParameter, UnknownName
from lhaw_record.analytics.tables.catalogue import GROUPS
from lhaw_record.analytics.tables.labels import label_with_unit, measure_meanings
from lhaw_record.analytics.tables.notes import KEPT_RECALL, lines_of_users
from lhaw_record.analytics.tables.render import cell, to_csv, to_json, to_latex, to_markdown, to_text
from lhaw_record.analytics.tables.tables import COMPUTED_TABLES, TABLES, comparable, table, tables
from lhaw_record.analytics.views.build_order import sql_root
from lhaw_record.analytics.views.parameters import PARAMETERS, check, current, parse_settings
from lhaw_record.analytics.views.store import below_tables, connect, read_for
from lhaw_record.recorder.events.values import CONDITIONS
from tests.analytics.interval_law import broken_rows, wide_store
from tests.analytics.make_store import Store

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TABLES)
def test_every_mean_has_its_units_and_its_interval(connection, name):
    """A mean has n units, clusters, trials and missing; a null value or a null interval has a reason."""
    for row in table(connection, name).rows:
        if name == "looks":  # it has no means
            continue
        if name != "trajectory":
            assert row["n_clusters"] in range(3), "the store has two tasks"
        if "purpose" in row:
            assert (row["cost_usd_per_trial_low"] is None) == (row["cost_reason"] is not None)
            assert (row["tokens_per_trial_low"] is None) == (row["tokens_reason"] is not None)
            continue
        counts = {"n_trials", "n_missing"} if name != "review_agreement" else set()  # which is of no trials
        assert {"n_units", "n_dropped", "method", *counts} <= row.keys()
        assert (row["low"] is None) == (row["reason"] is not None)
        if row["low"] is not None:
            assert row["low"] <= row["value"] <= row["high"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TABLES)
def test_rows_stand_in_one_order(connection, name):
    """Rows come sorted by their keys, and no two have the same keys."""
    one = table(connection, name)
    keys = [tuple(row[key] for key in one.keys) for row in one.rows]
    assert len(set(keys)) == len(keys)
    if "condition" in one.keys and name != "trial_counts_and_cost":
        group = [key for key in one.keys if key not in ("condition", "measure")]
        groups = {}
        for row in one.rows:
            groups.setdefault(tuple(row[key] for key in group), []).append(
                (*CONDITIONS, "ask_user_late").index(row["condition"])
            )
        assert all(places == sorted(places) for places in groups.values())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("cluster", "clusters"), [("task", {"full": 3, "a": 3, "b": 2}), ("domain", {"full": 2, "a": 2, "b": 1})]
)
def test_clusters_are_those_behind_a_value(cluster, clusters):
    """Three tasks with full trials, four variants of them, of which b's trials of the second are missing."""
    store = Store(trials=1)
    for task_id, domain in (("t", "one"), ("u", "two"), ("x", "one")):
        store.task(task_id, domain=domain)
        store.variant(task_id, f"{task_id}1", ambiguity_class="benign")
        store.trial(task_id, "full", 0, agent="a")
    store.variant("t", "t2", ambiguity_class="benign")
    for unit in ("t1", "t2", "u1", "x1"):
        store.trial(unit, "underspecified", 0, agent="a")
        store.trial(unit, "underspecified", 0, agent="b", ends="failed" if unit == "u1" else "submitted")
    opened = connect(store.snapshot(), parameters={"k": 1, "cluster": cluster}, only={"overall"})
    query = "select condition, agent, n_units, n_clusters from overall where measure = 'pass_at_1'"
    try:
        found = {row[:2]: row[2:] for row in opened.execute(query).fetchall()}
    finally:
        opened.close()
    assert found == {
        ("full", "a"): (3, clusters["full"]),
        ("underspecified", "a"): (4, clusters["a"]),
        ("underspecified", "b"): (3, clusters["b"]),
    }


def test_an_unknown_table_is_named():
    """The error lists the tables there are."""
    opened = connect(Store().snapshot(), only=set())
    try:
        with pytest.raises(UnknownName, match=r"'overal'; did you mean 'overall'\?; known: overall, claims, losses"):
            table(opened, "overal")
    finally:
        opened.close()


def test_comparable_strips_time_attempts_and_failed_work(connection):
    """Exactly the columns that are named as such are left out."""
    full = table(connection, "trial_counts_and_cost")
    left_out = set(full.columns) - set(comparable(full).columns)
    assert left_out == {
        "attempts",
        "failed_attempts",
        "failed_calls",
        "failed_tokens",
        "failed_cost_usd",
        "model_seconds",
        "tool_seconds",
        "wall_seconds",
        "failed_wall_seconds",
    }


def test_text_shows_agents_side_by_side(connection):
    """A block per benchmark, a column per agent, the notes below; too narrow a page takes a line per agent."""
    one = table(connection, "by_class")
    wide, narrow = to_text(one), to_text(one, width=60)
    assert wide.startswith("by_class: ")
    head = next(line for line in wide.splitlines() if line.startswith("ambiguity_class"))
    assert head.split() == [
        "ambiguity_class",
        "condition",
        "measure",
        "a",
        "b",
        "units",
        "clusters",
        "trials",
        "missing",
    ]
    assert "agent" in narrow
    assert "0.50 (too_few_clusters)" in wide
    assert "parameters: k = 3, class_rule = paper" in wide
    assert "reading: default" in wide


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"measure": "pass_at_k", "value": 0.5, "low": 0.25, "high": 0.75, "reason": None}, "0.50 [0.25, 0.75]"),
        ({"measure": "ask_pct", "value": 40.0, "low": 20.0, "high": 66.66, "reason": None}, "40 [20, 66.7]"),
        ({"measure": "pass_at_k", "value": None, "low": None, "reason": "too_few_trials"}, "- too_few_trials"),
        ({"measure": "pass_at_k", "value": 0.5, "low": None, "reason": "one_cluster"}, "0.50 (one_cluster)"),
        ({"measure": "gain", "value": 0.59, "low": 0.00412, "high": 0.95, "reason": None}, "0.59 [0.004, 0.95]"),
        ({"measure": "loss", "value": 0.0, "low": -0.000001, "high": 0.5, "reason": None}, "0.00 [-0.000001, 0.50]"),
        ({"measure": "ask_pct", "value": 40.0, "low": 0.04, "high": 66.0, "reason": None}, "40 [0.04, 66]"),
        ({"measure": "questions", "value": 12.0, "low": None, "reason": "count"}, "12"),
    ],
)
def test_a_cell_says_what_is_known(row, text):
    """Value and interval, or a dash and why."""
    assert cell(row) == text


def test_csv_and_json_keep_numbers_and_nulls(connection):
    """CSV leaves undefined values empty, JSON has null and numbers."""
    one = table(connection, "overall")
    read = list(csv.DictReader(io.StringIO(to_csv(one))))
    loaded = json.loads(to_json([one]))["overall"]
    assert len(read) == len(loaded["rows"]) == len(one.rows)
    assert loaded["rows"] == [dict(row) for row in one.rows]
    assert [row["value"] == "" for row in read] == [row["value"] is None for row in one.rows]
    assert loaded["notes"] == list(one.notes)


def test_notes_say_what_is_left_out():
    """Missing, running, superseded and classifying trials, unlabelled variants, too few trials: all are counted."""
    store = Store(trials=3)
    old = store.task("t", (1.0,), version="0")
    store.variant("t", "v")
    store.trial("v", "underspecified", 0)
    store.task("t", (1.0,), version="1")
    assert old != store.tasks["t"]
    store.trial("v", "underspecified", 0)
    store.trial("v", "underspecified", 1, ends="running")
    store.trial("v", "underspecified", 2, ends="failed")
    store.trial("v", "underspecified", 0, role="classifier", agent="c", scores=(0,))
    store.start_run(trials=3, planned=9, finished_before=2)
    opened = connect(store.snapshot(), only=read_for(["by_class", "overall", "segment_labels"]))
    try:
        notes = "\n".join(table(opened, "by_class").notes + table(opened, "overall").notes)
        assert "gave the variants their class" not in "\n".join(table(opened, "segment_labels").notes), "it counts them"
    finally:
        opened.close()
    assert "without a verdict" not in notes
    for text in (
        "missing trials of desk: 1, not counted as failures; 1 of them started",
        "trials of desk that are running now: 1",
        "task or variant has changed since: 1 trials",
        "they gave the variants their class: 1 trials",
        "variants of desk without a class: 1;",
        "trials of the last plan that have not started yet: 7",
        "too_few_trials",
    ):
        assert text in notes


@pytest.mark.thorough
def test_every_table_of_several_agents_says_how_many_variants_they_share():
    """Where agents met other variants under a condition, each table of both warns, with the number that is common."""
    store = Store(trials=1)
    for place in range(3):
        store.task(f"t{place}", (1.0,))
        store.variant(f"t{place}", f"v{place}", ambiguity_class="outcome-critical")
        for agent, is_met in (("a", True), ("b", place < 1)):
            store.trial(f"t{place}", "full", 0, agent=agent, actions=["read x", "submit"])
            if is_met:
                store.trial(f"v{place}", "underspecified", 0, agent=agent)
                store.trial(f"v{place}", "ask_user", 0, agent=agent, actions=["ask_user S1", "submit"])
            if not is_met or place < 2:
                store.trial(f"v{place}", "inject_10", 0, agent=agent, injected_after=1, budget=10)
    names = [name for name in TABLES if name != "trajectory"]
    connection = connect(store.snapshot(), parameters={"draws": 100}, only=read_for(names))
    try:
        found = {one.name: one for one in tables(connection, names)}
    finally:
        connection.close()
    asked = {name for name, one in found.items() if any("and 2 are not, so" in n for n in one.notes)}
    injected = {name for name, one in found.items() if any("under injections: 2 var" in n for n in one.notes)}
    of_both = {name for name, one in found.items() if {"a", "b"} <= {row.get("agent") for row in one.rows}}
    no_levels = {"agent_health", "endings", "experiment_setup", "trial_counts_and_cost"}
    pools = {"generality", "point_of_no_return", "commitment", "timing_hypotheses"}
    assert of_both - no_levels <= asked | injected
    assert pools <= asked | injected
    assert {"overall", "voi", "wasted", "optimal_window", "losses"} <= injected
    common = {"under injections" in note: note for note in found["overall"].notes if "ran on different" in note}
    assert ": 1 variants are common" in common[False]
    assert ": 2 variants are common" in common[True]


@pytest.mark.thorough
def test_tables_say_when_agents_met_other_tasks_or_have_versions_in_other_benchmarks():
    """One of two tasks under the full prompt is common; an agent whose versions are in two benchmarks has two names."""
    store = Store(trials=1)
    for task_id, agents in (("t", "ab"), ("u", "a")):
        store.task(task_id, (1.0,))
        for agent in agents:
            store.trial(task_id, "full", 0, agent=agent)
    store.benchmark = "other"
    store.task("w", (1.0,))
    store.trial("w", "full", 0, agent="a", agent_digest="f" * 64)
    connection = connect(store.snapshot(), only={*read_for(["overall", "gain_tests", "kendall"]), "trials"})
    try:
        overall, *paired = (table(connection, name).notes for name in ("overall", "gain_tests", "kendall"))
        names = connection.execute("select distinct agent from trials where agent like 'a#%'").fetchall()
    finally:
        connection.close()
    met = [note for note in overall if "ran on different" in note]
    assert [note.partition(":")[0] for note in met] == ["agents of desk ran on different tasks under the full prompt"]
    assert "1 tasks are common to all agents with the condition and 1 are not, so" in met[0]
    assert not [note for notes in paired for note in notes if "ran on different tasks" in note]
    assert (len(names), sum("agents ran in several versions" in note for note in overall)) == (2, 1)


@pytest.mark.thorough
def test_a_table_without_complete_units_names_what_fills_it():
    """Without full, voi has no value; its note has the option, and with that every value is there."""
    store = Store(trials=1)
    store.task("t", (1.0,))
    store.variant("t", "v")
    conditions = ("underspecified", "inject_10", "inject_50", "inject_90")
    for condition in conditions:
        is_late = condition.startswith("inject")
        injected = {"budget": 3, "injected_after": 1} if is_late else {}
        store.trial("v", condition, 0, actions=["a", "b", "submit"], **injected)
    values = {}
    for cases in ("complete", "available"):
        opened = connect(store.snapshot(), parameters={"k": 1, "voi_cases": cases}, only=read_for(["voi"]))
        try:
            one = table(opened, "voi")
        finally:
            opened.close()
        values[cases] = {row["condition"] for row in one.rows if row["value"] is not None}
        assert any("incomplete_unit: " in note and "voi_cases=available" in note for note in one.notes) == (
            cases == "complete"
        )
    assert values == {"complete": set(), "available": set(conditions)}


@pytest.mark.thorough
def test_no_note_counts_nothing():
    """A store with nothing left out has no note about what is left out: a count of 0 is no news."""
    store = Store(trials=3)
    store.task("t", (1.0,))
    store.variant("t", "v")
    for condition in ("full", "underspecified", "ask_user"):
        for index in range(3):
            store.trial("t" if condition == "full" else "v", condition, index)
    names = ("overall", "by_class")
    opened = connect(store.snapshot(), only=read_for(names))
    try:
        notes = [note for name in names for note in table(opened, name).notes]
    finally:
        opened.close()
    assert notes
    assert not [note for note in notes if re.search(r": 0(?![.\d])", note)]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_every_table_is_listed_with_what_it_shows_and_its_grain(form):
    """The list has a meaning for every table and parameter; the grain is the one that the SQL file states."""
    out = io.StringIO()
    print_list(form, out)
    rows = json.loads(out.getvalue()) if form == "json" else list(csv.DictReader(io.StringIO(out.getvalue())))
    meanings = {row["name"]: row["meaning"] for row in rows if row["kind"] == "table"}
    assert set(meanings) == {*TABLES, *COMPUTED_TABLES}
    for name in TABLES:
        grain = re.search(r"-- grain: (.*)", (sql_root() / "tables" / f"{name}.sql").read_text())[1]
        what, _, row = meanings[name].partition("; a row per ")
        assert what
        assert row.startswith(grain)
    assert all(row["meaning"] for row in rows)


@pytest.mark.thorough
def test_settings_are_arms_that_notes_name_and_a_parameter_chooses():
    """Trials with two simulators are two arms, of which the parameters keep one; a note says so in every table."""
    store = Store(trials=3)
    store.task("t", (1.0,))
    store.variant("t", "v")
    for simulator in ("exact", "dump"):
        for index in range(3):
            store.trial("v", "ask_user", index, user_simulator=simulator, actions=["ask_user S1"])

    def shown(**parameters):
        opened = connect(store.snapshot(), parameters=parameters, only=read_for(["overall"]))
        try:
            one = table(opened, "overall")
        finally:
            opened.close()
        rows = [row for row in one.rows if row["measure"] == "pass_at_1" and row["condition"] == "ask_user"]
        return {row["agent"]: row["n_trials"] for row in rows}, any("NAME#DIGEST" in note for note in one.notes)

    both, is_noted = shown()
    assert is_noted
    assert list(both.values()) == [3, 3]
    assert all(name.startswith("a#") for name in both)
    for name in both:
        assert shown(settings=name.partition("#")[2]) == ({name: 3}, False)
    assert list(shown(user_simulator="dump")[0].values()) == [3]


@pytest.mark.thorough
def test_a_run_under_other_limits_and_with_more_trials_makes_none_of_the_first_missing():
    """Three of three trials, then five of five under other limits, and one that failed: only that one is missing."""
    store = Store(trials=3)
    store.task("t", (1.0,))
    store.variant("t", "v")
    for turns, trials in ((60, 3), (12, 5)):
        store.start_run(trials=trials)
        for index in range(trials):
            ends = "failed" if index == 4 else "finished"
            limits = f'{{"max_turns":{turns}}}'
            store.trial("v", "underspecified", index, limits_json=limits, scores=[turns == 60], ends=ends)
    opened = connect(store.snapshot(), only={"overall"})
    try:
        query = "select value, n_trials, n_missing from overall where measure = 'pass_at_1' order by value"
        assert opened.execute(query).fetchall() == [(0.0, 4, 1), (1.0, 3, 0)]
    finally:
        opened.close()


@pytest.mark.thorough
def test_a_loss_that_an_exchange_of_trials_explains_is_not_shown():
    """One failure of nine in each of eight tasks, none in three with the full prompt that variants share.

    All tasks lose, so flips of tasks say 2 / 256; but eight failures miss 24 of 96 trials in 0.75 ** 8 of exchanges.
    """
    store = Store(trials=3)
    for task in range(8):
        store.task(f"t{task}", (1.0,))
        for index in range(3):
            store.trial(f"t{task}", "full", index)
        for variant in range(3):
            name = f"t{task}v{variant}"
            store.variant(f"t{task}", name)
            for index in range(3):
                store.trial(name, "underspecified", index, scores=[index > 0 or variant > 0])
    opened = connect(store.snapshot(), only={"losses"})
    try:
        (found,) = opened.execute(
            "select value, low, high, p_value from losses where measure = 'pass_at_1_loss'"
        ).fetchall()
    finally:
        opened.close()
    value, low, high, p_value = found
    assert value == pytest.approx(1 / 9, abs=1e-6)
    assert low <= 0 < high
    assert p_value > 0.05


def test_the_view_arms_says_in_which_image_an_arm_ran():
    """Two images of one experiment are two arms that differ in nothing else."""
    store = Store(trials=1)
    store.task("t")
    for index, image in enumerate(("python:3.11", "python:3.12")):
        store.start_run(trials=1, image=image)
        store.trial("t", "full", index)
    opened = connect(store.snapshot(), only={"arms"})
    try:
        query = "select sandbox_image, n_trials, agent like 'a#%' from arms order by all"
        assert opened.execute(query).fetchall() == [("python:3.11", 1, True), ("python:3.12", 1, True)]
    finally:
        opened.close()


@pytest.mark.thorough
def test_a_classifier_that_ran_again_under_other_limits_is_chosen_by_its_settings():
    """Its two arms contradict each other, so the variant has no class, as the note says, until one is chosen."""
    store = Store(trials=2)
    store.task("t")
    store.variant("t", "v")
    for limits, score in (('{"max_turns":60}', 1.0), ('{"max_turns":12}', 0.0)):
        for index in range(2):
            fields = {"limits_json": limits, "scores": (score,)}
            store.trial("v", "underspecified", index, agent="ref", role="classifier", **fields)
            store.trial("v", "underspecified", index, agent="a", **fields)

    def shown(**parameters):
        opened = connect(store.snapshot(), parameters={"k": 1, **parameters}, only=read_for(["by_class"]))
        try:
            one = table(opened, "by_class")
        finally:
            opened.close()
        found = {(row["agent"], row["ambiguity_class"], row["value"]) for row in one.rows}
        return found, [note for note in one.notes if "without a class, because" in note]

    rows, notes = shown()
    assert rows == set()
    assert len(notes) == 1
    assert notes[0].endswith(": 1; choose with classifier_agent = NAME or NAME#DIGEST, or settings = DIGEST")
    opened = connect(store.snapshot(), only={"arms"})
    try:
        names = opened.execute("select agent from arms where agent like 'a#%' order by limits_json").fetchall()
    finally:
        opened.close()
    (few,), (many,) = names
    assert shown(settings=few.partition("#")[2]) == ({(few, "outcome-critical", 0.0)}, [])
    assert shown(settings=many.partition("#")[2]) == ({(many, "benign", 1.0)}, [])


@pytest.mark.thorough
def test_a_reading_sets_its_parameters_and_every_format_names_it():
    """The papers' reading is one word; what is set beside it wins, and CSV, JSON and text say both."""
    store = Store(trials=1)
    store.task("t", (1.0,))
    store.trial("t", "full", 0)
    for parameters, name in (
        ({}, "default"),
        ({"reading": "paper"}, "paper"),
        ({"reading": "paper", "voi_cases": "available"}, "paper, voi_cases = available"),
    ):
        opened = connect(store.snapshot(), parameters=parameters, only=read_for(["overall"]))
        try:
            one = table(opened, "overall")
            chosen = current(opened)
        finally:
            opened.close()
        assert chosen["intention_to_treat"] is (name == "default")
        assert [row["reading"] for row in csv.DictReader(io.StringIO(to_csv(one)))] == [name] * len(one.rows)
        assert json.loads(to_json([one]))["overall"]["reading"] == name
        assert f"reading: {name}" in to_text(one)


def test_parameters_have_checked_defaults(connection):
    """Every default is allowed, and an open connection shows what it was made with."""
    for parameter in PARAMETERS:
        if parameter.default is not None:
            check(parameter.name, parameter.default)
    assert current(connection) == {parameter.name: parameter.default for parameter in PARAMETERS}


@pytest.mark.parametrize(
    ("setting", "error", "message"),
    [
        ("class_rule=book", BadParameter, "choose one of: paper, readme"),
        ("k=0", BadParameter, "out of range"),
        ("k=many", BadParameter, "takes a whole number"),
        ("k", BadParameter, "has no value"),
        ("exclude_endings=refused, turn_limits", BadParameter, "no 'turn_limits'; did you mean 'turn_limit'"),
        ("speed=1", UnknownName, r"there is no parameter 'speed'; did you mean 'seed'\?; known: k, reading"),
    ],
)
def test_a_wrong_parameter_is_explained(setting, error, message):
    """The error names the parameter and what is possible."""
    with pytest.raises(error, match=message):
        _read(setting)


def _read(setting):
    """Read and check one setting, as the command line does."""
    for name, value in parse_settings([setting]).items():
        check(name, value)


def test_settings_are_read_in_their_type():
    """Texts become booleans, integers, numbers and names."""
    texts = ["intention_to_treat=true", "k=2", "confidence=0.9", "experiment=demo"]
    expected = {"intention_to_treat": True, "k": 2, "confidence": 0.9, "experiment": "demo"}
    assert parse_settings(texts) == expected


@pytest.mark.thorough
def test_what_a_reader_can_meet_is_described(connection):
    """Tables and readings in docs/metrics.md; parameters in the list; reasons, columns and measures here or in sql/."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", page))
    shared = words.union(
        *(re.findall(r"\w+", (ROOT / "sql" / name).read_text("utf-8")) for name in ("measures.txt", "glossary.txt"))
    )
    assert all(parameter.meaning for parameter in PARAMETERS)
    (reading,) = (parameter for parameter in PARAMETERS if parameter.name == "reading")
    assert {str(choice) for choice in reading.allowed} <= words
    for name in TABLES:
        one = table(connection, name)
        assert name in words
        header = (ROOT / "sql" / "tables" / f"{name}.sql").read_text(encoding="utf-8").partition("\nwith ")[0]
        described = shared.union(re.findall(r"\w+", " ".join(re.findall(r"^--.*", header, re.MULTILINE))))
        assert set(one.columns) <= described
        assert {row["measure"] for row in one.rows if row.get("measure")} <= described
        assert {row["reason"] for row in one.rows if row.get("reason")} <= words | described


def _rows(store, names, **parameters):
    opened = connect(store.snapshot(), parameters={"k": 1, **parameters}, only=read_for(names))
    try:
        return {each.name: each.rows for each in tables(opened, names)}
    finally:
        opened.close()


def test_interval_and_p_value_agree_in_every_row():
    """In every table with p-values, and in those that show the same gains; thorough tests look at all tables."""
    names = ("overall", "by_class", "gain_tests", "kendall", "point_of_no_return", "timing_hypotheses")
    tables = _rows(wide_store(4, 15), names)
    assert list(broken_rows(tables, 0.05)) == []
    seen = {
        (name, row["p_value"] < 0.05)
        for name, rows in tables.items()
        for row in rows
        if row.get("p_value") is not None and row["low"] is not None
    }
    assert {name for name, _ in seen} == {"gain_tests", "kendall", "point_of_no_return", "timing_hypotheses"}
    assert {is_small for _, is_small in seen} == {True, False}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("confidence", "seed", "tasks"), [(0.8, 1, 6), (0.99, 1, 6), (0.9, 2, 14), (0.8, 3, 22), (0.95, 3, 22)]
)
def test_interval_and_p_value_agree_at_every_level(confidence, seed, tasks):
    """The same for other levels, few and many tasks, few permutations, and the tables that are computed when named."""
    store = wide_store(seed, tasks)
    opened = connect(
        store.snapshot(), parameters={"k": 1, "confidence": confidence, "permutations": 700}, only=below_tables()
    )
    try:
        found = {each.name: each.rows for each in tables(opened, (*TABLES, *COMPUTED_TABLES))}
    finally:
        opened.close()
    assert list(broken_rows(found, round(1 - confidence, 12))) == []
    assert (tasks < 22) or any(row.get("p_value") is not None for row in found["effects"])


@pytest.mark.thorough
def test_many_cells_of_one_table_are_corrected_together():
    """p_holm of kendall, effects and the parts of a comparison: the running maximum of (m - rank) * p of its family."""
    chance, store = Random(5), Store(trials=2)
    for place in range(18):
        store.task(f"t{place}", (1.0,))
        store.variant(f"t{place}", f"v{place}", ("goal", "input")[place % 2])
        easy = chance.random()
        for agent, condition, index in product("abc", ("underspecified", "ask_user", "inject_10", "inject_30"), (0, 1)):
            gain = {"ask_user": 0.5, "inject_10": 0.3}.get(condition, 0.0)
            extra = {"budget": 9, "injected_after": 1} if condition.startswith("inject") else {}
            share = easy if agent != "c" else chance.random()
            scores = [chance.random() < 0.15 + 0.7 * max(gain, share)]
            store.trial(f"v{place}", condition, index, agent=agent, scores=scores, **extra)
    connection = connect(store.snapshot(), parameters={"k": 1, "permutations": 500}, only=below_tables())
    try:
        parts = compare(connection, parse_group("ask_user"), parse_group("underspecified"), by="agent")
        families = {
            "kendall": table(connection, "kendall").rows,
            "effects": [row for row in table(connection, "effects").rows if row["measure"] == "log_odds_ratio"],
            "compare": [row for row in parts if row["part"] != "all"],
        }
    finally:
        connection.close()
    assert parts[0]["p_holm"] is None
    for name, rows in families.items():
        family = sorted(row["p_value"] for row in rows if row["p_value"] is not None)
        assert len(family) > 1, name
        steps = [p * (len(family) - rank) for rank, p in enumerate(family)]
        corrected = {p: min(1, max(steps[: rank + 1])) for rank, p in enumerate(family)}
        for row in rows:
            if row["p_value"] is not None:
                assert row["p_holm"] == pytest.approx(corrected[row["p_value"]], rel=2e-5), (name, row)


def test_costs_per_trial_have_their_interval_in_every_text(connection):
    """Text, Markdown and LaTeX show the mean cost of a trial with its bounds, or why there are none; the line fits."""
    one = table(connection, "trial_counts_and_cost")
    found = next(row for row in one.rows if row["purpose"] == "all" and row["cost_usd_per_trial"] is not None)
    row = found | {"cost_usd_per_trial_low": 0.1234, "cost_usd_per_trial_high": 0.5678, "cost_reason": None}
    low, high = "0.1234", "0.5678"
    one = msgspec.structs.replace(one, rows=tuple(row if each is found else each for each in one.rows))
    unknown = msgspec.structs.replace(one, rows=({**row, "cost_usd_per_trial": None, "cost_reason": "unknown_price"},))
    for render in (to_text, to_markdown, to_latex):
        assert f"{row['cost_usd_per_trial']:.4f}" in render(one)
        assert f"{low}, {high}" in render(one)
        assert "unknown" in render(unknown)
    assert len(to_markdown(one).splitlines()[2].split(" | ")) == 13


@pytest.mark.thorough
def test_no_interval_has_no_width():
    """Equal gains have the interval of a share of all, from -1 to 1; equal net values have a reason and its note."""
    store = Store()
    for task_id in "tuwxyz":
        store.task(task_id)
        store.variant(task_id, f"v-{task_id}")
        for index in range(3):
            store.trial(f"v-{task_id}", "ask_user", index, actions=("ask_user S1", "submit"), scores=[1])
            store.trial(f"v-{task_id}", "underspecified", index, scores=[0])
    opened = connect(store.snapshot(), only=read_for(["overall", "net_value"]))
    try:
        one, net_value = table(opened, "overall"), table(opened, "net_value")
    finally:
        opened.close()
    (gain,) = (row for row in one.rows if row["measure"] == "pass_at_k_gain")
    assert (gain["value"], gain["low"], gain["high"]) == (1.0, 1e-6, 1.0)  # 2 * 0.475892 - 1, but p is 2 / 64
    (asked,) = (row for row in one.rows if row["measure"] == "ask_pct")
    assert (asked["value"], asked["low"], asked["high"]) == (100.0, 47.589244, 100.0)
    assert {row["reason"] for row in net_value.rows if row["low"] is None} >= {"no_variation"}
    assert any(note.startswith("no_variation: ") for note in net_value.notes)


def test_every_table_is_in_one_group():
    """The groups of the report hold every table once."""
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted((*TABLES, *COMPUTED_TABLES))


@pytest.mark.thorough
def test_every_measure_has_a_label_and_a_meaning(connection):
    """A measure of any table is described, and no two measures of one table have the same label."""
    for name in TABLES:
        found = {row["measure"] for row in table(connection, name).rows if "measure" in row}
        assert found <= set(measure_meanings()), name
        labels = [label_with_unit(each) for each in found]
        assert len(labels) == len(set(labels)), name


def test_what_users_miss_stands_under_every_table_of_gains(connection):
    """By medium, as they answered here, and as measured on questions never seen; other tables do not say it."""
    said = (
        "requests that simulated users miss lower gains from asking: "
        "exact (judge rules/1) gave 30 of 30 segments asked for through mcp"
    )
    assert [said in table(connection, name).notes for name in ("overall", "gain_tests", "wasted")] == [
        True,
        True,
        False,
    ]
    rows = [("exact", "mcp", "rules/3[en]", ["S1"], [], True), ("exact", "prose", "rules/3[en]", [], ["S1"], True)]
    rows += [("llm", "mcp", "m#1", ["S1", "S2"], ["S3"], True), ("llm", "mcp", "m#1", ["S1"], [], False)]
    database = duckdb.connect()
    database.execute(
        "create table questions (simulator text, medium text, exchange_judge text, requested_segment_ids text[],"
        " withheld_segment_ids text[], is_counted boolean, answer text default 'a')"
    )
    database.executemany("insert into questions values (?, ?, ?, ?, ?, ?, default)", rows)
    kept = f"(recall on unseen questions {KEPT_RECALL['rules/3']:.2f}: rules/3 on both kept sets, docs/matcher.md)"
    assert lines_of_users(database) == [
        f"exact (judge rules/3[en]) gave 1 of 1 segments asked for through mcp {kept}",
        f"exact (judge rules/3[en]) gave 0 of 1 segments asked for through prose {kept}",
        "llm (judge m#1) gave 2 of 3 segments asked for through mcp",
    ]
