"""Turns a foreign trajectory into events, in the same way for all formats.

A format describes a trajectory as turns of a conversation or, if there is no conversation, as single calls
(:func:`call_turn`). Actions are counted as in our own trials.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import Any

import msgspec

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    AnyEvent,
    ApprovalAnswered,
    EndingJudged,
    ModelCalled,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
    QuestionOption,
    Reasoning,
    RepliedToolCall,
    Usage,
)
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.interaction import Medium, ResponseState
from lhaw_record.recorder.events.judging import EndingVerdict
from lhaw_record.recorder.prose import PROSE_JUDGE, asked_in, asking_of
from lhaw_record.runners.base.conversation.actions import actions_of, finished_text
from lhaw_record.runners.base.conversation.deltas import History
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, new_messages_json
from lhaw_record.runners.base.text.fields import as_list, as_object
from lhaw_record.runners.imports.foreign_trial import UNKNOWN, UNSTATED_USAGE
from lhaw_record.runners.models.chat_completions import TEXT_TYPES, UNSEEN_TYPES
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.wires.chat_requests import read as read_chat
from lhaw_record.runners.models.gateway.wires.messages_requests import read as read_blocks
from lhaw_record.runners.models.gateway.wires.responses_requests import assistant_message as response_message
from lhaw_record.runners.models.gateway.wires.responses_requests import read as read_items
from lhaw_record.runners.models.streams.responses import OWN_TOOLS
from lhaw_record.runners.users.ask_user.recorded_user import question_of_command

ASK_TOOL = "ask_user"
ASK_COMMAND = "ask_human"
"""HiL-Bench's shell command that asks."""
MAIN_THREAD = "main"
INTERRUPTED = "[Request interrupted"
_ROLES = ("system", "developer", "user", "assistant", "tool")


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the user, and the response. ``answer`` is None unless the state is ``answered``."""

    question: str
    answer: str | None
    context: str = ""
    header: str = ""
    options: tuple[QuestionOption, ...] = ()
    state: ResponseState = "answered"
    medium: Medium = "mcp"
    picked: tuple[str, ...] = ()


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool call, or what followed a text. ``is_error`` is None if the source does not say.

    ``exchanges`` are the questions that the action put to the user. ``is_denied`` says that the user did not allow it.
    """

    text: str
    is_error: bool | None = None
    duration_ms: float | None = None
    exchanges: tuple[Exchange, ...] = ()
    is_denied: bool = False


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a source. ``is_error`` is that of a result, None if unknown. ``wire`` is the source's own form.

    ``is_dropped`` marks a reply that the agent's program could not use and left out of the conversation.
    """

    message: Message
    is_error: bool | None = None
    wire: Mapping[str, Any] = {}
    is_dropped: bool = False


class ForeignTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One call to the agent's model: the request, the reply, and the outcomes of the reply's tool calls in order.

    ``is_text_action`` says whether a reply without tool calls counts as an action, because one source lists its actions
    itself. A reply that ``is_dropped`` was paid for, and is no action, because no later request shows it.
    ``is_model_call`` is false if the agent acted without asking its model. ``model`` is set if it differs from
    the trial's. ``sub_agent`` names the sub-agent that took the turn, whose calls are kept but do not count as actions
    of the trial. The request is the first ``message_count`` messages of ``conversation``, or all of them: the turns of
    a session, which may have tens of thousands, share one.
    """

    conversation: Sequence[Message]
    message_count: int | None = None
    reply: Message
    outcomes: tuple[CallResult | None, ...]
    finish_reason: str | None = None
    latency_ms: float | None = None
    usage: Usage = UNSTATED_USAGE
    tools_json: str | None = None
    is_text_action: bool = True
    is_dropped: bool = False
    is_model_call: bool = True
    model: str | None = None
    sub_agent: str | None = None
    reasoning: Reasoning | None = None

    @property
    def request(self) -> Sequence[Message]:
        return self.conversation[: self.message_count]

    def goes_on_from(self, other: "ForeignTurn") -> bool:
        """Return whether the request begins with that of another turn."""
        if self.conversation is other.conversation and other.message_count is not None:
            return self.message_count is None or self.message_count >= other.message_count
        return tuple(self.request[: len(other.request)]) == tuple(other.request)


