"""One agent, native and as a program over each wire: the same actions, question, injection and numbers."""

import anyio
import pytest

from lhaw_record.analytics.tables.tables import TABLES, tables
from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    ClarificationInjected,
    ModelCalled,
    QuestionAnswered,
    QuestionAsked,
    TrialFinished,
)
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_snapshot
from tests.runners.agents.programs.rigs import described, of, recorded, tiny
from tests.support.depth import IS_QUICK

CONDITIONS = ("full", "underspecified", "ask_user", "inject_50")[: 1 if IS_QUICK else None]
WIRES = ("chat", "responses", "messages")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A store in which the native agent and three programs did the same; and its trials by agent and condition."""
    folder = tmp_path_factory.mktemp("fidelity")
    agents = [{"name": "native"}, *({"name": wire, "program": tiny(wire)} for wire in WIRES)]
    _, trials = anyio.run(recorded, folder, described(agents, conditions=CONDITIONS))
    found = {(events[0].agent, events[0].condition): events for events in trials}
    assert len(found) == 4 * len(CONDITIONS)
    return folder / "store", found


def told(events, kind, *names):
    """Some fields of the events of one type."""
    return [tuple(getattr(event, name) for name in names) for event in of(events, kind)]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("wire", WIRES)
def test_a_program_is_recorded_as_the_native_agent_is(measured, wire, condition):
    """Its actions, question, answer, injection, end and grade are those of the native agent."""
    _, trials = measured
    native, program = trials["native", condition], trials[wire, condition]
    started = ("action_index", "kind", "name", "arguments_json")
    assert told(program, ActionStarted, *started) == told(native, ActionStarted, *started)
    assert len(told(native, ActionStarted, "name")) > 10
    asked = ("question", "context", "call_id", "action_index")
    assert told(program, QuestionAsked, *asked) == told(native, QuestionAsked, *asked)
    answered = ("answer", "revealed")
    assert told(program, QuestionAnswered, *answered) == told(native, QuestionAnswered, *answered)
    assert len(of(program, QuestionAsked)) == (condition == "ask_user")
    placed = ("status", "after_action", "target_action", "message")
    assert told(program, ClarificationInjected, *placed) == told(native, ClarificationInjected, *placed)
    assert len(of(program, ClarificationInjected)) == condition.startswith("inject")
    ending = ("ended_by", "is_success", "final_answer", "action_count")
    assert told(program, TrialFinished, *ending) == told(native, TrialFinished, *ending)
    assert {event.call_kind for event in of(program, ModelCalled)} == {"main"}
    assert program[0].program.startswith("python3")


def test_results_are_those_that_the_model_saw(measured):
    """Every action but the last has its result."""
    _, trials = measured
    for wire in WIRES:
        results = [event.result for event in of(trials[wire, "full"], ActionFinished)]
        assert None not in results[:-1]


@pytest.mark.thorough
def test_every_table_is_computed(measured):
    """The store verifies, and every reported table comes out of it."""
    store, _ = measured
    assert verify(store).findings == ()
    connection = connect(read_snapshot(store))
    try:
        agents = connection.execute(
            "select agent, count(*) from trials where program is not null group by all"
        ).fetchall()
        assert sorted(agents) == sorted((wire, len(CONDITIONS)) for wire in WIRES)
        assert len(tables(connection, TABLES)) == len(TABLES)
    finally:
        connection.close()
