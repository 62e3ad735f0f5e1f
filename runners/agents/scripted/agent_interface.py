"""Finds what an unknown agent offers its model, from the names and schemas of its tools.

An agent may offer a shell, files, a user and a way to finish.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition

DESK_TOOLS = frozenset({"bash", "python", "read_file", "write_file"})
"""The tools of the desk benchmark's own agent. An agent that offers all of them needs no translation."""

_SHELL = re.compile(r"bash|shell|terminal|exec|command|cmd", re.IGNORECASE)
_NO_SHELL = re.compile(r"kill|output|background|stdin|slash|sql|javascript|write|read|search", re.IGNORECASE)
_READ = re.compile(r"^(read|view|open|cat|read_?file|view_?file|get_?file)$", re.IGNORECASE)
_WRITE = re.compile(r"^(write|create|write_?file|create_?file|save_?file)$", re.IGNORECASE)
_ASK = re.compile(r"(^|[^a-z])(ask_user|consult)$", re.IGNORECASE)
_OWN_ASK = re.compile(r"^(AskUserQuestion|request_user_input|ask_user_question|question)$")
_ASK_WORDS = "the person who gave you this task"
_FINISH = re.compile(r"^(submit|finish|finish_?task|final_?answer|attempt_completion|complete_?task)$", re.IGNORECASE)
_FENCE = re.compile(r"```(\w*(?:bash|shell|sh)\w*)[ \t]*\n", re.IGNORECASE)
_ENDING = re.compile(r"\becho ([A-Z][A-Z_]*(?:SUBMIT|FINISH|COMPLETE|DONE)[A-Z_]*)\b")

_COMMAND_NAMES = ("command", "cmd", "commands", "script")
_PATH_NAMES = ("path", "file_path", "filePath", "filename", "file")
_CONTENT_NAMES = ("content", "contents", "file_text", "text")
_QUESTION_NAMES = ("question", "query", "message", "prompt")
_ANSWER_NAMES = ("answer", "result", "message", "summary", "output", "text")
_SERVER = re.compile(r"^(mcp__)?user__?")
_LONGEST_WAIT_MS = 60_000
_WAIT_NAMES = ("yield_time_ms",)  # a shell that answers before its command has ended


