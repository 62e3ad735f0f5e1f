"""A task's own tool server asks the user during a call: a real server, made with the protocol's own library."""

import sys
from contextlib import asynccontextmanager

import msgspec
import pytest

from lhaw_record.recorder.events import (
    ActionFinished,
    ApprovalAnswered,
    QuestionAnswered,
    QuestionAsked,
    TrialFailed,
    TrialFinished,
)
from lhaw_record.runners.base.errors import UserSimulatorError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import unconfined
from lhaw_record.runners.environments.benchmarks.mcp_atlas.server import ServerPlan, running_servers
from lhaw_record.runners.environments.benchmarks.mcp_lines import MAX_FORMS
from lhaw_record.runners.environments.benchmarks.protocol import ToolResult
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import ResponseSpec
from tests.runners.agents import test_trial
from tests.support.canned_model import tool_reply

SERVER = """
import sys
from typing import Literal
import anyio
from pydantic import BaseModel
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

class Day(BaseModel):
    day: str

class Choice(BaseModel):
    day: Literal["today", "never"]

class Nothing(BaseModel):
    pass

server = MCPServer("calendar")

@server.tool()
async def work(ctx: Context, how: str = "words") -> str | InputRequiredResult:
    if how.startswith("required"):
        if ctx.input_responses and how == "required":
            return repr(ctx.input_responses["day"].content)
        params = ElicitRequestFormParams(message="When must it be done?", requested_schema=Day.model_json_schema())
        return InputRequiredResult(input_requests={"day": ElicitRequest(params=params)}, request_state="asked")
    form = {"options": Choice, "confirm": Nothing}.get(how, Day)
    if how == "url":
        return (await ctx.elicit_url("Sign in.", "https://example.org", "1")).action
    if how == "forever":
        while True:
            await ctx.elicit("When must it be done?", Day)
    if how == "parallel":
        said = []
        async def ask(words):
            said.append((await ctx.elicit(words, Day)).action)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "When must it be done?")
            tasks.start_soon(ask, "What must be done by then?")
        return " ".join(said)
    answer = await ctx.elicit("When must it be done?", form)
    return f"{answer.action} {getattr(answer, 'data', None)!r}"

server.run()
"""


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """Runs one attempt whose only tool is the server's, and returns its events."""
    (tmp_path / "server.py").write_text(SERVER)

    class Served(test_trial.BrittleEnvironment):
        """Its tool is the server's."""

        server = None

        async def call(self, name, arguments):
            answer = await self.server.call(name, arguments)
            return ToolResult(text=answer.text, is_error=answer.is_error)

    class Benchmark(test_trial.BrittleBenchmark):
        """Its environments have a server."""

        @asynccontextmanager
        async def open(self, task, settings, variant=None):
            process = unconfined([sys.executable, str(tmp_path / "server.py")], {}, tmp_path)
            limits = SandboxLimits(command_seconds=self.failures.get("seconds", 600.0))
            plan = ServerPlan(name="calendar", process=process, limits=limits, fill_in=settings.fill_in)
            plan = msgspec.structs.replace(plan, protocol=self.failures.get("protocol", ""))
            async with running_servers([plan]) as (server,):
                environment = Served(self)
                environment.server = server
                yield environment

    monkeypatch.setattr(test_trial, "BrittleBenchmark", Benchmark)

    async def run(how, condition="ask_user", **more):
        calls = [tool_reply((f"c{at}", "work", f'{{"how":"{each}"}}')) for at, each in enumerate([how, "url"], 1)]
        calls.append(test_trial.SUBMIT)
        events, _ = await test_trial.attempt(tmp_path, calls, condition=condition, **more)
        return events

    return run


def of(events, kind):
    """The events of one type."""
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("how", "said", "picked"),
    [("words", "today", ()), ("options", "today", ("today",))],
)
async def test_the_user_fills_in_the_servers_form(trial, how, said, picked):
    """The question is that of the call that put it up, and the server reads the value by its own schema."""
    events = await trial(how, simulator=test_trial.CertainSimulator() if how == "words" else None)
    (asked,), (answered,) = of(events, QuestionAsked), of(events, QuestionAnswered)
    assert (asked.medium, asked.call_id, asked.action_index) == ("elicitation", "c1", 1)
    assert (answered.response_state, answered.picked) == ("answered", picked)
    assert said in of(events, ActionFinished)[0].result
    assert of(events, ActionFinished)[0].result.startswith("accept")
    assert isinstance(events[-1], TrialFinished)