def call_turn(name: str, arguments: Any, outcome: CallResult | None, *, is_text: bool = False) -> ForeignTurn:
    """Return one action of a source without a conversation. ``arguments`` is an object, or raw text if malformed."""
    text = arguments if isinstance(arguments, str) else canonical_json({} if arguments is None else arguments).decode()
    calls = () if is_text else (ToolCall(call_id="", name=name, arguments_json=text),)
    reply = Message(role="assistant", content="", tool_calls=calls)
    return ForeignTurn(conversation=(), reply=reply, outcomes=() if is_text else (outcome,), is_model_call=False)


def said_in(wires: Iterable[Any], remarks: Counter[str] | None = None) -> list[Said]:
    """Read a conversation as the gateway reads requests: chat messages, Anthropic's blocks or OpenAI's Responses items.

    A picture, or another part without text, becomes a name with its digest. ``remarks`` counts what is not kept.
    """
    found: list[Said] = []
    forms = [(wire, _form_of(wire)) for wire in map(_chat_form, wires)]
    has_items = any(form is _items for _, form in forms)
    for form, group in groupby(forms, lambda each: _items if has_items and each[1] is _chat else each[1]):
        given = [wire for wire, _ in group]
        if remarks is not None:
            remarks.update(f"parts of type {kind} are not kept" for wire in given for kind in _unread(wire))
        parts: list[Any] = [given] if form is _items else list(given)
        try:
            found += [each for part in parts for each in form(part)]
        except GatewayRefusal as refusal:
            raise ValueError(str(refusal)) from refusal
    for each in found:
        if not all(call.name for call in each.message.tool_calls):
            raise ValueError("a tool call has no name")
    return found


def turns_of(
    wires: Iterable[Any],
    remarks: Counter[str] | None = None,
    usage_of: Callable[[Said], dict[str, Any]] | None = None,
) -> list[ForeignTurn]:
    """Return the turns of a conversation. ``usage_of`` reads the usage in a source's reply.

    Raises:
        ValueError: A message has another form, or there is no reply.
    """
    turns = turns_said(said_in(wires, remarks), remarks, usage_of)
    if not turns:
        raise ValueError("the conversation has no reply")
    return turns


def turns_said(
    said: Sequence[Said],
    remarks: Counter[str] | None = None,
    usage_of: Callable[[Said], dict[str, Any]] | None = None,
) -> list[ForeignTurn]:
    """Return the turns of a conversation that has been read. ``usage_of`` reads the usage in a source's reply."""
    messages: list[Message] = []
    pairing = Pairing()
    begun: list[tuple[Said, int]] = []
    for each in said:
        message = each.message
        if message.role == "assistant":
            begun.append((each, len(messages)))
            pairing.reply(() if each.is_dropped else message.tool_calls)
        elif message.role == "tool":
            pairing.result(message.tool_call_id, CallResult(text=message.content, is_error=each.is_error))
        if not each.is_dropped:
            messages.append(message)
    if remarks is not None and pairing.strangers:
        remarks["results that belong to no call are only in the conversation"] += pairing.strangers
    return [
        ForeignTurn(
            conversation=messages,
            message_count=count,
            reply=each.message,
            outcomes=outcomes,
            is_dropped=each.is_dropped,
            reasoning=_reasoning(each.wire),
            **(usage_of(each) if usage_of else {}),
        )
        for (each, count), outcomes in zip(begun, pairing.outcomes, strict=True)
    ]


class Pairing:
    """Pairs results with calls in the order in which a source shows them, because ids may repeat or be missing.

    A result belongs to the first call with its id that has none yet, in the latest reply that has such a call. Without
    an id on either side, the order alone decides.
    """

    def __init__(self) -> None:
        self._calls: list[tuple[ToolCall, ...]] = []
        self._results: list[list[CallResult | None]] = []
        self.strangers = 0

    @property
    def outcomes(self) -> list[tuple[CallResult | None, ...]]:
        """The results of each reply's calls."""
        return [tuple(each) for each in self._results]

    def reply(self, calls: tuple[ToolCall, ...]) -> None:
        self._calls.append(calls)
        self._results.append([None] * len(calls))

    def result(self, call_id: str | None, outcome: CallResult) -> None:
        for is_named in (True, False):
            for calls, results in zip(reversed(self._calls), reversed(self._results), strict=True):
                for position, call in enumerate(calls):
                    is_same = call.call_id == call_id if is_named else not (call.call_id and call_id)
                    if results[position] is None and is_same:
                        results[position] = outcome
                        return
        self.strangers += 1


