"""A user who answers late or never: what the agent is told and when, and what is recorded of it."""

import json
import signal
import sys
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhaw_record.recorder.events import ModelCalled, QuestionAnswered, QuestionAsked, TrialFailed, TrialStarted
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.decoding import load_experiment
from lhaw_record.runners.experiment.prompts import ResponseWords
from lhaw_record.runners.experiment.tables import LimitsSpec, ResponseSpec
from lhaw_record.runners.runs.preparation import prepare
from tests.runners.agents.programs.rigs import described, ended, of, recorded, scripted, tiny
from tests.runners.agents.test_trial import ASK, SUBMIT, WORK, CertainSimulator, attempt
from tests.support.canned_model import tool_reply

WORDS = ResponseWords()
BOTH = tool_reply(
    ("c4", "ask_user", '{"question":"When must it be done?"}'), ("c5", "ask_user", '{"question":"And where?"}')
)


async def late(tmp_path, answers, *, limits=None, number=1, **response):
    """The events of a trial of these replies whose user responds so."""
    changes = {"responses": {"own": ResponseSpec(**response)}, "limits": limits or LimitsSpec()}
    events, _ = await attempt(
        tmp_path, answers, condition="ask_user_own", simulator=CertainSimulator(), changes=changes, number=number
    )
    return events


def told(events):
    """The messages of each request of the agent that are no replies of its own, as role and text."""
    calls = of(events, ModelCalled)
    return [[(each["role"], each.get("content")) for each in json.loads(call.new_messages_json)] for call in calls]


def responses(events):
    """What was recorded of the response to each question."""
    return [(event.response_state, event.answer, event.after_action) for event in of(events, QuestionAnswered)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("response", "result", "recorded_as"),
    [
        ({"state": "declined"}, WORDS.result("declined"), ("declined", None, None)),
        ({"state": "dismissed"}, WORDS.result("dismissed"), ("dismissed", None, None)),
        ({"state": "unavailable"}, WORDS.result("unavailable"), ("unavailable", None, None)),
        ({"state": "declined", "after_seconds": 0.01}, WORDS.result("declined"), ("declined", None, None)),
        ({"state": "timed_out", "after_seconds": 0.01}, WORDS.result("timed_out"), ("timed_out", None, None)),
        ({"state": "timed_out"}, WORDS.result("pending"), ("timed_out", None, None)),
        ({"state": "timed_out", "after_actions": 9}, WORDS.result("pending"), ("timed_out", None, None)),
        ({"state": "late", "after_actions": 9}, WORDS.result("pending"), ("timed_out", None, None)),
        ({"state": "late", "after_seconds": 0.01}, "It is today.", ("late", "It is today.", None)),
    ],
)
async def test_the_result_of_a_question_says_what_its_user_does(tmp_path, response, result, recorded_as):
    """The event has the state in no language, the result of the call says it in the words of the file."""
    events = await late(tmp_path, [ASK, WORK, SUBMIT], **response)
    assert ended(events) == "submitted"
    assert responses(events) == [recorded_as]
    (result_of_ask,) = [event.result for event in events if getattr(event, "server", None) == "lhaw-record-ask-user"]
    assert result_of_ask == result
    assert not any(role == "user" for turn in told(events)[1:] for role, _ in turn)
    started = of(events, TrialStarted)[0]
    assert (started.channel, started.condition) == ("ask_user", "ask_user_own")
    assert json.loads(started.response_json) == response


async def test_what_comes_later_is_a_message_at_the_next_clean_boundary(tmp_path):
    """Two questions of one reply are both answered, in one message, when both are due and every call has its result."""
    events = await late(tmp_path, [BOTH, WORK, WORK, SUBMIT], state="late", after_actions=2)
    assert responses(events) == [("late", "It is today.", 3), ("late", "It is today.", 4)]
    news = [text for turn in told(events)[1:] for role, text in turn if role == "user"]
    assert news == [
        WORDS.message("late", question, "It is today.") for question in ("When must it be done?", "And where?")
    ]


async def test_a_question_that_expires_is_told_so(tmp_path):
    """A time-out some actions later is a message too, and reveals nothing."""
    events = await late(tmp_path, [ASK, WORK, WORK, SUBMIT], state="timed_out", after_actions=2)
    assert responses(events) == [("timed_out", None, 3)]
    assert [text for turn in told(events)[1:] for role, text in turn if role == "user"] == [
        WORDS.message("timed_out", "When must it be done?")
    ]


async def test_a_share_of_the_budget_is_counted_in_actions(tmp_path):
    """Half of a budget of four actions is two, and the first event has both."""
    events = await late(tmp_path, [ASK, WORK, WORK, SUBMIT], state="late", after_percent=50)
    started = of(events, TrialStarted)[0]
    assert (started.budget_actions, started.response_json) == (4, '{"after_percent":50,"state":"late"}')
    assert responses(events) == [("late", "It is today.", 3)]


