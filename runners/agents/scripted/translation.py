"""Translates the conversation of an unknown agent, and calls, into the terms of the desk's own agent and back.

A foreign shell keeps no interpreter open between calls. Therefore the code of a Python step is preceded by the code of
all earlier steps, which runs silently. The conversation is the only memory, so a call can be read back from its
command.
"""

import ast
import json
import os
import re
import shlex
from collections.abc import Sequence

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.agents.scripted.agent_interface import AgentInterface, served_name
from lhaw_record.runners.agents.scripted.model import UNKNOWN_TASK, recipe_for
from lhaw_record.runners.agents.scripted.transcript import arguments_of, read_transcript
from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.base.text.normalization import elements

PLAN = "Plan:"
"""How a plan begins. In other agents, a plan shares a turn with the first calls."""
_BEGIN, _END = "python3 - <<'END_OF_PYTHON'\n", "\nEND_OF_PYTHON"
_STEP_MARK = "# the next step"
_REPLAY = """\
import contextlib, io
for code in [
{codes}]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
        exec(code)
{mark}
"""
_READ = re.compile(r"cat < (?P<path>\S.*)")
_REMINDER = re.compile(r"<([a-z]+(?:[_-][a-z]+)+)(?:\s[^<>]*)?>")
_MOST_TAGS = 3  # around a result
_TAGGED = re.compile(r"<(?:output|stdout)>\n?(.*?)\n?</(?:output|stdout)>", re.DOTALL)
_HEADED = re.compile(r"(?im)^(?:final )?(?:output|stdout|observation):[ \t]*\n?")
_QUOTED_CALLS = re.compile(r"^Calling tools:\n(\[.*\])$", re.DOTALL | re.MULTILINE)
_FIELDS = ("output", "stdout", "stderr")
_MOST_HEADER_LINES = 15


def to_command(tool: str, arguments: dict[str, str], earlier_codes: Sequence[str] = ()) -> str:
    """Return a shell command that does what a call of one of the desk's tools does."""
    if tool == "python":
        codes = "".join(f"    {code!r},\n" for code in earlier_codes)
        before = _REPLAY.format(codes=codes, mark=_STEP_MARK) if codes else ""
        return f"{_BEGIN}{before}{arguments['code'].strip()}{_END}"
    if tool == "read_file":
        return f"cat < {shlex.quote(arguments['path'])}"
    if tool == "write_file":
        path = arguments["path"]
        folder = f"mkdir -p {shlex.quote(os.path.dirname(path))} && " if "/" in path else ""  # noqa: PTH120  text only
        return f"{folder}printf %s {shlex.quote(arguments['content'])} > {shlex.quote(path)}"
    return {"bash": arguments.get("command", "")}[tool]


def from_command(command: str) -> tuple[str, dict[str, str]]:
    """Return the tool and arguments of the call that a shell command was made from."""
    text = command.strip()
    if text.startswith(_BEGIN) and text.endswith(_END):
        code = text[len(_BEGIN) : -len(_END)]
        return "python", {"code": code.rpartition(f"{_STEP_MARK}\n")[2].strip() + "\n"}
    if text.startswith(("printf %s ", "mkdir -p ")) or _READ.fullmatch(text):
        try:
            words = shlex.split(text)
        except ValueError:
            words = []
        if words[:1] == ["mkdir"] and words[3:4] == ["&&"]:
            words = words[4:]
        if len(words) == 5 and words[3] == ">":
            return "write_file", {"path": words[4], "content": words[2]}
        if len(words) == 3 and words[:2] == ["cat", "<"]:
            return "read_file", {"path": words[2]}
    return "bash", {"command": text}


def without_reminders(text: str) -> str:
    """Return a text without the reminders that agents add for the model, ``<some-reminder>…</some-reminder>``."""
    parts, done = [], 0
    for begin, _, _, end in elements(text, _REMINDER):
        parts.append(text[done:begin])
        done = end
    return "".join((*parts, text[done:])).strip()


def unwrapped(result: str) -> str:
    """Return what a command printed, without the report that an agent wrapped around it."""
    for _ in range(_MOST_TAGS):
        text = result.strip()
        opened = _REMINDER.match(text)
        if opened and "reminder" not in opened[1] and text.endswith(f"</{opened[1]}>"):
            result = text[opened.end() : -len(opened[1]) - 3].strip()  # as Gemini CLI's <untrusted_context>
    fields = _json_object(result)
    texts = [str(fields[name]) for name in _FIELDS if fields.get(name)]
    if "output" in fields or "stdout" in fields:
        return "\n".join(texts)
    tagged = _TAGGED.search(result)
    if tagged:
        return tagged[1]
    headed = _HEADED.search(result)
    if headed and result.count("\n", 0, headed.start()) <= _MOST_HEADER_LINES:
        return result[headed.end() :]
    return without_reminders(result) if any(elements(result, _REMINDER)) else result


def from_fence(fence: str, text: str) -> str | None:
    """Return the command in a text's first block of code in this language, or None."""
    found = re.search(rf"```{re.escape(fence)}[ \t]*\n(.*?)\n```", text, re.DOTALL)
    return found[1] if found else None


def _json_object(text: str) -> dict[str, object]:
    if not text.lstrip().startswith("{"):
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


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
    awaited: Sequence[ToolCall] = ()
    for number, message in enumerate(messages[at + 1 :]):
        if message.role == "assistant":
            turns, awaited = _model_turns(message, interface, number)
            view += turns
        elif message.role == "tool":
            view.append(msgspec.structs.replace(message, content=unwrapped(message.content)))
        elif awaited:
            result = unwrapped(message.content)
            view += [Message(role="tool", content=result, tool_call_id=call.call_id) for call in awaited]
            awaited = ()
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


def _model_turns(message: Message, interface: AgentInterface, number: int) -> tuple[list[Message], Sequence[ToolCall]]:
    """Translate a turn of the model. The second result has the calls whose results are the user's next message."""
    if interface.fence is not None and not message.tool_calls:
        command = from_fence(interface.fence, message.content)
        if command is None:
            return [message], ()
        call = _call(f"text_{number}", *from_command(command))
        return _turns(message.content, (call,)), (call,)
    calls = tuple(_desk_call(call, interface) for call in message.tool_calls or _quoted_calls(message.content))
    return _turns(message.content, calls), () if message.tool_calls else calls


def _quoted_calls(text: str) -> tuple[ToolCall, ...]:
    """Return the calls that smolagents quotes to its model as a Python list, in a text."""
    found = _QUOTED_CALLS.search(text)
    try:
        quoted = [(each["id"], each["function"]) for each in ast.literal_eval(found[1])] if found else []
        return tuple(_call(call_id, function["name"], function["arguments"]) for call_id, function in quoted)
    except (LookupError, SyntaxError, TypeError, ValueError):
        return ()


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
