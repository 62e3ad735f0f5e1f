"""The law of missing data: whatever breaks around an agent, native or a program, its trial is never scored for it.

Each row of the tables is a day of a provider, a simulated user, a judge, a tool server or a sandbox. A trial lives
through it twice: once the fault stays, and the trial is missing at the boundary of the row; once it goes by, and the
trial is scored as if it had never been. Every failed request takes hours on the trial's clock, of which the agent has
a minute: were one second of it charged, the trial would end as ``time_limit``, scored 0.
"""

import json
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from lhaw_record.recorder.events import (
    CheckpointScored,
    ModelCalled,
    ModelFailed,
    QuestionAnswered,
    TrialFailed,
    TrialFinished,
)
from lhaw_record.runners.agents.programs.acp import AcpServer
from lhaw_record.runners.agents.programs.program_server import ProgramServer
from lhaw_record.runners.agents.runner import TrialRunner
from lhaw_record.runners.agents.services import Services
from lhaw_record.runners.base.budget import RunBudget
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.conversation.messages import ToolDefinition, ToolResult
from lhaw_record.runners.base.errors import EndpointDown, RunBudgetSpent, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import unconfined
from lhaw_record.runners.environments.benchmarks.mcp_atlas.server import ServerPlan, running_servers
from lhaw_record.runners.environments.benchmarks.protocol import Environment, EnvironmentSettings
from lhaw_record.runners.environments.grading.grade import CheckpointResult, Grade
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import ProgramEnd, SandboxLimits
from lhaw_record.runners.experiment.program import ProgramSpec
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import (
    AgentSpec,
    GraderSpec,
    LimitsSpec,
    ModelSpec,
    RetrySpec,
    UserSimulatorSpec,
)
from lhaw_record.runners.models.call_outcomes import RetryPolicy
from lhaw_record.runners.models.endpoints.door import Door
from lhaw_record.runners.models.endpoints.pace import Pace
from lhaw_record.runners.models.gateway.app import Gateway
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.litellm_library import close_clients, load_litellm
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelError
from lhaw_record.runners.runs.planning.plan import make_plan
from lhaw_record.runners.users.ask_user.serving import AskUserServer
from tests.support.canned_model import CannedModel, MemoryRecording, text_reply, tool_reply
from tests.support.chat_server import chat_server
from tests.support.faults import IN_BAND, Fault, in_band
from tests.support.model_limits import FILTERED, OVERFLOWS, REPLIES
from tests.support.toy_plan import ListedBenchmark, experiment

KINDS = ("native", "program")
HOURS_S = 10_000.0
WAITED_MS = HOURS_S * 1000 - 60_000  # less what a program computes meanwhile, which is its own time
WORK = tool_reply(("c1", "work", '{"n":1}'))
ASK = tool_reply(("c2", "ask_user", '{"question":"When must it be done?"}'))
SUBMIT = tool_reply(("c3", "submit", '{"answer":"done"}'))
GOOD = Fault(kind="slow", seconds=0.0)
TODAY = '{"asks_for": [], "reply": "Today.", "gives": []}'
WORK_TOOL = ToolDefinition(name="work", description="Work.", input_schema={"type": "object", "properties": {}})
ASK_TOOL = ToolDefinition(name="ask_user", description="Ask.", input_schema={"type": "object", "properties": {}})
FAKE_SERVER = Path(__file__).parents[1] / "environments" / "benchmarks" / "mcp_atlas" / "fake_server.py"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A day of a provider: what it answers, and the kind of failure that this is; None where it is the agent's own.

    ``is_passing`` says whether the same request may succeed later, ``is_for_all`` whether every request would meet it,
    so that the run pauses. ``url`` stands in place of the server's own.
    """

    fault: Fault = GOOD
    kind: str | None
    is_passing: bool = True
    is_for_all: bool = False
    url: str = ""

    @property
    def kind_in_the_end(self):
        """The kind of a trial's failure: a provider that refuses everything for hours is down for all."""
        return EndpointDown.KIND if self.is_for_all or self.kind == "rate_limit" else self.kind

    def silent(self, requests):
        """Those of the requests that meet the row's fault which are never answered."""
        return requests if self.fault.kind in ("hang", "stall") else ()