def events_of_turns(
    turns: Iterable[ForeignTurn], *, model: str, has_channel: bool, simulator: str = UNKNOWN
) -> tuple[AnyEvent, ...]:
    """Return the events of a conversation: model calls as deltas, actions with their results, and questions."""
    events: list[AnyEvent] = []
    threads: dict[str, tuple[History, str | None]] = {}
    named: dict[str, tuple[ForeignTurn, list[Message]]] = {}
    results: dict[str, tuple[int, str]] = {}
    action_count = 0
    for number, turn in enumerate(turns, 1):
        call_id = f"m{number}" if turn.is_model_call else None
        if call_id is not None:
            thread = _thread_of(turn)
            history, parent = threads.get(thread, (History(), None))
            before, request = named.get(thread, (turn, []))
            if not turn.goes_on_from(before):
                request = []
            added = turn.conversation[len(request) : turn.message_count]
            request += [_naming_its_action(message, results) for message in added]
            named[thread] = turn, request
            shared_count, request_history = history.followed_by(request)
            called = ModelCalled(
                call_id=call_id,
                role="agent",
                thread_id=thread,
                call_kind="sub_agent" if turn.sub_agent else "main",
                model=turn.model or model,
                parameters_json=None,
                request_digest=request_history.digest,
                shared_count=shared_count,
                message_count=len(request),
                new_messages_json=new_messages_json(request, shared_count),
                parent_call_id=parent,
                tools_json=turn.tools_json,
            )
            events += [called, _responded(turn, call_id)]
            threads[thread] = request_history.extended([turn.reply]), call_id
        if turn.sub_agent or turn.is_dropped or not (turn.reply.tool_calls or turn.is_text_action):
            continue
        for action, outcome in zip(actions_of(turn.reply), turn.outcomes or (None,), strict=True):
            action_count += 1
            if outcome is not None:
                results[action.call_id or ""] = (action_count, outcome.text)
            started = action.started(action_count, call_id)
            events += _action_events(started, outcome, has_channel=has_channel, simulator=simulator)
    return tuple(events)


def with_prose_questions(turns: Sequence[ForeignTurn]) -> list[ForeignTurn]:
    """Return a session's turns, in which those that end by asking, by the rules, have what the user said to that.

    What a program writes in the user's place is in angle brackets, or says that the user interrupted.
    """
    found = []
    for turn, following in zip_longest(turns, turns[1:]):
        if turn.reply.tool_calls or turn.sub_agent or asking_of(turn.reply.content) != "question":
            found.append(turn)
            continue
        later = following.request[len(turn.request) + 1 :] if following and not following.sub_agent else ()
        told = (each.content for each in later if each.role == "user")
        answer = next((text for text in told if not text.lstrip().startswith(("<", INTERRUPTED))), None)
        question, context = asked_in(turn.reply.content)
        state: ResponseState = "answered" if answer else "timed_out"
        exchange = Exchange(question=question, context=context, answer=answer, state=state, medium="prose")
        found.append(msgspec.structs.replace(turn, outcomes=(CallResult(text="", exchanges=(exchange,)),)))
    return found


def trajectory_events(turns: Sequence[ForeignTurn], *, model: str, condition: str) -> tuple[AnyEvent, ...]:
    """Return the events of an agent's turns under a condition."""
    calls = [call for turn in turns if turn.sub_agent is None for call in turn.reply.tool_calls]
    has_channel = condition.endswith("ask_user")
    if not has_channel and any(is_ask_tool(call.name) for call in calls):
        raise ValueError(
            "the agent called ask_user; set --condition full_ask_user if its prompt is complete, "
            "or --condition ask_user if it is a variant's"
        )
    return events_of_turns(turns, model=model, has_channel=has_channel)


def result_messages(reply: Message, outcomes: Iterable[CallResult | None]) -> list[Message]:
    """Return the messages that show the results of a reply's calls in later requests."""
    return [
        Message(role="tool", content=outcome.text, tool_call_id=call.call_id)
        for call, outcome in zip(reply.tool_calls, outcomes, strict=True)
        if outcome is not None
    ]