async def test_waiting_for_a_late_answer_is_the_time_of_the_agent(tmp_path):
    """A user who takes longer than the agent has ends the trial: graded, and the question has timed out."""
    events = await late(
        tmp_path, [WORK, ASK, SUBMIT], state="late", after_seconds=600, limits=LimitsSpec(max_seconds=0.3)
    )
    assert ended(events) == "time_limit"
    assert responses(events) == [("timed_out", None, None)]
    assert events[-1].charged_ms >= 300


async def test_an_unanswered_question_still_says_what_it_asks_for(tmp_path):
    """The rules read the question, so that recall, repeats and guesses are known; there is no answer to judge."""
    changes = {"responses": {"own": ResponseSpec(state="declined")}}
    ask = tool_reply(("c2", "ask_user", '{"question":"What is the target?"}'))
    events, _ = await attempt(tmp_path, [ask, SUBMIT], condition="ask_user_own", changes=changes)
    (answered,) = of(events, QuestionAnswered)
    (reading,) = answered.readings
    assert (reading.asks_for, reading.gives, reading.withheld, reading.verdict) == (("S1",), (), (), None)
    assert (answered.revealed, answered.simulator) == ((), "exact")


@pytest.mark.thorough
@settings(max_examples=25)
@given(after=st.integers(1, 6), work=st.lists(st.sampled_from([ASK, WORK, BOTH]), max_size=6))
def test_each_question_has_one_response_when_it_is_due(tmp_path_factory, after, work):
    """Law: in whatever order an agent asks and works, every question gets one response.

    It is late, at the first boundary at which it is due, or timed out at the end, if the trial ended before that.
    """
    folder = tmp_path_factory.mktemp("late")
    events = anyio.run(lambda: late(folder, [*work, SUBMIT], state="late", after_actions=after))
    asked = {event.question_id: event.action_index for event in of(events, QuestionAsked)}
    answered = of(events, QuestionAnswered)
    assert sorted(asked) == sorted(event.question_id for event in answered)
    boundaries, count = [], 0
    for reply in work:
        count += len(reply.message.tool_calls)
        boundaries.append(count)
    for event in answered:
        due = next((each for each in boundaries if each >= asked[event.question_id] + after), None)
        assert (event.response_state, event.after_action) == (("late", due) if due else ("timed_out", None))


KILLED = """
import os, signal, sys
from pathlib import Path
import anyio
from lhaw_record.runners.models.protocol import ModelReply
from tests.runners.agents import test_late_answers as tests, test_trial

class Killing(test_trial.CannedModel):
    async def respond(self, request):
        if len(self.requests) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().respond(request)

test_trial.CannedModel = Killing
anyio.run(lambda: tests.late(Path(sys.argv[1]), [tests.ASK, tests.WORK, tests.SUBMIT], state="late", after_actions=2))
"""


@pytest.mark.thorough
async def test_a_late_answer_that_is_still_owed_survives_sigkill(tmp_path):
    """A process dies with a question open: the attempt is missing data, and the next one gets its answer in time."""
    killed = await anyio.run_process(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=Path(__file__).parents[3], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    store = Store(tmp_path / "store")
    recover(store)
    events = [envelope.event for envelope in read_envelopes(store.root)]
    assert isinstance(events[-1], TrialFailed)
    assert (events[-1].error_kind, events[-1].is_retry_owed) == ("interrupted", True)
    assert len(of(events, QuestionAsked)) == 1
    assert responses(events) == []

    second = await late(tmp_path, [ASK, WORK, WORK, SUBMIT], number=2, state="late", after_actions=2)
    assert responses(second) == [("late", "It is today.", 3)]
    assert verify(store.root).findings == ()


ASKING = "\n[responses.own]\n{}\n"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('state = "late"', "set the delay"),
        ('state = "late"\nafter_actions = 2\nafter_seconds = 3', "both set when"),
        ('state = "declined"\nafter_actions = 2', "use after_seconds"),
        ('state = "late"\nafter_actions = 0', "out of range"),
        ('state = "late"\nafter_percent = 101', "out of range"),
        ('state = "late"\nafter_seconds = -1', "out of range"),
        ('state = "late"\nafter_seconds = nan', "out of range"),
        ('state = "answered"', "is not a choice"),
        ('state = "late"\nafter_turns = 1', "unknown key 'responses.own.after_turns'"),
    ],
)
def test_what_is_wrong_with_a_response_is_named(tmp_path, table, said):
    """A mistake in the table is refused with its key."""
    path = tmp_path / "experiment.toml"
    path.write_text(described(tiny("chat"), conditions=("full",), more=ASKING.format(table)))
    with pytest.raises(ExperimentError, match=said):
        load_experiment(path)


