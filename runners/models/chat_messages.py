"""Converts messages to litellm's chat completions form, with provider state, images and cache marks.

Cache marks are for caches that store only marked prefixes, like Claude's. Cache writes cost 1.25 times the price of
other input, cache reads a tenth, and an entry lives for five minutes after its last use. Because each turn of an agent
repeats all earlier turns, a mark pays off from the second turn on. A request may have four marks; a provider finds an
entry at a mark, or at most 20 blocks before it (docs.anthropic.com/en/docs/build-with-claude/prompt-caching).
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lhaw_record.runners.base.conversation.actions import decoded_arguments
from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition, to_wire
from lhaw_record.runners.models.provider_state import replayed

MARK = {"type": "ephemeral"}


def agent_marks(messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> tuple[int, ...]:
    """Return the cache marks of an agent's request: none without tools, because single questions are not repeated.

    The marks are the system prompt, which follows the tools and is shared by all trials of an arm; the end of the
    previous request, whose entry would be out of reach after a long batch of calls; and the end of this request.
    """
    if not tools:
        return ()
    replies = [position for position, message in enumerate(messages) if message.role == "assistant"]
    systems = [position for position, message in enumerate(messages) if message.role == "system"]
    ends = {*systems[-1:], *(position - 1 for position in replies[-1:]), len(messages) - 1}
    return tuple(sorted(end for end in ends if end >= 0 and messages[end].role != "assistant"))


def marked(wire: dict[str, Any]) -> dict[str, Any]:
    """Return a chat completions message with a cache mark at its end."""
    if wire["role"] == "tool" or not wire.get("content"):
        return {**wire, "cache_control": MARK}
    return {**wire, "content": [{"type": "text", "text": wire["content"], "cache_control": MARK}]}


def wire_messages(messages: Sequence[Message], cache_marks: Collection[int] = ()) -> list[dict[str, Any]]:
    """Return the messages in a form that every provider accepts.

    Empty text beside tool calls is omitted, because litellm would replace it with its own words. Malformed arguments
    are wrapped in an object, because several providers reject a history with malformed JSON, which would end the trial
    over a mistake that the model could correct. An assistant message carries its provider state, and is split if
    necessary.
    """
    return [
        wire
        for position, message in enumerate(messages)
        for wire in replayed(message, _wire_message(message, is_marked=position in cache_marks))
    ]


def with_pictures(messages: list[dict[str, Any]], pictures: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace image names in user messages with images, and show images of tool results in the next user message.

    Tool results in chat completions are text only, so the name stays there and is repeated before its image. Images are
    added to the following user message, because some servers reject two user messages in a row.
    """
    if not pictures:
        return messages
    named = re.compile("\\n?(" + "|".join(map(re.escape, pictures)) + ")\\n?")  # texts were joined by line feeds
    shown: list[dict[str, Any]] = []
    of_results: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            for name in named.findall(message["content"]):
                of_results += [_text_part(name), pictures[name]]
            shown.append(message)
            continue
        is_user = message["role"] == "user"
        if of_results and not is_user:
            shown.append({"role": "user", "content": of_results})
            of_results = []
        if is_user and (of_results or named.search(message["content"])):
            pieces = [pictures.get(piece) or _text_part(piece) for piece in named.split(message["content"]) if piece]
            shown.append({**message, "content": [*of_results, *pieces]})
            of_results = []
        else:
            shown.append(message)
    return [*shown, {"role": "user", "content": of_results}] if of_results else shown


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _wire_message(message: Message, *, is_marked: bool) -> dict[str, Any]:
    wire = marked(to_wire(message)) if is_marked else to_wire(message)
    wire.pop("provider_state", None)
    if message.tool_calls and not message.content:
        wire["content"] = None
    for call in wire.get("tool_calls", ()):
        call["function"]["arguments"] = _acceptable_arguments(call["function"]["arguments"])
    return wire


def _acceptable_arguments(arguments_json: str) -> str:
    if not arguments_json.strip():
        return "{}"  # some models write an empty string for a tool without parameters
    is_object = decoded_arguments(arguments_json) is not None
    return arguments_json if is_object else json.dumps({"malformed_arguments": arguments_json})
