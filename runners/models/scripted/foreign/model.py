"""The door for agents that are not ours: the same policy, its calls in whatever tools the agent offers."""

import shlex
from collections.abc import Sequence

import msgspec

from recorder.canonical import canonical_json
from runners.conversation import Message, ToolCall, ToolDefinition
from runners.models.protocol import ModelReply, ModelRequest
from runners.models.scripted.foreign.commands import to_command
from runners.models.scripted.foreign.history import PLAN, desk_view, earlier_codes
from runners.models.scripted.foreign.offered import DESK_TOOLS, Hand, Offered, look_at
from runners.models.scripted.foreign.side import side_text
from runners.models.scripted.foreign.wrapped import fenced
from runners.models.scripted.model import ScriptedModel, estimated_usage

_ANSWER = "echo {ending} && printf '%s\\n' {answer}"


class ForeignModel:
    """A scripted model that can work in any agent.

    A request that offers the desk's tools goes to the scripted model as it is. Otherwise the conversation is read as
    the desk's, and the reply is written for the tools that there are: a shell, an ``ask_user`` of any spelling, a tool
    that hands in. Agents without tools get commands as blocks of code; requests that offer neither get a short text.

    Args:
        scripted: The model.
    """

    def __init__(self, scripted: ScriptedModel) -> None:
        self.name = scripted.name
        self._scripted = scripted

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Return the next turn of this model."""
        if {tool.name for tool in request.tools} >= DESK_TOOLS:
            return await self._scripted.respond(request)
        offered = look_at(request.tools, request.messages)
        if not request.tools and offered.fence is None:
            message = Message(role="assistant", content=side_text(request.messages))
        else:
            message = await self._next_turn(request, offered)
        return ModelReply(
            message=message,
            finish_reason="tool_calls" if message.tool_calls else "stop",
            usage=estimated_usage(request, message),
            served_model=self.name,
        )

    async def _next_turn(self, request: ModelRequest, offered: Offered) -> Message:
        view = desk_view(request.messages, offered)
        said = await self._said(request, view, offered)
        plan = ""
        if not said.tool_calls and said.content.startswith(PLAN):  # a text alone would end the work of most agents
            plan = said.content
            view = [*view, said]
            said = await self._said(request, view, offered)
        message = _written(said, offered, earlier_codes(view))
        return msgspec.structs.replace(message, content="\n\n".join(filter(None, (plan, message.content))))

    async def _said(self, request: ModelRequest, view: Sequence[Message], offered: Offered) -> Message:
        tools = tuple(
            ToolDefinition(name=name, description="", input_schema={}) for name in sorted(offered.desk_names())
        )
        asked = ModelRequest(messages=tuple(view), tools=tools, parameters=request.parameters)
        return (await self._scripted.respond(asked)).message


def _written(said: Message, offered: Offered, codes: Sequence[str]) -> Message:
    """A turn of the desk's model as a turn in this agent."""
    if offered.fence is not None:
        commands = [_command(call, offered, codes) for call in said.tool_calls[:1]]  # one for each reply
        blocks = [fenced(offered.fence, command) for command in commands]
        return Message(role="assistant", content="\n\n".join(filter(None, (said.content, *blocks))))
    calls = tuple(_call(call, offered, codes) for call in said.tool_calls)
    return msgspec.structs.replace(said, tool_calls=calls)


def _call(call: ToolCall, offered: Offered, codes: Sequence[str]) -> ToolCall:
    arguments = msgspec.json.decode(call.arguments_json, type=dict[str, str])
    if call.name == "ask_user" and offered.asker:
        return _with(call, offered.asker, arguments["question"])
    if call.name == "submit" and offered.finisher:
        return _with(call, offered.finisher, arguments["answer"])
    if offered.shell:
        return _with(call, offered.shell, _command(call, offered, codes))
    if call.name == "read_file" and offered.reader:
        return _with(call, offered.reader, arguments["path"])
    if call.name == "write_file" and offered.writer:
        return _with(call, offered.writer, arguments["path"], arguments["content"])
    raise AssertionError(f"{call.name} was not among the tools that can be translated")


def _command(call: ToolCall, offered: Offered, codes: Sequence[str]) -> str:
    arguments = msgspec.json.decode(call.arguments_json, type=dict[str, str])
    if call.name == "submit":
        return _ANSWER.format(ending=offered.ending, answer=shlex.quote(arguments["answer"]))
    return to_command(call.name, arguments, codes)


def _with(call: ToolCall, hand: Hand, *texts: str) -> ToolCall:
    arguments_json = canonical_json(hand.filled(*texts)).decode()
    return ToolCall(call_id=call.call_id, name=hand.name, arguments_json=arguments_json)
