"""Format ``claude-code``: the sessions of people with Claude Code, one JSON Lines file each.

Every line of a reply repeats its id and its usage, whose last line counts. Sub-agents are in ``progress`` lines, in
side chains, or in files of their own. A resumed or forked session begins with the lines of another, which count once.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from lhaw_record.recorder.events import QuestionOption
from lhaw_record.recorder.events.interaction import ResponseState
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, read_trajectory
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    counted,
    left_out,
    read_each,
)
from lhaw_record.runners.imports.formats.openai_messages import usage_of
from lhaw_record.runners.imports.source_files import session_lines
from lhaw_record.runners.imports.trajectory import (
    INTERRUPTED,
    CallResult,
    Exchange,
    ForeignTurn,
    Said,
    said_in,
    turns_said,
    with_prose_questions,
)

FORMAT = "claude-code"
ASK_TOOL = "AskUserQuestion"
_DENIED = re.compile(r"^(?:The user doesn't want to proceed|Permission (?:to use|for) .* denied|User rejected)")
_STATES: tuple[tuple[str, ResponseState], ...] = (
    ("wants to clarify", "declined"),
    ("doesn't want to", "dismissed"),
    ("STOP what you are doing", "dismissed"),
    ("No response after", "timed_out"),
    ("declined to answer", "declined"),
)


_BOOKKEEPING = ("summary", "progress", "file-history-snapshot", "permission-mode", "last-prompt")
"""Lines in which nobody says or does anything."""
_SERVER_TOOLS = {"server_tool_use": "tool_use", "mcp_tool_use": "tool_use"}
"""Calls of tools that the provider runs while the model replies."""


class _Session:
    """The lines of one file: the agent's own in the parts between compactions, and those of each sub-agent."""

    def __init__(self, remarks: Counter[str]) -> None:
        self._remarks = remarks
        self.main: list[list[dict[str, Any]]] = [[]]
        self.sub_agents: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.results: dict[str, Any] = {}
        self.first: dict[str, Any] = {}
        self.times: list[str] = []

    @property
    def has_replies(self) -> bool:
        return any(line["type"] == "assistant" for part in self.main for line in part)

    def add(self, line: dict[str, Any], place: str) -> None:
        kind, data = line.get("type"), line.get("data")
        if kind == "progress" and isinstance(data, dict) and isinstance(data.get("message"), dict):
            name = str(data.get("agentId") or line.get("parentToolUseID"))
            self.sub_agents[name].append(data["message"])
        elif kind == "system" and line.get("subtype") == "compact_boundary":
            self.main.append([])
        elif kind in ("user", "assistant"):
            if not isinstance(line.get("message"), dict):
                raise ImportFailed(f"{place}: a line of type {kind} has no message")
            self._add_message(line)
        elif kind not in _BOOKKEEPING:
            more = line.get("subtype") or (line.get("attachment") or {}).get("type")
            self._remarks[f"lines of type {'/'.join(filter(None, (str(kind), more)))} are not kept"] += 1

    def _add_message(self, line: dict[str, Any]) -> None:
        self.first = self.first or line
        if isinstance(line.get("timestamp"), str):
            self.times.append(line["timestamp"])
        if line.get("isSidechain"):
            self.sub_agents[str(line.get("agentId") or "side-chain")].append(line)
            return
        self.main[-1].append(line)
        for block in _blocks(line["message"]):
            if block.get("type") == "tool_result":
                self.results[str(block.get("tool_use_id"))] = line.get("toolUseResult")


def parse_all(sources: Mapping[str, SourceFile], options: Options, known: KnownRecords) -> dict[str, ParsedFile]:
    """Return the content of each file. A sub-agent's file belongs to that of its session."""
    seen: set[str] = set()
    found: dict[str, ParsedFile] = {}
    remarks: dict[str, Counter[str]] = defaultdict(Counter)
    in_order = dict(sorted(sources.items(), key=lambda each: ("/subagents/" in each[0], each[0])))
    sessions = read_each(in_order, lambda source: _session(source, seen, remarks[source.label]), found)
    mains = {each.first.get("sessionId"): each for each in sessions.values() if each.has_replies}
    for label, session in sessions.items():
        if not session.has_replies:
            found[label] = _joined(label, session, mains.get(session.first.get("sessionId")), remarks[label])
    for label, session in sessions.items():
        if session.has_replies:
            part = read_trajectory(label, partial(_trajectory, session), options, known, format_name=FORMAT)
            found[label] = msgspec.structs.replace(part, remarks=(*counted(remarks[label]), *part.remarks))
    return found


