"""The timing tables agree with a slow, obvious reading of the same records; what cannot be told has a reason."""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhaw_record.analytics.tables.tables import table
from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.events import ActionStarted, VariantGenerated
from lhaw_record.recorder.events.values import Segment, Variant
from tests.analytics import reference, reference_timing
from tests.analytics.make_store import Store
from tests.analytics.reference_timing import INJECTED, PLANNED, UNITS, timing_store, without_injections
from tests.support.depth import at_depth

LAWS = settings(max_examples=at_depth(8, 30))
SEEDS = st.integers(0, 2**32)
SCOPES = st.sampled_from(["task", "variant"])
POOLED = st.sampled_from(["tasks", "units"])


def opened(store, only, **parameters):
    """A connection with some views, in the reading that the reference has: that of the papers."""
    return connect(store.snapshot(), parameters={"reading": "paper", **parameters}, only=only)


@LAWS
@given(seed=SEEDS, scope=SCOPES, k=st.sampled_from([1, 2]), cells=st.sampled_from(["injected", "all"]))
@pytest.mark.thorough
def test_agreement_of_two_agents(seed, scope, k, cells):
    """tau-b, the cells that both agents have, and the ties are those counted pair by pair."""
    store = timing_store(seed, scope)
    rows = reference.pass_rows(reference.trials_of(store.envelopes, store.live), PLANNED, k)
    if scope == "task":  # a variant's full value is that of its task
        for agent in ("a", "b"):
            for unit, task_id in UNITS.items():
                rows[agent, "variant", unit, "full"] = rows[agent, "task", task_id, "full"]
    conditions = INJECTED if cells == "injected" else (*INJECTED, "full", "underspecified")
    tau, n_cells, n_ties = reference_timing.kendall_of(rows, conditions)
    connection = opened(store, {"kendall"}, k=k, kendall_cells=cells)
    try:
        ((value, n_units, ties),) = connection.execute("select value, n_units, n_ties from kendall").fetchall()
    finally:
        connection.close()
    assert n_units == n_cells
    assert _near(value, tau)
    assert ties == (n_ties if n_cells >= 3 else None)


@pytest.mark.thorough
@LAWS
@given(seed=SEEDS, scope=SCOPES, k=st.sampled_from([1, 2]))
def test_points_of_no_return(seed, scope, k):
    """p-values are the shares of all sign choices, counted one by one; the point ends the unbroken run from 10 on."""
    store = timing_store(seed, scope)
    rows = reference.pass_rows(reference.trials_of(store.envelopes, store.live), PLANNED, k)
    expected = reference_timing.points_of(rows, store.variants)
    connection = opened(store, {"point_of_no_return"}, k=k, flipped="tasks")
    try:
        query = "select dimension, ambiguity_class, timing, value, p_greater from point_of_no_return"
        found = {row[:3]: row[3:] for row in connection.execute(query).fetchall()}
    finally:
        connection.close()
    assert {key[:2] for key in found} == expected.keys()
    for key, (p_values, point) in expected.items():
        assert found[(*key, "all")][0] == point
        for percent, p_value in p_values.items():
            assert _near(found[(*key, str(percent))][1], p_value)


@pytest.mark.thorough
@LAWS
@given(seed=SEEDS, scope=SCOPES, loss=st.sampled_from([0, 5, 20]), pooled=POOLED)
def test_optimal_windows(seed, scope, loss, pooled):
    """Threshold, end, re-entries and the share of first questions inside are those read off the curve by hand."""
    store = timing_store(seed, scope)
    trials = reference.trials_of(store.envelopes, store.live)
    rows = reference.pass_rows(trials, PLANNED, 2)
    connection = opened(store, {"optimal_window"}, k=2, window_pp=float(loss), pooled=pooled)
    try:
        query = "select dimension, agent, measure, value, reentry from optimal_window"
        found = {row[:3]: row[3:] for row in connection.execute(query).fetchall()}
    finally:
        connection.close()
    for dimension, agent in {key[:2] for key in found}:
        agents = ("a", "b") if agent == "all" else (agent,)
        averaged = pooled if agent == "all" else "units"
        window = reference_timing.window_of(
            rows, store.variants, trials, dimension, agents, Fraction(loss, 100), averaged
        )
        threshold, end, reentries, share = window or (None, None, [], None)
        key = (dimension, agent)
        if (*key, "window_end_pct") in found:
            assert _near(found[(*key, "window_threshold")][0], threshold)
            assert found[(*key, "window_end_pct")] == (end, ", ".join(map(str, reentries)) or None)
        assert _near(found[(*key, "ask_in_window_pct")][0], share)