def answer(status, body, **more):
    """A row's answer, whatever it is."""
    return Fault(kind="answer", status=status, body=body, **more)


def openai(status, message="no", **fields):
    """An error of OpenAI's API, with its status and its body."""
    return answer(status, {"error": {"message": message, "type": "x", "param": None, "code": None, **fields}})


# Forms as their providers document them: platform.openai.com/docs/guides/error-codes, docs.anthropic.com/en/api/errors,
# openrouter.ai/docs/api/reference/errors-and-debugging, ai.google.dev/gemini-api/docs/troubleshooting,
# docs.vllm.ai (ErrorResponse), github.com/ggml-org/llama.cpp tools/server/README.md; retry-after: RFC 9110, 10.2.3.
MODEL = {
    "connection refused": Row(kind="connection", url="http://127.0.0.1:9/v1"),
    "no such name": Row(kind="connection", url="http://nowhere.invalid/v1"),
    "TLS that is none": Row(kind="connection", url="https"),
    "no HTTP at all": Row(fault=Fault(kind="not_http"), kind="malformed_reply"),
    "cut before the headers": Row(fault=Fault(kind="drop"), kind="connection"),
    "cut in the body": Row(fault=Fault(kind="cut"), kind="connection"),
    "silent before the headers": Row(fault=Fault(kind="hang"), kind="timeout"),
    "silent in the body": Row(fault=Fault(kind="stall"), kind="timeout"),
    "429": Row(fault=openai(429), kind="rate_limit"),
    "429, retry after seconds": Row(fault=Fault(kind="rate_limit", retry_after="0.01"), kind="rate_limit"),
    "429, retry after hours": Row(
        fault=Fault(kind="rate_limit", retry_after="36000"), kind="rate_limit", is_passing=False, is_for_all=True
    ),
    "429, retry after a date": Row(
        fault=Fault(kind="rate_limit", retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), kind="rate_limit"
    ),
    "429, nonsense to retry after": Row(fault=Fault(kind="rate_limit", retry_after="soon"), kind="rate_limit"),
    "429, out of credit": Row(fault=Fault(kind="out_of_credit"), kind="rate_limit", is_passing=False, is_for_all=True),
    "429 of Gemini": Row(
        fault=answer(
            429,
            {
                "error": {
                    "code": 429,
                    "status": "RESOURCE_EXHAUSTED",
                    "message": "quota",
                    "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "22s"}],
                }
            },
        ),
        kind="rate_limit",
    ),
    "408": Row(fault=openai(408), kind="timeout"),
    "500": Row(fault=Fault(kind="server_error"), kind="server_error"),
    "502 with HTML": Row(fault=answer(502, "<html><body>502 Bad Gateway</body></html>"), kind="server_error"),
    "503 of llama.cpp": Row(
        fault=openai(503, "Loading model", type="unavailable_error", code=503), kind="server_error"
    ),
    "504 with nothing": Row(fault=answer(504, ""), kind="timeout"),
    "529 of Anthropic": Row(
        fault=answer(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        kind="server_error",
    ),
    "401, the key has run out": Row(
        fault=Fault(kind="unauthorised"), kind="authentication", is_passing=False, is_for_all=True
    ),
    "402": Row(fault=openai(402, "credits"), kind="other", is_passing=False, is_for_all=True),
    "403": Row(fault=openai(403), kind="authentication", is_passing=False),
    "404, the model has gone": Row(
        fault=openai(404, "The model `m` does not exist"), kind="bad_request", is_passing=False, is_for_all=True
    ),
    "404, no such path": Row(fault=answer(404, {"detail": "Not Found"}), kind="bad_request", is_passing=False),
    "400": Row(fault=Fault(kind="bad_request"), kind="bad_request", is_passing=False),
    "nothing": Row(fault=answer(200, ""), kind="malformed_reply"),
    "prose": Row(fault=Fault(kind="not_json"), kind="malformed_reply"),
    "HTML": Row(fault=answer(200, "<html>Sign in</html>"), kind="malformed_reply"),
    "a list": Row(fault=answer(200, []), kind="malformed_reply"),
    "null": Row(fault=answer(200, "null"), kind="malformed_reply"),
    "a stream, cut": Row(fault=answer(200, 'data: {"choices": [{"delta": {"content"'), kind="malformed_reply"),
    "a stream with an error event": Row(
        fault=answer(200, 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n'),
        kind="malformed_reply",
    ),
    "no choices": Row(fault=Fault(kind="no_choices"), kind="malformed_reply"),
    "no message": Row(fault=Fault(kind="null_message"), kind="malformed_reply"),
    "a call without a name": Row(fault=Fault(kind="nameless_tool_call"), kind="malformed_reply"),
    "the error of vLLM": Row(
        fault=answer(200, {"object": "error", "message": "dead", "type": "InternalServerError", "code": 500}),
        kind="malformed_reply",
    ),
    "a word from next year": Row(
        fault=answer(200, in_band(finish_reason="from_next_year")), kind="unknown_ending", is_passing=False
    ),
    **{f"in band: {form}": Row(fault=answer(200, body), kind=kind) for form, (body, kind) in IN_BAND.items()},
}

AGENTS_OWN = {
    "arguments cut off": Fault(kind="broken_arguments"),
    "arguments as an object": Fault(kind="object_arguments"),
    "an unknown tool": Fault(kind="unknown_tool"),
    "an empty reply": Fault(kind="empty_reply"),
    "no ids": Fault(kind="no_ids"),
    "a slow body": Fault(kind="trickle", seconds=0.02),
    "no usage": answer(
        200,
        {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hm."}}],
            "usage": None,
        },
    ),
}


class Hands:
    """The clock of the trials: real time, and what a test puts on top of it.

    The n-th requests of ``silent`` are those that the provider never answers: they alone have a short timeout, so that
    a slow machine is not a silent provider.
    """

    def __init__(self):
        self.ahead_s = 0.0
        self.silent = ()
        self.requests = 0

    def __call__(self):
        """The time."""
        return time.monotonic() + self.ahead_s


class Lasting:
    """Lets the requests of a model, or of what lies behind the gateway, last for hours of the trial's clock."""

    def __init__(self, asked, hands, answered_s):
        self._asked, self._hands, self._answered_s = asked, hands, answered_s

    def __getattr__(self, name):
        return getattr(self._asked, name)

    async def _lasting(self, request):
        try:
            reply = await request
        except ModelError:
            self._hands.ahead_s += HOURS_S
            raise
        self._hands.ahead_s += self._answered_s
        return reply

    async def respond(self, request):
        """Ask the model."""
        return await self._lasting(self._asked.respond(request))

    async def send(self, outgoing, relay=None):
        """Ask the provider."""
        return await self._lasting(self._asked.send(outgoing, relay))


class LawServices(Services):
    """The real services, with short pauses; the agent's requests last."""

    def __init__(self, *args, hands, answered_s, simulator, side_s):
        super().__init__(*args)
        self._side_s = side_s
        self._retry = RetryPolicy(max_attempts=3, first_delay_s=0.001, max_delay_s=0.002, max_retry_after_s=0.02)
        self._hands, self._answered_s, self._simulator = hands, answered_s, simulator

    def _agent_model(self, trial, spec):
        return Lasting(super()._agent_model(trial, spec), self._hands, self._answered_s)

    def _caller(self, model, recording, role, *others):
        if role == "agent" or self._side_s is None:
            return super()._caller(model, recording, role, *others)
        whole, self._timeout_s = self._timeout_s, self._side_s
        caller = super()._caller(model, recording, role, *others)
        self._timeout_s = whole
        return caller

    def agent_upstream(self, trial):
        """The provider of a program."""
        model = LitellmModel("m", api_base=trial.agent.api_base)
        return Lasting(LitellmUpstream(model, {}, self._timeout_s), self._hands, self._answered_s)

    def user_simulator(self, trial, recording):
        """The simulator of the test."""
        return (self._simulator, None) if self._simulator else super().user_simulator(trial, recording)


class LivingEnvironment(Environment):
    """A tool, a checkpoint for having used it, and a program that has both."""

    def __init__(self, life):
        self.life = life
        self.tools = (WORK_TOOL,)
        self.work_count = 0
        if life.is_program:
            self.sandbox = Sandbox(self)
        if life.tool_fault:
            self.tools_are_servers = True

    async def call(self, name, arguments):
        """Work."""
        if self.life.tool_fault:
            process = unconfined([sys.executable, str(FAKE_SERVER), self.life.tool_fault], {}, Path.cwd())
            seconds = 0.2 if self.life.tool_fault == "hangs" else 600.0
            plan = ServerPlan(name="s", process=process, limits=SandboxLimits(command_seconds=seconds))
            async with running_servers([plan]) as (server,):
                return ToolResult(text=(await server.call("echo", {})).text)
        self.life.fail("command")
        self.work_count += 1
        return ToolResult(text="worked")

    async def grade(self, final_answer, ask_judge):
        """One point for work."""
        self.life.fail("export")
        score = float(self.work_count > 0)
        if ask_judge is not None:
            score = float(json.loads(await ask_judge("Judge.", "Was it done?"))["score"])
        results = (CheckpointResult(checkpoint_id="c1", score=score, details="seen"),)
        return Grade(results=results, is_success=score == 1.0)


class Sandbox:
    """Where a small program works: it repeats a failed call twice, and ends in peace where that did not help."""

    kind, work_dir, weak_limits, home, listener_url = "toy", "/work", (), "/home/agent", "http://listener"

    def __init__(self, environment):
        self._environment = environment

    async def write_file(self, path, content):
        """Nothing is written, unless that fails."""
        self._environment.life.fail("write")

    async def cpu_s(self):
        """Nobody counts."""

    async def run_program(self, launch, stop):
        """Run the program until it ends or is told to."""
        ends = []
        async with anyio.create_task_group() as tasks:

            async def until_told():
                await stop.wait()
                tasks.cancel_scope.cancel()

            async def work():
                ends.append(await self._work(*launch.argv[1:]))
                tasks.cancel_scope.cancel()

            tasks.start_soon(until_told)
            tasks.start_soon(work)
        return ProgramEnd(exit_code=ends[0] if ends else None)

    async def _work(self, base_url, token):
        headers = {"authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(app=self._environment.life.app)
        history: list[Any] = [{"role": "user", "content": "Do it."}]
        async with httpx.AsyncClient(transport=transport, headers=headers, timeout=None) as client:
            for _ in range(6):
                message = await self._reply(client, base_url, history)
                if message is None:
                    return 0
                history.append(message)
                for call in message.get("tool_calls") or ():
                    name = call["function"]["name"]
                    if name == "submit":
                        return 0
                    text = await self._done(client, base_url, name)
                    history.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        return 0

    async def _reply(self, client, base_url, history):
        tools = [
            {"type": "function", "function": {"name": tool.name, "parameters": tool.input_schema}}
            for tool in (WORK_TOOL, ASK_TOOL)
        ]
        for _ in range(3):
            body = {"model": "m", "messages": history, "tools": tools}
            response = await client.post(f"{base_url}/v1/chat/completions", json=body)
            if response.status_code == 200:
                return response.json()["choices"][0]["message"]
        return None

    async def _done(self, client, base_url, name):
        if name != "ask_user":
            return (await self._environment.call(name, {})).text if name == "work" else "There is no such tool."
        params = {"name": "ask_user", "arguments": {"question": "When?"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"accept": "application/json, text/event-stream"}
        return (await client.post(f"{base_url}/mcp", json=message, headers=headers)).text


class Life(ListedBenchmark):
    """One trial of one agent on a bad day.

    Args:
        is_program: Whether the agent is a program.
        failures: What breaks in the sandbox, by place.
        tool_fault: The fault of the tool's server.
    """

    def __init__(self, *, is_program, failures=None, tool_fault=""):
        super().__init__(tasks=1)
        self.is_program, self.tool_fault = is_program, tool_fault
        self.app: Starlette | None = None
        self.budget = RunBudget(None)
        self._failures = failures or {}

    def fail(self, place):
        """Raise what breaks at a place."""
        if place in self._failures:
            raise self._failures[place]

    @asynccontextmanager
    async def open(self, task, settings, variant=None):
        """Open the environment."""
        self.fail("open")
        yield LivingEnvironment(self)

    async def lived(
        self, url, *, hands, answered_s=0.0, condition="full", simulator=None, recording=None, side_s=None, **changes
    ):
        """Run the trial and return its events. Requests of judge and simulated user may take `side_s`."""
        program = ProgramSpec(command=("tiny", "{base_url}", "{token}"), answer="stdout", asks_by="mcp")
        agent = AgentSpec(name="a", model="m", api_base=url, program=program if self.is_program else None)
        settings = {
            "agents": (agent,),
            "conditions": (condition,),
            "trials": 1,
            "limits": LimitsSpec(max_seconds=60.0, max_turns=6),
            "retry": RetrySpec(request_timeout_s=60.0, patience_s=1e6),
        }
        described = experiment(**{**settings, **changes})
        prompts = Prompts(described, Path(), self.system_prompt())
        (trial,) = make_plan(described, self, prompts, "exact:1").trials
        recording = recording or MemoryRecording()
        recording.elapsed_ms = 1.0
        gateway, asking = Gateway(), AskUserServer()
        self.app = Starlette(routes=[*asking.routes, *gateway.routes])
        async with AsyncExitStack() as stack:
            if self.is_program:
                await stack.enter_async_context(asking)
            runner = TrialRunner(
                experiment=described,
                benchmark=self,
                prompts=prompts,
                settings=EnvironmentSettings(sandbox=ProcessSandboxProvider(), limits=SandboxLimits()),
                services=LawServices(
                    described, self, prompts, hands=hands, answered_s=answered_s, simulator=simulator, side_s=side_s
                ),
                recorder=SimpleNamespace(attempt=lambda *_: recording, store=None),
                run_id="run",
                server=ProgramServer(gateway, asking, AcpServer(), "", None),
                budget=self.budget,
            )
            await runner.run(trial, 1, None)
        return recording.events


class Unhurried(Pace):
    """A pace without pauses."""

    def delay_s(self, now_s):
        """Wait only for those under way."""
        return min(super().delay_s(now_s), 0.001)


class Crowded(Unhurried):
    """A pace that keeps every request waiting for hours."""

    def __init__(self, hands):
        super().__init__()
        self._hands = hands

    def delay_s(self, now_s):
        """Let the hours pass."""
        self._hands.ahead_s += HOURS_S
        return super().delay_s(now_s)


def doors_of_a_test(hands, pace=Unhurried):
    """Doors of their own for a test, on the clock of its trials."""
    doors = {}

    def door_of(name, address, key_digest):
        return doors.setdefault((name, address, key_digest), Door(name, pace=pace(), clock=hands))

    return door_of


@pytest.fixture
async def hands(monkeypatch, anyio_backend):
    """The clock of the trials; litellm is loaded before it counts, and lets go of its connections afterwards."""
    await load_litellm()
    hands, attempt = Hands(), LitellmModel.attempt

    def attempt_in_time(model, messages, timeout_s, *more):
        hands.requests += 1
        return attempt(model, messages, 0.15 if hands.requests in hands.silent else timeout_s, *more)

    monkeypatch.setattr(LitellmModel, "attempt", attempt_in_time)
    monkeypatch.setattr("lhaw_record.runners.agents.runner.TrialClock", partial(TrialClock, now_s=hands))
    monkeypatch.setattr("lhaw_record.runners.agents.programs.agent._GRACE_S", 0.2)
    monkeypatch.setattr("lhaw_record.runners.models.litellm_model.door_of", doors_of_a_test(hands))
    yield hands
    await close_clients()


def missing(events):
    """Where a trial failed and of what kind the failure was; nothing of it was scored."""
    assert isinstance(events[-1], TrialFailed), events[-1]
    assert not [event for event in events if isinstance(event, CheckpointScored)]
    assert events[-1].charged_ms < 60_000
    return events[-1].boundary, events[-1].error_kind


def scored(events):
    """How a trial ended and whether with success."""
    assert isinstance(events[-1], TrialFinished), events[-1]
    return events[-1].ended_by, events[-1].is_success


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODEL)
async def test_a_provider_that_stays_broken_leaves_missing_data(hands, name, kind):
    """After a first good reply nothing but the fault: the trial failed at ``model``, with the kind of the row."""
    row = MODEL[name]
    first = [] if row.url else [GOOD]
    async with chat_server(
        CannedModel([WORK, SUBMIT]), [*first, msgspec.structs.replace(row.fault, times=None)]
    ) as url:
        at = url.replace("http:", "https:") if row.url == "https" else row.url or url
        hands.silent = row.silent(range(2, 100))
        events = await Life(is_program=kind == "program").lived(at, hands=hands)
    ended = row.kind_in_the_end
    assert missing(events) == ("model", ended)
    assert {event.error_kind for event in events if isinstance(event, ModelFailed)} == {row.kind}
    assert events[-1].is_retry_owed == (ended not in ("authentication", "bad_request", "unknown_ending"))
    assert events[-1].waited_ms >= WAITED_MS


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name, row in MODEL.items() if row.is_passing and not row.url])
async def test_a_fault_that_goes_by_costs_the_agent_nothing(hands, name, kind):
    """One failed request of hours, then as ever: the same ending and success, and not a minute charged."""
    row = MODEL[name]
    async with chat_server(CannedModel([WORK, SUBMIT]), [GOOD, row.fault]) as url:
        hands.silent = row.silent((2,))
        events = await Life(is_program=kind == "program").lived(url, hands=hands)
    assert scored(events) == ("submitted", True)
    assert [event.error_kind for event in events if isinstance(event, ModelFailed)] == [row.kind]
    assert events[-1].waited_ms >= WAITED_MS
    assert events[-1].charged_ms < 60_000


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of litellm's types, and no error outside of tests
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", AGENTS_OWN)
async def test_a_reply_that_is_merely_bad_is_the_agents(hands, name, kind):
    """It is an answer: charged, shown to the agent, and the trial is scored, never missing."""
    async with chat_server(CannedModel([WORK, WORK, SUBMIT]), [GOOD, AGENTS_OWN[name]]) as url:
        events = await Life(is_program=kind == "program").lived(url, hands=hands)
    assert scored(events)[1] is True
    assert [event for event in events if isinstance(event, ModelFailed)] == []
    assert events[-1].waited_ms < 60_000


LIMITS = {
    **{f"too long: {name}": (answer(*body), "context_limit") for name, body in OVERFLOWS.items()},
    **{f"filtered: {name}": (answer(*body), "refused") for name, body in FILTERED.items()},
    **{f"reply {name}": (answer(*body), ended_by) for name, (body, _, ended_by) in REPLIES.items()},
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LIMITS)
async def test_a_limit_of_the_model_is_an_ending(hands, name, kind):
    """After good work the model can do no more: the trial ends by its limit, and the work is graded, never missing."""
    fault, ended_by = LIMITS[name]
    async with chat_server(CannedModel([WORK]), [GOOD, msgspec.structs.replace(fault, times=None)]) as url:
        events = await Life(is_program=kind == "program").lived(url, hands=hands)
    assert scored(events) == (ended_by, True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("reply cut in the text", "native"), ("reply cut in the text", "program"), ("too long: anthropic", "program")],
)
async def test_an_agent_that_gets_over_a_limit_goes_on(hands, name, kind):
    """A limit that was met once and then avoided, by a shorter reply or a shorter history, ends nothing."""
    async with chat_server(CannedModel([WORK, SUBMIT]), [GOOD, LIMITS[name][0]]) as url:
        events = await Life(is_program=kind == "program").lived(url, hands=hands)
    assert scored(events) == ("submitted", True)


