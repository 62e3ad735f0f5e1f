"""Prints one attempt of a trial: its keys, the conversation rebuilt from the deltas, and its grades."""

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import TextIO

from lhaw_record.recorder.cli.output import say
from lhaw_record.recorder.cli.terminal import painted, takes_colours, terminal_width, visible
from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events import (
    AnyEvent,
    CheckpointScored,
    ClarificationInjected,
    ModelCalled,
    ModelFailed,
    ModelResponded,
    QuestionAnswered,
    TrialFailed,
    TrialFinished,
    TrialFlagged,
    TrialStarted,
)
from lhaw_record.recorder.events.values import Segment
from lhaw_record.recorder.reading.annotations import note_line, read_notes
from lhaw_record.recorder.reading.reader import Snapshot, read_envelopes, read_snapshot, stream_ids
from lhaw_record.recorder.reading.registrations import Registrations
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.recorder.storage.manifest_check import check_manifest
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.redaction import MARK
from lhaw_record.runners.base.conversation.deltas import rebuild_requests, reply_message
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, to_wire

_UNKNOWN = "unknown"
_FOLDED = 80
_REMOVED = "30;43"
_LANGUAGES = {
    "code": "python",
    "command": "bash",
    "cmd": "bash",
    "script": "bash",
    "query": "sql",
    "patch": "diff",
    "diff": "diff",
}
"""Tool arguments that are code, and their languages unless the tool or a file name says another."""
_PATHS = ("path", "file_path", "filename", "file")
_COLOURS = (
    (re.compile(r"--- "), "1;36"),
    (re.compile(r"\[reasoning: "), "2"),
    (re.compile(r"checkpoint \S+: (\S+) of \1 "), "32"),
    (re.compile(r"checkpoint |no success|failed at|model call \S+ failed|flagged "), "31"),
    (re.compile(r"success; "), "32"),
    (re.compile(r"injection at |answer to |note by "), "35"),
)
"""The beginnings of lines that have a colour of their own, and the colour."""


def print_attempt(root: Path, prefix: str, out: TextIO, *, has_reasoning: bool = False) -> int:
    """Print one attempt. Return 1 if the rebuilt conversation does not match its recorded digest, else 0."""
    snapshot = read_snapshot(root)
    stream_id = stream_of(root, prefix)
    events = events_of(root, stream_id)
    segments = _removed_segments(snapshot, events)
    style = _Style(out, tuple(each.value for each in segments))
    out.writelines(
        f"{style(line)}\n" for event in events for line in facts_of(event) if isinstance(event, TrialStarted)
    )
    out.writelines(f"{style(note_line(note))}\n" for note in read_notes(snapshot).get(stream_id, ()))
    for each in segments:
        decoy = "" if each.decoy is None else f"; replaced by: {each.decoy}"
        out.write(f"{style(f'removed {each.segment_id} ({each.dimension}): {each.value}{decoy}')}\n")
    differences = Differences()
    problem = ""
    thoughts = _thoughts(events)
    try:
        conversation = _conversation(events, differences)
        for message in conversation:
            out.writelines(f"{style(line)}\n" for line in _message(message, thoughts, is_whole=has_reasoning))
            out.writelines(f"{style.call(call)}\n" for call in message.tool_calls)
    except ValueError as error:
        problem = f"the conversation cannot be rebuilt: {error}"
    facts = (line for event in events for line in facts_of(event) if not isinstance(event, TrialStarted))
    out.writelines(f"{style(line)}\n" for line in facts)
    out.writelines(f"{style(line)}\n" for line in (*differences.sentences(), *filter(None, [problem])))
    return 1 if problem or differences.changed else 0


class Differences:
    """The calls whose rebuilt messages do not match their digest: redacted ones, and others (``changed``)."""

    def __init__(self) -> None:
        self.changed: list[str] = []
        self._redacted: list[str] = []

    def __call__(self, call_id: str, messages: Sequence[Message]) -> None:
        is_redacted = MARK in json.dumps([to_wire(message) for message in messages])
        (self._redacted if is_redacted else self.changed).append(call_id)

    def sentences(self) -> Iterator[str]:
        if self._redacted:
            yield (
                f"a secret was replaced by {MARK} in {len(self._redacted)} requests, from call {self._redacted[0]} "
                "on. They are shown as stored, and cannot be compared with their earlier digests ('log verify' "
                "checks the stream itself)"
            )
        if self.changed:
            yield f"the messages of model call {self.changed[0]} do not have its recorded digest"