@LAWS
@given(seed=SEEDS, scope=SCOPES, pooled=POOLED)
@pytest.mark.thorough
def test_questions_to_two_simulators_share_the_window_of_their_agent(seed, scope, pooled):
    """Each simulator is an arm with questions; the budgets and the window are those of the agent's injected trials."""
    store = timing_store(seed, scope, ("exact", "dump"))
    trials = reference.trials_of(store.envelopes, store.live)
    rows = reference.pass_rows(trials, PLANNED, 2)
    budgets = reference_timing.budgets_of(trials)
    connection = opened(store, {"optimal_window", "arms"}, k=2, pooled=pooled, ask_scale="budget")
    try:
        arms = connection.execute("select agent, agent_name, user_simulators from arms").fetchall()
        query = "select dimension, agent, value, reason from optimal_window where measure = 'ask_in_window_pct'"
        found = connection.execute(query).fetchall()
    finally:
        connection.close()
    asked = {agent: (name, simulators[0]) for agent, name, simulators in arms if simulators}
    assert sorted(asked.values()) == [("a", "dump"), ("a", "exact"), ("b", "exact")]
    assert {agent for _, agent, *_ in found} == {*asked, "all"}
    for dimension, agent, value, reason in found:
        name, simulator = asked.get(agent, (None, None))
        agents, averaged = ((name,), "units") if name else (("a", "b"), pooled)
        window = reference_timing.window_of(
            rows, store.variants, trials, dimension, agents, Fraction(1, 20), averaged, simulator, budgets
        )
        assert _near(value, window and window[3])
        assert (value is None) == (reason in ("no_window", "nobody_asked"))


@LAWS
@given(seed=SEEDS, scope=SCOPES, pooled=POOLED)
@pytest.mark.thorough
def test_full_trials_give_the_budgets_of_an_agent_without_injections(seed, scope, pooled):
    """Its first questions are placed on that scale in everybody's window; where a count is unknown, nowhere."""
    store = timing_store(seed, scope)
    without_injections(store, "b", seed)
    trials = reference.trials_of(store.envelopes, store.live)
    rows = reference.pass_rows(trials, PLANNED, 2)
    budgets = reference_timing.budgets_of(trials)
    connection = opened(store, {"optimal_window"}, k=2, pooled=pooled, ask_scale="budget")
    try:
        query = "select dimension, agent, measure, value, reason from optimal_window where measure like 'ask%'"
        found = {row[:3]: row[3:] for row in connection.execute(query).fetchall()}
    finally:
        connection.close()
    assert {key[1:] for key in found} == {
        ("all", "ask_in_window_pct"),
        *((agent, measure) for agent in ("a", "b") for measure in ("ask_in_window_pct", "ask_in_pooled_window_pct")),
    }
    for (dimension, agent, measure), (value, reason) in found.items():
        whose = ("a", "b") if agent == "all" or measure == "ask_in_pooled_window_pct" else (agent,)
        averaged = pooled if whose == ("a", "b") else "units"
        window = reference_timing.window_of(
            rows, store.variants, trials, dimension, whose, Fraction(1, 20), averaged, budgets=budgets
        )
        share = window and reference_timing.share_inside(
            store.variants,
            trials,
            dimension,
            ("a", "b") if agent == "all" else (agent,),
            window[1],
            pooled if agent == "all" else "units",
            budgets=budgets,
        )
        assert _near(value, share)
        assert value is not None or reason in ("no_window", "nobody_asked", "no_budget")