class OneReplyBudget(RunBudget):
    """The limit of a run that the first reply of any trial uses up."""

    def pay(self, model, event):
        """Spend all of it for a reply."""
        self.spent_usd += 1.0


@pytest.mark.parametrize("kind", KINDS)
async def test_the_cost_limit_of_the_run_is_missing_data(hands, kind):
    """What other trials have spent ends a trial before its next request: nothing more is sent, and nothing scored."""
    life = Life(is_program=kind == "program")
    life.budget = OneReplyBudget(1.0)
    async with chat_server(CannedModel([WORK, SUBMIT])) as url:
        events = await life.lived(url, hands=hands)
    assert missing(events) == ("model", RunBudgetSpent.KIND)
    assert events[-1].is_retry_owed
    assert sum(isinstance(event, ModelCalled) for event in events) == 1


class TwoReplyBudget(RunBudget):
    """The limit of a run that two replies of any trial use up."""

    def pay(self, model, event):
        """Spend half of it for a reply."""
        self.spent_usd += 0.5


@pytest.mark.parametrize("kind", KINDS)
async def test_the_grading_of_an_agent_that_has_ended_may_pass_the_limit(hands, kind):
    """What the agent's work has cost is not lost for want of a judge's call."""
    life = Life(is_program=kind == "program")
    life.budget = TwoReplyBudget(1.0)
    judge = CannedModel([text_reply('{"score": 1}')])
    async with chat_server(judge) as judge_url, chat_server(CannedModel([WORK, SUBMIT])) as url:
        grader = GraderSpec(kind="judge", judge=ModelSpec(model="j", api_base=judge_url))
        events = await life.lived(url, hands=hands, grader=grader)
    assert life.budget.spent_usd == 1.5
    assert scored(events) == ("submitted", True)