def test_each_table_adds_its_condition_and_its_trials_are_others(tmp_path):
    """A table adds ask_user_NAME to the conditions; what it says, and in which words, is in a trial's identity."""
    ids = {}
    for name, table in {
        "prompt": "",
        "a": ASKING.format('state = "late"\nafter_actions = 2'),
        "b": ASKING.format('state = "late"\nafter_actions = 3'),
        "words": ASKING.format('state = "late"\nafter_actions = 2') + '[prompts]\nresponses = "wording.toml"\n',
    }.items():
        (tmp_path / "wording.toml").write_text(WORDS.source.replace("No answer has come yet", "Please wait"))
        path = tmp_path / f"{name}.toml"
        agent = [{"name": "native", "model": "scripted/balanced"}]
        path.write_text(described(agent, conditions=("ask_user",), more=table))
        planned = prepare(path).plan.trials
        ids[name] = {trial.condition: trial.trial_id for trial in planned}
    assert ids["prompt"].keys() == {"ask_user"}
    assert ids["a"].keys() == {"ask_user", "ask_user_own"}
    assert len({each["ask_user"] for each in ids.values()}) == 1
    assert len({ids[name]["ask_user_own"] for name in ("a", "b", "words")}) == 3


def test_a_condition_without_its_table_is_refused(tmp_path):
    """The message names the table that is missing, not another condition."""
    path = tmp_path / "experiment.toml"
    path.write_text(described(tiny("chat"), conditions=("ask_user_late",)))
    with pytest.raises(ExperimentError, match=r"add a table \[responses.late\]"):
        load_experiment(path)


def test_words_that_lack_a_state_are_refused(tmp_path):
    """A file of one's own has all words, else it is refused before the first trial."""
    (tmp_path / "words.toml").write_text('[result]\npending = "Wait."\n[message]\n')
    path = tmp_path / "experiment.toml"
    table = ASKING.format('state = "declined"') + '[prompts]\nresponses = "words.toml"\n'
    path.write_text(described([{"name": "native", "model": "scripted/balanced"}], conditions=("full",), more=table))
    with pytest.raises(ExperimentError, match=r"key 'result\.timed_out' is missing"):
        prepare(path)


@pytest.mark.parametrize("table", ['state = "late"\nafter_actions = 2', 'state = "timed_out"\nafter_percent = 50'])
def test_a_program_that_takes_no_messages_is_refused(tmp_path, table):
    """A process gets nothing but the results of its calls, so later messages are refused before the first trial."""
    path = tmp_path / "experiment.toml"
    path.write_text(described(tiny("chat"), conditions=("full", "ask_user"), more=ASKING.format(table)))
    with pytest.raises(ExperimentError, match="gets none; set after_seconds"):
        prepare(path)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("table", "state", "has_answer"),
    [
        ('state = "timed_out"', "timed_out", False),
        ('state = "declined"', "declined", False),
        ('state = "dismissed"\nafter_seconds = 0.01', "dismissed", False),
        ('state = "late"\nafter_seconds = 0.01', "late", True),
    ],
)
async def test_a_program_reads_the_response_in_the_result_of_its_call(tmp_path, table, state, has_answer):
    """Over MCP the result says what became of the question, at once or after the seconds of the table."""
    text = described(tiny("chat"), conditions=(), more=ASKING.format(table))
    _, (events,) = await recorded(tmp_path, text)
    ended(events)
    assert events[0].condition == "ask_user_own"
    answered = of(events, QuestionAnswered)
    assert answered
    for event in answered:
        assert (event.response_state, event.answer is not None, event.after_action) == (state, has_answer, None)


@pytest.mark.thorough
async def test_a_program_that_ends_while_its_user_is_slow_is_graded(tmp_path):
    """It asks and exits: the answer is no longer owed, the question timed out, and the trial is no missing data."""
    source = """
import threading
schema = {"name": "ask_user", "arguments": {"question": "Which period do you mean?"}}
call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": schema}
ask(tools=[*TOOLS, function("ask_user", "question")])
threading.Thread(target=post, args=("/mcp", call), daemon=True).start()
time.sleep(0.5)
print("I have waited long enough.", flush=True)
os._exit(0)
"""
    entry = scripted(tmp_path, source, answer="stdout", asks_by="mcp")
    table = ASKING.format('state = "late"\nafter_seconds = 600')
    _, (events,) = await recorded(tmp_path, described(entry, conditions=(), more=table))
    assert ended(events) == "submitted"
    assert responses(events) == [("timed_out", None, None)]
