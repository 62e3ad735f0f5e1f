"""Format ``codex``: the sessions of people with Codex, one JSON Lines file (rollout) each.

``response_item`` lines are the conversation, ``event_msg`` lines say the same for the screen: of these only what the
user wrote, the tokens and interruptions count. Tokens are cumulative. Files of 2025 have bare items.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import zip_longest
from typing import Any

import msgspec

from lhaw_record.recorder.events import QuestionOption, Usage
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
    stated_usage,
    total_usage,
)
from lhaw_record.runners.imports.source_files import session_lines
from lhaw_record.runners.imports.trajectory import (
    CALLS,
    CallResult,
    Exchange,
    ForeignTurn,
    said_in,
    turns_said,
    with_prose_questions,
)

FORMAT = "codex"
ASK_TOOL = "request_user_input"
_DENIED = re.compile(r"rejected by (?:the )?user|user (?:denied|rejected|declined)", re.IGNORECASE)
_STATES: tuple[tuple[str, ResponseState], ...] = (("cancelled", "dismissed"), ("unavailable", "unavailable"))
_TOKENS = ("input_tokens", "output_tokens", "cached_input_tokens")


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return the session of a file as a trial."""
    remarks: Counter[str] = Counter()
    lines = [line for _, line in session_lines(source, remarks)]
    kinds = {line.get("type") for line in lines}
    if not kinds & {"session_meta", "response_item", "message"} or kinds & {"user", "assistant"}:
        raise ImportFailed(f"{source.label} is not a session of Codex: no line has the type session_meta")
    found = read_trajectory(source.label, partial(_trajectory, lines), options, known, format_name=FORMAT)
    return msgspec.structs.replace(found, remarks=(*counted(remarks), *found.remarks))


class _Session:
    """What the lines of a file say. Each part of the conversation begins with what a compaction left of the earlier."""

    def __init__(self, remarks: Counter[str]) -> None:
        self.parts: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [([], [])]
        self.meta: dict[str, Any] = {}
        self.prompts: list[str] = []
        self.models: list[str] = []
        self.totals: list[Mapping[str, Any]] = []
        self._remarks = remarks

    def add(self, line: dict[str, Any]) -> None:
        payload, kind = line.get("payload", line), line.get("type")
        if kind == "session_meta":
            self.meta = self.meta or payload
        elif kind == "turn_context":
            self.models += [str(payload["model"])] if payload.get("model") else []
        elif kind == "compacted":
            history = payload.get("replacement_history") or ()
            self.parts.append(([_as_call(each) for each in history if self._is_kept(each)], []))
        elif kind == "event_msg":
            self._add_event(payload)
        elif kind == "response_item" or (payload is line and isinstance(kind, str)):
            self.parts[-1][1].extend([_as_call(payload)] if self._is_kept(payload) else [])
        elif kind is not None:
            self._remarks[f"lines of type {kind} are not kept"] += 1

    def _is_kept(self, item: Mapping[str, Any]) -> bool:
        name = str(item.get("type"))
        is_kept = name in ("message", "reasoning") or name.endswith(("_call", "_output"))
        self._remarks.update([] if is_kept else [f"items of type {name} are not kept"])
        return is_kept

    def _add_event(self, event: Mapping[str, Any]) -> None:
        match event.get("type"):
            case "user_message":
                self.prompts.append(str(event.get("message") or ""))
            case "token_count":
                total = (event.get("info") or {}).get("total_token_usage")
                self.totals += [total] if total and total not in self.totals[-1:] else []
            case "turn_aborted" if event.get("reason") == "interrupted":
                self._remarks["times that the user interrupted the agent"] += 1
            case "error" | "stream_error" as kind:
                self._remarks[f"events of type {kind}, such as failed requests, are left out"] += 1


