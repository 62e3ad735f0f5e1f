"""A scripted model that implements the same protocol as a real one. It keeps nothing between requests."""

import re

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.agents.scripted.archetypes import ARCHETYPES, habits_of
from lhaw_record.runners.agents.scripted.policy import Policy
from lhaw_record.runners.agents.scripted.transcript import read_transcript, with_questions_as_calls
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition, to_wire
from lhaw_record.runners.environments.benchmarks.desk.recipe import Recipe, RecipeStep, desk_recipes
from lhaw_record.runners.models.protocol import Model, ModelReply, ModelRequest

_CHARACTERS_PER_TOKEN = 4
_INPUT_USD_PER_TOKEN = 1e-6
_OUTPUT_USD_PER_TOKEN = 5e-6

UNKNOWN_TASK = Recipe(
    name="unknown",
    recognise="",
    parameters=(),
    steps=(
        RecipeStep(name="look around", tool="bash", arguments={"command": "find . -type f | sort | head -n 50"}),
        RecipeStep(
            name="look into the files",
            tool="bash",
            arguments={"command": "find . -type f | sort | head -n 3 | xargs -r head -n 5"},
        ),
    ),
    answer="I do not know how to do this task.",
)


class ScriptedModel:
    """A small deterministic policy that acts like an agent's model.

    Each reply depends only on the conversation, the offered tools, the archetype and the seed. Tokens are estimated at
    four characters each. The price is invented, 1 USD per million input tokens and 5 USD per million output tokens, so
    that cost limits can be tried without a provider.

    Args:
        name: One of ``ARCHETYPES``.
        seed: Picks the guesses. A ``seed`` among a request's parameters replaces it.

    Raises:
        ValueError: There is no such archetype.
    """

    def __init__(self, name: str, seed: int = 0) -> None:
        if name not in ARCHETYPES:
            raise ValueError(f"there is no scripted model {name!r}; known: {', '.join(ARCHETYPES)}")
        self.name = name
        self._seed = seed

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Return the next turn of this model."""
        transcript = read_transcript(request.messages)
        seed = request.parameters.get("seed")
        turn = Policy(
            recipe_for(transcript.prompt),
            transcript,
            habits_of(self.name, transcript.system),
            self._seed if seed is None else int(seed),
            frozenset(tool.name for tool in request.tools),
        ).next_turn()
        calls = tuple(
            ToolCall(call_id=f"call_{number}", name=call.tool, arguments_json=canonical_json(call.arguments).decode())
            for number, call in enumerate(turn.calls, start=len(transcript.calls) + 1)
        )
        return reply_with(Message(role="assistant", content=turn.text, tool_calls=calls), request, self.name)


class InProse:
    """A scripted model, a policy or a replay, that asks by ending its turn, because its agent offers no tool to ask."""

    def __init__(self, scripted: Model) -> None:
        self.name = scripted.name
        self._scripted = scripted

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Return the next turn of the model, which believes that there is a tool to ask."""
        tools = (*request.tools, ToolDefinition(name="ask_user", description="", input_schema={}))
        messages = tuple(with_questions_as_calls(request.messages))
        reply = await self._scripted.respond(msgspec.structs.replace(request, messages=messages, tools=tools))
        said, call = reply.message, next(iter(reply.message.tool_calls), None)
        if call is None or call.name != "ask_user":
            return reply
        text = "\n\n".join(filter(None, (said.content, msgspec.json.decode(call.arguments_json)["question"])))
        message = Message(role="assistant", content=text)
        return msgspec.structs.replace(reply, message=message, finish_reason="stop")


def recipe_for(prompt: str) -> Recipe:
    """Return the recipe for the kind of task that a prompt describes."""
    text = " ".join(prompt.split())
    known = (recipe for recipe in desk_recipes() if re.search(recipe.recognise, text, re.IGNORECASE))
    return next(known, UNKNOWN_TASK)


def reply_with(message: Message, request: ModelRequest, name: str) -> ModelReply:
    """Return a message as the reply of a model, with estimated tokens and their cost at the invented price."""
    read = sum(len(canonical_json(to_wire(each))) for each in request.messages)
    read += sum(len(canonical_json(tool)) for tool in request.tools)
    input_tokens = read // _CHARACTERS_PER_TOKEN
    output_tokens = len(canonical_json(to_wire(message))) // _CHARACTERS_PER_TOKEN
    return ModelReply(
        message=message,
        finish_reason="tool_calls" if message.tool_calls else "stop",
        usage=Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost_usd=input_tokens * _INPUT_USD_PER_TOKEN + output_tokens * _OUTPUT_USD_PER_TOKEN,
        ),
        served_model=name,
    )
