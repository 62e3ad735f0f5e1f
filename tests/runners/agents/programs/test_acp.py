"""Agents over ACP: their questions are answered, their requests for approval are not questions, and hosts may die."""

import json
from pathlib import Path
from typing import NamedTuple

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
from lhaw_record.runners.agents.programs.acp import AcpClient, approval
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.prompts import ResponseWords
from lhaw_record.runners.models.gateway.calls import PendingCall
from lhaw_record.runners.users.ask_user.forms import fields_of, filled, listed_fields
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser, Reply, Response
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator
from tests.runners.agents.programs.rigs import described, ended, of, recorded, scripted, trial_of
from tests.runners.users.simulated_user.people import NAME, MemoryStream, knowing
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
    labels = [
        "2025-06-03 00:00:00 2025-06-03 23:59:59",
        "2025-06-02 22:00:00 2025-06-03 06:00:00",
        "As you think best",
    ]
    assert asked.context == "\n- ".join(["Detail", *labels])
    assert ([option.label for option in asked.options], asked.header) == (labels, "Detail")
    assert (answered.response_state, answered.picked) == ("answered", ())
    assert answered.revealed
    assert answered.answer in next(
        each.result for each in of(events, ActionFinished) if each.action_index == asked.action_index
    )
    assert events[-1].final_answer == "Finished."
    assert of(events, TrialFlagged) == []


@pytest.mark.sampled(6)
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


@pytest.mark.sampled(2)
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
    assert "did not end its turn" in await died(tmp_path, f"work(1)\nelicit({WHEN})\n{_KILLS_ITS_HOST}")


LISTS = """
from http.server import BaseHTTPRequestHandler, HTTPServer
given = []
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.respond([QUESTION] if self.path.startswith("/question?directory=%2F") and not given else [])
    def do_POST(self):
        given.append([self.path.partition("?")[0], json.loads(self.rfile.read(int(self.headers["Content-Length"])))])
        self.respond(True)
    def respond(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = HTTPServer(("127.0.0.1", int(sys.argv[-1])), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
while not given:
    time.sleep(0.05)
say(json.dumps(given))
"""
"""The turn of an agent that lists its question at a port of its own, as OpenCode does."""


@pytest.mark.thorough
async def test_a_question_that_an_agent_lists_at_its_own_port_may_be_rejected_there(tmp_path):
    """It takes no words and has no true option. Its kept trial has one that is answered."""
    what = {"question": "Which period do you mean: from when to when, in UTC?", "header": "Detail"}
    asked = {**what, "options": [{"label": "Now", "description": ""}], "custom": False}
    listed = {"id": "que_1", "questions": [asked], "tool": {"messageID": "m", "callID": "unknown"}}
    source = f"work(1)\nimport json, sys, threading, time\nQUESTION = json.loads({json.dumps(listed)!r})\n{LISTS}"
    program = acp(source, answer="stdout")
    program["command"].append("@PORT")
    events = await trial_of(tmp_path, program, **ASKING)
    ((question,), (answered,)) = of(events, QuestionAsked), of(events, QuestionAnswered)
    assert (question.medium, question.question) == ("built_in", what["question"])
    assert answered.response_state == "dismissed"
    assert json.loads(events[-1].final_answer) == [["/question/que_1/reject", {"answers": None}]]


@pytest.mark.parametrize("state", [None, "declined"])
async def test_a_question_that_is_a_request_for_permission_is_submitted_with_its_answer(state):
    """It is one question of the medium built_in and no approval. Without an answer the agent goes on."""
    params = next(case["params"] for case in json.loads(FORMS.read_text()) if case["agent"].startswith("qwen"))
    stream = MemoryStream()
    response = Response(state=state, words=ResponseWords(None)) if state else None
    user = RecordedUser(ExactSimulator(), knowing(NAME), stream, response=response)
    call = PendingCall(call_id="call_6", name="ask_user_question", arguments_json="{}", action_index=6)
    client = AcpClient(user, "ask_user_question", lambda: [call], "reject", stream, lambda: None)
    got = await client.answer({"method": "session/request_permission", "params": params})
    asked, answered = stream.events
    assert (asked.medium, asked.action_index, answered.response_state) == ("built_in", 6, state or "answered")
    answers = {} if state else {"0": answered.answer}
    assert got == {"result": {"outcome": {"outcome": "selected", "optionId": "proceed_once"}, "answers": answers}}


