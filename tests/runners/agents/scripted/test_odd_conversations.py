"""A scripted model replies to any conversation."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhaw_record.runners.agents.scripted import ARCHETYPES, ScriptedModel
from lhaw_record.runners.base.conversation.actions import action_count_of
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks
from lhaw_record.runners.models.protocol import ModelRequest
from tests.support.depth import at_depth

TASKS = desk_tasks()


def _tools(*names):
    return tuple(ToolDefinition(name=name, description=name, input_schema={"type": "object"}) for name in names)


OFFICE = _tools("bash", "python", "read_file", "write_file")


async def _play(model, messages, tools, result, most_turns=60):
    """Give every call the same result until the model submits; return its turns."""
    turns = []
    for _ in range(most_turns):
        turn = (await model.respond(ModelRequest(messages=tuple(messages), tools=tools))).message
        turns.append(turn)
        messages = [*messages, turn]
        messages += [Message(role="tool", content=result, tool_call_id=call.call_id) for call in turn.tool_calls]
        if any(call.name == "submit" for call in turn.tool_calls):
            break
        if not turn.tool_calls:
            messages.append(Message(role="user", content="Continue with the tools, or call submit."))
    return turns


@pytest.mark.parametrize("archetype", ARCHETYPES)
async def test_unknown_task_is_given_up_politely(archetype):
    """It looks around and submits that it does not know how."""
    messages = [Message(role="user", content="Compose a symphony.")]
    turns = await _play(ScriptedModel(archetype), messages, (*OFFICE, *_tools("submit", "ask_user")), "./a.txt")
    assert sum(map(action_count_of, turns)) >= 3
    assert "do not know" in json.loads(turns[-1].tool_calls[0].arguments_json)["answer"]


@pytest.mark.sampled(23)
@pytest.mark.parametrize("result", ["", "Error: no such thing\n[exit code 1]", "{" * 50, "Use your best judgment."])
@pytest.mark.parametrize("archetype", ARCHETYPES)
@pytest.mark.parametrize("task", TASKS, ids=[task.task_id for task in TASKS])
async def test_useless_results_lead_to_an_end(task, archetype, result):
    """Even if every tool returns nonsense, the model finishes, under every strategy."""
    for strategy in ("", "self-check", "make a plan", "write a thought"):
        messages = [Message(role="system", content=strategy), Message(role="user", content=task.prompt())]
        turns = await _play(ScriptedModel(archetype), messages, (*OFFICE, *_tools("submit", "ask_user")), result)
        assert turns[-1].tool_calls[-1].name == "submit"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "names", [(), ("submit",), ("ask_user",), ("browser", "submit"), ("bash",), ("python", "submit")]
)
async def test_missing_tools_are_done_without(names):
    """A model calls only tools that are offered; without any, it replies in text."""
    for archetype in ARCHETYPES:
        messages = [Message(role="user", content=TASKS[0].prompt())]
        turns = await _play(ScriptedModel(archetype), messages, _tools(*names), "nothing", most_turns=25)
        assert {call.name for turn in turns for call in turn.tool_calls} <= set(names)


_TEXTS = st.text(max_size=40)
_CALLS = st.builds(
    ToolCall,
    call_id=st.sampled_from(["call_1", "call_2", "x"]),
    name=st.sampled_from(["bash", "ask_user", "submit", "?"]),
    arguments_json=st.sampled_from(["", "{", "[]", "null", '{"question": 3}', '{"command": []}', '{"command": "ls"}']),
)
_MESSAGES = st.one_of(
    st.builds(Message, role=st.sampled_from(["system", "user"]), content=_TEXTS),
    st.builds(Message, role=st.just("user"), content=st.sampled_from([task.prompt() for task in TASKS])),
    st.builds(Message, role=st.just("assistant"), content=_TEXTS, tool_calls=st.lists(_CALLS, max_size=3).map(tuple)),
    st.builds(Message, role=st.just("tool"), content=_TEXTS, tool_call_id=st.sampled_from(["call_1", "x", None])),
)


@settings(max_examples=at_depth(150, 750))
@given(messages=st.lists(_MESSAGES, max_size=8), archetype=st.sampled_from(sorted(ARCHETYPES)), seed=st.integers(0, 9))
async def test_any_conversation_gets_a_reply(messages, archetype, seed):
    """Messages in any order, broken arguments and lost results raise no exception."""
    request = ModelRequest(messages=tuple(messages), tools=(*OFFICE, *_tools("submit", "ask_user")))
    reply = await ScriptedModel(archetype, seed).respond(request)
    assert reply.message.tool_calls or reply.message.content


async def test_reply_is_a_function_of_the_request():
    """A new instance continues any conversation in the same way, so a model can be served over HTTP."""
    messages = [Message(role="user", content=TASKS[0].prompt())]
    request = ModelRequest(messages=tuple(messages), tools=(*OFFICE, *_tools("submit")), parameters={"seed": 2})
    first, second = [await ScriptedModel("scripted/balanced", seed).respond(request) for seed in (0, 1)]
    assert first == second
    assert first.message.tool_calls[0].call_id == "call_1"
    assert first.served_model == "scripted/balanced"
    assert first.usage.input_tokens > 100
    assert 0 < first.usage.cost_usd < 0.01


def test_unknown_name_is_refused_with_the_known_ones():
    """The error for a misspelt archetype lists the known ones."""
    with pytest.raises(ValueError, match="scripted/balanced"):
        ScriptedModel("scripted/clever")
