"""Programs that ask by ending their turn: they go on with their session, as a process again or over ACP."""

import json
import signal
import sys
from pathlib import Path

import anyio
import pytest

from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.events import (
    EndingJudged,
    ModelCalled,
    QuestionAnswered,
    QuestionAsked,
    TrialFailed,
    TrialFinished,
    TrialFlagged,
)
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.runs.preparation import prepare
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator
from tests.runners.agents.programs.rigs import described, ended, of, recorded, scripted, trial_of
from tests.runners.agents.programs.test_acp import acp
from tests.support.needs import needs

QUESTION = "Which period do you mean: from when to when, in UTC?"
SESSION = """
import subprocess
STATE = os.path.join(os.environ["HOME"], "session.json")
HISTORY = []
if "resume" in sys.argv:
    FIRST, HISTORY = json.load(open(STATE))
    HISTORY.append({"role": "user", "content": PROMPT})
    PROMPT = FIRST
TOOLS = TOOLS[:1]
while not HISTORY or HISTORY[-1]["role"] != "assistant":
    message = ask(*HISTORY)
    HISTORY.append(message)
    for call in message.get("tool_calls") or ():
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        HISTORY.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
json.dump([PROMPT, HISTORY], open(STATE, "w"))
print(HISTORY[-1]["content"])
"""
"""An agent of one page that keeps its session in HOME, and only ever asks in prose."""
ACTS = """
for _ in range(99):
    calls = think()
    for call_id, function in calls:
        done = __import__("subprocess").run(
            ["bash", "-c", json.loads(function["arguments"])["command"]], capture_output=True, text=True
        )
        act(call_id, done.stdout + done.stderr)
    if not calls:
        break
say(AGENT.history[-1]["content"])
"""


def resumable(folder, source=SESSION, **more):
    """A program of a test's own that can be resumed."""
    program = scripted(folder, source, **{"asks_by": "prose", **more})
    return {**program, "resume": [*program["command"], "resume"]}


def over_acp(folder):
    """The same agent as one that speaks ACP."""
    return acp("import json\n" + ACTS, asks_by="prose", built_in={})


PROGRAMS = [pytest.param(resumable, id="process"), pytest.param(over_acp, id="acp")]
SANDBOXES = ["process", pytest.param("bubblewrap", marks=needs("bubblewrap"))]


@pytest.mark.thorough
@pytest.mark.sampled(1)
@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_program_that_only_ever_asks_in_prose_reaches_the_tables(tmp_path, program, sandbox):
    """It asks as often, as the same action, and does as well as the native agent by the tool; its history goes on."""
    agents = [{"name": "native", "asks_by": "mcp"}, {"name": "own", "program": program(tmp_path)}]
    conditions = ("full", "underspecified", "ask_user")
    _, trials = await recorded(tmp_path, described(agents, conditions=conditions, sandbox=sandbox))
    told = {(events[0].agent, events[0].condition): events for events in trials}
    for condition in conditions:
        own, native = told["own", condition], told["native", condition]
        assert [each.is_success for each in (own[-1], native[-1])] == [condition != "underspecified"] * 2
        assert own[-1].action_count == native[-1].action_count
        assert of(own, TrialFlagged) == []
    (asked,) = of(told["own", "ask_user"], QuestionAsked)
    (same,) = of(told["native", "ask_user"], QuestionAsked)
    assert (asked.medium, asked.question, asked.action_index) == ("prose", QUESTION, same.action_index)
    answers = [each.answer for events in told.values() for each in of(events, QuestionAnswered)]
    assert answers == answers[:1] * 2
    assert {call.call_kind for call in of(told["own", "ask_user"], ModelCalled)} == {"main"}
    assert {call.thread_change for call in of(told["own", "ask_user"], ModelCalled)} == {None}
    rows = connect(read_snapshot(tmp_path / "store")).sql(
        "select agent_name, medium, question, response_state from questions join trials using (trial_id)"
        " where is_counted order by all"
    )
    assert rows.fetchall() == [("native", "mcp", QUESTION, "answered"), ("own", "prose", QUESTION, "answered")]


_ASKS_ALWAYS = """
if "resume" in sys.argv:
    PROMPT = "again"
print(ask()["tool_calls"] and "Which period do you mean?")
"""


async def asked(folder, program, **more):
    """The events of a trial of a program under ask_user."""
    return await trial_of(folder, program, conditions=("ask_user",), **more)


@pytest.mark.thorough
async def test_a_program_that_asks_for_ever_meets_the_cap(tmp_path):
    """The trial ends with what it has; each turn is a start of the program, and every call is of one thread."""
    program = resumable(tmp_path, _ASKS_ALWAYS, answer="stdout")
    events = await asked(tmp_path, program, limits={"max_user_turns": 2})
    assert ended(events) == "submitted"
    assert [each.response_state for each in of(events, QuestionAnswered)] == ["answered", "answered", "unavailable"]
    assert len(of(events, ModelCalled)) == 3
    assert of(events, EndingJudged)[-1].is_capped