@pytest.mark.parametrize("kind", KINDS)
async def test_slow_answers_are_the_models_own_time(hands, kind):
    """Whatever was answered is charged: a model that takes hours for each reply ends as time_limit, and is graded."""
    async with chat_server(CannedModel([WORK, SUBMIT])) as url:
        events = await Life(is_program=kind == "program").lived(url, hands=hands, answered_s=HOURS_S)
    assert scored(events) == ("time_limit", False)
    assert events[-1].charged_ms >= WAITED_MS


class Simulator:
    """A simulated user on a bad day."""

    name = "bad"
    is_person = False

    def __init__(self, day):
        self._day = day

    async def answer(self, question, context, knowledge):
        """Break, or say nothing for ever."""
        if self._day == "hangs":
            await anyio.sleep_forever()
        raise RuntimeError("simulator down")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("day", ["hangs", "breaks"])
async def test_a_simulated_user_that_is_not_there_is_missing_data(hands, day, kind):
    """Nobody is scored for an answer that never came."""
    retry = RetrySpec(patience_s=0.3)
    async with chat_server(CannedModel([WORK, ASK, SUBMIT])) as url:
        life = Life(is_program=kind == "program")
        events = await life.lived(url, hands=hands, condition="full_ask_user", simulator=Simulator(day), retry=retry)
    assert missing(events) == ("user_simulator", "timeout" if day == "hangs" else "crash")


