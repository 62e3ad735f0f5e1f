"""A scripted model for any agent. It writes its calls for whatever tools the agent offers."""

import shlex
from collections.abc import Sequence

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.agents.scripted.agent_interface import (
    DESK_TOOLS,
    AgentInterface,
    ToolAdapter,
    interface_of,
    is_question,
)
from lhaw_record.runners.agents.scripted.archetypes import ARCHETYPES
from lhaw_record.runners.agents.scripted.model import recipe_for, reply_with
from lhaw_record.runners.agents.scripted.translation import PLAN, desk_view, earlier_codes, to_command
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition
from lhaw_record.runners.environments.benchmarks.desk.recipe import Recipe
from lhaw_record.runners.models.protocol import Model, ModelReply, ModelRequest

_ANSWER = "echo {ending} && printf '%s\\n' {answer}"
_TITLE = "A task in the work directory"


class ForeignModel:
    """A scripted model that can work in any agent.

    A request that offers the desk's tools goes to the scripted model unchanged. Otherwise, the conversation is
    translated into the desk's terms, and the reply into calls of the tools that the agent offers: a shell, an
    ``ask_user`` of any spelling, a tool that hands in. An agent without tools that runs blocks of code gets such
    blocks. Any other request without tools is not a turn of the work. It may ask for a title or a summary, and gets a
    short text.

    Args:
        scripted: The scripted model that makes the decisions, a policy or a replay.
    """

    def __init__(self, scripted: Model) -> None:
        self.name = scripted.name
        self._scripted = scripted
        self._is_free = scripted.name not in ARCHETYPES

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Return the next turn of this model."""
        if {tool.name for tool in request.tools} >= DESK_TOOLS:
            return await self._scripted.respond(request)
        interface = interface_of(request.tools, request.messages)
        if not request.tools and interface.fence is None:
            message = Message(role="assistant", content=_title_or_summary(request.messages))
        else:
            message = await self._next_turn(request, interface)
        reply = reply_with(message, request, self.name)
        usage = msgspec.structs.replace(reply.usage, cost_usd=0.0) if self._is_free else reply.usage
        return msgspec.structs.replace(reply, usage=usage)

    async def _next_turn(self, request: ModelRequest, interface: AgentInterface) -> Message:
        view = desk_view(request.messages, interface)
        turn = await self._desk_turn(request, view, interface)
        plan = ""
        if not turn.tool_calls and turn.content.startswith(PLAN):  # a text alone would end the work of most agents
            plan = turn.content
            view = [*view, turn]
            turn = await self._desk_turn(request, view, interface)
        recipe = recipe_for(view[0].content if view else "")
        message = _translated(turn, interface, earlier_codes(view), recipe)
        return msgspec.structs.replace(message, content="\n\n".join(filter(None, (plan, message.content))))

    async def _desk_turn(self, request: ModelRequest, view: Sequence[Message], interface: AgentInterface) -> Message:
        """Return what the model would say and call in the desk's own agent."""
        tools = tuple(
            ToolDefinition(name=name, description="", input_schema={}) for name in sorted(interface.desk_names())
        )
        desk_request = ModelRequest(messages=tuple(view), tools=tools, parameters=request.parameters)
        return (await self._scripted.respond(desk_request)).message


def _translated(turn: Message, interface: AgentInterface, codes: Sequence[str], recipe: Recipe) -> Message:
    """Translate a turn in the desk's terms into calls of this agent's tools, or blocks of code if it runs those."""
    if interface.fence is not None:
        commands = [_command(call, interface, codes) for call in turn.tool_calls[:1]]  # these agents run one per reply
        blocks = [f"```{interface.fence}\n{command}\n```" for command in commands]
        return Message(role="assistant", content="\n\n".join(filter(None, (turn.content, *blocks))))
    calls = tuple(_translated_call(call, interface, codes, recipe) for call in turn.tool_calls)
    return msgspec.structs.replace(turn, tool_calls=calls)


def _translated_call(call: ToolCall, interface: AgentInterface, codes: Sequence[str], recipe: Recipe) -> ToolCall:
    if call.name not in (*DESK_TOOLS, "ask_user", "submit"):
        return msgspec.structs.replace(call, name=interface.served.get(call.name, call.name))
    arguments = msgspec.json.decode(call.arguments_json, type=dict[str, str])
    if call.name == "ask_user" and interface.asker:
        return _asking_call(interface.asker, call, arguments["question"], recipe)
    if call.name == "submit" and interface.finisher:
        return _call_of(interface.finisher, call, arguments["answer"])
    if interface.shell:
        return _call_of(interface.shell, call, _command(call, interface, codes))
    if call.name == "read_file" and interface.reader:
        return _call_of(interface.reader, call, arguments["path"])
    if call.name == "write_file" and interface.writer:
        return _call_of(interface.writer, call, arguments["path"], arguments["content"])
    raise AssertionError(f"{call.name} was not among the tools that can be translated")


def _asking_call(tool: ToolAdapter, call: ToolCall, question: str, recipe: Recipe) -> ToolCall:
    """Ask with the values that the model would guess as options, if the tool takes some."""
    guesses = (each.guesses({}) for each in recipe.parameters if each.question == question and tool.takes_questions)
    return _call_of(tool, call, question, *next(guesses, ()))


def _call_of(tool: ToolAdapter, call: ToolCall, *texts: str) -> ToolCall:
    arguments_json = canonical_json(tool.filled(*texts)).decode()
    return ToolCall(call_id=call.call_id, name=tool.name, arguments_json=arguments_json)


def _command(call: ToolCall, interface: AgentInterface, codes: Sequence[str]) -> str:
    arguments = msgspec.json.decode(call.arguments_json, type=dict[str, str])
    if call.name == "submit":
        return _ANSWER.format(ending=interface.ending, answer=shlex.quote(arguments["answer"]))
    return to_command(call.name, arguments, codes)


def _title_or_summary(messages: Sequence[Message]) -> str:
    """Return a title before the work has begun, and after that a summary from which the work can continue.

    The summary has the task, what the user said, and the answers to questions. The last message, which asked for the
    summary, is left out.
    """
    users = [message for message in messages if message.role == "user"]
    if users and any(message.role == "assistant" for message in messages):
        questions = {call.call_id for message in messages for call in message.tool_calls if is_question(call.name)}
        answers = [message.content for message in messages if message.tool_call_id in questions]
        statements = [message.content for message in (users[:-1] or users)]
        return "\n\n".join(["Summary of the work so far.", *statements, *answers])
    request = "\n".join(message.content for message in (*messages[:1], *messages[-1:]))
    return canonical_json({"isNewTopic": False, "title": _TITLE}).decode() if "json" in request.lower() else _TITLE
