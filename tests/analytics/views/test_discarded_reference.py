"""A store in which trials were set aside has the numbers of a store in which they never were."""

from random import Random

import pytest
from hypothesis import given, settings

from analytics.tables.tables import TABLES, tables
from analytics.views.parameters import parse_settings
from analytics.views.rows import rows_of
from analytics.views.store import connect
from tests.analytics.make_store import Store
from tests.analytics.views.test_marts_reference import SEEDS, marts_store
from tests.support.depth import at_depth

pytestmark = pytest.mark.thorough
MARTS = ("trials", "arms", "unit_values", "observed_classes", "ambiguity_classes", "costs", "first_asks", "checkpoints")
FEW = parse_settings(["draws=100", "permutations=100", "k=1"])


def _numbers(snapshot):
    """Return every row of every table and of the marts of trials, and how many trials were set aside."""
    connection = connect(snapshot, parameters=FEW)
    try:
        found = {each.name: [dict(row) for row in each.rows] for each in tables(connection, TABLES)}
        for name in MARTS:
            found[name] = sorted(map(repr, rows_of(connection, f"select * from {name}")))
        aside = rows_of(connection, "select coalesce(sum(n), 0) as n from exclusions where kind = 'discarded'")
        kept = rows_of(connection, "select * from discarded_attempts order by stream_id")
    finally:
        connection.close()
    return found, int(aside[0]["n"]), kept


def _standing(envelopes):
    """Return the last decision about each attempt, in plain Python."""
    last = {}
    for each in sorted(envelopes, key=lambda one: (one.recorded_at_us, one.stream_id, one.sequence)):
        if type(each.event).__name__ == "TrialsDiscarded":
            last.update(dict.fromkeys(each.event.stream_ids, (each.event, each.recorded_at_us)))
    return {stream: found for stream, found in last.items() if not found[0].is_undone}


@settings(max_examples=at_depth(4, 12))
@given(seed=SEEDS)
def test_discarded_trials_leave_no_trace_in_any_number(seed):
    """Tables and marts equal those of the same records without the trials; each attempt has its last decision."""
    chance = Random(seed)
    store = marts_store(seed)
    streams = sorted(store.streams.values())
    for _ in range(chance.randint(1, 4)):
        fields = {"is_owed": chance.random() < 0.5, "is_undone": chance.random() < 0.3}
        store.discard(chance.sample(streams, chance.randint(0, len(streams) // 2)), chance.choice("ab"), **fields)
    standing = _standing(store.envelopes)
    without = [each for each in store.envelopes if each.stream_id not in standing]
    decisions = [each for each in without if type(each.event).__name__ != "TrialsDiscarded"]

    found, aside, rows = _numbers(store.snapshot())
    expected, none, no_rows = _numbers(store.snapshot(decisions))
    assert found == expected
    starts = {each.stream_id: each for each in store.envelopes if type(each.event).__name__ == "TrialStarted"}
    assert {
        row["stream_id"]: (row["trial_id"], row["agent_name"], row["discard_reason"], row["is_owed"]) for row in rows
    } == {
        stream: (starts[stream].trial_id, starts[stream].event.agent, event.reason, event.is_owed)
        for stream, (event, _) in standing.items()
    }
    assert aside == len({starts[stream].trial_id for stream in standing})
    assert (none, no_rows) == (0, [])


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
