"""Format ``openai-messages``: conversations as chat messages, one per file or one per line.

A file is a list of messages, an object with ``messages``, or JSON Lines of either.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, in_one, read_trajectory
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
)
from lhaw_record.runners.imports.source_files import decode_json_or_lines
from lhaw_record.runners.imports.trajectory import ForeignTurn, turns_of
from lhaw_record.runners.models.costs import reported_usage, usage_in

FORMAT = "openai-messages"


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return a trial for each conversation. Its location is the file, with the line if there are several."""
    given = decode_json_or_lines(source)
    is_one = bool(given) and all(isinstance(each, dict) and {"role", "type"} & each.keys() for each in given)
    conversations = [{"messages": given}] if is_one else given
    found: list[ParsedFile] = []
    for number, each in enumerate(conversations, 1):
        location = source.label if len(conversations) == 1 else f"{source.label}:{number}"
        conversation = {"messages": each} if isinstance(each, list) else each
        if not isinstance(conversation, dict) or not isinstance(conversation.get("messages"), list):
            raise ImportFailed(f"{location} is no list of chat messages and no object with messages")
        read = partial(_trajectory, conversation)
        found.append(read_trajectory(location, read, options, known, format_name=FORMAT))
    return in_one(found)


def usage_fields(reply: Message, response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens of a reply, by the provider's response, as fields of a turn."""
    read = reported_usage(reply, usage_in(response))
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens")
    return {name: getattr(read, name) for name in names}


def first_prompt(turns: Sequence[ForeignTurn]) -> str:
    """Return the user's first message."""
    return next((each.content for each in turns[0].request if each.role == "user"), "")


def _trajectory(conversation: Mapping[str, Any], remarks: Counter[str]) -> BareTrajectory:
    turns = turns_of(conversation["messages"], remarks)
    return BareTrajectory(
        prompt=first_prompt(turns),
        agent=UNKNOWN,
        model=str(conversation.get("model") or UNKNOWN),
        turns=turns,
        final_answer=turns[-1].reply.content or None,
    )