@pytest.mark.thorough
async def test_an_agent_that_breaks_off_its_turn_gave_up(tmp_path):
    """Its end without an answer to the prompt is its own, and graded; its question was answered before."""
    events = await trial_of(tmp_path, acp(f"work(1)\nelicit({WHEN})\nimport os\nos._exit(3)"), **ASKING)
    assert ended(events) == "gave_up"
    assert [event.medium for event in of(events, QuestionAsked)] == ["elicitation"]
    assert len(of(events, QuestionAnswered)) == 1


class Bad(NamedTuple):
    """An agent that asks as nobody should, and what its trial says: its end, and how many questions it records."""

    source: str
    ended_by: str = "submitted"
    questions: tuple[int, ...] = (1,)
    more: dict | None = None


_TRUE = "from 2025-06-03 03:50:00 to 2025-06-03 05:20:00 UTC, both included"
_MANY = [{"question": "Which period do you mean?", "options": [{"label": f"Day {day}"} for day in range(30)]}]
_DESCRIBED = """
AGENT.ask = lambda method, form: ASK(method, {**form, "requestedSchema": {"properties": {"q": {
    "type": "string", "oneOf": [{"const": "A", "title": "A", "description": "All night"},
                                {"const": "B", "title": "B", "description": TRUE}]}}}})
elicit([{"question": "Which one?", "options": []}], "x")
"""
BAD = {
    "asks in a loop": Bad(
        f"while True:\n    for call_id, _ in think():\n        act(call_id, str(elicit({WHEN}, call_id)))",
        ended_by="action_limit",
        questions=(4,),
        more={"limits": {"max_actions": 4}},
    ),
    "asks and exits at once": Bad(
        "import os\nAGENT.ask = lambda method, params: AGENT.send(id=9, method=method, params=params)\n"
        f"elicit({WHEN})\nos._exit(3)",
        ended_by="gave_up",
        questions=(0, 1),  # it may be gone before its host has read the question
    ),
    "twice in parallel": Bad(
        f"import threading\nboth = [threading.Thread(target=elicit, args=({WHEN}, str(n))) for n in (1, 2)]\n"
        "for each in both:\n    each.start()\nfor each in both:\n    each.join()",
        questions=(2,),
    ),
    "30 options": Bad(f"elicit({_MANY!r}, 'x')"),
    "in an option's description only": Bad(f"ASK, TRUE = AGENT.ask, {_TRUE!r}\n{_DESCRIBED}"),
    "after its last action": Bad(f"work(20)\nelicit({WHEN}, 'x')", questions=(2,)),
    "during the injection turn": Bad(
        f"work(10)\nelicit({WHEN}, 'x')\nwork(4)", questions=(0,), more={"conditions": ("full", "inject_50")}
    ),
    "in a sub-agent": Bad(
        "((call_id, _),) = think()\nmain, AGENT.history = AGENT.history, [{'role': 'user', 'content': 'Find it.'}]\n"
        f"think()\nelicit({WHEN}, 'of-sub-agent')\nAGENT.history = main\nact(call_id, 'done')\nthink()"
    ),
    "its host dies with the question open": Bad(
        f"import threading, time\nthreading.Thread(target=elicit, args=({WHEN},), daemon=True).start()\ntime.sleep(2)\n"
        + _KILLS_ITS_HOST,
        ended_by="host_died",
    ),
}


