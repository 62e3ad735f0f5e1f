"""The native agent's workspace tools: shell, Python, and reading and writing files in the sandbox."""

import errno
from collections.abc import Mapping, Sequence
from typing import Any

from lhaw_record.recorder.events.encoding import valid_text
from lhaw_record.recorder.events.interaction import SandboxLimit
from lhaw_record.runners.base.conversation.messages import ToolDefinition
from lhaw_record.runners.environments.benchmarks.protocol import ToolResult
from lhaw_record.runners.environments.sandboxes.command_output import cut_text, decode_output
from lhaw_record.runners.environments.sandboxes.protocol import CommandResult, Sandbox

_READ_LIMIT_BYTES = 65536
_BY_WRITING: tuple[SandboxLimit, ...] = ("file_mb",)


def _definition(name: str, description: str, parameters: dict[str, str]) -> ToolDefinition:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return ToolDefinition(name=name, description=description, input_schema=schema)


WORKSPACE_TOOLS: tuple[ToolDefinition, ...] = (
    _definition(
        "bash",
        "Run a command in a bash shell that stays open between calls: its directory, variables and functions carry "
        "over. Returns what it prints on standard output and standard error. There is no input and no network.",
        {"command": "The command, one or more lines."},
    ),
    _definition(
        "python",
        "Run code in a Python interpreter that stays open between calls: its variables, functions and imports carry "
        "over. Returns what the code prints, and the value of a last expression. It works on the same files as bash.",
        {"code": "The code, one or more lines."},
    ),
    _definition(
        "read_file",
        "Return the content of a text file.",
        {"path": "Path of the file, relative to the work directory or absolute."},
    ),
    _definition(
        "write_file",
        "Write a text file, replacing what it held before; missing folders are made.",
        {"path": "Path of the file, relative to the work directory or absolute.", "content": "The whole new content."},
    ),
)


async def call_workspace_tool(sandbox: Sandbox, name: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Execute one of ``WORKSPACE_TOOLS`` in a sandbox. A mistake of the agent gives an error result."""
    problem = workspace_call_problem(WORKSPACE_TOOLS, name, arguments)
    if problem is not None:
        return ToolResult(text=problem, is_error=True)
    match name:
        case "bash":
            return _command_tool_result(await sandbox.run_bash(arguments["command"]))
        case "python":
            return _command_tool_result(await sandbox.run_python(arguments["code"]))
        case "read_file":
            return await _read(sandbox, arguments["path"])
        case _:
            return await _write(sandbox, arguments["path"], arguments["content"])


def workspace_call_problem(tools: Sequence[ToolDefinition], name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the problem with a call's tool name or arguments, all of which are strings, or None."""
    by_name = {tool.name: tool for tool in tools}
    tool = by_name.get(name)
    if tool is None:
        return f"There is no tool {name!r}. The tools are: {', '.join(by_name)}."
    expected = tool.input_schema["required"]
    missing = [key for key in expected if key not in arguments]
    unknown = [key for key in arguments if key not in expected]
    if missing or unknown:
        given = ", ".join(arguments) or "none"
        return f"{name} takes the arguments {', '.join(expected)}; given: {given}."
    wrong = [key for key in expected if not isinstance(arguments[key], str)]
    if wrong:
        return f"{name}: {', '.join(wrong)} must be a string, not {type(arguments[wrong[0]]).__name__}."
    return None


def _command_tool_result(result: CommandResult) -> ToolResult:
    """Return a command's output as a tool result. A nonzero exit code is added as the last line."""
    text = result.output
    if result.exit_code:
        text += f"{'' if not text or text.endswith(chr(10)) else chr(10)}[exit code {result.exit_code}]"
    return ToolResult(
        text=text, is_error=result.exit_code != 0, limit_met=result.limit_met, limits_watched=result.limits_watched
    )


async def _read(sandbox: Sandbox, path: str) -> ToolResult:
    try:
        content = await sandbox.read_file(path)
    except (OSError, ValueError) as error:
        return ToolResult(text=f"Cannot read {path}: {_reason(error)}.", is_error=True)
    return read_result(path, content)


def read_result(path: str, content: bytes) -> ToolResult:
    """Return the content of a file as a tool result. A long text is cut in the middle, and a binary file refused."""
    text = _text_of(content)
    if text is None:
        return ToolResult(
            text=f"{path} is not a text file: {len(content)} bytes of binary data. Open it with python or bash.",
            is_error=True,
        )
    if len(content) > _READ_LIMIT_BYTES:
        half = _READ_LIMIT_BYTES // 2
        text = cut_text(content[:half], content[-half:], len(content))
    return ToolResult(text=text)


async def _write(sandbox: Sandbox, path: str, text: str) -> ToolResult:
    content = valid_text(text).encode()
    try:
        await sandbox.write_file(path, content)
    except (OSError, ValueError) as error:
        is_too_large = isinstance(error, OSError) and error.errno == errno.EFBIG
        met: SandboxLimit | None = "file_mb" if is_too_large else None
        return ToolResult(
            text=f"Cannot write {path}: {_reason(error)}.", is_error=True, limit_met=met, limits_watched=_BY_WRITING
        )
    return ToolResult(text=f"Wrote {len(content)} bytes to {path}.", limits_watched=_BY_WRITING)


def _text_of(content: bytes) -> str | None:
    """Return the text of a file, or None if it is binary.

    A file counts as binary if it contains a NUL byte, or if more than a third of its start is not valid UTF-8.
    """
    if b"\0" in content:
        return None
    text = decode_output(content)
    return None if text[:4096].count("\ufffd") * 3 > len(text[:4096]) else text


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