@pytest.mark.thorough
@pytest.mark.parametrize("scale", ["budget", "own_length"])
def test_only_the_scale_of_the_injections_lacks_a_budget(scale):
    """Of two agents without injections, one has no full trial, and nobody knows how many actions the other took."""
    store = timing_store(1, "task")
    store.trial("v", "ask_user", 0, agent="c", actions=["ask_user S1", "submit"])
    store.trial("t", "full", 0, agent="d", actions=["read a", "submit"])
    lost = store.trial("v", "ask_user", 0, agent="d", actions=["ask_user S1", "submit"])
    store.envelopes = [
        each for each in store.envelopes if each.trial_id != lost or not isinstance(each.event, ActionStarted)
    ]
    connection = opened(store, {"optimal_window"}, k=1, ask_scale=scale)
    try:
        query = """select distinct agent, value is null, if(value is null, reason, null) from optimal_window
            where measure = 'ask_in_pooled_window_pct' and agent in ('c', 'd') order by all"""
        found = connection.execute(query).fetchall()
    finally:
        connection.close()
    known, unknown = ("d", "c") if scale == "budget" else ("c", "d")
    reason = "no_budget" if scale == "budget" else "unknown_action"
    assert sorted(found) == sorted([(known, False, None), (unknown, True, reason)])


@pytest.mark.thorough
def test_two_windows_of_one_agent_are_no_choice():
    """Two injection templates and two simulators: which window the questions are held against, nothing says."""
    store = timing_store(1, "task", ("exact", "dump"))
    for percent in (10, 30, 50, 70, 90):
        store.trial("v", f"inject_{percent}", 7, budget=9, injected_after=1, prompts_digest="another")
    connection = opened(store, {"optimal_window"}, k=1)
    try:
        query = (
            "select reason, count(*) from optimal_window"
            " where measure = 'ask_in_window_pct' and agent like 'a#%' group by all"
        )
        assert dict(connection.execute(query).fetchall()).keys() == {"several_windows"}
    finally:
        connection.close()


@LAWS
@given(seed=SEEDS, scope=SCOPES)
@pytest.mark.thorough
def test_commitment(seed, scope):
    """C(t) of every unit is the share of actions from the first use on, counted action by action."""
    store = timing_store(seed, scope)
    trials = reference.trials_of(store.envelopes, store.live)
    connection = opened(store, {"int_commitments"})
    try:
        query = "select agent, variant_id, dimension, elapsed_percent, commitment from int_commitments"
        found = {row[:4]: row[4] for row in connection.execute(query).fetchall()}
    finally:
        connection.close()
    assert {key[3] for key in found} == set(range(0, 101, 10))
    for (agent, unit, dimension, percent), value in found.items():
        variant = store.variants[unit]
        assert _near(value, reference_timing.commitment_of(trials, variant, agent, dimension, percent))


@LAWS
@given(seed=SEEDS, scope=SCOPES, pooled=POOLED)
@pytest.mark.thorough
def test_rows_of_all_agents(seed, scope, pooled):
    """Means of all agents are over agents within a task, then over tasks, each unit worked out from its trials."""
    store = timing_store(seed, scope)
    trials = reference.trials_of(store.envelopes, store.live)
    rows = reference.pass_rows(trials, PLANNED, 2)
    wasted = defaultdict(list)
    for trial_id, (before, lost) in reference.wasted_of(trials, "arguments", "max").items():
        keys = trials[trial_id].keys
        unit = wasted[keys.condition, keys.task_id, keys.agent, keys.variant_id]
        unit.append(None if lost is None or not before else Fraction(100 * lost, before))
    connection = opened(store, {"wasted", "timing_hypotheses", "commitment"}, k=2, pooled=pooled)
    try:
        query = "select condition, value from wasted where agent = 'all' and measure = 'wasted_pct'"
        found_wasted = connection.execute(query).fetchall()
        query = "select dimension, measure, null, value from timing_hypotheses"
        found = connection.execute(query).fetchall()
        query = "select dimension, measure, timing::integer, value from commitment"
        found += connection.execute(query).fetchall()
    finally:
        connection.close()
    assert found
    for condition, value in found_wasted:
        units = [(key[1], key[2], reference.mean(one)) for key, one in wasted.items() if key[0] == condition]
        assert _near(value, reference_timing.pooled_mean(units, pooled))
    for dimension, measure, timing, value in found:
        units = reference_timing.timing_rows_of(rows, store.variants, trials, dimension)[measure, timing]
        assert _near(value, reference_timing.pooled_mean(units, pooled)), (dimension, measure, timing)


