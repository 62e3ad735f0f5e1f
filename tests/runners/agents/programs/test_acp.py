"""Agents over ACP: their questions are answered, their requests for approval are not questions, and hosts may die."""

import json
from pathlib import Path

import anyio
import pytest

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    ApprovalAnswered,
    ClarificationInjected,
    QuestionAnswered,
    QuestionAsked,
    TrialFailed,
    TrialFlagged,
)
from lhaw_record.runners.agents.programs.acp import approval
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.models.gateway.calls import PendingCall
from lhaw_record.runners.users.ask_user.forms import fields_of, filled
from lhaw_record.runners.users.ask_user.recorded_user import Reply
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator
from tests.runners.agents.programs.rigs import described, ended, of, recorded, trial_of
from tests.support.needs import needs

AGENT = Path(__file__).parents[3] / "support" / "acp_agent.py"
FORMS = Path(__file__).with_name("acp_forms.json")
ASKING = {"conditions": ("ask_user",)}
WHEN = '[{"question": "Which period do you mean: from when to when, in UTC?", "options": [{"label": "Today"}]}]'


def acp(source, **more):
    """An agent over ACP whose turn is this source."""
    return {
        "host": "acp",
        "command": ["python3", str(AGENT), "{base_url}", "{token}", source.replace("{", "{{").replace("}", "}}")],
        "mounts": [str(AGENT)],
        "wire": "chat",
        "asks_by": "built_in",
        "built_in": {"tool": "AskUserQuestion"},
        **more,
    }


@pytest.mark.thorough
@pytest.mark.parametrize("sandbox", ["process", pytest.param("bubblewrap", marks=needs("bubblewrap"))])
async def test_the_agents_own_question_is_answered_and_recorded_as_its_own(tmp_path, sandbox):
    """It is one question of the medium built_in, as the action of its call, answered by the trial's user."""
    events = await trial_of(tmp_path, acp("work(6)\nsay('Finished.')", answer="stdout"), sandbox=sandbox, **ASKING)
    assert ended(events) == "submitted"
    (asked,), (answered,) = of(events, QuestionAsked), of(events, QuestionAnswered)
    call = next(event for event in of(events, ActionStarted) if event.name == "AskUserQuestion")
    assert (asked.medium, asked.action_index, asked.call_id) == ("built_in", call.action_index, call.call_id)
    assert asked.question == json.loads(call.arguments_json)["questions"][0]["question"]
    assert asked.context == "Detail\n- As you think best\n- I do not know"
    assert ([option.label for option in asked.options], asked.header) == (
        ["As you think best", "I do not know"],
        "Detail",
    )
    assert (answered.response_state, answered.picked) == ("answered", ())
    assert answered.revealed
    assert answered.answer in next(
        each.result for each in of(events, ActionFinished) if each.action_index == asked.action_index
    )
    assert events[-1].final_answer == "Finished."
    assert of(events, TrialFlagged) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("medium", "condition", "has_own", "has_mcp"),
    [
        ("built_in", "ask_user", True, False),
        ("built_in", "full", False, False),
        ("built_in", "underspecified", False, False),
        ("mcp", "ask_user", False, True),
        ("mcp", "full", False, False),
        ("none", "full", False, False),
    ],
)
async def test_no_arm_offers_a_way_to_ask_that_nobody_answers(tmp_path, medium, condition, has_own, has_mcp):
    """Law: the arm that asks offers its own medium and no other, and an arm without asking offers none."""
    offered = (
        "open('offered.txt', 'w').write(str((AGENT.has_forms, len(MCP))))\nwork(1)\nsay(open('offered.txt').read())"
    )
    tells = offered + (
        "\nsay(' ask_user')\nAGENT.history.append({'role': 'system', 'content': 'ask_user'})\nthink()" * has_mcp
    )
    agent = {"asks_by": medium}
    events = await trial_of(tmp_path, acp(tells, answer="stdout"), conditions=(condition,), agent=agent)
    assert ended(events) == "submitted"
    assert events[-1].final_answer.startswith(str((has_own, int(has_mcp))))
    assert of(events, TrialFlagged) == []


@pytest.mark.parametrize(("policy", "answer"), [("allow", "allow_once"), ("reject", "reject_once")])
async def test_a_request_for_approval_is_answered_by_the_policy_and_is_no_question(tmp_path, policy, answer):
    """It is recorded with what was offered and chosen, also where nobody can be asked."""
    source = "work(1)\nsay(permit('rm -rf /')['optionId'])"
    program = acp(source, answer="stdout", acp={"approvals": policy, "mode": "yolo"})
    events = await trial_of(tmp_path, program)
    (given,) = of(events, ApprovalAnswered)
    assert (given.title, given.call_id, given.answer) == ("rm -rf /", "c1", answer)
    assert given.options == ("reject_once", "allow_always", "allow_once")
    assert events[-1].final_answer == f"o-{answer}"
    assert of(events, QuestionAsked) == []


