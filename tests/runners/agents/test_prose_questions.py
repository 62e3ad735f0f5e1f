"""Agents that ask by ending their turn: who decides that they have asked, what the user says, and when a trial ends."""

import json

import pytest

from lhaw_record.recorder.events import (
    ActionStarted,
    ApprovalAnswered,
    EndingJudged,
    ModelCalled,
    QuestionAnswered,
    QuestionAsked,
    TrialFailed,
)
from lhaw_record.runners.agents.services import Services
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.tables import (
    AgentSpec,
    LimitsSpec,
    ModelSpec,
    ResponseSpec,
    UserSimulatorSpec,
)
from lhaw_record.runners.runs.preparation import prepare
from tests.runners.agents.programs.rigs import described, ended, of, recorded
from tests.runners.agents.test_trial import SUBMIT, WORK, CertainSimulator, attempt
from tests.support.canned_model import CannedModel, text_reply, tool_reply

TARGET = text_reply("I looked.\n\nWhat is the target?")
ANSWER = "It is today."
REPORT = "I read the log and counted its errors. " * 500


async def prose(tmp_path, answers, *, condition="ask_user", **changes):
    """The events of a trial of these replies, whose agent asks in prose."""
    agent = AgentSpec(name="a", model="scripted/balanced", asks_by="prose")
    settings = {"agents": (agent,), **changes}
    events, _ = await attempt(tmp_path, answers, condition=condition, simulator=CertainSimulator(), changes=settings)
    return events


def said_to(events):
    """What the user says after the task, turn by turn."""
    calls = of(events, ModelCalled)[1:]
    return [
        each["content"] for call in calls for each in json.loads(call.new_messages_json) if each.get("role") == "user"
    ]


def exchanges(events):
    """Each question with its medium, action and response."""
    answers = {event.question_id: event for event in of(events, QuestionAnswered)}
    return [
        (each.question, each.medium, each.action_index, answers[each.question_id].response_state)
        for each in of(events, QuestionAsked)
    ]


async def test_a_turn_that_asks_is_answered_by_the_next_turn_of_the_user(tmp_path):
    """In place of the nudge; the question is that of the turn's action, and what it said before is its context."""
    events = await prose(tmp_path, [TARGET, WORK, SUBMIT])
    assert ended(events) == "submitted"
    assert exchanges(events) == [("What is the target?", "prose", 1, "answered")]
    assert of(events, QuestionAsked)[0].context == "I looked."
    assert said_to(events) == [ANSWER]
    assert [(each.action_index, each.asks) for each in of(events, EndingJudged)] == [(1, "question"), (3, "none")]
    assert "ask_user" not in of(events, ModelCalled)[0].tools_json


async def test_an_answer_that_asks_is_handed_in_only_once_it_is_answered(tmp_path):
    """Whoever asks by handing in a question has ended a turn, too."""
    asks = tool_reply(("c1", "submit", '{"answer": "What is the target?"}'))
    events = await prose(tmp_path, [asks, SUBMIT])
    assert exchanges(events) == [("What is the target?", "prose", 1, "answered")]
    assert events[-1].final_answer == "done"


@pytest.mark.parametrize("condition", ["full", "underspecified"])
async def test_without_a_user_nobody_answers(tmp_path, condition):
    """The same agent in an arm without asking is nudged, and nothing is judged."""
    events = await prose(tmp_path, [TARGET, SUBMIT], condition=condition)
    assert of(events, EndingJudged) == of(events, QuestionAsked) == []
    assert ANSWER not in said_to(events)


async def test_an_agent_that_asks_for_ever_meets_the_cap(tmp_path):
    """Then it has handed in what it has; its last question is on record, and nobody is there to answer it."""
    events = await prose(tmp_path, [TARGET], limits=LimitsSpec(max_user_turns=2))
    assert ended(events) == "submitted"
    assert events[-1].final_answer == TARGET.message.content
    assert [state for *_, state in exchanges(events)] == ["answered", "answered", "unavailable"]
    assert [each.is_capped for each in of(events, EndingJudged)] == [False, False, True]
    assert said_to(events) == [ANSWER] * 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("state", ["declined", "dismissed", "timed_out", "unavailable"])
async def test_a_turn_without_an_answer_ends_the_trial(tmp_path, state):
    """There is no call whose result could say so."""
    responses = {"own": ResponseSpec(state=state)}
    events = await prose(tmp_path, [TARGET, WORK, SUBMIT], condition="ask_user_own", responses=responses)
    assert ended(events) == "submitted"
    assert [state for *_, state in exchanges(events)] == [state]
    assert (len(of(events, ActionStarted)), said_to(events)) == (1, [])


async def test_a_late_answer_is_the_next_turn_after_the_wait(tmp_path):
    """The time is the agent's own."""
    responses = {"own": ResponseSpec(state="late", after_seconds=0.2)}
    events = await prose(tmp_path, [TARGET, WORK, SUBMIT], condition="ask_user_own", responses=responses)
    assert [state for *_, state in exchanges(events)] == ["late"]
    assert said_to(events) == [ANSWER]
    assert events[-1].charged_ms + events[-1].late_ms >= 200