@pytest.mark.thorough
def test_p_values_do_not_depend_on_how_often_they_are_asked_for():
    """Drawn p-values come from the seed: the same store gives the same table, another seed another p-value."""
    store = Store(trials=1)
    for place in range(16):
        store.task(f"t{place}")
        store.variant(f"t{place}", f"v{place}", ambiguity_class="benign", classified_by="us")
        store.trial(f"t{place}", "full", 0)
        store.trial(f"v{place}", "underspecified", 0, scores=[place % 5 == 0])
        for condition in INJECTED:
            store.trial(f"v{place}", condition, 0, scores=[place % 3 != 0], budget=9, injected_after=1)
    found = []
    for seed in (1, 1, 2):
        connection = opened(store, {"point_of_no_return", "exclusions"}, k=1, seed=seed)
        try:
            found.append([row for row in table(connection, "point_of_no_return").rows if row["p_value"]])
        finally:
            connection.close()
    assert found[0] == found[1]
    assert [row["p_value"] for row in found[0]] != [row["p_value"] for row in found[2]]


@pytest.mark.thorough
def test_pooled_benchmarks_stand_beside_each():
    """Two benchmarks give rows of their own and pooled ones, whose units are those of both."""
    store = Store(trials=3)
    for benchmark in ("desk", "tac"):
        store.benchmark = benchmark
        store.task(f"{benchmark}-t")
        store.variant(f"{benchmark}-t", f"{benchmark}-v")
        for agent in ("a", "b"):
            for index in range(3):
                store.trial(f"{benchmark}-t", "full", index, agent=agent)
                store.trial(f"{benchmark}-v", "underspecified", index, agent=agent, scores=[0])
                for condition in INJECTED:
                    store.trial(f"{benchmark}-v", condition, index, agent=agent, budget=9, injected_after=1)
    connection = connect(
        store.snapshot(), parameters={"reading": "paper"}, only={"kendall", "timing_hypotheses", "optimal_window"}
    )
    try:
        query = "select benchmark, n_units from {} where measure = '{}' order by all"
        units = {
            name: connection.execute(query.format(name, measure)).fetchall()
            for name, measure in (("kendall", "kendall_tau"), ("timing_hypotheses", "early_minus_late_decay"))
        }
        window = query.format("optimal_window", "window_end_pct").replace("where", "where agent = 'all' and")
        units["optimal_window"] = connection.execute(window).fetchall()
    finally:
        connection.close()
    assert units["kendall"] == [("all", 10), ("desk", 5), ("tac", 5)]
    assert units["timing_hypotheses"] == units["optimal_window"] == [("all", 4), ("desk", 2), ("tac", 2)]


@pytest.mark.thorough
def test_short_values_are_not_looked_for():
    """A value below three characters stands in too many arguments to tell a use; blanks around it do not count."""
    store = Store(trials=1)
    task = store.task("t")
    values = {"v": " 7 ", "w": ' "7" '}
    for name, value in values.items():
        segment = Segment(segment_id="S1", value=value, dimension="goal", subdimension="any")
        fields = {"benchmark": "desk", "task_id": task.task_id, "variant_id": name, "origin": "hand_written"}
        variant = Variant(prompt="do", segments=(segment,), **fields)
        store.variants[name] = variant
        store.add(store.run_id, VariantGenerated(variant=variant, variant_digest=variant.variant_digest))
        store.trial(name, "underspecified", 0)
    store.trial("t", "full", 0, actions=["say 7", "read x 7", 'read the "7" there', "submit"])
    connection = opened(store, {"int_value_uses"})
    try:
        query = "select first_use_action, reason from int_value_uses order by all"
        assert connection.execute(query).fetchall() == [(3, None), (None, "value_too_short")]
    finally:
        connection.close()