def test_a_policy_that_no_option_fits_cancels():
    """Nothing is chosen that the policy does not mean."""
    assert approval([{"kind": "reject_once", "optionId": "1"}], "allow") is None


_KILLS_ITS_HOST = "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)\n"


async def died(folder, source):
    """Run a trial whose host dies, and return what the trial says of it."""
    last = (await trial_of(folder, acp(source), **ASKING))[-1]
    assert isinstance(last, TrialFailed)
    assert (last.boundary, last.error_kind, last.is_retry_owed) == ("sandbox", "host_died", True)
    return last.message


async def test_a_host_that_dies_is_missing_data(tmp_path):
    """What the agent would have done is unknown, so that it is no score, and a retry is owed."""
    assert "ended without the end of its turn" in await died(tmp_path, f"work(1)\nelicit({WHEN})\n{_KILLS_ITS_HOST}")


@pytest.mark.thorough
async def test_a_host_that_dies_with_a_question_open_is_missing_data(tmp_path, monkeypatch):
    """Nobody knows what the answer would have changed. The question is on record, without an answer."""
    monkeypatch.setattr(ExactSimulator, "answer", lambda *_: anyio.sleep_forever())
    opens = (
        f"import threading, time\nthreading.Thread(target=elicit, args=({WHEN},), daemon=True).start()\ntime.sleep(2)\n"
    )
    assert "ended with a question open" in await died(tmp_path, f"work(1)\n{opens}{_KILLS_ITS_HOST}")


async def test_an_agent_that_breaks_off_its_turn_gave_up(tmp_path):
    """Its end without an answer to the prompt is its own, and graded; its question was answered before."""
    events = await trial_of(tmp_path, acp(f"work(1)\nelicit({WHEN})\nimport os\nos._exit(3)"), **ASKING)
    assert ended(events) == "gave_up"
    assert [event.medium for event in of(events, QuestionAsked)] == ["elicitation"]
    assert len(of(events, QuestionAnswered)) == 1


@pytest.mark.thorough
async def test_who_asks_in_a_loop_is_stopped_by_the_limit_of_actions(tmp_path):
    """Every question is the call of a tool, which counts."""
    source = f"""
while True:
    for call_id, function in think():
        act(call_id, str(elicit({WHEN}, call_id)))
"""
    events = await trial_of(tmp_path, acp(source), limits={"max_actions": 4}, **ASKING)
    assert ended(events) == "action_limit"
    assert len(of(events, QuestionAsked)) == len(of(events, QuestionAnswered)) == 4


async def test_several_questions_of_a_form_are_several_questions(tmp_path):
    """Each gets its own answer, in its own field."""
    forms = (
        '[{"question": "When?", "options": [{"label": "Now"}]}, {"question": "Where?", "options": [{"label": "Here"}]}]'
    )
    source = f"work(1)\nsay(','.join(sorted(elicit({forms}, 'x')['result']['content'])))"
    events = await trial_of(tmp_path, acp(source, answer="stdout"), **ASKING)
    assert events[-1].final_answer == "question_0_custom,question_1_custom"
    assert [(event.question_id, event.batch_id) for event in of(events, QuestionAsked)] == [("q1", "q1"), ("q2", "q1")]


@pytest.mark.thorough
async def test_the_message_is_injected_under_acp(tmp_path):
    """The gateway inserts it, so the host does not matter."""
    text = described(acp("work(8)"), conditions=("full", "inject_50"))
    _, trials = await recorded(tmp_path, text)
    injected = [event.status for events in trials for event in of(events, ClarificationInjected)]
    assert injected == ["injected"]


@pytest.mark.thorough
async def test_time_ends_an_agent_that_never_ends_its_turn(tmp_path):
    """It is a time limit, and no death of its host."""
    events = await trial_of(tmp_path, acp("work(1)\nimport time\ntime.sleep(600)"), limits={"max_seconds": 5.0})
    assert ended(events) == "time_limit"


@pytest.mark.parametrize(
    ("agent", "said"),
    [({"asks_by": "none"}, "cannot ask")],
)
async def test_what_nobody_would_answer_is_refused_before_the_first_trial(tmp_path, agent, said):
    """An arm with a user needs a way to ask them."""
    with pytest.raises(ExperimentError, match=said):
        await trial_of(tmp_path, acp("work(1)"), agent=agent, **ASKING)


@pytest.mark.parametrize("case", json.loads(FORMS.read_text()), ids=lambda case: case["agent"])
def test_a_real_form_is_read_and_filled_in(case):
    """What real agents put on the wire gives the question that their model wrote, and they read the answer."""
    call = PendingCall(call_id="c", name="x", arguments_json=json.dumps(case["arguments"]), action_index=1)
    fields = fields_of(case["params"], call)
    questions = [field.question for field in fields]
    assert [[each.text, each.header, [option.label for option in each.options]] for each in questions] == (
        case["questions"]
    )
    replies = [Reply(state="answered", text=answer) for answer in case["answers"]]
    assert filled(fields, replies) == {"action": "accept", "content": case["content"]}
