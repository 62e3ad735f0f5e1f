"""A store in which trials were set aside has the numbers of a store in which they never were."""

from random import Random

import pytest
from hypothesis import given, settings

from lhaw_record.analytics.tables.tables import TABLES, tables
from lhaw_record.analytics.views.build_order import all_views
from lhaw_record.analytics.views.parameters import parse_settings
from lhaw_record.analytics.views.rows import rows_of
from lhaw_record.analytics.views.store import below_tables, connect
from tests.analytics.make_store import Store
from tests.analytics.views.test_marts_reference import SEEDS, marts_store
from tests.support.depth import at_depth

pytestmark = pytest.mark.thorough
HISTORY = {"actions", "questions", "model_calls", "runs", "budgets", "exclusions", "discarded_attempts"}
"""Marts that tell what happened, set aside or not (docs/marts.md)."""
MARTS = [view.name for view in all_views() if view.layer == "marts" and view.name not in HISTORY]
FEW = parse_settings(["draws=100", "permutations=100", "k=1"])


def _numbers(snapshot):
    """Return every row of every table and of the marts of trials, and what is told of those set aside."""
    connection = connect(snapshot, parameters=FEW, only=below_tables())
    try:
        found = {each.name: [dict(row) for row in each.rows] for each in tables(connection, TABLES)}
        for row in found["looks"]:
            del row["n_runs"]  # a run that was looked at stays one, whatever is set aside of it
        for name in MARTS:
            found[name] = sorted(map(repr, rows_of(connection, f"select * from {name}")))
        aside = rows_of(connection, "select kind, n, cost_usd from exclusions where kind like 'discarded%'")
        left = "select trial_id from trials where trial_state in ('valid', 'running')"
        left_ids = {row["trial_id"] for row in rows_of(connection, left)}
        kept = rows_of(connection, "select * from discarded_attempts order by stream_id")
    finally:
        connection.close()
    return found, {row["kind"]: (row["n"], row["cost_usd"]) for row in aside}, kept, left_ids


def _standing(envelopes):
    """Return the last decision about each attempt, in plain Python."""
    last = {}
    for each in sorted(envelopes, key=lambda one: (one.recorded_at_us, one.stream_id, one.sequence)):
        if type(each.event).__name__ == "TrialsDiscarded":
            last.update(dict.fromkeys(each.event.stream_ids, (each.event, each.recorded_at_us)))
    return {stream: found for stream, found in last.items() if not found[0].is_undone}


def _before(envelopes):
    """Return what each attempt cost, in USD, as ``costs`` says where nothing is set aside; None if unknown."""
    spent = {}
    connection = connect(envelopes, only={"costs"})
    try:
        for stream_id, cost in connection.execute("select stream_id, cost_usd from costs").fetchall():
            sums = spent.get(stream_id, 0.0), cost
            spent[stream_id] = None if None in sums else sum(sums)
    finally:
        connection.close()
    return spent


@settings(max_examples=at_depth(2, 12))
@given(seed=SEEDS)
def test_discarded_trials_leave_no_trace_in_any_number(seed):
    """Tables and marts equal those of the same records without the trials; each attempt has its last decision."""
    chance = Random(seed)
    store = marts_store(seed)
    streams = sorted(store.streams.values())
    for (unit, *_), stream in sorted(store.streams.items())[:6]:
        variant = store.variants.get(unit)
        task = store.tasks[variant.task_id if variant else unit]
        store.regrade(unit, stream, [chance.choice((0.0, 1.0)) for _ in task.checkpoints])
    for _ in range(chance.randint(1, 4)):
        fields = {"is_owed": chance.random() < 0.5, "is_undone": chance.random() < 0.3}
        store.discard(chance.sample(streams, chance.randint(0, len(streams) // 2)), chance.choice("ab"), **fields)
    standing = _standing(store.envelopes)
    without = [each for each in store.envelopes if each.stream_id not in standing]
    decisions = [each for each in without if type(each.event).__name__ != "TrialsDiscarded"]

    found, aside, rows, _ = _numbers(store.snapshot())
    expected, none, no_rows, left = _numbers(store.snapshot(decisions))
    assert found == expected
    starts = {each.stream_id: each for each in store.envelopes if type(each.event).__name__ == "TrialStarted"}
    assert {
        row["stream_id"]: (row["trial_id"], row["agent_name"], row["discard_reason"], row["is_owed"]) for row in rows
    } == {
        stream: (starts[stream].trial_id, starts[stream].event.agent, event.reason, event.is_owed)
        for stream, (event, _) in standing.items()
    }
    recorded = [each for each in store.envelopes if type(each.event).__name__ != "TrialsDiscarded"]
    spent = _before(store.snapshot(recorded))
    costs = {row["stream_id"]: row["cost_usd"] for row in rows}
    assert costs == pytest.approx({each: spent[each] for each in standing})
    sums = {}
    for stream in standing:
        kind = "discarded_replaced" if starts[stream].trial_id in left else "discarded"
        trials, parts = sums.setdefault(kind, (set(), []))
        trials.add(starts[stream].trial_id)
        parts.append(spent[stream])
    assert {kind: n for kind, (n, _) in aside.items()} == {kind: len(trials) for kind, (trials, _) in sums.items()}
    for kind, (_, cost) in aside.items():
        assert cost == (None if None in sums[kind][1] else pytest.approx(sum(sums[kind][1]), abs=1e-6))
    assert (none, no_rows) == ({}, [])


def test_another_attempt_takes_the_place_of_one_that_was_set_aside():
    """The highest valid attempt that is left counts; an undone decision changes nothing."""
    store = Store(trials=1)
    store.task("t", (1.0,))
    store.trial("t", "full", 0, attempt=1, scores=(1.0,))
    first = store.streams["t", "full", 0, "a"]
    store.trial("t", "full", 0, attempt=2, scores=(0.0,))
    second = store.streams["t", "full", 0, "a"]

    def success():
        connection = connect(store.snapshot(), only={"trials"})
        try:
            return connection.execute("select trial_state, is_success from trials").fetchall()
        finally:
            connection.close()

    assert success() == [("valid", False)]
    store.discard([second])
    assert success() == [("valid", True)]
    store.discard([first])
    assert success() == []
    store.discard([second], is_undone=True)
    assert success() == [("valid", False)]