def _as_call(item: dict[str, Any]) -> dict[str, Any]:
    """Return a call of a tool that is no function, such as ``web_search_call``, as one of a function, or its output.

    What the provider runs itself has no output here.
    """
    name = str(item.get("type"))
    if name == "tool_search_output":
        return {**item, "type": "function_call_output", "output": json.dumps(item.get("tools") or [])}
    if name in CALLS or not name.endswith("_call"):
        return item
    arguments: Any = next((item[each] for each in ("arguments", "action") if item.get(each)), {})
    call_id = item.get("call_id") or item.get("id") or ""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "call_id": call_id, "name": name.removesuffix("_call"), "arguments": text}


def _trajectory(lines: list[dict[str, Any]], remarks: Counter[str]) -> BareTrajectory:
    session = _Session(remarks)
    for line in lines:
        session.add(line)
    turns = with_prose_questions([turn for part in session.parts for turn in _turns(*part, remarks)])
    if not turns:
        raise ValueError("no model replied")
    written = [each.content for each in turns[0].request if each.role == "user" and not each.content.startswith("<")]
    version = session.meta.get("cli_version")
    return BareTrajectory(
        prompt=next(filter(None, session.prompts), written[-1] if written else ""),
        agent=FORMAT,
        model=session.models[0] if session.models else UNKNOWN,
        program=f"Codex {version}" if version else None,
        turns=turns,
        run_name=str(session.meta.get("id") or "") or None,
        final_answer=turns[-1].reply.content or None,
        started_at=session.meta.get("timestamp") or lines[0].get("timestamp"),
        stated=_stated(session.totals),
        condition="full_ask_user",
    )


def _turns(history: list[dict[str, Any]], items: list[dict[str, Any]], remarks: Counter[str]) -> Iterator[ForeignTurn]:
    """Yield the turns of a part, without those that its history repeats."""
    known = said_in(history)
    repeated = sum(each.message.role == "assistant" for each in known)
    for turn in turns_said([*known, *said_in(items, remarks)], remarks)[repeated:]:
        pairs = zip(turn.reply.tool_calls, turn.outcomes, strict=True)
        outcomes = tuple(_outcome(call.name, call.arguments_json, outcome) for call, outcome in pairs)
        remarks.update(["uses of tools that the user did not allow" for each in outcomes if each and each.is_denied])
        yield msgspec.structs.replace(turn, outcomes=outcomes)


def _stated(totals: list[Mapping[str, Any]]) -> Usage:
    """Return the usage of a session: the last of its cumulative totals, and of each count that began again."""
    ends = [
        each
        for each, following in zip_longest(totals, totals[1:])
        if following is None or (following.get("total_tokens") or 0) < (each.get("total_tokens") or 0)
    ]
    return total_usage(stated_usage(**{name: each.get(name) or 0 for name in _TOKENS}) for each in ends)


def _outcome(name: str, arguments: str, outcome: CallResult | None) -> CallResult | None:
    if name == ASK_TOOL:
        result = outcome or CallResult(text="")
        return msgspec.structs.replace(result, exchanges=tuple(_exchanges(arguments, outcome)))
    is_denied = outcome is not None and _DENIED.search(outcome.text[:200]) is not None
    return msgspec.structs.replace(outcome, is_denied=True) if outcome and is_denied else outcome


def _exchanges(arguments: str, outcome: CallResult | None) -> Iterator[Exchange]:
    text = outcome.text if outcome else ""
    try:
        given, told = json.loads(arguments), json.loads(text) if text.startswith("{") else {}
    except ValueError:
        return
    state = next((state for words, state in _STATES if words in text), "declined" if text else "timed_out")
    for each in given.get("questions") or ():
        answers = ((told.get("answers") or {}).get(str(each.get("id"))) or {}).get("answers") or []
        options = tuple(
            QuestionOption(label=str(option.get("label") or ""), description=str(option.get("description") or ""))
            for option in each.get("options") or ()
        )
        labels = {option.label for option in options}
        yield Exchange(
            question=str(each.get("question") or ""),
            answer=", ".join(map(str, answers)) or None,
            header=str(each.get("header") or ""),
            options=options,
            state="answered" if answers else state,
            medium="built_in",
            picked=tuple(str(answer) for answer in answers if answer in labels),
        )
