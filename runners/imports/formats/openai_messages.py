"""Format ``openai-messages``: conversations as chat messages, one per file or one per line.

A file is a list of messages, an object with ``messages``, or JSON Lines of either.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from lhaw_record.recorder.events import Reasoning
from lhaw_record.runners.base.text.fields import as_list, as_object, optional_count
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, in_one, parsed_trajectory
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    left_out,
)
from lhaw_record.runners.imports.source_files import decode_json_or_lines
from lhaw_record.runners.imports.trajectory import ForeignTurn, message_of, turns_of

FORMAT = "openai-messages"


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return a trial for each conversation. Its location is the file, with the line if there are several."""
    given = decode_json_or_lines(source)
    is_one = bool(given) and all(isinstance(each, dict) and "role" in each for each in given)
    conversations = [{"messages": given}] if is_one else given
    found: list[ParsedFile] = []
    for number, each in enumerate(conversations, 1):
        location = source.label if len(conversations) == 1 else f"{source.label}:{number}"
        conversation = {"messages": each} if isinstance(each, list) else each
        if not isinstance(conversation, dict) or not isinstance(conversation.get("messages"), list):
            raise ImportFailed(f"{location} is no list of chat messages and no object with messages")
        try:
            trajectory = _trajectory(conversation)
        except ValueError as error:
            found.append(left_out("trajectories", f"{location}: {error}"))
            continue
        found.append(parsed_trajectory(location, trajectory, options, known, format_name=FORMAT))
    return in_one(found)


def chat_turns(
    messages: Sequence[Mapping[str, Any]], usage_of: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
) -> list[ForeignTurn]:
    """Return the turns of a conversation, with reasoning if its messages show it."""
    wires = [{**each, "role": "system"} if each.get("role") == "developer" else each for each in messages]
    turns = turns_of([message_of(each) for each in wires])
    if not turns:
        raise ValueError("the conversation has no reply")
    replies = [each for each in wires if each.get("role") == "assistant"]
    return [
        msgspec.structs.replace(turn, reasoning=_reasoning(reply), **(usage_of(reply) if usage_of else {}))
        for turn, reply in zip(turns, replies, strict=True)
    ]


def usage_fields(usage: Mapping[str, Any]) -> dict[str, int | None]:
    """Return a reply's tokens as fields of a turn, from a usage in OpenAI's form."""
    details = usage.get("prompt_tokens_details") or {}
    return {
        "input_tokens": optional_count(usage.get("prompt_tokens"), "prompt_tokens"),
        "output_tokens": optional_count(usage.get("completion_tokens"), "completion_tokens"),
        "cached_input_tokens": optional_count(details.get("cached_tokens"), "cached_tokens"),
    }


def first_prompt(turns: Sequence[ForeignTurn]) -> str:
    """Return the user's first message."""
    return next((each.content for each in turns[0].request if each.role == "user"), "")


def _trajectory(conversation: Mapping[str, Any]) -> BareTrajectory:
    messages = [as_object(each, "a message") for each in as_list(conversation["messages"], "messages")]
    turns = chat_turns(messages)
    return BareTrajectory(
        prompt=first_prompt(turns),
        agent=UNKNOWN,
        model=str(conversation.get("model") or UNKNOWN),
        turns=turns,
        final_answer=turns[-1].reply.content or None,
    )


def _reasoning(reply: Mapping[str, Any]) -> Reasoning | None:
    text = reply.get("reasoning_content") or reply.get("reasoning")
    return Reasoning(text=text) if isinstance(text, str) else None