def action_count(events: Iterable[AnyEvent]) -> int:
    """Return the number of actions in a trajectory."""
    return sum(isinstance(event, ActionStarted) for event in events)


def is_ask_tool(name: str) -> bool:
    """Return whether a tool is ``ask_user``, alone or prefixed with the name of a server."""
    return name == ASK_TOOL or name.endswith(f"_{ASK_TOOL}")


_READ = TEXT_TYPES | UNSEEN_TYPES | {"refusal", "tool_result", "message", "reasoning_text"}
CALLS = {"function_call", "custom_tool_call", *OWN_TOOLS}


def _chat_form(given: Any) -> Mapping[str, Any]:
    """Return a message with its older or inspect_ai's spellings in today's form of chat completions."""
    wire = as_object(given, "a message")
    content, calls = wire.get("content"), wire.get("tool_calls")
    if isinstance(content, dict):
        wire = {**wire, "content": [content]}
    if wire.get("role") == "function":
        wire = {**wire, "role": "tool"}
    if isinstance(wire.get("function_call"), dict) and not calls:
        calls = [{"function": wire["function_call"]}]
    if not calls:
        return wire
    return {
        **wire,
        "tool_calls": [
            {**call, "function": {"name": call["function"], "arguments": call.get("arguments")}}
            if isinstance(call, dict) and isinstance(call.get("function"), str)
            else call
            for call in as_list(calls, "tool_calls")
        ],
    }


def _form_of(wire: Mapping[str, Any]) -> Callable[[Any], Iterable[Said]]:
    """Return the reader of a message by its shape."""
    if isinstance(wire.get("output"), list) and "role" not in wire and not _kind(wire).endswith("_output"):
        return _response
    if _kind(wire) != "message":
        return _items
    return _blocks if any(map(_is_block, _parts(wire))) and not wire.get("tool_calls") else _chat


def _kind(wire: Mapping[str, Any]) -> str:
    return str(wire.get("type") or "message")


def _is_block(part: Mapping[str, Any]) -> bool:
    """Return whether a part is a block of Anthropic's; inspect_ai has parts of type ``tool_use`` without an input."""
    return "tool_use_id" in part or (part.get("type") == "tool_use" and "input" in part)


def _chat(wire: Mapping[str, Any]) -> Iterable[Said]:
    if wire.get("role") not in _ROLES:
        raise ValueError(f"a message has the role {wire.get('role')!r}")
    return [Said(message=turn.message, wire=wire) for turn in read_chat({"messages": [wire]}).turns]


def _blocks(wire: Mapping[str, Any]) -> Iterable[Said]:
    turns = read_blocks({"messages": [wire]}).turns
    return [Said(message=turn.message, is_error=turn.is_error, wire=wire) for turn in turns]


def _response(wire: Mapping[str, Any]) -> Iterable[Said]:
    return [Said(message=response_message([dict(as_object(each, "an item")) for each in wire["output"]]), wire=wire)]


def _items(wires: list[dict[str, Any]]) -> Iterable[Said]:
    begin = 0
    for kind in map(_kind, wires):
        if not (kind in _READ or kind.endswith(("_call", "_output"))):
            raise ValueError(f"a message has the type {kind!r}")
    for turn in read_items({"input": wires}).turns:
        end = turn.place.item + 1 if turn.place else begin
        yield Said(message=turn.message, wire={"output": wires[begin:end]})
        begin = end


def _parts(wire: Mapping[str, Any], *names: str) -> list[Mapping[str, Any]]:
    """Return the parts of a message, or the items of a response."""
    lists = [value for name in names or ("content", "output") if isinstance(value := wire.get(name), list)]
    return [part for value in lists for part in value if isinstance(part, dict)]


def _unread(wire: Mapping[str, Any]) -> Iterator[str]:
    """Yield the type of each part of a message of which at most a name is kept."""
    kind = _kind(wire)
    if not (kind in _READ or kind in CALLS or kind.endswith("_output") or _is_block(wire)):
        yield kind
    for part in _parts(wire):
        yield from _unread({"type": "text" if "text" in part else "part", **part})