def _session(source: SourceFile, seen: set[str], remarks: Counter[str]) -> _Session:
    """Return the session of a file without the lines of earlier files, whose ids are ``seen``."""
    session, own, is_session = _Session(remarks), set[str](), False
    for number, line in session_lines(source, remarks):
        ids = set(_ids(line))
        is_session = is_session or "sessionId" in line
        if ids & seen:
            remarks["lines that another file has too, as after a resume or a fork, are left out"] += 1
            continue
        own |= ids
        session.add(line, f"{source.label}, line {number}")
    if not is_session:
        raise ImportFailed(f"{source.label} is not a session of Claude Code: no line has a sessionId")
    seen |= own
    return session


def _ids(line: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ids of a line and of the reply in it. A line that another file repeats may have a new id of its own."""
    data = line.get("data")
    inner = data.get("message") if isinstance(data, dict) else line
    message = inner.get("message") if isinstance(inner, dict) else None
    for each in (line.get("uuid"), message.get("id") if isinstance(message, dict) else None):
        if isinstance(each, str) and each:
            yield each


def _joined(label: str, session: _Session, main: _Session | None, remarks: Counter[str]) -> ParsedFile:
    """Add the sub-agents of a file without replies of its own to their session, or say why it is left out."""
    if not session.sub_agents:
        return left_out("sessions", f"{label}: no reply of an agent that no other file has", counted(remarks))
    if main is None:
        return left_out("sub-agents", f"{label}: a sub-agent without the file of its session", counted(remarks))
    for name, lines in session.sub_agents.items():
        main.sub_agents[name] += lines
    return ParsedFile(remarks=tuple(counted(remarks)))


def _trajectory(session: _Session, remarks: Counter[str]) -> BareTrajectory:
    versions = [str(line["version"]) for part in session.main for line in part if line.get("version")]
    turns = [turn for part in session.main for turn in _turns(part, session, remarks, None)]
    if not turns:
        raise ValueError("no model replied")
    prompts = [_prompt(line) for part in session.main for line in part if line["type"] == "user"]
    turns = with_prose_questions(turns)
    answer = turns[-1].reply.content
    for name, lines in session.sub_agents.items():
        turns += _turns(lines, session, remarks, name)
    return BareTrajectory(
        prompt=next(filter(None, prompts), ""),
        agent=FORMAT,
        model=next((turn.model for turn in turns if turn.model), UNKNOWN),
        program=f"Claude Code {versions[-1]}" if versions else None,
        turns=turns,
        run_name=str(session.first.get("sessionId") or "") or None,
        final_answer=answer or None,
        started_at=min(session.times, default=None),
        condition="full_ask_user",
    )


def _turns(
    lines: Sequence[Mapping[str, Any]], session: _Session, remarks: Counter[str], sub_agent: str | None
) -> Iterator[ForeignTurn]:
    said = said_in(_wires(lines, remarks), remarks)
    for turn in turns_said(said, remarks, _usage):
        outcomes = tuple(
            _outcome(call.name, call.arguments_json, outcome, session.results.get(call.call_id))
            for call, outcome in zip(turn.reply.tool_calls, turn.outcomes, strict=True)
        )
        remarks.update(["uses of tools that the user did not allow" for each in outcomes if each and each.is_denied])
        yield msgspec.structs.replace(turn, outcomes=outcomes, sub_agent=sub_agent)


def _wires(lines: Sequence[Mapping[str, Any]], remarks: Counter[str]) -> list[dict[str, Any]]:
    """Return the messages of lines: one for each reply, at the place of its first line, and each result once."""
    replies: dict[str, dict[str, Any]] = {}
    results: set[str] = set()
    found: list[dict[str, Any]] = []
    for line in lines:
        message, blocks = line.get("message") or {}, _blocks(line.get("message") or {})
        if line.get("type") == "user":
            new = [
                each for each in blocks if each.get("type") != "tool_result" or each.get("tool_use_id") not in results
            ]
            results |= {str(each["tool_use_id"]) for each in new if each.get("type") == "tool_result"}
            text = message.get("content")
            texts = (text, *(block.get("text") for block in blocks))
            stops = [each for each in texts if isinstance(each, str) and each.startswith(INTERRUPTED)]
            remarks.update(["times that the user interrupted the agent"] * bool(stops))
            if new or (isinstance(text, str) and text):
                found.append({"role": "user", "content": new or text})
        elif line.get("type") == "assistant" and message.get("model") == "<synthetic>":
            remarks["messages in place of a reply, such as errors of the API, are left out"] += 1
        elif line.get("type") == "assistant":
            key = str(message.get("id") or line.get("uuid") or len(found))
            if key not in replies:
                replies[key] = {"role": "assistant", "content": []}
                found.append(replies[key])
            wire = replies[key]
            wire["content"] += [each for each in blocks if each not in wire["content"]]
            if isinstance(message.get("content"), str):
                wire["content"].append({"type": "text", "text": message["content"]})
            wire |= {name: message[name] for name in ("usage", "model", "stop_reason") if message.get(name)}
    return found


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    blocks = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    return [{**each, "type": _SERVER_TOOLS.get(str(each.get("type")), each.get("type"))} for each in blocks]


def _prompt(line: Mapping[str, Any]) -> str:
    """Return what the user wrote, or nothing where their program wrote in their place."""
    content = line["message"].get("content")
    texts = [content] if isinstance(content, str) else [each.get("text") for each in _blocks(line["message"])]
    written = [each for each in texts if isinstance(each, str) and not each.startswith(("<", INTERRUPTED))]
    return "" if line.get("isMeta") or line.get("isCompactSummary") else "\n".join(written).strip()


def _usage(said: Said) -> dict[str, Any]:
    wire = said.wire
    return {"usage": usage_of(said.message, wire), "model": wire.get("model"), "finish_reason": wire.get("stop_reason")}


def _outcome(name: str, arguments: str, outcome: CallResult | None, told: Any) -> CallResult | None:
    """Return the result of a call with what it asked the user, or that the user denied it."""
    if name == ASK_TOOL:
        result = outcome or CallResult(text="")
        return msgspec.structs.replace(result, exchanges=tuple(_exchanges(arguments, outcome, told)))
    if outcome is None or not outcome.is_error or not _DENIED.match(outcome.text):
        return outcome
    return msgspec.structs.replace(outcome, is_denied=True)


def _exchanges(arguments: str, outcome: CallResult | None, told: Any) -> Iterator[Exchange]:
    text = outcome.text if outcome else ""
    if "InputValidationError" in text:
        return  # nobody saw it
    given = msgspec.json.decode(arguments)
    answers = told.get("answers") if isinstance(told, dict) else None
    answers = answers if isinstance(answers, dict) else {}
    state = next((state for words, state in _STATES if words in text), "unavailable" if text else "timed_out")
    for each in given.get("questions") or () if isinstance(given, dict) else ():
        question = str(each.get("question") or "")
        options = tuple(
            QuestionOption(label=str(option.get("label") or ""), description=str(option.get("description") or ""))
            for option in each.get("options") or ()
        )
        spelled = re.search(re.escape(f'"{question}"="') + r'(.*?)"(?=[.,] |[.,]?$)', text, re.DOTALL)
        answer = str(answers.get(question) or (spelled[1] if spelled else "")) or None
        labels = {option.label for option in options}
        picked = tuple(part for part in (answer or "").split(", ") if part in labels)
        yield Exchange(
            question=question,
            answer=answer,
            header=str(each.get("header") or ""),
            options=options,
            state="answered" if answer else "declined" if answers else state,
            medium="built_in",
            picked=(answer,) if answer in labels else picked,
        )
