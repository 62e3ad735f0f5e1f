"""Replay models: they act on the conversation alone, and never write a value that nobody told them."""

import json

import pytest

from lhaw_record.recorder.events.values import CONDITIONS
from lhaw_record.runners.agents.scripted import InProse
from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition, insert_user_turn
from lhaw_record.runners.models.protocol import ModelRequest
from lhaw_record.runners.models.replay import (
    REPLAY_MODELS,
    MaskedReplayModel,
    Reference,
    ReferenceCall,
    ReferenceParameter,
    ReplayModel,
    hidden_parameters,
)

CITY = ReferenceParameter(
    name="city",
    value="in Ghent",
    written="Ghent",
    question="Which city do you mean?",
    guesses=("Mons", "Namur"),
    alternatives=("Bruges",),
    derived=((3, "expression"),),
)


def compose(values, results):
    """Answer with the value in use and the last result."""
    return f"{values['city']}: {results[-1]}"


REFERENCE = Reference(
    task_id="t",
    origin="own",
    calls=(
        ReferenceCall(name="files_list", arguments={"path": "/data"}),
        ReferenceCall(name="files_read", arguments={"path": "/data/ghent.csv", "columns": ["Ghent", "year"]}),
        ReferenceCall(name="calculate", arguments={"expression": "1 + 2"}),
    ),
    parameters=(CITY,),
    compose=compose,
)
ASK = ToolDefinition(name="ask_user", description="", input_schema={})


async def converse(model, prompt, tools=(), answers=None, interrupt=None, result_of=None):
    """Run a model to its final answer; returns every call as (name, arguments) and the answer.

    ``answers`` maps questions to answers, ``interrupt`` is (after how many calls, message), ``result_of`` makes
    results.
    """
    messages = [Message(role="user", content=prompt)]
    calls = []
    for _ in range(30):
        if interrupt and len(calls) == interrupt[0]:
            messages = insert_user_turn(messages, interrupt[1])
            interrupt = None
        reply = (await model.respond(ModelRequest(messages=tuple(messages), tools=tuple(tools)))).message
        messages.append(reply)
        if not reply.tool_calls:
            return calls, reply.content
        (call,) = reply.tool_calls
        arguments = json.loads(call.arguments_json)
        calls.append((call.name, arguments))
        if call.name == "ask_user":
            result = (answers or {}).get(arguments["question"], "I cannot say.")
        else:
            result = result_of(call.name, arguments) if result_of else f"result {len(calls)}"
        messages.append(Message(role="tool", content=result, tool_call_id=call.call_id))
    pytest.fail("the model never ended")


TRUE_CALLS = [(call.name, call.arguments) for call in REFERENCE.calls]
BLIND_CALLS = [
    ("files_list", {"path": "/data"}),
    ("files_read", {"path": "/data/Mons.csv", "columns": ["Mons", "year"]}),
    ("calculate", {"expression": ""}),
]


async def test_replay_makes_the_calls_in_order_and_answers_from_the_results():
    """Both models do so when nothing is removed."""
    for name, model in REPLAY_MODELS.items():
        calls, answer = await converse(model(name, 0, REFERENCE), "How many in Ghent?")
        assert calls == TRUE_CALLS
        assert answer == "Ghent: result 3"


def test_plain_replay_is_for_full_only():
    """It knows every value, so it refuses to run without one; its conditions say so to the planner."""
    with pytest.raises(ValueError, match="replay_masked"):
        ReplayModel("scripted/replay", 0, REFERENCE, ("in Ghent",))
    assert ReplayModel.conditions == ("full",)
    assert MaskedReplayModel.conditions == CONDITIONS


async def test_a_removed_value_is_guessed_or_blank_everywhere():
    """Its spelling is replaced in every argument and what was computed with it is blank; the seed chooses the guess."""
    model = MaskedReplayModel("scripted/replay_masked", 0, REFERENCE, ("in Ghent",))
    calls, answer = await converse(model, "How many?")
    assert calls == BLIND_CALLS
    assert answer == "Mons: result 3"
    other = MaskedReplayModel("scripted/replay_masked", 1, REFERENCE, ("in Ghent",))
    assert (await converse(other, "How many?"))[1] == "Namur: result 3"


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_an_injected_value_makes_it_redo_what_it_affects(after):
    """After the message come the affected calls with the value, and the answer is made from their results."""
    model = MaskedReplayModel("scripted/replay_masked", 0, REFERENCE, ("in Ghent",))
    interrupt = (after, "I mean the ones in  GHENT.")
    calls, answer = await converse(model, "How many?", interrupt=interrupt)
    if after < 3:
        blind = max(0, after - 1)
        assert calls == [*BLIND_CALLS[: after or 1], *TRUE_CALLS[1:]]
        assert answer == f"Ghent: result {3 + blind}"
    else:
        assert calls == [*BLIND_CALLS, *TRUE_CALLS[1:]]


