"""Pairs of agents on shared tasks: differences, their joint test, ranks with sets, and what pairing is worth."""

import numpy as np
import pytest

from lhaw_record.analytics.statistics.inference import Claim, InferenceSettings, Units, family_p_values
from lhaw_record.analytics.tables.tables import table
from lhaw_record.analytics.views.store import connect
from tests.analytics.findings.test_findings import found_in, store_of, with_trials

TASKS = 10


def compared(store, measure="pass_at_1_gain_lead", condition="ask_user"):
    """The rows of a measure, by pair of agents."""
    connection = connect(store.snapshot(), only={"agent_differences", "exclusions", "arm_cautions"})
    try:
        rows = table(connection, "agent_differences").rows
    finally:
        connection.close()
    return {
        (row["agent"], row["other_agent"]): row
        for row in rows
        if (row["measure"], row["condition"]) == (measure, condition)
    }


def asking(*gains):
    """A store of agents a, b, … that succeed only when they may ask, in so many of three trials of each task."""
    arms = [{"underspecified": lambda _: 0, "ask_user": gained} for gained in gains]
    store = store_of(TASKS, arms[0])
    for agent, arm in zip("bcde", arms[1:], strict=False):
        with_trials(store, TASKS, arm, agent)
    return store


def test_who_asks_better_has_a_row():
    """On ten tasks a gains 3 of 3, b 2 of 3, c nothing: every pair differs in all tasks, p = 2 / 2^10, ranks hold."""
    rows = compared(asking(lambda _: 3, lambda _: 2, lambda _: 0))
    assert {pair: row["value"] for pair, row in rows.items()} == {
        ("a", "b"): 0.333333,
        ("a", "c"): 1.0,
        ("b", "c"): 0.666667,
    }
    assert {(row["p_value"], row["p_family"]) for row in rows.values()} == {(0.00195312, 0.00195312)}
    first = rows["a", "b"]
    assert (first["rank"], first["rank_low"], first["rank_high"]) == (1, 1, 1)
    assert (first["other_rank"], first["other_rank_low"], first["other_rank_high"]) == (2, 2, 2)
    assert (first["n_clusters"], first["n_trials"], first["correlation"]) == (10, 120, None)


def test_joint_p_values_are_those_of_the_family():
    """Differences counted by hand, tested by the function that is simulated; nothing shown leaves every rank open."""
    rng = np.random.default_rng(3)
    gains = rng.integers(0, 4, (3, TASKS))
    rows = compared(asking(*(lambda place, own=own: int(own[place]) for own in gains)))
    pairs = [(0, 1), (0, 2), (1, 2)]
    claims = [
        Claim(Units((gains[one] - gains[other]) / 3, np.ones(TASKS), np.arange(TASKS)), False) for one, other in pairs
    ]
    expected = family_p_values(claims, InferenceSettings())
    for (one, other), p_family in zip(pairs, expected, strict=True):
        row = rows["abc"[one], "abc"[other]]
        assert row["p_family"] == pytest.approx(max(p_family, row["p_value"]), rel=1e-4)
        assert row["correlation"] == pytest.approx(np.corrcoef(gains[one], gains[other])[0, 1], abs=1e-4)
        if min(expected) > 0.05:
            assert (row["rank_low"], row["rank_high"]) == (1, 3)


@pytest.mark.thorough
def test_missing_trials_bound_a_difference():
    """One of four trials of b on a variant failed: the bounds hold whatever it would have been."""
    store = store_of(TASKS, {"underspecified": lambda _: 0, "ask_user": lambda _: 3})
    arm = {"underspecified": lambda _: 0, "ask_user": lambda _: 0}
    with_trials(store, TASKS, arm, "b")
    whole = compared(store, "pass_at_1_lead")["a", "b"]
    assert (whole["value"], whole["worst"], whole["best"], whole["n_missing"]) == (1.0, 1.0, 1.0, 0)
    store.trial("v0", "ask_user", 3, ends="failed", agent="b")
    missing = compared(store, "pass_at_1_lead")["a", "b"]
    assert missing["n_missing"] == 1
    assert missing["worst"] == pytest.approx(1 - 0.25 / TASKS)
    assert missing["best"] == 1.0


@pytest.mark.thorough
def test_one_agent_has_no_pairs_and_findings_rank_several():
    """One agent: no row, no sentence. Three: each has its rank with its set, from a cell."""
    assert compared(asking(lambda _: 3)) == {}
    _, said = found_in(asking(lambda _: 3, lambda _: 2, lambda _: 0))
    sentences = [each.sentence for each in said if each.table == "agent_differences"]
    assert len(sentences) == 3
    assert sentences[0].startswith(
        "In the ranking by gain from asking, a holds rank 1 (possible: 1 to 1 after correction over all pairs)"
    )