def stream_of(root: Path, prefix: str) -> str:
    """Return the id of the one stream whose id is, or begins with, a prefix; of the attempts of one trial, the last."""
    found = [stream_id for stream_id in stream_ids(root) if stream_id.startswith(prefix)]
    if prefix in found:
        return prefix
    if len(found) == 1:
        return found[0]
    name = store_name(root)
    if not found:
        check_manifest(Store(root))
        raise StoreError(f"no stream of {name} begins with {prefix!r}; `lhaw-record trials {name}` lists their ids")
    numbers = {each: each.rpartition("-")[2] for each in found}
    trials = {each.removesuffix(number) for each, number in numbers.items()}
    if len(trials) == 1 and all(map(str.isdigit, numbers.values())):
        *earlier, last = sorted(found, key=lambda each: int(numbers[each]))
        say(f"the last of {len(found)} attempts; earlier ones: {', '.join(earlier[-5:])}")
        return last
    few = ", ".join(sorted(found)[:5])
    raise StoreError(f"{len(found)} streams of {name} begin with {prefix!r} ({few}); give more characters of the id")


def events_of(root: Path, stream_id: str) -> list[AnyEvent]:
    return [envelope.event for envelope in read_envelopes(root, stream_id)]


class _Style:
    """Colours lines on a terminal: roles, reasoning and grades, and the removed values wherever they occur.

    Args:
        out: Where the lines go. They stay uncoloured if this is no terminal or wants no colour.
        values: The values of the removed segments.
    """

    def __init__(self, out: TextIO, values: tuple[str, ...]) -> None:
        self._out = out
        parts = [re.escape(each) for each in sorted(values, key=len, reverse=True) if each.strip()]
        self._removed = re.compile("|".join(parts), re.IGNORECASE) if parts else None

    def __call__(self, text: str) -> str:
        text = visible(text, self._out)
        start = text.lstrip("\n")
        for beginning, code in _COLOURS:
            if beginning.match(start):
                return "\n" * (len(text) - len(start)) + painted(start, code, self._out)
        if self._removed is None:
            return text
        return self._removed.sub(lambda found: painted(found[0], _REMOVED, self._out), text)

    def call(self, call: ToolCall) -> str:
        """Return a tool call: on a terminal with colours its code, else the arguments as they are recorded."""
        plain = f"{call.call_id}: {call.name} {call.arguments_json}"
        try:
            arguments = json.loads(call.arguments_json)
        except (ValueError, RecursionError):
            return self(plain)
        if not isinstance(arguments, dict) or not takes_colours(self._out):
            return self(plain)
        lines = [self(f"{call.call_id}: {call.name}")]
        for name, value in arguments.items():
            if isinstance(value, str) and (name in _LANGUAGES or "\n" in value):
                lines += [self(f"  {name}:"), self._code(value, _language(call.name, name, arguments))]
            else:
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                lines.append(self(f"  {name}: {text}"))
        return "\n".join(lines)

    def _code(self, code: str, language: str) -> str:
        from rich.console import Console
        from rich.syntax import Syntax

        width = terminal_width(self._out) or 80
        text = Syntax("", language, theme="ansi_dark", background_color="default").highlight(visible(code, self._out))
        text.rstrip()
        if self._removed is not None:
            text.highlight_regex(self._removed, "black on yellow")
        console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=max(20, width - 4))
        with console.capture() as captured:
            console.print(text, soft_wrap=True)
        return indent(captured.get().rstrip("\n"), "    ")


def _language(tool: str, argument: str, arguments: Mapping[str, object]) -> str:
    """Return the lexer for a tool's argument: by a file name beside it, or by the tool's or argument's name."""
    from rich.syntax import Syntax

    path = next((each for key in _PATHS if isinstance(each := arguments.get(key), str)), None)
    if path is not None:
        return Syntax.guess_lexer(path)
    return tool if tool in ("python", "bash", "sql") else _LANGUAGES.get(argument, "text")


def _removed_segments(snapshot: Snapshot, events: Iterable[AnyEvent]) -> tuple[Segment, ...]:
    """Return the removed segments of the attempt's prompt, empty if there are none or the store does not know them."""
    digests = [event.variant_digest for event in events if isinstance(event, TrialStarted) and event.variant_digest]
    if not digests:
        return ()
    registered = Registrations.read(snapshot).of_variant(digests[0])
    return tuple(registered[-1].event.variant.segments) if registered else ()