_OVER_MCP = """
import threading
TOOLS.append(function("ask_user", "question"))
def asks(question="Which period do you mean: from when to when, in UTC?", number=1, **meta):
    params = {"name": "ask_user", "arguments": {"question": question}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    headers = {"content-type": "application/json", "authorization": "Bearer " + TOKEN, "accept": "application/json"}
    request = urllib.request.Request(BASE_URL + "/mcp", json.dumps(message).encode(), headers)
    return urllib.request.urlopen(request, timeout=600).read()
def finish(history):
    while (message := ask(*history)).get("tool_calls"):
        history += results(message)
"""
BAD_OVER_MCP = {
    "asks in a loop": Bad(
        "history = []\nfor number in range(99):\n    history += results(ask(*history))\n    asks(number=number)",
        ended_by="action_limit",
        questions=(3,),  # one after each reply, one of which is two actions
        more={"limits": {"max_actions": 4}},
    ),
    "asks and exits at once": Bad(
        "work(1)\nthreading.Thread(target=asks, daemon=True).start()\nos._exit(3)", ended_by="gave_up", questions=(0, 1)
    ),
    "twice in parallel": Bad(
        "work(1)\nboth = [threading.Thread(target=asks, kwargs={'number': n}) for n in (1, 2)]\n"
        "for each in both:\n    each.start()\nfor each in both:\n    each.join()",
        questions=(2,),
    ),
    "30 options": Bad("work(1)\nasks('Which period do you mean? ' + ', '.join(f'day {n}' for n in range(30)))"),
    "after its last action": Bad("finish([])\nasks()"),
    "during the injection turn": Bad(
        "history = work(10)\ntry:\n    asks()\nexcept urllib.error.HTTPError:\n    finish(history)",
        questions=(0,),
        more={"conditions": ("full", "inject_50")},
    ),
    "in a sub-agent": Bad(
        "message, PROMPT, prompt = ask(), 'Find it.', PROMPT\nask()\nasks(**{'lhaw-record/callId': 'of-sub-agent'})\n"
        "PROMPT = prompt\nask(*results(message))"
    ),
    "it is killed with the question open": Bad(
        "work(1)\nthreading.Thread(target=asks, daemon=True).start()\ntime.sleep(2)\nos.kill(os.getpid(), 9)",
        ended_by="timeout",
    ),
}
"""Our tool takes no options, so that none has a description."""


def _cases():
    for host, cases in (("acp", BAD), ("process", BAD_OVER_MCP)):
        for name, bad in cases.items():
            yield pytest.param(host, name, bad, id=f"{host}: {name}")


@pytest.mark.sampled(17)
@pytest.mark.parametrize(("host", "name", "bad"), list(_cases()))
async def test_bad_input_is_recorded_and_ends(tmp_path, monkeypatch, host, name, bad):
    """Each question has one response, unless its trial is missing data; what nobody answers is not recorded."""
    is_missing = "open" in name
    if is_missing:
        monkeypatch.setattr(ExactSimulator, "answer", lambda *_: anyio.sleep_forever())
    if is_missing or "loop" in name:  # nobody ends in the time to end
        monkeypatch.setattr("lhaw_record.runners.agents.programs.agent._GRACE_S", 0.1)
    source = bad.source if "think" in bad.source else "work(1)\n" + bad.source
    program = acp(source) if host == "acp" else scripted(tmp_path, _OVER_MCP + bad.source, asks_by="mcp")
    _, trials = await recorded(tmp_path, described(program, **{**ASKING, **(bad.more or {})}))
    events = trials[-1]
    last, asked, answered = events[-1], of(events, QuestionAsked), of(events, QuestionAnswered)
    assert getattr(last, "error_kind" if is_missing else "ended_by") == bad.ended_by, last
    assert len(asked) in bad.questions
    assert [each.question_id for each in answered] == ([] if is_missing else [each.question_id for each in asked])
    if name == "in an option's description only":
        assert (answered[0].picked, len(answered[0].revealed)) == (("B",), 1)
    if name == "in a sub-agent":
        assert asked[0].action_index == 1  # as all that it does


@pytest.mark.thorough
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
    listed = case["params"].get("questions") or case["params"].get("toolCall", {}).get("_meta", {}).get("qwenQuestions")
    fields = fields_of(case["params"], call) if listed is None else listed_fields(listed)
    questions = [field.question for field in fields]
    assert [[each.text, each.header, [option.label for option in each.options]] for each in questions] == (
        case["questions"]
    )
    replies = [Reply(state="answered", text=answer) for answer in case["answers"]]
    assert filled(fields, replies) == {"action": "accept", "content": case["content"]}