SIDE_MODELS = {
    "hangs": Fault(kind="hang", times=None),
    "500": Fault(kind="server_error", times=None),
    "in band": answer(200, IN_BAND["choice_error"][0], times=None),
    "prose": Fault(kind="not_json", times=None),
    "says nothing": Fault(kind="empty_reply", times=None),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("day", SIDE_MODELS)
async def test_a_simulated_user_whose_model_fails_is_missing_data(hands, day, kind):
    """However the model of the simulated user fails, the trial failed there."""
    user, agent = CannedModel([text_reply(TODAY)]), CannedModel([WORK, ASK, SUBMIT])
    async with chat_server(user, [SIDE_MODELS[day]]) as user_url, chat_server(agent) as url:
        simulator = UserSimulatorSpec(kind="llm", llm=ModelSpec(model="u", api_base=user_url))
        side_s = 0.15 if day == "hangs" else None
        life = Life(is_program=kind == "program")
        events = await life.lived(url, hands=hands, condition="full_ask_user", user_simulator=simulator, side_s=side_s)
    assert missing(events)[0] == "user_simulator"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("day", [day for day in SIDE_MODELS if day != "says nothing"])
async def test_a_judge_whose_model_fails_is_missing_data(hands, day, kind):
    """However the judge fails, the trial failed at the grader, and the agent's work is not scored."""
    judge = CannedModel([text_reply('{"score": 1}')])
    async with chat_server(judge, [SIDE_MODELS[day]]) as judge_url, chat_server(CannedModel([WORK, SUBMIT])) as url:
        grader = GraderSpec(kind="judge", judge=ModelSpec(model="j", api_base=judge_url))
        side_s = 0.15 if day == "hangs" else None
        events = await Life(is_program=kind == "program").lived(url, hands=hands, grader=grader, side_s=side_s)
    assert missing(events)[0] == "grader"


@pytest.mark.parametrize("kind", KINDS)
async def test_hours_at_a_door_are_nobodys(hands, monkeypatch, kind):
    """Agent, simulated user and judge wait for hours for their turn: neither patience nor the limit on grading ends."""
    monkeypatch.setattr(
        "lhaw_record.runners.models.litellm_model.door_of", doors_of_a_test(hands, partial(Crowded, hands))
    )
    agent, user = CannedModel([WORK, ASK, SUBMIT]), CannedModel([text_reply(TODAY)])
    judge = CannedModel([text_reply('{"score": 1}')])
    async with chat_server(agent) as url, chat_server(user) as user_url, chat_server(judge) as judge_url:
        events = await Life(is_program=kind == "program").lived(
            url,
            hands=hands,
            condition="full_ask_user",
            user_simulator=UserSimulatorSpec(kind="llm", llm=ModelSpec(model="u", api_base=user_url)),
            grader=GraderSpec(kind="judge", judge=ModelSpec(model="j", api_base=judge_url)),
            retry=RetrySpec(patience_s=600.0),
        )
    assert scored(events) == ("submitted", True)
    assert events[-1].waited_ms >= WAITED_MS
    assert events[-1].charged_ms < 60_000


TOOL_FAULTS = {"dies": "server_gone", "hangs": "server_timeout"}


@pytest.mark.parametrize("fault", TOOL_FAULTS)
async def test_a_tool_server_that_fails_is_missing_data(hands, fault):
    """It dies or never answers: each is found for what it is."""
    async with chat_server(CannedModel([WORK, SUBMIT])) as url:
        life = Life(is_program=False, tool_fault=fault)
        events = await life.lived(url, hands=hands)
    assert missing(events) == ("tool", TOOL_FAULTS[fault])


NO_SPACE = OSError(28, "No space left on device")
LOST = SandboxBoundaryError("the sandbox was killed", kind="sandbox_died")
HUNG = SandboxBoundaryError("its driver does not answer", kind="sandbox_hung")
SANDBOXES = [
    *[(place, failure, kind) for place in ("open", "command", "export") for failure in (LOST, HUNG) for kind in KINDS],
    *[("open", NO_SPACE, kind) for kind in KINDS],
    ("write", NO_SPACE, "program"),  # the native agent has no files of ours in its sandbox
]


@pytest.mark.parametrize(("place", "failure", "kind"), SANDBOXES)
async def test_a_sandbox_that_is_lost_is_missing_data(hands, place, failure, kind):
    """Wherever it is lost or has no room, the trial failed at the sandbox."""
    async with chat_server(CannedModel([WORK, SUBMIT])) as url:
        events = await Life(is_program=kind == "program", failures={place: failure}).lived(url, hands=hands)
    assert missing(events)[0] == "sandbox"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_disk_that_stalls_costs_the_agent_nothing(hands, kind):
    """Hours until an event is durable are nobody's, and no patience ends them: what failed could not be recorded."""

    class Stalling(MemoryRecording):
        async def append(self, *events):
            hands.ahead_s += HOURS_S
            await super().append(*events)

    async with chat_server(CannedModel([WORK, ASK, SUBMIT])) as url:
        life = Life(is_program=kind == "program")
        retry = RetrySpec(patience_s=60.0)
        events = await life.lived(url, hands=hands, condition="full_ask_user", recording=Stalling(), retry=retry)
    assert [event for event in events if isinstance(event, QuestionAnswered)]
    assert scored(events) == ("submitted", True)
    assert events[-1].waited_ms >= WAITED_MS
    assert events[-1].charged_ms < 60_000