def _conversation(events: Iterable[AnyEvent], differences: Differences) -> list[Message]:
    own = [event for event in events if getattr(event, "role", "agent") == "agent"]
    requests = rebuild_requests(own, differences)
    called = [event for event in own if isinstance(event, ModelCalled)]
    main = [event.thread_id for event in called if event.call_kind == "main"][-1:]  # a router may have come before
    if not main:
        return []
    last = [event.call_id for event in called if event.thread_id == main[0]][-1]
    replies = [reply_message(event) for event in own if isinstance(event, ModelResponded) and event.call_id == last]
    return [*requests[last], *replies]


def _thoughts(events: Iterable[AnyEvent]) -> dict[Message, ModelResponded]:
    """Return the agent's replies with reasoning by their messages. Equal messages have the last reply."""
    replies = [event for event in events if isinstance(event, ModelResponded) and event.role == "agent"]
    return {
        reply_message(event): event
        for event in replies
        if event.reasoning is not None or event.usage.reasoning_tokens is not None
    }


def _message(message: Message, thoughts: dict[Message, ModelResponded], *, is_whole: bool) -> Iterator[str]:
    yield f"\n--- {message.role}" + (f" (result of {message.tool_call_id})" if message.tool_call_id else "")
    if message in thoughts:
        yield _reasoning(thoughts[message], is_whole=is_whole)
    if message.content:
        yield message.content


def _reasoning(reply: ModelResponded, *, is_whole: bool) -> str:
    """Return a reply's reasoning, folded to its first line unless it is to be shown whole."""
    text = (reply.reasoning and reply.reasoning.text) or ""
    tokens = reply.usage.reasoning_tokens
    size = "unknown tokens" if tokens is None else f"{tokens} tokens"
    if not text:
        return f"[reasoning: {size}, hidden]"
    if is_whole:
        return f"[reasoning: {size}]\n{text}\n[end of reasoning]"
    first = text.lstrip().partition("\n")[0][:_FOLDED]
    return f"[reasoning: {size}, {len(text)} characters: {first}{'…' if len(text) > len(first) else ''}]"


def facts_of(event: AnyEvent) -> Iterator[str]:
    if isinstance(event, TrialStarted):
        yield f"{event.benchmark} {event.task_id} {event.variant_id or ''} under {event.condition}"
        yield f"agent {event.agent} ({event.model}), strategy {event.strategy}, persona {event.persona}"
        yield f"trial {event.trial_index}, seed {_known(event.seed)}, sandbox {event.sandbox}"
    elif isinstance(event, ModelFailed):
        yield f"\nmodel call {event.call_id} failed ({event.error_kind}): {event.message}"
    elif isinstance(event, TrialFlagged):
        yield f"\nflagged {event.flag}: {event.detail}"
    elif isinstance(event, QuestionAnswered):
        state = event.response_state
        when = "" if event.after_action is None else f", told after action {event.after_action}"
        if event.answer is None and state != "answered":
            yield f"\nno answer to {event.question_id} by {event.simulator}: {state}{when}"
        else:
            late = f" ({state}{when})" if state != "answered" else ""
            yield f"\nanswer to {event.question_id} by {event.simulator}{late} revealed {_revealed(event)}"
    elif isinstance(event, ClarificationInjected):
        outcome = f"after action {event.after_action}" if event.after_action else f"skipped: {event.reason}"
        yield f"\ninjection at {event.inject_percent} %, due after action {_known(event.target_action)}: {outcome}"
    elif isinstance(event, CheckpointScored):
        yield f"checkpoint {event.checkpoint_id}: {event.score:g} of {event.total:g} ({event.details})"
    elif isinstance(event, TrialFinished):
        outcome = "success" if event.is_success else "no success"
        actions = "unknown actions" if event.action_count is None else f"{event.action_count} actions"
        yield f"\n{outcome}; {actions}, ended by {event.ended_by or _UNKNOWN}"
    elif isinstance(event, TrialFailed):
        yield f"\nfailed at {event.boundary or _UNKNOWN} ({event.error_kind}): {event.message}"


def _revealed(event: QuestionAnswered) -> str:
    if event.revealed is None:
        return _UNKNOWN
    revealed = ", ".join(segment.segment_id for segment in event.revealed) or "nothing"
    verdicts = ", ".join(f"{each.verdict} by {each.judge}" for each in event.readings)
    return f"{revealed} ({verdicts})" if verdicts else revealed


def _known(value: object) -> object:
    """Return a value, or ``unknown`` if it is None because an import did not provide it."""
    return _UNKNOWN if value is None else value
