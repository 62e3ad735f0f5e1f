"""Missing trials are not missing at random: bounds beside every difference, and cautions where they could mislead."""

from itertools import product
from random import Random

import pytest

from lhaw_record.analytics.comparison.compare import VIEWS, compare
from lhaw_record.analytics.comparison.groups import parse_group
from lhaw_record.analytics.tables.notes import background
from lhaw_record.analytics.tables.tables import table
from lhaw_record.analytics.views.store import connect, read_for
from tests.analytics.make_store import Store

COUNTED = ("value", "low", "high")
BOUNDS = (("worst", "worst_low"), ("best", "best_high"))


def store_of(seed, filled, tasks=8, missing=0.25):
    """A store of two agents whose trials are missing by chance, in one variant all; or ended as ``filled`` says.

    Args:
        seed: Of the chance.
        filled: The conditions whose missing trials succeed, while those of the others fail; None leaves them missing.
        tasks: How many.
        missing: The share of missing trials; by condition, or the same everywhere.
    """
    chance, store = Random(seed), Store(trials=3)
    for place in range(tasks):
        store.task(f"t{place}", (1.0, 1.0))
        variants = [f"v{place}-{number}" for number in range(1 + place % 2)]
        for name in variants:
            store.variant(f"t{place}", name, ambiguity_class="divergent", classified_by="another")
        units = [(f"t{place}", "full"), *product(variants, ("underspecified", "ask_user"))]
        for agent, (unit, condition), index in product("ab", units, range(3)):
            lost = missing.get(condition, 0.0) if isinstance(missing, dict) else missing
            is_missing = (chance.random() < lost) | ((unit, condition, missing) == ("v0-0", "ask_user", 0.25))
            scores = [chance.random() < 0.7, chance.random() < 0.5]
            if is_missing and filled is not None:
                scores = [condition in filled] * 2
            kept = (
                {"ends": "failed"} if is_missing and filled is None else {"scores": [float(score) for score in scores]}
            )
            store.trial(unit, condition, index, agent=agent, **kept)
    return store


def rows_of(store, name, where):
    connection = connect(store.snapshot(), only={name})
    try:
        wanted = f"select * from {name} where {where} order by agent, measure"
        found = connection.execute(wanted)
        return [dict(zip([each[0] for each in found.description], row, strict=True)) for row in found.fetchall()]
    finally:
        connection.close()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "where", "against", "for_it"),
    [
        ("gain_tests", "split = 'overall'", ("underspecified",), ("ask_user",)),
        ("losses", "condition = 'ask_user'", ("ask_user",), ("full",)),
    ],
)
@pytest.mark.parametrize("seed", [3, 4])
def test_bounds_are_the_values_of_the_store_whose_missing_trials_ended(name, where, against, for_it, seed):
    """Missing as failures here and successes there: value and interval of the store in which they ended so."""
    found = rows_of(store_of(seed, None), name, where)
    assert found
    assert all(row["n_missing"] for row in found)
    for conditions, (value, end) in zip((against, for_it), BOUNDS, strict=True):
        ended = rows_of(store_of(seed, conditions), name, where)
        column = "low" if value == "worst" else "high"
        assert [row[value] for row in found] == pytest.approx([row["value"] for row in ended], abs=2e-6)
        assert [row[end] for row in found] == pytest.approx([row[column] for row in ended], abs=2e-6)


def test_without_missing_trials_bounds_are_the_value():
    """Nothing is widened where nothing is missing."""
    for row in rows_of(store_of(5, ("ask_user",)), "gain_tests", "true"):
        assert [row[name] for pair in BOUNDS for name in pair] == [
            row[name] for name in ("value", "low", "value", "high")
        ]


@pytest.mark.thorough
@pytest.mark.parametrize("measure", ["pass_at_k", "pass_at_1", "ask_pct", "questions_per_trial"])
def test_a_comparison_has_bounds(measure):
    """Paired over units, as gains have, in the measure's own unit; amounts, which have no largest value, have none."""
    found, against = (
        _compared(store_of(6, filled), "agent=a,condition=ask_user", "agent=b,condition=ask_user", measure)
        for filled in (None, ("nothing",))
    )
    assert found["n_missing"]
    if measure == "questions_per_trial":
        assert found["worst"] is found["best_high"] is None
    else:
        assert found["worst"] <= against["difference"] <= found["best"]
        assert found["worst_low"] <= against["low"]


def _compared(store, a, b, measure):
    connection = connect(store.snapshot(), only=VIEWS)
    try:
        (row,) = compare(connection, parse_group(a), parse_group(b), measure=measure)
        return row
    finally:
        connection.close()


@pytest.mark.thorough
def test_an_arm_that_misses_more_is_named():
    """Where only ask_user loses trials, sign flips of tasks say so; where all lose as many, nothing is said."""
    for lost, kinds in (({"ask_user": 0.6}, {"missing_unequally"}), ({"full": 0.0}, set())):
        connection = connect(store_of(7, None, tasks=12, missing=lost).snapshot(), only=read_for(["gain_tests"]))
        try:
            named = {kind for kind, lines in background(connection).arms.items() if lines and "missing" in kind}
            assert named == kinds
            notes = table(connection, "gain_tests").notes
            assert any("more trials are missing under one condition" in note for note in notes) == bool(kinds)
        finally:
            connection.close()


@pytest.mark.thorough
def test_trials_that_are_missing_in_hard_tasks_are_named():
    """Ten tasks: the five in which everything fails miss half of their trials, the others none."""
    store = Store(trials=4)
    for place, condition, index in product(range(10), ("underspecified", "ask_user"), range(4)):
        is_hard = place < 5
        if condition == "underspecified" and index == 0:
            store.task(f"t{place}")
            store.variant(f"t{place}", f"v{place}")
        ends = {"ends": "failed"} if is_hard and index % 2 else {"scores": [float(not is_hard)]}
        store.trial(f"v{place}", condition, index, **ends)
    connection = connect(store.snapshot(), only={"arm_cautions"})
    try:
        rows = connection.execute("select kind, n, n_all from arm_cautions where kind like 'missing%'").fetchall()
        assert rows == [("missing_in_hard_tasks", 20, 80)]
    finally:
        connection.close()


@pytest.mark.thorough
def test_a_recovered_share_stands_beside_the_share_of_full():
    """Eight variants: all succeed when informed, one without, four that may ask: (4 - 1) / (8 - 1), and 4 / 8."""
    store = Store(trials=1)
    for place in range(8):
        store.task(f"t{place}")
        store.variant(f"t{place}", f"v{place}")
        store.trial(f"t{place}", "full", 0)
        store.trial(f"v{place}", "underspecified", 0, scores=[float(place == 0)])
        store.trial(f"v{place}", "ask_user", 0, scores=[float(place < 4)])
    found = {row["measure"]: row for row in rows_of(store, "overall", "measure like 'pass_at_1%share%'")}
    recovered, of_full = found["pass_at_1_recovered_share"], found["pass_at_1_share_of_full"]
    assert (recovered["value"], recovered["n_trials"], recovered["method"]) == (
        pytest.approx(3 / 7, abs=1e-6),
        24,
        "fieller",
    )
    assert (of_full["value"], of_full["n_trials"], of_full["n_clusters"]) == (0.5, 16, 8)
