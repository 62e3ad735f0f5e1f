"""Recognises a tool call that a model wrote into its text, because the server did not turn it into a tool call.

A server does so if the model's chat template drops the tools, or if no parser for the model's notation is switched on
(vLLM and SGLang: ``--tool-call-parser``; llama.cpp: ``--jinja``). The agent then never calls a tool, and every trial
would look like a failure of the model. The call is not executed: the text is recorded as it is, with this mark.
"""

import ast
import json
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition

_MARKERS = {
    "tool_call tag": re.compile(r"<tool_call>|<\|?tool_calls?(_begin|_section_begin)?\|?>"),  # Hermes, Qwen, GLM, Kimi
    "function tag": re.compile(r"<function=\w|<(\w+:)?invoke name=|<function_calls>"),  # Qwen Coder, Claude's own
    "python tag": re.compile(r"<\|python_tag\|>"),  # Llama 3
    "TOOL_CALLS token": re.compile(r"\[TOOL_CALLS\]"),  # Mistral
    "deepseek tokens": re.compile("<｜tool▁calls?▁begin｜>"),  # noqa: RUF001 - DeepSeek's own characters
    "harmony channel": re.compile(r"<\|channel\|>commentary to=|<\|start\|>assistant to="),  # gpt-oss
}
_FENCE = re.compile(r"```[\w-]*\n(.*?)(?:```|\Z)", re.DOTALL)
_OBJECT_START = re.compile(r"^\s*\[?\s*(\{)", re.MULTILINE)
_PYTHON_START = re.compile(r"\s*\[?\s*[A-Za-z_]\w*\(")
_NAMES, _ARGUMENTS = ("name", "tool", "tool_name", "function", "action"), ("arguments", "parameters", "args", "input")
_MOST_CHARACTERS, _MOST_OBJECTS = 50_000, 20  # choices: what is read in a few milliseconds; calls end a short text


def call_in_text(message: Message, tools: Sequence[ToolDefinition]) -> str | None:
    """Return the notation of a tool call in a text, or None.

    Apart from a notation's own markers, only calls of the offered tools count, so that a text about code is no call.
    """
    text = message.content[:_MOST_CHARACTERS]
    if message.tool_calls or not tools or not text.strip():
        return None
    for notation, marker in _MARKERS.items():
        if marker.search(text):
            return notation
    names = {tool.name for tool in tools}
    if any(_is_call(found, names) for found in _objects(text)):
        return "json"
    blocks = [text, *(match[1] for match in _FENCE.finditer(text))]
    return "python" if any(_is_python_call(block, names) for block in blocks) else None


def _objects(text: str) -> Iterator[Any]:
    """Yield the JSON objects that begin a line of the text."""
    decoder = json.JSONDecoder()
    for count, match in enumerate(_OBJECT_START.finditer(text)):
        if count >= _MOST_OBJECTS:
            return
        try:
            yield decoder.raw_decode(text, match.start(1))[0]
        except (ValueError, RecursionError):
            continue


def _is_call(found: Any, names: Collection[str]) -> bool:
    """Return whether an object names an offered tool and has arguments, as OpenAI's and most templates write it."""
    if not isinstance(found, dict):
        return False
    if isinstance(found.get("function"), dict):
        return _is_call(found["function"], names)
    has_name = any(isinstance(found.get(key), str) and found[key] in names for key in _NAMES)
    return has_name and any(key in found for key in _ARGUMENTS)


def _is_python_call(block: str, names: Collection[str]) -> bool:
    """Return whether a block of text is nothing but calls of offered tools, as Llama 4 and Gemma write them."""
    if not _PYTHON_START.match(block):
        return False
    try:
        with warnings.catch_warnings(action="ignore"):  # of strange escapes, which are the model's affair
            found = ast.parse(block.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    calls = found.elts if isinstance(found, ast.List) else [found]
    return bool(calls) and all(
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names for call in calls
    )