@pytest.mark.thorough
def test_blanks_around_a_value_do_not_hide_its_use():
    """What `late` compares a question with is the first use of the value without blanks at its ends, as everywhere."""
    store = Store(trials=1)
    task = store.task("t")
    segment = Segment(segment_id="S1", value=" 750 ", dimension="goal", subdimension="any")
    fields = {"benchmark": "desk", "task_id": task.task_id, "variant_id": "v", "origin": "hand_written"}
    store.variants["v"] = variant = Variant(prompt="do", segments=(segment,), **fields)
    store.add(store.run_id, VariantGenerated(variant=variant, variant_digest=variant.variant_digest))
    store.trial("v", "ask_user", 0, actions=["ask_user S1", "submit"])
    store.trial("t", "full", 0, actions=["read x", "read 750", "read x", "submit"])
    connection = opened(store, {"int_question_facts"})
    try:
        query = "select early_segment_count, late_count from int_question_facts"
        assert connection.execute(query).fetchall() == [(1, 0)]
    finally:
        connection.close()


def test_arms_that_share_a_full_trial_do_not_multiply_it():
    """A second simulator makes a second arm of the same full trials, and actions have no more counterparts for it."""
    store = Store(trials=1)
    store.task("t")
    store.variant("t", "v", "goal")
    store.trial("t", "full", 0, actions=["read a", "submit"])
    for index, simulator in enumerate(("exact", "dump")):
        store.trial("v", "ask_user", index, actions=["ask_user S1", "submit"], user_simulator=simulator)
    store.trial("v", "inject_50", 0, actions=["read a", "read a", "submit"], budget=4, injected_after=2)
    connection = opened(store, {"wasted_trials", "wasted_actions"})
    try:
        query = "select agent, pre_injection_actions, wasted_actions, wasted_ratio from wasted_trials"
        assert connection.execute(query).fetchall() == [("a", 2, 1, 0.5)]
        assert connection.execute("select is_wasted from wasted_actions order by all").fetchall() == [(False,), (True,)]
    finally:
        connection.close()


@pytest.mark.thorough
def test_cells_that_no_agent_ran_are_counted_for_each_agent():
    """Two agents lack the same cell of a variant, and two trials before it: each agent misses its own."""
    store = Store(trials=3)
    for task_id in ("t", "u", "w"):
        store.task(task_id)
        store.variant(task_id, f"{task_id}-v", "goal", ambiguity_class="outcome-critical", classified_by="us")
        for agent, index in product(("a", "b"), range(3)):
            store.trial(task_id, "full", index, agent=agent)
            if task_id != "w" or index == 0:
                store.trial(f"{task_id}-v", "underspecified", index, agent=agent, scores=[0])
            for condition in INJECTED:
                if (task_id, condition) != ("w", "inject_30"):
                    store.trial(f"{task_id}-v", condition, index, agent=agent, budget=9, injected_after=1)
    chosen = {"voi_cases": "available", "timing_measure": "pass_at_1"}
    connection = opened(store, {"point_of_no_return", "voi"}, **chosen)
    try:
        query = """select n_units, n_dropped, n_trials, n_missing from {} where measure = '{}' and {}
            and dimension = 'goal' and agent = 'all'"""
        gains = query.format("point_of_no_return", "injection_gain", "timing = '30'")
        levels = query.format("voi", "pass_at_1", "condition = 'inject_30' and benchmark = 'desk'")
        point = query.format("point_of_no_return", "point_of_no_return_pct", "timing = 'all'")
        assert connection.execute(gains).fetchall() == [(4, 2, 24, 4)]
        assert connection.execute(point).fetchall() == [(6, 0, 98, 4)], "all six units have a gain at another timing"
        assert connection.execute(levels).fetchall() == [(4, 2, 12, 0)]
    finally:
        connection.close()


