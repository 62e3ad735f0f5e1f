"""Handles the outcome of a model call: whether to retry it, and the event for its reply or failure.

A reply's text may contain a tool call that the server failed to parse, because the model's chat template drops the
tools or no parser for the model's notation is enabled (vLLM and SGLang: ``--tool-call-parser``; llama.cpp:
``--jinja``). The agent then never calls a tool, and every trial looks like a failure of the model. Such a call is not
executed: the text is recorded unchanged, with a mark.
"""

import ast
import json
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lhaw_record.recorder.events import ModelFailed, ModelResponded, Reasoning, RepliedToolCall
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.model import Role
from lhaw_record.runners.base.conversation.ending import CONTENT_FILTER, CONTEXT_WINDOW, ENDLESS_REPLY, UNKNOWN_ENDING
from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition, tool_to_wire
from lhaw_record.runners.models.exchanges import wire_facts
from lhaw_record.runners.models.protocol import ModelError, ModelReply

REFUSED_KINDS = frozenset({"bad_request", CONTEXT_WINDOW, CONTENT_FILTER, "cut_reply", UNKNOWN_ENDING})
"""Kinds for which the model rejects the trial's request or truncates its reply; a retry would end the same way.

For the agent's model, the two limits and a cut reply end the trial and are graded.
"""
FINAL_KINDS = REFUSED_KINDS | {"authentication", ENDLESS_REPLY}
"""Failures that the run itself cannot fix. A later run may have another API key."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Retry limits for one call. Times are in seconds.

    ``max_total_s`` counts from the first request, excluding waits at the request gate; no retry starts later.
    ``max_attempts`` excludes failures of an endpoint that holds all requests back. ``max_refusals`` limits how often
    one request is held back and fails again although its endpoint has answered others meanwhile: a request that exceeds
    a token limit on its own gets HTTP 429 forever.

    The defaults are choices: six attempts span about a minute of delays, longer than a proxy restart; a trial may wait
    half an hour for one call; providers ask for at most a minute, which the limit of two minutes allows for.
    """

    max_attempts: int = 6
    first_delay_s: float = 1.0
    max_delay_s: float = 60.0
    max_retry_after_s: float = 120.0
    max_total_s: float = 1800.0
    max_refusals: int = 20


def delay_before_retry_s(
    policy: RetryPolicy, *, attempt: int, refusals: int = 0, elapsed_s: float, error: ModelError, random_unit: float
) -> float | None:
    """Return the seconds to wait before the next attempt, or None to give up; 0 if the request gate does the waiting.

    The delay doubles from ``first_delay_s``, with random jitter in its upper half, so that callers that failed together
    do not retry together. A provider's retry-after is a lower bound, up to ``max_retry_after_s``.
    """
    if not error.is_retryable or error.outlook == "down":
        return None
    if error.outlook == "held":
        return 0.0 if refusals < policy.max_refusals and elapsed_s <= policy.max_total_s else None
    if attempt >= policy.max_attempts:
        return None
    backoff_s = min(policy.max_delay_s, policy.first_delay_s * 2.0 ** (attempt - 1))
    delay_s = backoff_s * (0.5 + 0.5 * random_unit)
    if error.retry_after_s is not None:
        delay_s = max(delay_s, min(error.retry_after_s, policy.max_retry_after_s) + delay_s * 0.1)
    return delay_s if elapsed_s + delay_s <= policy.max_total_s else None


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
_MOST_CHARACTERS, _MOST_OBJECTS = 50_000, 20  # choices: bound the scan to a few ms; calls end a short text


def call_in_text(message: Message, tools: Sequence[ToolDefinition]) -> str | None:
    """Return the notation of a tool call in a text, or None.

    Apart from a notation's own markers, only calls of offered tools count, so that text about code does not match.
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
    """Yield the JSON objects that start at the beginning of a line."""
    decoder = json.JSONDecoder()
    for count, match in enumerate(_OBJECT_START.finditer(text)):
        if count >= _MOST_OBJECTS:
            return
        try:
            yield decoder.raw_decode(text, match.start(1))[0]
        except (ValueError, RecursionError):
            continue


def _is_call(found: Any, names: Collection[str]) -> bool:
    """Return whether an object names an offered tool and has arguments, in the form of OpenAI and most templates."""
    if not isinstance(found, dict):
        return False
    if isinstance(found.get("function"), dict):
        return _is_call(found["function"], names)
    has_name = any(isinstance(found.get(key), str) and found[key] in names for key in _NAMES)
    return has_name and any(key in found for key in _ARGUMENTS)


def _is_python_call(block: str, names: Collection[str]) -> bool:
    """Return whether a block of text consists only of calls of offered tools, in Llama 4's and Gemma's notation."""
    if not _PYTHON_START.match(block):
        return False
    try:
        with warnings.catch_warnings(action="ignore"):  # invalid escapes in the model's text
            found = ast.parse(block.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    calls = found.elts if isinstance(found, ast.List) else [found]
    return bool(calls) and all(
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names for call in calls
    )


def responded(
    call_id: str,
    role: Role,
    reply: ModelReply,
    tools: Sequence[ToolDefinition],
    *,
    latency_ms: float,
    changes: Mapping[str, Any] | None = None,
    first_token_ms: float | None = None,
) -> ModelResponded:
    """Return the event for a reply. ``changes`` are the parameters that a library changed before sending."""
    notation = call_in_text(reply.message, tools)
    reasoning = Reasoning(text=reply.reasoning_text, provider_state_json=reply.message.provider_state_json)
    return ModelResponded(
        call_id=call_id,
        role=role,
        text=reply.message.content,
        finish_reason=reply.finish_reason,
        latency_ms=latency_ms,
        tool_calls=tuple(
            RepliedToolCall(call_id=call.call_id, name=call.name, arguments_json=call.arguments_json)
            for call in reply.message.tool_calls
        ),
        served_model=reply.served_model,
        usage=reply.usage,
        reasoning=None if reasoning == Reasoning() else reasoning,
        wire=wire_facts(reply.exchange, changes=changes, first_token_ms=first_token_ms, notation=notation),
    )


def failed(
    call_id: str,
    role: Role,
    error: ModelError,
    *,
    latency_ms: float,
    is_retried: bool,
    first_token_ms: float | None = None,
) -> ModelFailed:
    return ModelFailed(
        call_id=call_id,
        role=role,
        error_kind=error.kind,
        message=str(error),
        is_retried=is_retried,
        latency_ms=latency_ms,
        http_status=error.http_status,
        retry_after_s=error.retry_after_s,
        wire=wire_facts(error.exchange, first_token_ms=first_token_ms),
        usage=error.usage,
    )


def tools_json(tools: Sequence[ToolDefinition]) -> str:
    return canonical_json([tool_to_wire(tool) for tool in tools]).decode()
