"""Translates the conversation of an unknown agent into that of the desk's own agent, which the policy can read."""

from collections.abc import Sequence

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.agents.scripted.foreign.agent_interface import AgentInterface, served_name
from lhaw_record.runners.agents.scripted.foreign.translation import (
    from_command,
    from_fence,
    unwrapped,
    without_reminders,
)
from lhaw_record.runners.agents.scripted.model import UNKNOWN_TASK, recipe_for
from lhaw_record.runners.agents.scripted.transcript import arguments_of, read_transcript
from lhaw_record.runners.base.conversation.messages import Message, ToolCall

PLAN = "Plan:"
"""How a plan begins. In other agents, a plan shares a turn with the first calls."""


def desk_view(messages: Sequence[Message], interface: AgentInterface) -> list[Message]:
    """Return the conversation in the desk's terms, without everything before the task.

    The agent's own system prompt is left out as well. Only the experiment's wording, which is part of the task, may
    change the habits of a model.
    """
    at = _task_position(messages)
    if at is None:
        return []
    prompt = _task_text(messages[at])
    view = [Message(role="system", content=prompt), Message(role="user", content=prompt)]
    awaited: ToolCall | None = None
    for number, message in enumerate(messages[at + 1 :]):
        if message.role == "assistant":
            turns, awaited = _model_turns(message, interface, number)
            view += turns
        elif message.role == "tool":
            view.append(msgspec.structs.replace(message, content=unwrapped(message.content)))
        elif awaited is not None:
            view.append(Message(role="tool", content=unwrapped(message.content), tool_call_id=awaited.call_id))
            awaited = None
        elif message.role == "user" and (text := without_reminders(message.content)):
            view.append(Message(role="user", content=text))
    return view


def earlier_codes(view: Sequence[Message]) -> list[str]:
    """Return the code of every Python step so far."""
    return [str(call.arguments.get("code", "")) for call in read_transcript(view).calls if call.tool == "python"]


def _task_position(messages: Sequence[Message]) -> int | None:
    """Return the position of the message with the task, or None if there is no user message.

    This is the first user message that states a known task, else the last one before the model's first turn.
    """
    users = [at for at, message in enumerate(messages) if message.role == "user"]
    known = (at for at in users if recipe_for(messages[at].content) is not UNKNOWN_TASK)
    first = next((at for at, message in enumerate(messages) if message.role == "assistant"), len(messages))
    return next(known, max((at for at in users if at < first), default=users[0] if users else None))


def _task_text(message: Message) -> str:
    """Return the task without the reminders around it, unless the task is inside a reminder."""
    bare = without_reminders(message.content)
    return bare if recipe_for(bare) is not UNKNOWN_TASK else message.content


def _model_turns(message: Message, interface: AgentInterface, number: int) -> tuple[list[Message], ToolCall | None]:
    """Translate a turn of the model.

    In agents without tools, the second result is the call whose result is the user's next message. Otherwise, it is
    None.
    """
    if interface.fence is not None and not message.tool_calls:
        command = from_fence(interface.fence, message.content)
        if command is None:
            return [message], None
        call = _call(f"text_{number}", *from_command(command))
        return _turns(message.content, (call,)), call
    calls = tuple(_desk_call(call, interface) for call in message.tool_calls)
    return _turns(message.content, calls), None


def _turns(text: str, calls: tuple[ToolCall, ...]) -> list[Message]:
    """Return the messages of one turn. A plan before the calls becomes a turn of its own."""
    is_plan = bool(calls) and text.startswith(PLAN)
    before = [Message(role="assistant", content=text)] if is_plan else []
    return [*before, Message(role="assistant", content="" if is_plan else text, tool_calls=calls)]


def _desk_call(call: ToolCall, interface: AgentInterface) -> ToolCall:
    arguments = arguments_of(call)
    if interface.shell and call.name == interface.shell.name:
        return _call(call.call_id, *from_command(interface.shell.texts(arguments)[0]))
    if interface.asker and call.name == interface.asker.name:
        return _call(call.call_id, "ask_user", {"question": interface.asker.texts(arguments)[0]})
    if interface.reader and call.name == interface.reader.name:
        return _call(call.call_id, "read_file", {"path": interface.reader.texts(arguments)[0]})
    if interface.writer and call.name == interface.writer.name:
        path, content = interface.writer.texts(arguments)
        return _call(call.call_id, "write_file", {"path": path, "content": content})
    return msgspec.structs.replace(call, name=served_name(call.name))


def _call(call_id: str, tool: str, arguments: dict[str, str]) -> ToolCall:
    return ToolCall(call_id=call_id, name=tool, arguments_json=canonical_json(arguments).decode())
