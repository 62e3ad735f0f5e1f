"""A scripted model in another agent does what it does in ours, whatever tools that agent has."""

import json
import uuid

import pytest

from lhaw_record.runners.agents.scripted import ScriptedModel
from lhaw_record.runners.agents.scripted.agent_interface import interface_of
from lhaw_record.runners.agents.scripted.foreign_model import ForeignModel
from lhaw_record.runners.agents.scripted.transcript import read_transcript
from lhaw_record.runners.agents.scripted.translation import desk_view, from_command, to_command
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, insert_user_turn
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.models.protocol import ModelRequest
from tests.runners.agents.scripted.foreign_agents import AGENTS, tool
from tests.runners.agents.scripted.trials import run_trial, wording

TASKS = {task.task_id: task for task in desk_tasks()}
_SETTINGS = EnvironmentSettings(sandbox=ProcessSandboxProvider(), limits=SandboxLimits())
_SHELL = tool("bash", ("command",), command="string")


async def work(agent_kind, task, archetype, *, prompt=None, reply=None, injection=None):
    """Run one trial; returns what was done in the desk's words, the agent, and what the grader missed."""
    benchmark = DeskBenchmark([task])
    model = ForeignModel(ScriptedModel(f"scripted/{archetype}", 0))
    async with benchmark.open(benchmark.tasks()[0], _SETTINGS) as environment:

        async def run(command):
            end = f"END-{uuid.uuid4().hex}"  # each command in a shell of its own
            return (await environment.call("bash", {"command": f"bash <<'{end}'\n{command}\n{end}"})).text

        agent = AGENTS[agent_kind](prompt or task.prompt(), run, reply)
        done = []
        for _ in range(80):
            turn = (await model.respond(ModelRequest(messages=tuple(agent.messages), tools=agent.offered))).message
            await agent.take(turn)
            done = _done(agent)
            if agent.answer is not None:
                break
            if injection and len(done) >= injection[0]:
                agent.messages = insert_user_turn(agent.messages, injection[1])
                injection = None
        assert agent.answer is not None, "the model does not come to an end"
        grade = await environment.grade(agent.answer, None)
    return done, agent, [result.details for result in grade.results if not result.score]


def _done(agent):
    """Every work call and question so far, in the desk's words."""
    view = desk_view(agent.messages, interface_of(agent.offered, agent.messages))
    own = ("bash", "python", "read_file", "write_file", "ask_user")
    calls = [(call.tool, call.arguments) for call in read_transcript(view).calls if call.tool in own]
    return [call for call in calls if not str(call[1].get("command", "")).startswith("echo COMPLETE")]


def work_of(trial):
    """What the native agent did, without its way of ending."""
    done = [(name, arguments) for name, arguments in trial.actions if name not in ("submit", "message")]
    return [(name, _stripped(arguments)) for name, arguments in done]


def _stripped(arguments):
    return {name: text.strip() + "\n" if name == "code" else text for name, text in arguments.items()}


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("task_id", "agent_kind", "archetype"),
    [
        ("log-triage", "exec", "balanced"),
        ("meeting-planner", "words", "never"),
        ("inventory-reorder", "text", "balanced"),
        ("ticket-digest", "text", "never"),
        ("invoice-matching", "exec", "over_clarifier"),
        ("log-triage", "quoting", "balanced"),
        ("log-triage", "distrusting", "balanced"),
    ],
)
async def test_the_task_is_solved_by_the_same_actions(task_id, agent_kind, archetype):
    """The full prompt is solved in every agent, by exactly the actions of ours."""
    task = TASKS[task_id]
    done, _, unmet = await work(agent_kind, task, archetype)
    assert unmet == []
    assert done == work_of(await run_trial(task, archetype))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("agent_kind", ["exec", "words", "quoting", "distrusting"])
async def test_questions_are_asked_and_answers_understood(agent_kind):
    """The model asks at the same moment as in our agent, whatever the tool is called, and uses the answer."""
    task = TASKS["log-triage"]
    prompt = task.prompt().replace("from 2025-06-03 03:50:00 to 2025-06-03 05:20:00 UTC, both included, ", "")
    assert prompt != task.prompt()

    def reply(question):
        return "From 2025-06-03 03:50:00 to 2025-06-03 05:20:00 UTC."

    done, agent, unmet = await work(agent_kind, task, "balanced", prompt=prompt, reply=reply)
    native = await run_trial(task, "balanced", prompt=prompt, reply=reply)
    assert len(agent.questions) == 1
    assert unmet == []
    assert done == work_of(native)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("agent_kind", AGENTS)
