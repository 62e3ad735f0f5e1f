"""The conversation so far, read from the messages alone: what the user said, and what each call returned."""

from collections.abc import Mapping, Sequence

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.actions import decoded_arguments
from lhaw_record.runners.base.conversation.messages import Message, ToolCall


class PastCall(msgspec.Struct, frozen=True, kw_only=True):
    """One earlier tool call and its result. ``position`` counts calls from 0."""

    position: int
    tool: str
    arguments: dict[str, object]
    result: str


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the user said after the prompt. ``question`` is the question that it answers, if any."""

    text: str
    question: str | None = None


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as the policy sees it. ``text_turns`` is the number of the model's turns without calls."""

    system: str
    prompt: str
    statements: tuple[Statement, ...]
    calls: tuple[PastCall, ...]
    text_turns: int

    @property
    def questions(self) -> frozenset[str]:
        """The questions that the model has asked."""
        return frozenset(str(call.arguments.get("question")) for call in self.calls if call.tool == "ask_user")

    @property
    def work_calls(self) -> int:
        """The number of calls that were not questions."""
        return sum(call.tool != "ask_user" for call in self.calls)

    def all_of(self, tool: str, arguments: Mapping[str, str]) -> list[PastCall]:
        """Return every earlier call of a tool with exactly these arguments."""
        return [call for call in self.calls if call.tool == tool and call.arguments == arguments]


def read_transcript(messages: Sequence[Message]) -> Transcript:
    """Read a conversation. A call without a result counts as one that returned nothing."""
    results = {message.tool_call_id: message.content for message in messages if message.tool_call_id is not None}
    calls: list[PastCall] = []
    statements: list[Statement] = []
    users = [message for message in messages if message.role == "user"]
    for message in messages:
        for call in message.tool_calls:
            past = PastCall(
                position=len(calls),
                tool=call.name,
                arguments=arguments_of(call),
                result=results.get(call.call_id, ""),
            )
            calls.append(past)
            if past.tool == "ask_user":
                statements.append(Statement(text=past.result, question=str(past.arguments.get("question"))))
        if message.role == "user" and message is not users[0]:
            statements.append(Statement(text=message.content))
    return Transcript(
        system="\n".join(message.content for message in messages if message.role == "system"),
        prompt=users[0].content if users else "",
        statements=tuple(statements),
        calls=tuple(calls),
        text_turns=sum(message.role == "assistant" and not message.tool_calls for message in messages),
    )


def with_questions_as_calls(messages: Sequence[Message]) -> list[Message]:
    """Return a conversation in which a turn that ended by asking, and its answer, are a call of ``ask_user``."""
    seen: list[Message] = []
    for message in messages:
        turn = seen[-1] if seen else message
        question = turn.content.rpartition("\n")[2]
        if message.role == "user" and turn.role == "assistant" and not turn.tool_calls and question.endswith("?"):
            asked = ToolCall(
                call_id=f"prose_{len(seen)}",
                name="ask_user",
                arguments_json=canonical_json({"question": question}).decode(),
            )
            seen[-1] = msgspec.structs.replace(turn, tool_calls=(asked,))
            seen.append(Message(role="tool", content=message.content, tool_call_id=asked.call_id))
        else:
            seen.append(message)
    return seen


def arguments_of(call: ToolCall) -> dict[str, object]:
    """Return the arguments of a call, or an empty dict if they are not a JSON object."""
    return decoded_arguments(call.arguments_json) or {}
