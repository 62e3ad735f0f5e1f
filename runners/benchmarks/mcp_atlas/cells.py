"""The cells of MCP-Atlas rows: JSON, Python literals and plain lists, parsed and never evaluated."""

import ast
import json
import re
from typing import Any

import msgspec

_LIST_MARKER = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.)])\s+")


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of a reference trajectory and the text that came back then (None where none is recorded)."""

    name: str
    arguments: dict[str, Any]
    result: str | None


def literal(cell: Any) -> Any:
    """Return the value of a cell that holds JSON, a Python literal, or is no string at all; nothing is evaluated.

    Raises:
        ValueError: The text is neither.
    """
    if not isinstance(cell, str):
        return cell
    try:
        return json.loads(cell)
    except ValueError:
        pass
    try:
        return ast.literal_eval(cell.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"neither JSON nor a Python literal: {str(cell).strip()[:60]!r}") from error


def parse_claims(cell: Any) -> tuple[str, ...]:
    """Return the claims of a cell: a list of texts or of ``{claim, essential}`` objects, or numbered or bulleted text.

    Raises:
        ValueError: A list holds something else.
    """
    try:
        value = literal(cell)
    except ValueError:
        if str(cell).lstrip().startswith(("[", "{")):
            raise
        value = _listed_text(str(cell))
    if isinstance(value, str):
        value = _listed_text(value)
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected a list of claims, found {type(value).__name__}")  # noqa: TRY004  # one error class
    claims: list[str] = []
    for number, item in enumerate(value, start=1):
        claim = item.get("claim") if isinstance(item, dict) else item
        if not isinstance(claim, str) or not claim.strip():
            raise ValueError(f"claim {number} is no text")
        claims.append(claim.strip())
    return tuple(claims)


def _listed_text(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    if not any(_LIST_MARKER.match(line) for line in lines):
        return [text] if text.strip() else []
    claims: list[str] = []
    for line in lines:
        if _LIST_MARKER.match(line) or not claims:
            claims.append(_LIST_MARKER.sub("", line).strip())
        else:
            claims[-1] += " " + line.strip()  # a claim that goes on over the line's end
    return claims


def parse_names(cell: Any) -> tuple[str, ...]:
    """Return a list of names: texts, or objects with a ``name``.

    Raises:
        ValueError: It is no such list.
    """
    value = literal(cell)
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected a list of names, found {type(value).__name__}")  # noqa: TRY004  # one error class
    names: list[str] = []
    for number, item in enumerate(value, start=1):
        name = item.get("name") if isinstance(item, dict) else item
        if not isinstance(name, str):
            raise ValueError(f"entry {number} has no name")  # noqa: TRY004  # one error class
        names.append(name)
    return tuple(names)


def parse_trajectory(cell: Any) -> tuple[RecordedCall, ...]:
    """Return the tool calls of a recorded conversation with their results, joined by call id.

    Raises:
        ValueError: It is no list of chat messages, or a call's arguments are no JSON object.
    """
    messages = literal(cell)
    if not isinstance(messages, list):
        raise ValueError(f"expected a list of messages, found {type(messages).__name__}")  # noqa: TRY004  # one error class
    results = {str(m["tool_call_id"]): content_text(m.get("content")) for m in messages if m.get("role") == "tool"}
    calls = []
    for number, message in enumerate(messages, start=1):
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments = function.get("arguments") or "{}"
            arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
            if not isinstance(arguments, dict):
                raise ValueError(f"message {number}: the arguments of {function['name']} are no JSON object")  # noqa: TRY004
            calls.append(
                RecordedCall(name=function["name"], arguments=arguments, result=results.get(str(call.get("id"))))
            )
    return tuple(calls)


def content_text(content: Any) -> str:
    """Return the text of a message's content: a string, or a list of parts whose texts are joined by line ends."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)
