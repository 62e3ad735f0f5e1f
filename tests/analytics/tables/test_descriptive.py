"""The descriptive tables agree with a slow, obvious reading of the same records, whatever a store holds."""

from collections import defaultdict
from fractions import Fraction
from math import isclose
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhaw_record.analytics.views.store import connect
from tests.analytics import reference
from tests.analytics import reference_descriptive as descriptive
from tests.analytics.make_store import Store
from tests.support.depth import at_depth

PLANNED = 2
AGENTS = {
    "plain": ("m", "none", "none"),
    "eager": ("m", "none", "supervisor"),
    "thinker": ("m", "react", "none"),
    "lonely": ("m", "react", "executive"),
    "other": ("n", "none", "executive"),
}
CLASSES = ("outcome-critical", "divergent", "benign", None)
TABLES = (
    "fidelity",
    "by_segments_removed",
    "by_severity",
    "by_strategy",
    "by_persona",
    "generality",
    "losses",
    "over_asking",
    "net_value",
    "task_selection",
)
COUNTS = "value, n_units, n_dropped, n_trials, n_missing"


def descriptive_store(seed):
    """Return a store of three tasks and five variants in which any agent may have met any of them, and how often."""
    chance = Random(seed)
    store = Store(trials=PLANNED, scope=chance.choice(["task", "variant"]))
    keys = ("model", "strategy", "persona")
    store.agents = {name: dict(zip(keys, what, strict=True)) for name, what in AGENTS.items()}
    tasks = ("t", "u", "s")
    for task_id in tasks:
        store.task(task_id, (1.0, 1.0))
    for place in range(5):
        dimensions = chance.choice(["goal", "goal input", "input input context"])
        severity = chance.choice(["delete", "vaguify", None])
        made = {"severity": severity, "ambiguity_class": chance.choice(CLASSES)}
        store.variant(chance.choice(tasks), f"v{place}", dimensions, **made)
    for agent in chance.sample(sorted(AGENTS), k=chance.randint(1, 5)):
        for condition in chance.sample(["full", "underspecified", "ask_user", "full_ask_user"], k=chance.randint(1, 4)):
            is_of_task = condition == "full_ask_user" or (condition == "full" and store.scope == "task")
            for unit in tasks if is_of_task else sorted(store.variants):
                for index in range(chance.choice([0, 1, 2, 2, 2, 3])):
                    _record(chance, store, unit, condition, index, agent)
    return store


def _record(chance, store, unit, condition, index, agent):
    questions = chance.choice([0, 0, 1, 2]) if condition.endswith("ask_user") else 0
    store.trial(
        unit,
        condition,
        index,
        agent=agent,
        scores=chance.choices([0.0, 0.5, 1.0], [1, 1, 4], k=2),
        actions=[*["ask_user S1"] * questions, "submit"],
        ends=chance.choice(["finished"] * 8 + ["failed", "running"]),
    )


@settings(max_examples=at_depth(12, 50))
@given(seed=st.integers(0, 2**32), k=st.sampled_from([1, 2]))
@pytest.mark.thorough
def test_the_tables_are_those_of_the_reference(seed, k):
    """Values, units, dropped units, trials and missing trials of every group are those that a person would count."""
    store = descriptive_store(seed)
    rows = reference.pass_rows(reference.trials_of(store.envelopes, store.live), PLANNED, k)
    book = descriptive.Book(rows, store.variants, AGENTS)
    connection = connect(store.snapshot(), parameters={"k": k, "draws": 100}, only=set(TABLES))

    def ask(query):
        return connection.execute(query).fetchall()

    try:
        _same_groups(ask, book)
        _same_arms(ask, book)
        _same_averages(ask, book)
        _same_costs(ask, book)
        _same_selection(ask, book)
    finally:
        connection.close()