@pytest.mark.parametrize(("words", "answer"), [("Shall I proceed?", "allow_once"), ("Should I use the target?", None)])
async def test_leave_to_work_is_given_and_is_no_question(tmp_path, words, answer):
    """But a request that asks for what was removed is one, whatever its words."""
    events = await prose(tmp_path, [text_reply(words), SUBMIT])
    assert [each.answer for each in of(events, ApprovalAnswered)] == ([answer] if answer else [])
    assert [each.question for each in of(events, QuestionAsked)] == ([] if answer else [words])
    assert said_to(events) == ["Yes, please go ahead." if answer else ANSWER]
    assert of(events, EndingJudged)[0].verdicts[0].asks == "permission"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "words",
    ["", "  \n", "I am done. Want me to plot it as well?", "```\nWhat is the target?\n```", "> What is the target?"],
)
async def test_other_turns_ask_nothing(tmp_path, words):
    """An empty one, an offer, code and quotations: the agent is nudged, as in every other arm."""
    events = await prose(tmp_path, [text_reply(words), SUBMIT])
    assert of(events, QuestionAsked) == of(events, ApprovalAnswered) == []
    assert len(said_to(events)) == 1
    assert said_to(events) != [ANSWER]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "question"),
    [
        (f"{REPORT}\n\nWhat is the target?", "What is the target?"),
        (f"What is the target?\n\n```\n{REPORT}\n```", None),
        ("Welches Hauptbuch meinst du?", "Welches Hauptbuch meinst du?"),
        ("你指的是哪个账本\uff1f", "你指的是哪个账本\uff1f"),
        ("Two of them:\n\nWhich target?\n- today\n- tomorrow\n\nAnd from when?", None),
    ],
)
async def test_a_question_of_any_length_and_language_is_answered(tmp_path, words, question):
    """What is asked are the last lines from the first that asks on; the report above is context, and cut."""
    events = await prose(tmp_path, [text_reply(words), SUBMIT])
    (asked,) = of(events, QuestionAsked)
    assert asked.question == (question or words[words.index("Wh") :])
    assert len(asked.context) <= 2000
    assert said_to(events) == [ANSWER]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("verdict", "is_asked"), [("question", True), ("permission", True), ("offer", False), ("none", False)]
)
async def test_a_model_decides_and_the_rules_are_on_record_too(tmp_path, monkeypatch, verdict, is_asked):
    """Its call is recorded, too. A request for leave that asks for what was removed is a question."""
    judge = CannedModel([text_reply(json.dumps({"asks": each})) for each in (verdict, "none")], "judge")
    monkeypatch.setattr(Services, "_litellm_model", lambda *_, **__: judge)
    simulator = UserSimulatorSpec(ending_judge=ModelSpec(model="judge"))
    words = "I looked.\n\nIt needs the target."
    events = await prose(tmp_path, [text_reply(words), SUBMIT], user_simulator=simulator)
    first = of(events, EndingJudged)[0]
    assert [each.asks for each in first.verdicts] == ["none", verdict]
    assert first.verdicts[1].judge.startswith("judge#")
    assert words in judge.requests[0].messages[-1].content
    assert [each[::3] for each in exchanges(events)] == ([(words.splitlines()[-1], "answered")] if is_asked else [])
    assert {call.role for call in of(events, ModelCalled)} == {"agent", "user_simulator"}


async def test_a_judge_without_a_verdict_is_missing_data(tmp_path, monkeypatch):
    """Nobody knows whether the agent was done."""
    monkeypatch.setattr(Services, "_litellm_model", lambda *_, **__: CannedModel([text_reply("Maybe.")], "judge"))
    simulator = UserSimulatorSpec(ending_judge=ModelSpec(model="judge"))
    last = (await prose(tmp_path, [TARGET, SUBMIT], user_simulator=simulator))[-1]
    assert isinstance(last, TrialFailed)
    assert (last.boundary, last.error_kind) == ("user_simulator", "no_verdict")


@pytest.mark.thorough
async def test_the_medium_changes_nothing_else(tmp_path):
    """The same model asks as often, as the same actions, and gets the same answers by the tool and in prose."""
    agents = [{"name": "tool", "asks_by": "mcp"}, {"name": "prose", "asks_by": "prose"}]
    variants = ("log-triage/window", "meeting-planner/buffer")
    _, trials = await recorded(tmp_path, described(agents, conditions=("full", "ask_user"), variants=variants))
    told = {"tool": {}, "prose": {}}
    for events in trials:
        asked = [(each.question, each.action_index) for each in of(events, QuestionAsked)]
        assert {each.medium for each in of(events, QuestionAsked)} <= {"prose" if events[0].agent == "prose" else "mcp"}
        answers = [each.answer for each in of(events, QuestionAnswered)]
        end = (events[-1].ended_by, events[-1].is_success, events[-1].action_count)
        told[events[0].agent][events[0].task_id, events[0].condition] = asked, answers, end
    assert told["tool"] == told["prose"]
    assert sum(len(asked) for asked, _, _ in told["prose"].values()) == 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"state": "late", "after_actions": 3}, "ask_user_own answers some actions later"),
        ({"state": "timed_out", "after_percent": 50}, "ask_user_own answers some actions later"),
    ],
)
def test_an_answer_some_actions_later_is_refused_before_the_first_trial(tmp_path, more, words):
    """An agent that has ended its turn does no actions meanwhile."""
    table = "\n[responses.own]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
    path = tmp_path / "experiment.toml"
    agents = [{"name": "it", "asks_by": "prose"}]
    path.write_text(described(agents, conditions=("full", "ask_user_own"), more=table))
    with pytest.raises(ExperimentError, match=words):
        prepare(path)


def test_the_notice_about_the_tool_is_refused(tmp_path):
    """It names a tool that the arm does not have."""
    path = tmp_path / "experiment.toml"
    text = described([{"name": "it", "asks_by": "prose"}], conditions=("ask_user",))
    path.write_text('ask_notice = "paper"\n' + text)
    with pytest.raises(ExperimentError, match="ask_notice': it tells it to use ask_user, but this agent asks in prose"):
        prepare(path)