@pytest.mark.thorough
async def test_a_program_that_asks_and_fails_gave_up(tmp_path):
    """An exit code of its own says that it is over, and its question is only flagged."""
    events = await asked(tmp_path, resumable(tmp_path, _ASKS_ALWAYS + "sys.exit(1)", answer="stdout"))
    assert ended(events) == "gave_up"
    assert of(events, QuestionAsked) == of(events, EndingJudged) == []


@pytest.mark.thorough
async def test_a_program_that_cannot_go_on_is_missing_data(tmp_path):
    """Its command to resume is wrong, and nobody knows what it would have done."""
    source = "assert 'resume' not in sys.argv\n" + _ASKS_ALWAYS
    last = (await asked(tmp_path, resumable(tmp_path, source, answer="stdout")))[-1]
    assert isinstance(last, TrialFailed)
    assert (last.boundary, last.error_kind) == ("sandbox", "program_no_call")


@pytest.mark.thorough
@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_broken_user_is_missing_data(tmp_path, monkeypatch, program):
    """As by every other medium."""

    def breaks(*_):
        raise OSError("gone")

    monkeypatch.setattr(ExactSimulator, "answer", breaks)
    last = (await asked(tmp_path, program(tmp_path)))[-1]
    assert isinstance(last, TrialFailed)
    assert (last.boundary, last.error_kind) == ("user_simulator", "crash")


@pytest.mark.thorough
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("response", "state", "ending"),
    [
        ({"state": "declined"}, "declined", "submitted"),
        ({"state": "late", "after_seconds": 0.1}, "late", "submitted"),
        ({"state": "late", "after_seconds": 3600}, "timed_out", "time_limit"),
    ],
)
async def test_a_user_may_decline_or_be_late(tmp_path, program, response, state, ending):
    """Without an answer the trial ends; the wait for a late one is the agent's own time."""
    table = "\n[responses.own]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in response.items())
    limits = {"max_seconds": 12.0} if ending == "time_limit" else {}
    events = await trial_of(tmp_path, program(tmp_path), conditions=("ask_user_own",), more=table, limits=limits)
    assert ended(events) == ending
    assert [each.response_state for each in of(events, QuestionAnswered)] == [state]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"resume": []}, "set resume = \\[...\\] to the command"),
        ({"resume": ["{mcp_url}"]}, "key 'resume\\[0\\]': {mcp_url} exists only"),
        ({"resume": ["{session}"]}, "key 'resume\\[0\\]': unknown placeholder"),
        ({"host": "acp"}, "key 'resume': an agent over ACP continues"),
        ({"leased": True, "command": [], "resume": [], "mounts": []}, "a leased agent gets one prompt"),
    ],
)
def test_what_cannot_go_on_is_refused_before_the_first_trial(tmp_path, changes, words):
    """With the next step."""
    path = tmp_path / "experiment.toml"
    path.write_text(described({**resumable(tmp_path), **changes}, conditions=("ask_user",)))
    with pytest.raises(ExperimentError, match=words):
        prepare(path)


@pytest.mark.thorough
@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_second_request_goes_to_a_program_that_goes_on(tmp_path, program):
    """It gets the follow-up in the same session when it hands in, as the native agent does."""
    agents = [{"name": "native", "asks_by": "prose"}, {"name": "own", "program": program(tmp_path)}]
    variants = ("log-triage/then-a-shorter-list",)
    _, trials = await recorded(tmp_path, described(agents, conditions=("faulty_ask_user",), variants=variants))
    own, native = sorted(trials, key=lambda events: events[0].agent, reverse=True)
    exchanges = [
        [(each.question, each.action_index) for each in of(events, QuestionAsked)]
        + [(each.answer, each.response_state) for each in of(events, QuestionAnswered)]
        for events in (own, native)
    ]
    assert exchanges[0] == exchanges[1]
    assert len(exchanges[0]) == 2
    assert [(events[-1].ended_by, events[-1].is_success) for events in (own, native)] == [("submitted", True)] * 2


KILLED = """
import os, signal, sys
from pathlib import Path
import anyio
from tests.runners.agents.programs import test_second_turns as tests

tests.ExactSimulator.answer = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
folder = Path(sys.argv[1])
anyio.run(tests.asked, folder, tests.resumable(folder))
"""


@pytest.mark.thorough
async def test_the_same_command_again_after_sigkill_asks_anew(tmp_path):
    """A process that dies with a question in prose open leaves missing data, and the next attempt is whole."""
    root = Path(__file__).parents[4]
    killed = await anyio.run_process([sys.executable, "-c", KILLED, str(tmp_path)], cwd=root, check=False)
    assert killed.returncode == -signal.SIGKILL
    _, trials = await recorded(tmp_path, described(resumable(tmp_path), conditions=("ask_user",)))
    first, second = sorted(trials, key=lambda events: isinstance(events[-1], TrialFinished))
    assert (first[-1].error_kind, first[-1].is_retry_owed) == ("interrupted", True)
    assert (len(of(first, QuestionAsked)), of(first, QuestionAnswered)) == (1, [])
    assert [each.question for each in of(second, QuestionAsked)] == [QUESTION]
    assert second[-1].is_success