class ToolAdapter(msgspec.Struct, frozen=True, kw_only=True):
    """How to call one tool of an unknown agent.

    ``arguments`` names the arguments that matter, in order, and ``others`` has values for the other arguments that the
    tool requires. If ``takes_words`` is set, the first argument is a list of words instead of one text; with
    ``takes_questions`` it is a list of one question with three options, and with those of the usual keys that the
    tool's schema has, ``question_keys`` (empty: all).
    """

    name: str
    arguments: tuple[str, ...]
    others: dict[str, Any] = msgspec.field(default_factory=dict)
    takes_words: bool = False
    takes_questions: bool = False
    question_keys: frozenset[str] = frozenset()

    def filled(self, *texts: str) -> dict[str, Any]:
        """Return the arguments of a call, with these texts as the arguments that matter, or a question's options."""
        if self.takes_questions:
            labels = [*texts[1:], "As you think best", "I do not know"][:3]
            options = [{"label": label, "description": label} for label in labels]
            one = {"id": "question", "header": "Detail", "question": texts[0], "options": options, "multiSelect": False}
            return {self.arguments[0]: [{key: one[key] for key in one if key in (self.question_keys or one)}]}
        values = dict(zip(self.arguments, texts, strict=True))
        first = {self.arguments[0]: ["bash", "-lc", texts[0]]} if self.takes_words else {}
        return {**self.others, **values, **first}

    def texts(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the arguments of a call that matter, as texts. A list of words is joined to one command."""
        if self.takes_questions:
            asked = arguments.get(self.arguments[0])
            return (str(asked[0].get("question")) if isinstance(asked, list) and asked else "",)
        return tuple(_as_text(arguments.get(name)) for name in self.arguments)


class AgentInterface(msgspec.Struct, frozen=True, kw_only=True):
    """The tools and conventions through which a model can act in an agent.

    Args:
        shell: The tool that runs a command.
        reader: The tool that returns a file. It is set only if there is no shell.
        writer: The tool that writes a file. It is set only if there is no shell.
        asker: The tool that asks the user.
        finisher: The tool that hands in an answer.
        fence: The language of the code blocks that an agent without tools runs as commands.
        ending: What a last command must print to end the work.
        served: The tools that a benchmark serves to the agent, by their own names.
    """

    shell: ToolAdapter | None = None
    reader: ToolAdapter | None = None
    writer: ToolAdapter | None = None
    asker: ToolAdapter | None = None
    finisher: ToolAdapter | None = None
    fence: str | None = None
    ending: str | None = None
    served: dict[str, str] = msgspec.field(default_factory=dict)

    def desk_names(self) -> frozenset[str]:
        """Return the names of the desk's tools that can be translated for this agent."""
        can_run = self.shell is not None or self.fence is not None
        known = {
            "bash": can_run,
            "python": can_run,
            "read_file": can_run or self.reader is not None,
            "write_file": can_run or self.writer is not None,
            "ask_user": self.asker is not None,
            "submit": self.finisher is not None or (self.ending is not None and can_run),
        }
        return frozenset(name for name, is_possible in known.items() if is_possible)


def interface_of(tools: Sequence[ToolDefinition], messages: Sequence[Message]) -> AgentInterface:
    """Detect what an agent offers, from a request's tools and the messages before the model's first turn."""
    first = next((at for at, message in enumerate(messages) if message.role == "assistant"), len(messages))
    opening = "\n".join(message.content for message in messages[:first])
    ending = _ENDING.search(opening)
    fence = None if tools else _FENCE.search(opening)
    shell = _adapter(tools, _is_shell, _COMMAND_NAMES)
    return AgentInterface(
        shell=shell,
        reader=None if shell else _adapter(tools, _is_named(_READ), _PATH_NAMES),
        writer=None if shell else _adapter(tools, _is_named(_WRITE), _PATH_NAMES, _CONTENT_NAMES),
        asker=_adapter(tools, _is_named(_ASK), _QUESTION_NAMES)
        or _adapter(tools, lambda tool: _ASK_WORDS in tool.description, _QUESTION_NAMES)
        or _own_asker(tools),
        finisher=_adapter(tools, _is_named(_FINISH), _ANSWER_NAMES),
        fence=fence[1] if fence else None,
        ending=ending[1] if ending else None,
        served={served_name(tool.name): tool.name for tool in tools},
    )


def served_name(name: str) -> str:
    """Return the own name of a tool of the server ``user``, which agents show under the server's name, or the name."""
    return _SERVER.sub("", name)


def is_question(name: str) -> bool:
    """Return whether a tool of this name asks the user."""
    return _ASK.search(name) is not None or _OWN_ASK.search(name) is not None


def _own_asker(tools: Sequence[ToolDefinition]) -> ToolAdapter | None:
    """Adapt the agent's own tool that asks its user several questions at once."""
    asker = _adapter(tools, _is_named(_OWN_ASK), ("questions",))
    if asker is None:
        return None
    schema = next(tool.input_schema for tool in tools if tool.name == asker.name)["properties"]["questions"]
    keys = frozenset((schema.get("items") or {}).get("properties") or ())
    return msgspec.structs.replace(asker, takes_questions=True, question_keys=keys)


def _is_named(pattern: re.Pattern[str]) -> Callable[[ToolDefinition], bool]:
    return lambda tool: pattern.search(tool.name) is not None


def _is_shell(tool: ToolDefinition) -> bool:
    return _SHELL.search(tool.name) is not None and _NO_SHELL.search(tool.name) is None


def _adapter(
    tools: Sequence[ToolDefinition], is_right: Callable[[ToolDefinition], bool], *wanted: Sequence[str]
) -> ToolAdapter | None:
    """Adapt the first tool of the right kind that has an argument for each group of names."""
    for tool in tools:
        properties = tool.input_schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        found = [next((name for name in names if name in properties), None) for names in wanted]
        if is_right(tool) and None not in found:
            arguments = tuple(filter(None, found))
            required = [name for name in tool.input_schema.get("required") or () if name not in arguments]
            others = {name: _some_value(properties.get(name) or {}) for name in required}
            others |= {name: _LONGEST_WAIT_MS for name in _WAIT_NAMES if name in properties}
            takes_words = "array" in _types(properties[arguments[0]])
            return ToolAdapter(name=tool.name, arguments=arguments, others=others, takes_words=takes_words)
    return None


def _types(schema: Any) -> set[str]:
    """Return every type that a schema allows, or an empty set if it allows text."""
    if not isinstance(schema, dict):
        return set()
    own = schema.get("type")
    types = set(own) if isinstance(own, list) else {own} if isinstance(own, str) else set()
    for other in (*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())):
        types |= _types(other)
    return set() if "string" in types else types


def _some_value(schema: dict[str, Any]) -> Any:
    """Return a valid value for an argument that a tool requires and that does not matter here."""
    if schema.get("enum"):
        return schema["enum"][0]
    if "default" in schema:
        return schema["default"]
    plain: dict[str, Any] = {"boolean": False, "array": [], "object": {}}
    types = _types(schema)
    for kind, value in plain.items():
        if kind in types:
            return value
    if types & {"integer", "number"}:
        return schema.get("minimum", 0)
    return "one step of the task"


def _as_text(value: Any) -> str:
    if not isinstance(value, list):
        return "" if value is None else str(value)
    words = [str(word) for word in value]
    has_shell = len(words) == 3 and words[1].startswith("-")  # bash -lc COMMAND
    return words[2] if has_shell else shlex.join(words)