async def test_it_asks_before_it_needs_the_value():
    """With ask_user on offer the question comes right before the first call that holds the value, once."""
    model = MaskedReplayModel("scripted/replay_masked", 0, REFERENCE, ("in Ghent",))
    question = ("ask_user", {"question": CITY.question})
    calls, answer = await converse(model, "How many?", tools=[ASK], answers={CITY.question: "In Ghent, please."})
    assert calls == [TRUE_CALLS[0], question, *TRUE_CALLS[1:]]
    assert answer == "Ghent: result 4"
    calls, _ = await converse(model, "How many?", tools=[ASK])
    assert calls == [BLIND_CALLS[0], question, *BLIND_CALLS[1:]]


async def test_it_asks_in_prose_where_its_agent_does():
    """The question is its whole turn, asked once; the user's next turn has the answer, and the calls go on with it."""
    model = InProse(MaskedReplayModel("scripted/replay_masked", 0, REFERENCE, ("in Ghent",)))
    first = [Message(role="user", content="How many?")]
    for said, calls in (("In Ghent, please.", TRUE_CALLS), ("I cannot say.", BLIND_CALLS)):
        result = Message(role="tool", content="ghent.csv bruges.csv", tool_call_id="replay_1")
        begun = [*first, (await model.respond(ModelRequest(messages=tuple(first)))).message, result]
        asked = await model.respond(ModelRequest(messages=tuple(begun)))
        assert (asked.message, asked.finish_reason) == (Message(role="assistant", content=CITY.question), "stop")
        told = (*begun, asked.message, Message(role="user", content=said))
        (call,) = (await model.respond(ModelRequest(messages=told))).message.tool_calls
        assert (call.name, json.loads(call.arguments_json)) == calls[1]


async def test_a_tool_result_tells_the_value_only_when_it_singles_it_out():
    """A listing with one city tells it; a listing that shows an alternative too does not say which is meant."""

    def listing(text):
        return lambda name, _: text if name == "files_list" else "ok"

    model = MaskedReplayModel("scripted/replay_masked", 0, REFERENCE, ("in Ghent",))
    calls, _ = await converse(model, "How many?", result_of=listing("ghent.csv"))
    assert calls == TRUE_CALLS
    calls, _ = await converse(model, "How many?", result_of=listing("ghent.csv bruges.csv"))
    assert calls == BLIND_CALLS


async def test_a_value_that_no_parameter_describes_is_blanked_where_it_stands():
    """Variants of others name values that we wrote nothing about: their spelling is taken out and asked for."""
    plain = Reference(task_id="t", origin="published", calls=REFERENCE.calls)
    (hidden,) = hidden_parameters(plain, ("ghent",))
    assert hidden.guesses == ()
    model = MaskedReplayModel("scripted/replay_masked", 0, plain, ("ghent",))
    calls, answer = await converse(model, "How many?")
    assert calls[1] == ("files_read", {"path": "/data/.csv", "columns": ["", "year"]})
    assert "calculate gave: result 3" in answer


async def test_equal_calls_are_made_as_often_as_the_reference_has_them():
    """A reference that reads the same file twice is replayed with two calls."""
    twice = Reference(task_id="t", origin="published", calls=(REFERENCE.calls[0], REFERENCE.calls[0]))
    calls, _ = await converse(ReplayModel("scripted/replay", 0, twice), "Go.")
    assert calls == [TRUE_CALLS[0], TRUE_CALLS[0]]


async def test_usage_is_estimated_and_free():
    """Tokens are a quarter of the characters; the price of a scripted model is known and zero."""
    request = ModelRequest(messages=(Message(role="user", content="x" * 400),))
    reply = await ReplayModel("scripted/replay", 0, REFERENCE).respond(request)
    assert reply.usage.cost_usd == 0.0
    assert reply.usage.input_tokens >= 100
    assert (reply.finish_reason, reply.served_model) == ("tool_calls", "scripted/replay")


async def test_a_call_that_uses_earlier_ones_is_made_again_after_them():
    """A late message rewrites the script, and runs it; what does not use the script is not repeated."""
    run = ReferenceCall(name="bash", arguments={"command": "sh solve.sh"}, uses_earlier=True)
    write = ReferenceCall(name="write_file", arguments={"path": "solve.sh", "content": "go Ghent"})
    look = ReferenceCall(name="bash", arguments={"command": "ls"})
    city = ReferenceParameter(name="city", value="in Ghent", written="Ghent", question="Which?", guesses=("Mons",))
    reference = Reference(task_id="t", origin="published", calls=(look, write, run), parameters=(city,))
    model = MaskedReplayModel("m", 0, reference, ("in Ghent",))
    for late in (1, 2, 3):
        calls, _ = await converse(model, "Go.", interrupt=(late, "It is in Ghent."))
        assert calls[-2:] == [(write.name, write.arguments), (run.name, run.arguments)]
        assert len(calls) == {1: 3, 2: 4, 3: 5}[late]
