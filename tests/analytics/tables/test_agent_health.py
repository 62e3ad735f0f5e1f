"""Flagged trials in the tables: those whose message was lost are left out, the others are counted in every note."""

import msgspec
import pytest

from lhaw_record.analytics.tables.notes import lines_of_arms
from lhaw_record.analytics.tables.tables import table
from lhaw_record.analytics.views.store import connect, read_for
from lhaw_record.recorder.events import ActionFinished, AnchorLost, ModelCalled, QuestionAsked, TrialFlagged
from tests.analytics.make_store import Store

pytestmark = pytest.mark.thorough


def called(call_id, kind="main", change=None):
    """A call of the agent."""
    return ModelCalled(
        call_id=call_id,
        role="agent",
        thread_id="t1",
        call_kind=kind,
        model="m",
        parameters_json=None,
        request_digest="",
        shared_count=0,
        message_count=0,
        new_messages_json="[]",
        thread_change=change,
    )


@pytest.fixture(scope="module")
def snapshot():
    """Three trials under inject_50: as it should be, without its message, with actions that were not counted."""
    store = Store(trials=3)
    store.task("t", (1.0,))
    store.variant("t", "v")
    store.trial("t", "full", 0, actions=["read a", "submit"])
    store.budget("t", (2,), 2)
    for index, injected_after in enumerate((1, None, 1)):
        store.trial("v", "inject_50", index, actions=["read a", "submit"], budget=2, injected_after=injected_after)
    fine, lost, uncounted = (store.streams["v", "inject_50", index, "a"] for index in range(3))
    store.add(fine, called("s1", "side"))
    store.add(fine, called("c9", change="compacted"))
    store.add(fine, AnchorLost(model_call_id="c9", thread_id="t1", anchor_call_id="m0", reason="summary"))
    for index in (8, 9):
        done = {"is_error": True, "result": "", "duration_ms": 1.0, "limit_met": "file_mb"}
        done["limits_watched"] = ("command_seconds", "file_mb")
        store.add(fine, ActionFinished(action_index=index, **done))
    store.add(lost, TrialFlagged(flag="injection_lost", detail="due after action 1; 5 were served, 0 counted"))
    store.add(lost, TrialFlagged(flag="actions_uncounted", detail="5 more were served"))
    store.add(uncounted, TrialFlagged(flag="actions_uncounted", detail="4 more were served"))
    return store.snapshot()


@pytest.fixture(scope="module")
def connection(snapshot):
    """Its views."""
    opened = connect(snapshot, only={"agent_health", "exclusions", "int_trials_evaluated"})
    yield opened
    opened.close()


def test_a_trial_without_its_message_is_in_no_table(connection):
    """It is missing data: of three injected trials two are left."""
    used = "select count(*) from int_trials_evaluated where condition = 'inject_50'"
    assert connection.execute(used).fetchall() == [(2,)]


def test_keep_flagged_keeps_it(snapshot):
    """The parameter takes every trial, and the notes still say that there are flags."""
    opened = connect(snapshot, parameters={"keep_flagged": True}, only={"exclusions", "int_trials_evaluated"})
    used = "select count(*) from int_trials_evaluated where condition = 'inject_50'"
    assert opened.execute(used).fetchall() == [(3,)]
    flagged = "select n from exclusions where kind = 'flagged_injection_lost'"
    assert opened.execute(flagged).fetchall() == [(1,)]
    opened.close()


def test_the_notes_of_a_table_count_what_is_flagged(connection):
    """What is left out and what stays in, each with its number and the table that says whose it is."""
    notes = "\n".join(table(connection, "agent_health").notes)
    assert (
        "the injected message did not reach the agent (flag injection_lost; keep_flagged keeps them): 1 trials" in notes
    )
    assert "1 trials with actions of the agent that were not counted" in notes