def _reasoning(reply: Mapping[str, Any]) -> Reasoning | None:
    parts = _parts(reply)
    hidden = [part for item in parts if item.get("type") == "reasoning" for part in _parts(item, "content", "summary")]
    names = ("reasoning_content", "reasoning", "thinking")
    given = [each.get(name) for each in (reply, *parts) for name in names] + [part.get("text") for part in hidden]
    texts = [text for text in given if isinstance(text, str) and text]
    return Reasoning(text="\n".join(texts)) if texts else None


def _naming_its_action(message: Message, results: Mapping[str, tuple[int, str]]) -> Message:
    """Link a tool message to the action whose recorded result it repeats, so that the text is stored once."""
    action, text = results.get(message.tool_call_id or "", (None, ""))
    if message.role != "tool" or action is None or text != message.content:
        return message
    return msgspec.structs.replace(message, result_of_action=action)


def _thread_of(turn: ForeignTurn) -> str:
    """Return the thread of a turn, which is the sub-agent's name."""
    if turn.sub_agent == MAIN_THREAD:
        return f"sub_agent-{MAIN_THREAD}"
    return turn.sub_agent or MAIN_THREAD


def _responded(turn: ForeignTurn, call_id: str) -> ModelResponded:
    return ModelResponded(
        call_id=call_id,
        role="agent",
        text=turn.reply.content,
        finish_reason=turn.finish_reason,
        latency_ms=turn.latency_ms,
        tool_calls=tuple(
            RepliedToolCall(call_id=call.call_id, name=call.name, arguments_json=call.arguments_json)
            for call in turn.reply.tool_calls
        ),
        usage=turn.usage,
        reasoning=turn.reasoning,
    )


def _action_events(
    started: ActionStarted, outcome: CallResult | None, *, has_channel: bool, simulator: str
) -> list[AnyEvent]:
    """Return the events of an action, which counts as ended even if its result is unknown."""
    exchanges, index = outcome.exchanges if outcome else (), started.action_index
    finished = ActionFinished(
        action_index=index,
        is_error=outcome.is_error if outcome else None,
        result=outcome.text if outcome else None,
        duration_ms=outcome.duration_ms if outcome else None,
    )
    if started.kind == "text":
        finished = finished_text(index)
    elif has_channel and started.kind == "tool" and not exchanges:
        exchanges = tuple(_asked_by(started, outcome))
    ids = [f"q{index}" if len(exchanges) == 1 else f"q{index}.{number}" for number in range(1, len(exchanges) + 1)]
    asked: list[AnyEvent] = [
        QuestionAsked(
            question_id=question_id,
            question=each.question,
            context=each.context,
            call_id=started.call_id,
            action_index=index,
            medium=each.medium,
            header=each.header,
            options=each.options,
            batch_id=ids[0] if len(ids) > 1 else None,
        )
        for question_id, each in zip(ids, exchanges, strict=True)
    ]
    answered = [
        QuestionAnswered(
            question_id=question_id,
            answer=each.answer,
            simulator=simulator,
            latency_ms=finished.duration_ms,
            revealed=None,
            response_state=each.state,
            picked=each.picked,
        )
        for question_id, each in zip(ids, exchanges, strict=True)
    ]
    if any(each.medium == "prose" for each in exchanges):
        verdict = EndingVerdict(judge=PROSE_JUDGE, asks="question")
        asked.insert(0, EndingJudged(action_index=index, asks="question", verdicts=(verdict,)))
    is_denied = outcome is not None and outcome.is_denied
    denied = ApprovalAnswered(title=started.name, options=(), answer="reject", call_id=started.call_id)
    return [started, *([denied] if is_denied else []), *asked, *answered, finished]


def _asked_by(started: ActionStarted, outcome: CallResult | None) -> Iterator[Exchange]:
    """Yield the question of a call of ``ask_user``, or of a shell command that asks."""
    given, answer = msgspec.json.decode(started.arguments_json), outcome.text if outcome else None
    if is_ask_tool(started.name):
        yield Exchange(question=str(given.get("question", "")), context=str(given.get("context", "")), answer=answer)
    elif question := question_of_command(given.get("command"), ASK_COMMAND):
        yield Exchange(question=question, answer=answer, medium="command")