async def test_what_the_user_says_later_is_understood(agent_kind):
    """A message after some action undoes the steps that it concerns, as in our agent."""
    task = TASKS["log-triage"]
    late = "By the way: `incident_9.csv` please; write the table as `incident_9.csv`."
    done, _, _ = await work(agent_kind, task, "balanced", injection=(12, late))
    native = await run_trial(task, "balanced", injection=(12, late))
    assert done == work_of(native)


@pytest.mark.thorough
async def test_a_strategy_in_the_task_is_followed():
    """A strategy in the task is followed; the agent's own words about plans and thoughts are not.

    A plan shares a turn with the first calls, because a text alone would end the work.
    """
    task = TASKS["log-triage"]
    prompt = f"{wording('strategies', 'plan_and_execute')}\n\n{task.prompt()}"
    done, agent, unmet = await work("exec", task, "balanced", prompt=prompt)
    said = [message for message in agent.messages if message.role == "assistant"]
    assert said[0].content.startswith("Plan:")
    assert said[0].tool_calls
    assert not any(message.content for message in said[1:-1])
    assert unmet == []
    native = await run_trial(task, "balanced", wordings=wording("strategies", "plan_and_execute"))
    assert done == work_of(native)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("bash", {"command": "cat a.txt | sort"}),
        ("bash", {"command": "cat < 'unfinished"}),
        ("python", {"code": "print('a')\nprint(\"END\")\n"}),
        ("read_file", {"path": "my notes/it's.md"}),
        ("write_file", {"path": "a b.md", "content": "it's\n# the next step\n\nten %s\n"}),
        ("write_file", {"path": "empty.md", "content": ""}),
    ],
)
def test_a_command_says_which_call_it_was(name, arguments):
    """A command is read back as the call that it was made from, whatever steps came before."""
    for codes in ([], ["x = 'it'\n", 'y = """b"""\n']):
        assert from_command(to_command(name, arguments, codes)) == (name, arguments)
        assert from_command(to_command(name, arguments, codes) + "\n") == (name, arguments)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([Message(role="user", content="Title for: the triage of the logs")], "A task in the work directory"),
        (
            [
                Message(role="system", content="Answer in JSON."),
                Message(role="user", content="triage of the logs"),
            ],
            '{"isNewTopic":false,"title":"A task in the work directory"}',
        ),
    ],
)
async def test_a_side_call_gets_a_short_text(messages, expected):
    """A request without tools, from an agent that has tools, is not a turn of the work and gets a short text."""
    reply = await ForeignModel(ScriptedModel("scripted/balanced")).respond(ModelRequest(messages=tuple(messages)))
    assert reply.message == Message(role="assistant", content=expected)
    assert reply.usage.cost_usd > 0


async def test_a_summary_holds_the_task_and_the_answers():
    """Work can go on from the summary that an agent asks for when its history grows too long."""
    task = TASKS["log-triage"].prompt()
    asked = ToolCall(call_id="q", name="mcp__user__ask_user", arguments_json='{"question":"When?"}')
    messages = (
        Message(role="user", content=task),
        Message(role="assistant", content="", tool_calls=(asked,)),
        Message(role="tool", content="At five.", tool_call_id="q"),
        Message(role="user", content="Summarise the conversation."),
    )
    reply = await ForeignModel(ScriptedModel("scripted/balanced")).respond(ModelRequest(messages=messages))
    assert task in reply.message.content
    assert "At five." in reply.message.content


async def test_the_same_request_gets_the_same_reply():
    """A reply depends on nothing but the request and the seed."""
    request = ModelRequest(messages=(Message(role="user", content=TASKS["log-triage"].prompt()),), tools=(_SHELL,))
    replies = [await ForeignModel(ScriptedModel("scripted/balanced", 3)).respond(request) for _ in range(2)]
    assert replies[0] == replies[1]


async def test_an_unknown_task_in_an_agent_without_a_shell_comes_to_an_end():
    """If the model can do nothing, it says so."""
    request = ModelRequest(messages=(Message(role="user", content="Sing."),), tools=(tool("browse", url="string"),))
    reply = await ForeignModel(ScriptedModel("scripted/balanced")).respond(request)
    assert reply.finish_reason == "stop"
    assert "do not know" in reply.message.content


async def test_files_are_read_and_written_without_a_shell():
    """An agent that has only tools for files gets calls of those."""
    task = TASKS["ticket-digest"]
    tools = (tool("read", ("file_path",), file_path="string"), tool("write", file_path="string", content="string"))
    request = ModelRequest(messages=(Message(role="user", content=task.prompt()),), tools=tools)
    (call,) = (await ForeignModel(ScriptedModel("scripted/balanced")).respond(request)).message.tool_calls
    assert (call.name, json.loads(call.arguments_json)) == ("read", {"file_path": "sla_policy.md"})