NEWEST = {"protocol": "2026-07-28"}


@pytest.mark.thorough
async def test_a_server_that_requires_input_gets_it_with_the_call_again(trial):
    """The answer goes with the same call, which stays one action and one question."""
    events = await trial("required", simulator=test_trial.CertainSimulator(), **NEWEST)
    (asked,), (answered,) = of(events, QuestionAsked), of(events, QuestionAnswered)
    assert (asked.medium, asked.call_id, asked.action_index) == ("elicitation", "c1", 1)
    assert of(events, ActionFinished)[0].result == repr({"day": answered.answer})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("how", "condition", "count"), [("required", "full", 0), ("required for ever", "ask_user", MAX_FORMS)]
)
async def test_input_that_nobody_gives_is_an_error_of_the_tool(trial, how, condition, count):
    """Without a user, or past the cap, the call fails and the trial goes on."""
    events = await trial(how, condition, **NEWEST)
    assert len(of(events, QuestionAsked)) == len(of(events, QuestionAnswered)) == count
    assert of(events, ActionFinished)[0].is_error
    assert isinstance(events[-1], TrialFinished)


@pytest.mark.thorough
@pytest.mark.parametrize("condition", ["full", "underspecified"])
async def test_without_a_user_the_server_is_told_so(trial, condition):
    """A client that cannot show a form does not say that it can, and nothing is a question."""
    events = await trial("words", condition)
    assert of(events, QuestionAsked) == []
    assert of(events, ActionFinished)[0].is_error
    assert isinstance(events[-1], TrialFinished)


@pytest.mark.thorough
async def test_a_server_that_asks_for_ever_meets_the_cap(trial):
    """The call ends with an error, the trial goes on, and there are no more questions than the cap."""
    events = await trial("forever")
    assert len(of(events, QuestionAsked)) == len(of(events, QuestionAnswered)) == MAX_FORMS
    assert of(events, ActionFinished)[0].is_error
    assert isinstance(events[-1], TrialFinished)


@pytest.mark.thorough
async def test_two_forms_at_once_are_answered_one_after_the_other(trial):
    """Each is a question with its own answer."""
    events = await trial("parallel")
    assert len(of(events, QuestionAnswered)) == len(of(events, QuestionAsked)) == 2
    assert of(events, ActionFinished)[0].result == "accept accept"


@pytest.mark.thorough
async def test_what_asks_for_no_value_is_no_question(trial):
    """A confirmation is an approval, which is recorded, and an address to visit is declined."""
    events = await trial("confirm")
    (approval,) = of(events, ApprovalAnswered)
    assert (approval.title, approval.answer) == ("When must it be done?", "accept")
    assert of(events, ActionFinished)[1].result == "decline"
    assert of(events, QuestionAsked) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("response", "action"),
    [
        (ResponseSpec(state="declined"), "decline"),
        (ResponseSpec(state="dismissed"), "cancel"),
        (ResponseSpec(state="late", after_actions=1), "cancel"),
        (ResponseSpec(state="timed_out"), "cancel"),
    ],
)
async def test_a_missing_answer_fills_in_nothing(trial, response, action):
    """A server never gets the words for an agent whose answer is not there yet as if they were an answer."""
    events = await trial("words", "ask_user_r", changes={"responses": {"r": response}})
    assert of(events, ActionFinished)[0].result.split()[0] == action
    (answered,) = of(events, QuestionAnswered)
    assert answered.response_state == response.state


@pytest.mark.thorough
async def test_a_call_lasts_while_the_user_thinks(trial):
    """The server's limit of time stands still while a form is open."""

    class Slow(test_trial.CertainSimulator):
        """Takes longer than the call may."""

        async def answer(self, question, context, knowledge):
            await test_trial.anyio.sleep(1.0)
            return await super().answer(question, context, knowledge)

    events = await trial("words", simulator=Slow(), seconds=0.9)
    assert of(events, QuestionAnswered)[0].response_state == "answered"
    assert isinstance(events[-1], TrialFinished)


@pytest.mark.thorough
async def test_a_user_who_fails_is_missing_data(trial):
    """The trial fails at the user, not at the tool, and no answer is invented."""

    class Broken:
        """Cannot answer."""

        name = "broken"
        is_person = False

        async def answer(self, question, context, knowledge):
            raise UserSimulatorError("gone", kind="timeout")

    events = await trial("words", simulator=Broken())
    assert isinstance(events[-1], TrialFailed)
    assert events[-1].boundary == "user_simulator"
