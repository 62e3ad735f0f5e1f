"""The table trajectory shows one trial, step by step, when it is asked for one."""

import pytest

from lhaw_record.analytics.tables.tables import table
from lhaw_record.analytics.views.store import connect, read_for
from tests.analytics.make_store import Store


@pytest.fixture(scope="module")
def store():
    """One task and variant; trials are recorded by the tests' own ids."""
    made = Store(trials=1)
    made.task("t", (1.0, 2.0))
    made.variant("t", "v")
    return made


def steps_of(store, trial_id, columns):
    """Some columns of the table for one trial, in its order."""
    parameters = {} if trial_id is None else {"trial": trial_id}
    connection = connect(store.snapshot(), parameters=parameters, only=read_for(["trajectory"]))
    try:
        return [tuple(row[column] for column in columns) for row in table(connection, "trajectory").rows]
    finally:
        connection.close()


def test_an_injected_trial_has_two_phases(store):
    """Actions up to the injection stand before it, whatever is recorded later after it, the end last."""
    actions = ["read a", "say hm", "submit"]
    trial_id = store.trial("v", "inject_50", 0, actions=actions, scores=(1, 0.5), budget=4, injected_after=2)
    store.trial("v", "inject_50", 1, actions=actions, scores=(1, 2), budget=4, injected_after=2)
    columns = ("step", "phase", "kind", "action_index", "name", "input", "outcome", "is_error")
    assert steps_of(store, trial_id, columns) == [
        (1, "before", "action", 1, "read", '{"value":"a"}', "ok", False),
        (2, "before", "action", 2, "text", "{}", "ok", False),
        (3, "after", "action", 3, "submit", '{"value":""}', "ok", False),
        (4, "after", "injection", 2, "injected", "by the way", None, None),
        (5, "after", "checkpoint", None, "c1", "point 1", "1.0 of 1.0", None),
        (6, "after", "checkpoint", None, "c2", "point 2", "0.5 of 2.0", None),
        (7, "after", "end", None, "submitted", "", "no success", None),
    ]


@pytest.mark.thorough
def test_a_question_stands_after_its_action(store):
    """An ask_user call is an action and a question with its answer; nothing was injected, so there is no phase."""
    trial_id = store.trial("v", "ask_user", 0, actions=["ask_user S1", "broken read"], scores=(1, 2))
    rows = steps_of(store, trial_id, ("phase", "kind", "action_index", "name", "input", "outcome", "is_error"))
    assert rows[:3] == [
        (None, "action", 1, "ask_user", '{"value":"S1"}', "ok", False),
        (None, "question", 1, "exact", "which?", "this", None),
        (None, "action", 2, "read", '{"value": ', "ok", True),
    ]
    assert rows[-1][1:] == ("end", None, "submitted", "", "success", None)


def test_the_attempt_that_counts_is_shown(store):
    """Of two attempts the valid one; of a trial without a valid one the latest, with what ended it."""
    trial_id = store.trial("v", "underspecified", 0, attempt=1, actions=["read a"], scores=(1, 2))
    store.trial("v", "underspecified", 0, attempt=2, ends="failed")
    assert [row[0] for row in steps_of(store, trial_id, ("kind",))] == ["action", "checkpoint", "checkpoint", "end"]
    failed_id = store.trial("v", "underspecified", 1, actions=["read a"], ends="failed")
    rows = steps_of(store, failed_id, ("stream_id", "kind", "name", "input", "outcome", "is_error"))
    assert rows[-1] == (f"{failed_id}-1", "end", "model", "late", "failed", None)


@pytest.mark.thorough
@pytest.mark.parametrize("trial_id", [None, "0" * 32])
def test_no_trial_no_rows(store, trial_id):
    """Without the parameter, or for an id that does not exist, the table is empty."""
    store.trial("v", "underspecified", 2, scores=(1, 2))
    assert steps_of(store, trial_id, ("step",)) == []