def _same_groups(ask, book):
    keys = {
        "by_segments_removed": ("segments_removed", lambda variant: [len(variant.segments)], descriptive.ARMS),
        "by_severity": ("severity", lambda variant: [variant.severity or "unknown"], descriptive.ARMS),
        "fidelity": ("'oc'", _outcome_critical, ("full", *descriptive.ARMS)),
    }
    for name, (column, group_of, conditions) in keys.items():
        query = f"""select agent, {column}, condition, measure, {COUNTS} from {name}
            where agent <> 'all' and measure like 'pass_at_k%'
            and not ('{name}' like 'by_seg%' and condition = 'full')"""
        _same(_by_key(ask(query), 4), descriptive.passes(book, group_of, conditions))
    for agent, value in ask("select agent, value from fidelity where measure = 'pass_pp_per_question_per_variant'"):
        members = descriptive.grouped(book, agent, _outcome_critical)["oc"]
        assert _near(value, descriptive.per_question(book, agent, agent, members, "pass_at_k"))
    query = f"select agent, {COUNTS} from by_segments_removed where measure = 'pass_at_k' and segments_removed = 0"
    for agent, *found in ask(query):
        units = [book.rows[agent, "task", one, "full"] for one in book.tasks(agent, "full")]
        expected = descriptive.cell([(row["pass_at_k"], row["n_trials"], row["n_missing"]) for row in units])
        assert all(_near(*pair) for pair in zip(found[:4], expected[:4], strict=True))


def _outcome_critical(variant):
    return ["oc"] if variant.ambiguity_class == "outcome-critical" else []


def _same_arms(ask, book):
    for place, name in ((1, "by_strategy"), (2, "by_persona")):
        query = f"""select agent, ambiguity_class, condition, measure, {COUNTS} from {name}
            where measure similar to '(pass_at_k|checkpoint_progress)(_gain)?'"""
        _same(_by_key(ask(query), 4), descriptive.arms_compared(book, place))
        query = f"""select agent, measure, value from {name}
            where ambiguity_class = 'all' and (measure = 'ask_pct' or measure like 'questions_per%')"""
        for agent, measure, value in ask(query):
            assert _near(value, descriptive.asking(book, agent, book.met(agent))[measure])
    query = "select agent, value from by_persona where ambiguity_class = 'all' and measure like 'pass_pp%per_variant'"
    for agent, value in ask(query):
        base = book.base_of(agent)
        assert _near(value, descriptive.per_question(book, agent, base, book.met(agent), "pass_at_k"))


def _same_averages(ask, book):
    expected = descriptive.model_average(book)
    query = "select strategy, persona, condition, value from generality where measure = 'pass_at_k'"
    for *key, value in ask(query):
        assert _near(value, expected[tuple(key)])


def _same_costs(ask, book):
    query = """select agent, condition, measure, value from losses
        where measure <> 'pass_at_1_loss' and value is not null"""
    found = _by_key(ask(query), 3)
    expected = descriptive.losses(book)
    assert found.keys() == expected.keys()
    assert all(_near(found[key][0], value) for key, value in expected.items())
    query = """select agent, measure, value from over_asking
        where measure <> 'pass_at_k' and measure not like 'pass_at_1%'"""
    found = _by_key(ask(query), 2)
    expected = descriptive.over_asking(book)
    assert found.keys() == expected.keys()
    assert all(_near(found[key][0], value) for key, value in expected.items())
    query = """select agent, measure, value from net_value
        where question_cost_pp = 5 or question_cost_pp is null"""
    found = _by_key(ask(query), 2)
    for name, measure in (("pass", "pass_at_k"), ("progress", "checkpoint_progress")):
        expected = descriptive.net_values(book, measure, 5)
        assert {agent for agent, _ in found} == expected.keys()
        for agent, (net, break_even) in expected.items():
            assert _near(found[agent, f"{name}_net_value_pp"][0], net)
            assert _near(found[agent, f"{name}_break_even_pp"][0], break_even)


def _same_selection(ask, book):
    expected = descriptive.selected_tasks(book, Fraction(50))
    found = _by_key(ask("select task_id, checkpoint_progress, is_selected, is_solvable from int_tasks_selected"), 1)
    assert found.keys() == {(task_id,) for task_id in expected}
    for task_id, (progress, is_selected, is_solvable) in expected.items():
        assert _near(found[task_id,][0], progress)
        assert found[task_id,][1:] == (is_selected, is_solvable)
    counts = defaultdict(int)
    for _, is_selected, is_solvable in expected.values():
        counts["considered_tasks"] += 1
        counts["tasks"] += is_selected
        counts["solvable_tasks"] += bool(is_selected and is_solvable)
    query = "select measure, value from task_selection where domain = 'all' and reason = 'count'"
    assert dict(ask(query)) == counts


def _by_key(rows, size):
    return {row[:size]: row[size:] for row in rows}


def _same(found, expected):
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert all(_near(*pair) for pair in zip(found[key], values, strict=True)), (key, found[key], values)


def _near(value, wanted):
    if value is None or wanted is None:
        return value is None and wanted is None
    return isclose(float(value), float(wanted), abs_tol=2e-6)