def _near(value, wanted):
    if value is None or wanted is None:
        return value is None and wanted is None
    return math.isclose(float(value), float(wanted), abs_tol=2e-6, rel_tol=2e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("curve", "reason", "end"),
    [
        ((1, 1, 1, 1, 1), "no_gain_shown", None),
        ((3, 3, 3, 3, 3), "flat_curve", None),
        ((3, 3, 0, 0, 0), "one_of_few", 30.0),
        ((None, 3, 3, None, 0), "one_of_few", 50.0),
    ],
)
@pytest.mark.parametrize("tasks", [8, 4])
def test_there_is_no_window_without_worth(curve, reason, end, tasks):
    """A window needs a gain at the earliest injection and a time that differs from it; four tasks show neither.

    The earliest injection is the first that the store has.
    """
    store = Store(trials=3)
    for place in range(tasks):
        store.task(f"t{place}")
        store.variant(f"t{place}", f"v{place}", "goal", ambiguity_class="divergent")
        for condition, successes in dict(zip(INJECTED, curve, strict=True)).items():
            for index in range(3) if successes is not None else ():
                has_luck = successes == 1 and index == 0 and place % 4 == 1  # as often as without information
                store.trial(f"v{place}", condition, index, scores=(float(has_luck or successes == 3),))
        for index in range(3):
            store.trial(f"v{place}", "underspecified", index, scores=(float(index == 0 and not place % 4),))
            store.trial(f"v{place}", "ask_user", index, actions=["ask_user S1", "submit"])
    expected = (end, reason) if tasks == 8 else (None, "no_gain_shown")
    for flipped in ("tasks", "units"):
        connection = connect(store.snapshot(), parameters={"flipped": flipped}, only={"optimal_window"})
        try:
            rows = connection.execute(
                "select distinct value, reason from optimal_window where measure = 'window_end_pct'"
            ).fetchall()
        finally:
            connection.close()
        if flipped == "tasks":
            assert rows == [expected]
        else:
            assert {reason for _, reason in rows} == {"one_of_few"}


@pytest.mark.thorough
@pytest.mark.parametrize("tasks", [5, 9])
def test_a_band_holds_every_interval_of_its_curve(tasks):
    """The band is at least the pointwise interval of each injection, within 0 and 1; five tasks have none."""
    store = Store(trials=2)
    for place in range(tasks):
        store.task(f"t{place}")
        store.variant(f"t{place}", f"v{place}", "goal", ambiguity_class="divergent")
        for timing, condition in enumerate(INJECTED):
            for index in range(2):
                score = float((place + timing * index) % 3 > 0)
                actions = [*"abc"[: 1 + (place + index) % 3], "submit"]
                kept = {"actions": actions, "budget": 10, "injected_after": len(actions) - 1}
                store.trial(f"v{place}", condition, index, scores=(score,), agent="ab"[place % 2], **kept)
        store.trial(f"t{place}", "full", 0, actions=["a", "submit"], agent="ab"[place % 2])
    connection = connect(store.snapshot(), only={"voi", "wasted"})
    try:
        query = "select agent, condition, low, high, band_low, band_high from voi where measure <> 'pass_at_k'"
        rows = connection.execute(query).fetchall()
        waste = connection.execute(
            "select low, high, band_low, band_high from wasted where agent = 'all' and measure = 'wasted_pct'"
        ).fetchall()
    finally:
        connection.close()
    assert len(waste) == 5
    for low, high, band_low, band_high in waste:
        assert (band_low is None) == (tasks == 5)
        assert band_low is None or 0 <= band_low <= low <= high <= band_high <= 100
    pooled = [row for row in rows if row[0] == "all" and row[1] in INJECTED]
    assert len(pooled) == 10
    for _, condition, low, high, band_low, band_high in rows:
        if band_low is not None:
            assert 0 <= band_low <= low <= high <= band_high <= 1
            assert condition in INJECTED
    assert {row[4] is None for row in pooled} == {tasks == 5}
    assert any(row[4] < row[2] or row[5] > row[3] for row in pooled if row[4] is not None) == (tasks == 9)