def test_the_health_of_an_agent(connection):
    """By hand: 4 valid trials of 2 calls each and two more, of which one is a side call: 100 x 1 / 10."""
    rows = {row["measure"]: row["value"] for row in table(connection, "agent_health").rows if row["agent"] == "a"}
    assert rows == {
        "flagged_trials": 2,
        "no_main_thread": 0,
        "actions_uncounted": 2,
        "injection_lost": 1,
        "asking_unanswered": 0,
        "dead_tool_calls": 0,
        "prose_endings": 0,
        "unanswered_questions": 0,
        "skipped_injections": 1,
        "calls": 10,
        "side_pct": 10.0,
        "sub_agent_pct": 0.0,
        "compactions": 1,
        "restarts": 0,
        "promoted_threads": 0,
        "lost_anchors": 1,
        "met_command_seconds": 0,
        "met_memory_mb": None,
        "met_processes": None,
        "met_file_mb": 2,
    }


def test_questions_that_reached_nobody():
    """By hand: two trials offered dead tools and called them 3 times, one ended by asking, one question broke off."""
    store = Store(trials=3)
    store.task("t", (1.0,))
    store.variant("t", "v", "goal")
    for index, said in enumerate(("Which period do you mean?", "Done.", "Done.")):
        store.trial("v", "underspecified", index, actions=["read a", f"say {said}"])
    first, second, third = (store.streams["v", "underspecified", index, "a"] for index in range(3))
    two = "AskUserQuestion was offered, and called 1 times, question was offered, and called 1 times"
    store.add(first, TrialFlagged(flag="asking_unanswered", detail=two))
    one = "request_user_input was offered, and called 1 times"
    store.add(second, TrialFlagged(flag="asking_unanswered", detail=one))
    store.add(third, QuestionAsked(question_id="q1", question="Which?", action_index=1, medium="elicitation"))
    opened = connect(store.snapshot(), only={"agent_health", "exclusions", "int_trials_evaluated"})
    rows = {row["measure"]: row["value"] for row in table(opened, "agent_health").rows}
    told = ("asking_unanswered", "dead_tool_calls", "prose_endings", "unanswered_questions")
    assert [rows[name] for name in told] == [2, 3, 1, 1]
    opened.close()


def test_a_limit_that_nobody_watched_is_unknown(connection):
    """Only one of the four trials was watched, and only for two limits: null is no zero."""
    rows = {row["measure"]: row for row in table(connection, "agent_health").rows if row["agent"] == "a"}
    told = [
        (rows[name]["n_units"], rows[name]["n_dropped"], rows[name]["reason"])
        for name in ("met_command_seconds", "met_memory_mb", "calls")
    ]
    assert told == [(1, 3, "count"), (0, 4, "limit_not_watched"), (4, 0, "count")]


def test_a_late_recorder_is_told():
    """Of three trials one was late for long enough: above a second, and above 5 % of the agent's part."""
    store = Store(trials=3)
    store.task("t", (1.0,))
    for index, (late_ms, charged_ms) in enumerate([(1_001.0, 10_000.0), (999.0, 1_000.0), (1_001.0, 90_000.0)]):
        times = {"late_ms": late_ms, "charged_ms": charged_ms, "waited_ms": late_ms}
        store.trial("t", "full", index, times=times)
    opened = connect(store.snapshot(), only={"overall", "exclusions", "int_trials_evaluated"})
    late = "select n from exclusions where kind = 'late_recorder'"
    assert opened.execute(late).fetchall() == [(1,)]
    assert any("recording process was late" in note for note in table(opened, "overall").notes)
    opened.close()


def test_a_secret_in_a_tools_name_is_said():
    """What is recorded as [redacted] cannot be told apart, and nobody would guess why."""
    store = Store(trials=2)
    store.task("t")
    for agent, name in (("a", "search_[redacted]"), ("b", "search")):
        tools = f'[{{"name":"read"}},{{"description":"[redacted]","name":"{name}"}}]'
        for index in range(2):
            beside = [msgspec.structs.replace(called("with_tools"), tools_json=tools)] if index == 0 else []
            store.trial("t", "full", index, agent=agent, beside=beside)
    connection = connect(store.snapshot(), only=read_for(["overall"]))
    try:
        assert lines_of_arms(connection)["redacted_tools"] == ["desk, a: 1 of 2 trials (50 %)"]
        assert any("a tool's name contains a secret" in note for note in table(connection, "overall").notes)
    finally:
        connection.close()
