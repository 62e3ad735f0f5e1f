"""The views agree with a slow, obvious reading of the same records, whatever a store holds."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhaw_record.analytics.views.store import connect
from tests.analytics import reference
from tests.analytics.random_stores import PLANNED, TIMING_CONDITIONS, random_store
from tests.support.depth import at_depth

READ = {"trials", "pass_at_k", "unit_values", "observed_classes", "overall", "natural_ask"}
LAWS = settings(max_examples=at_depth(10, 40))
SEEDS = st.integers(0, 2**32)
SCOPES = st.sampled_from(["task", "variant"])


@LAWS
@given(seed=SEEDS, scope=SCOPES, k=st.sampled_from([1, 2, 3]))
def test_trials_units_gains_and_classes(seed, scope, k):
    """Trials, pass@k, progress, gains, classes and the overall means are those of the reference."""
    store = random_store(seed, scope)
    trials = reference.trials_of(store.envelopes, store.live)
    rows = reference.pass_rows(trials, PLANNED, k)
    connection = connect(store.snapshot(), parameters={"reading": "paper", "k": k}, only=READ)
    try:
        _same_trials(connection, trials)
        _same_units(connection, rows)
        _same_gains(connection, rows)
        _same_classes(connection, trials)
        _same_overall(connection, rows)
        _same_first_asks(connection, trials)
    finally:
        connection.close()


@pytest.mark.sampled(4)
@settings(LAWS, max_examples=at_depth(5, 20))
@given(seed=SEEDS, scope=SCOPES, match=st.sampled_from(["arguments", "name"]))
@pytest.mark.parametrize("supply", ["max", "set", "single", "sum"])
def test_wasted_actions(supply, seed, scope, match):
    """Pre-injection and wasted actions are those of the reference, under every reading."""
    store = random_store(seed, scope)
    expected = reference.wasted_of(reference.trials_of(store.envelopes, store.live), match, supply)
    parameters = {"reading": "paper", "wasted_match": match, "wasted_supply": supply}
    connection = connect(store.snapshot(), parameters=parameters, only={"wasted_trials"})
    try:
        query = "select trial_id, pre_injection_actions, wasted_actions, wasted_ratio from wasted_trials"
        found = {row[0]: row[1:] for row in connection.execute(query).fetchall()}
    finally:
        connection.close()
    assert found.keys() == expected.keys()
    for trial_id, (before, wasted) in expected.items():
        ratio = None if wasted is None or not before else wasted / before
        assert found[trial_id][:2] == (before, wasted)
        assert found[trial_id][2] == pytest.approx(ratio)


@pytest.mark.sampled(2)
@settings(LAWS, max_examples=at_depth(6, 20))
@given(seed=SEEDS, scope=SCOPES, k=st.sampled_from([1, 2]))
@pytest.mark.parametrize("cases", ["complete", "available"])
def test_value_of_information(cases, seed, scope, k):
    """The curve is that of the reference, in both readings of which units count."""
    store = random_store(seed, scope, TIMING_CONDITIONS)
    rows = reference.pass_rows(reference.trials_of(store.envelopes, store.live), PLANNED, k)
    variants = {
        name: ({segment.dimension for segment in variant.segments}, variant.task_id)
        for name, variant in store.variants.items()
    }
    expected = reference.voi_of(rows, variants, cases)
    connection = connect(store.snapshot(), parameters={"reading": "paper", "k": k, "voi_cases": cases}, only={"voi"})
    try:
        query = "select dimension, condition, value, n_units from voi where measure = 'pass_at_k' and agent = 'all'"
        found = {row[:2]: row[2:] for row in connection.execute(query).fetchall()}
    finally:
        connection.close()
    assert found.keys() == expected.keys()
    for key, (value, n_units) in expected.items():
        assert _near(found[key][0], value)
        assert found[key][1] == n_units


def _same_trials(connection, trials):
    query = """select trial_id, trial_state, is_success, action_count, question_count, first_ask_pct, scores,
        checkpoint_progress from trials"""
    found = {row[0]: row[1:] for row in connection.execute(query).fetchall()}
    assert found.keys() == trials.keys()
    for trial_id, trial in trials.items():
        state, is_success, actions, questions, first_ask_pct, scores, progress = found[trial_id]
        assert state == trial.state
        if state == "valid":
            count = len(trial.actions) if trial.is_course_known else None
            assert (is_success, actions, questions) == (trial.is_success, count, trial.questions)
            assert _near(first_ask_pct, trial.first_ask_pct)
            assert scores == trial.scores
            assert _near(progress, trial.progress)


def _same_units(connection, rows):
    query = """select agent, unit_kind, unit_id, condition, n_trials, n_missing, n_failed, pass_at_k, pass_hat_k,
        checkpoint_progress, n_questions, n_asking_trials from pass_at_k"""
    found = {row[:4]: row[4:] for row in connection.execute(query).fetchall()}
    assert found.keys() == rows.keys()
    for key, row in rows.items():
        wanted = list(row.values())
        if key[1] == "task" and any(other[:2] == (key[0], "variant") and other[3] == "full" for other in rows):
            wanted[1] = found[key][1]  # planned per variant there, so the variants' rows tell what is missing
        assert all(_near(*pair) for pair in zip(found[key], wanted, strict=True)), key


def _same_gains(connection, rows):
    for measure in ("pass_at_k", "checkpoint_progress"):
        query = f"select agent, unit_id, unit_value from unit_values where measure = '{measure}_gain'"
        found = {row[:2]: row[2] for row in connection.execute(query).fetchall()}
        asking = {agent for agent, kind, _, condition in rows if kind == "variant" and condition == "ask_user"}
        expected = {key: gain for key, gain in reference.gains_of(rows, measure).items() if key[0] in asking}
        assert found.keys() == expected.keys()
        assert all(_near(found[key], gain) for key, gain in expected.items())


def _same_classes(connection, trials):
    query = "select agent, variant_id, ambiguity_class from observed_classes"
    found = {row[:2]: row[2] for row in connection.execute(query).fetchall()}
    assert found == reference.classes_of(trials, PLANNED, "paper")


def _same_overall(connection, rows):
    query = "select agent, condition, value, n_units from overall where measure = 'pass_at_k'"
    for agent, condition, value, n_units in connection.execute(query).fetchall():
        kind = "task" if condition == "full" else "variant"
        units = [row["pass_at_k"] for key, row in rows.items() if (key[0], key[1], key[3]) == (agent, kind, condition)]
        assert n_units == sum(unit is not None for unit in units)
        assert _near(value, reference.mean(units))
    query = """select agent, condition, value, n_units from overall
        where measure = 'pass_at_k_gain' and condition like 'inject%'"""
    for agent, condition, value, n_units in connection.execute(query).fetchall():
        gains = []
        for (who, kind, unit, which), row in rows.items():
            untold = rows.get((agent, "variant", unit, "underspecified"))
            if (who, kind, which) == (agent, "variant", condition) and untold:
                arms = (row["pass_at_k"], untold["pass_at_k"])
                gains.append(None if None in arms else arms[0] - arms[1])
        assert n_units == sum(gain is not None for gain in gains)
        assert _near(value, reference.mean(gains))
    query = "select agent, value from overall where measure = 'ask_pct'"
    for agent, value in connection.execute(query).fetchall():
        cells = [row for key, row in rows.items() if (key[0], key[1], key[3]) == (agent, "variant", "ask_user")]
        cells = [cell for cell in cells if cell["n_questions"] is not None]
        trials = sum(cell["n_trials"] for cell in cells)
        asking = sum(cell["n_asking_trials"] for cell in cells)
        assert _near(value, 100 * asking / trials if trials else None)


def _same_first_asks(connection, trials):
    query = "select agent, measure, value from natural_ask where task_id = 'all' and measure like 'first_ask_mean%'"
    for agent, _, value in connection.execute(query).fetchall():
        asked = [
            trial.first_ask_pct
            for trial in trials.values()
            if trial.keys.agent == agent and trial.keys.condition == "ask_user"
        ]
        assert _near(value, reference.mean(asked))


def _near(value, wanted):
    if value is None or wanted is None:
        return value is None and wanted is None
    return math.isclose(float(value), float(wanted), abs_tol=2e-6)
