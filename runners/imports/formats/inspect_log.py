"""Reads an ``.eval`` log of inspect_ai: the JSON files of its zip archive, and the turns of a sample.

Python's zipfile reads zstd entries (method 93) only from version 3.14 on, so this module unpacks the entries itself.
"""

import io
import json
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import msgspec

from lhaw_record.recorder.events import Usage
from lhaw_record.runners.base.text.fields import as_list, as_object, with_valid_text
from lhaw_record.runners.imports.foreign_trial import (
    ImportFailed,
    SourceFile,
    elapsed_ms,
    stated_usage,
    total_usage,
)
from lhaw_record.runners.imports.source_files import most_unpacked_bytes, too_large, unread
from lhaw_record.runners.imports.trajectory import CallResult, ForeignTurn, Pairing, Said, said_in, turns_said
from lhaw_record.runners.models.chat_completions import text_of

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_ZSTD = 93
_CHUNK = 1 << 20


class Archive:
    """An open log.

    Raises:
        ImportFailed: The file is not a zip archive, or the end of the archive is missing.
    """

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._left = most_unpacked_bytes()
        try:
            with zipfile.ZipFile(io.BytesIO(source.content)) as archive:
                self._entries = {entry.filename: entry for entry in archive.infolist()}
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise ImportFailed(
                f"{source.label} is not a whole .eval log ({error}); 'zip -FF FILE --out NEW.eval' keeps whole samples"
            ) from error

    @property
    def names(self) -> list[str]:
        """The names of the files in the archive, in the archive's order."""
        return list(self._entries)

    def load(self, name: str) -> Any:
        """Return the content of a JSON file in the archive."""
        entry = self._entries[name]
        try:
            return with_valid_text(json.loads(_checked(self._bytes(entry), entry.CRC)))
        except (ValueError, OSError, struct.error, zlib.error, RecursionError) as error:
            raise ImportFailed(
                f"{self._source.label}: {name} cannot be read: {unread(error)}, or remove it: zip -d FILE {name}"
            ) from error

    def _bytes(self, entry: zipfile.ZipInfo) -> bytes:
        header_end = entry.header_offset + _LOCAL_HEADER.size
        *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(self._source.content[entry.header_offset : header_end])
        start = header_end + name_bytes + extra_bytes
        packed = self._source.content[start : start + entry.compress_size]
        if entry.compress_type == zipfile.ZIP_STORED:
            return packed
        if entry.compress_type == zipfile.ZIP_DEFLATED:
            return self._bounded(zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, self._left + 1))
        if entry.compress_type == _ZSTD:
            import pyarrow as pa

            stream = pa.CompressedInputStream(io.BytesIO(packed), "zstd")
            return b"".join(map(self._bounded, iter(lambda: stream.read(_CHUNK), b"")))
        raise ValueError(f"compression method {entry.compress_type} is unknown")

    def _bounded(self, unpacked: bytes) -> bytes:
        """Return unpacked bytes, counted against the limit for the whole archive because entries may overlap."""
        self._left -= len(unpacked)
        if self._left < 0:
            raise too_large(self._source.name)
        return unpacked


def _checked(content: bytes, crc: int) -> bytes:
    if zlib.crc32(content) != crc:
        raise ValueError("its checksum is wrong")
    return content


_ATTACHMENT = "attachment://"


def with_attachments(value: Any, attachments: Mapping[str, str]) -> Any:
    """Return a value with every reference to one of the sample's attachments replaced by the attachment's text."""
    if isinstance(value, str):
        return attachments.get(value.removeprefix(_ATTACHMENT), value) if value.startswith(_ATTACHMENT) else value
    if isinstance(value, list):
        return [with_attachments(item, attachments) for item in value]
    if isinstance(value, dict):
        return {key: with_attachments(item, attachments) for key, item in value.items()}
    return value


def turns_of_sample(sample: Mapping[str, Any], remarks: Counter[str]) -> list[ForeignTurn]:
    """Return the turns of the agent and its sub-agents. Calls of scorers, graders and helpers are only counted."""
    whole = [as_object(event, "an event") for event in sample.get("events") or []]
    events = list(
        takewhile(lambda each: not (each.get("event") == "span_begin" and each.get("type") == "scorers"), whole)
    )
    scored = sum(each.get("event") == "model" for each in whole[len(events) :])
    remarks.update({"model calls of scorers are not the agent's": scored} if scored else {})
    given = [as_object(each, "a message") for each in as_list(sample.get("messages") or [], "messages")]
    final = [_with_error(each) for each in said_in(given, remarks)]
    read: dict[int, list[Said]] = {}  # by identity, since the requests of a sample share the messages of its pool

    def said_once(message: Mapping[str, Any]) -> list[Said]:
        if id(message) not in read:
            read[id(message)] = [_with_error(each) for each in said_in([message])]
        return read[id(message)]

    calls = [event for event in events if event.get("event") == "model" and _has_reply(event)]
    if not calls:
        return turns_said(final, remarks)
    requests = [_inputs(event, sample) for event in calls]
    asked = dict(zip(map(id, calls), zip(_owners(calls, events, requests, given), requests, strict=True), strict=True))
    pairing = Pairing()
    turns: list[ForeignTurn] = []
    seen = 0
    for event in events:
        if event.get("event") == "tool":
            pairing.result(str(event.get("id") or ""), _outcome(event))
        if id(event) not in asked:
            continue
        owner, messages = asked[id(event)]
        if owner == OTHERS:
            whose = f"role {event['role']}" if event.get("role") else "a helper or a grader"
            remarks[f"model calls of {whose} are not the agent's"] += 1
            continue
        request = [each for message in messages for each in said_once(message)]
        if owner == AGENT:
            _pair(pairing, request[seen:])
            seen = len(request) + 1
        turns.append(_turn(event, request, owner))
        pairing.reply(turns[-1].reply.tool_calls)
    _pair(pairing, final[seen:])
    pairs = zip(turns, pairing.outcomes, strict=True)
    return [msgspec.structs.replace(turn, outcomes=outcomes) for turn, outcomes in pairs]


def has_trajectory(sample: Mapping[str, Any]) -> bool:
    """Return whether a sample says what the agent did, which a log can omit."""
    return bool(sample.get("messages") or sample.get("events"))


def _with_error(said: Said) -> Said:
    is_result = said.message.role == "tool"
    return msgspec.structs.replace(said, is_error=bool(said.wire.get("error"))) if is_result else said


def _pair(pairing: Pairing, said: Iterable[Said]) -> None:
    """Pair results that no event reports, such as those of an agent behind a bridge."""
    for each in said:
        if each.message.role == "tool":
            outcome = CallResult(text=each.message.content, is_error=each.is_error)
            pairing.result(each.message.tool_call_id, outcome)


def _has_reply(event: Mapping[str, Any]) -> bool:
    return not event.get("error") and bool((event.get("output") or {}).get("choices"))


AGENT, OTHERS = "", "/"
"""Whose a model call is: the agent's, or that of a scorer, a grader or a helper. A sub-agent has its name."""


def _owners(
    calls: Sequence[Mapping[str, Any]],
    events: Iterable[Mapping[str, Any]],
    requests: Sequence[Sequence[Mapping[str, Any]]],
    final: Iterable[Mapping[str, Any]],
) -> list[str]:
    """Return whose each model call is.

    A reply of the agent is in its final conversation, or in the request of a later call of the agent. The last one may
    be in neither, if a limit ended the sample. Logs without ids of messages have only the roles of models.
    """
    spans = {event["id"]: event for event in events if event.get("event") == "span_begin" and event.get("id")}
    kept = {each.get("id") for each in final} - {None}
    found: list[str] = []
    for event, request in zip(reversed(calls), reversed(requests), strict=True):
        reply_id, asked = _choice(event)["message"].get("id"), {each.get("id") for each in request}
        within = _within(event, spans)
        kinds = [span.get("type") for span in within]
        is_last = AGENT not in found and bool(asked) and asked <= kept
        inner = kinds.index("agent") if "agent" in kinds else len(kinds)
        if "tool" not in kinds and (reply_id in kept or is_last or (reply_id is None and event.get("role") is None)):
            found.append(AGENT)
            kept |= asked
        elif event.get("role") is None and {"agent", "tool"} & {*kinds[inner + 1 :]}:
            found.append(str(within[inner].get("name")))
        else:
            found.append(OTHERS)
    found.reverse()
    if AGENT in found:
        return found
    return [OTHERS if call.get("role") else AGENT for call in calls]


def _within(event: Mapping[str, Any], spans: Mapping[Any, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the spans around an event, the innermost first."""
    found: list[Mapping[str, Any]] = []
    span = spans.get(event.get("span_id"))
    while span is not None and not any(span is each for each in found):
        found.append(span)
        span = spans.get(span.get("parent_id"))
    return found


def _outcome(event: Mapping[str, Any]) -> CallResult:
    """Return the outcome of a tool's event."""
    error = event.get("error")
    text = str(error.get("message") or "") if isinstance(error, dict) else text_of(event.get("result"))
    return CallResult(text=text, is_error=bool(error), duration_ms=_milliseconds(event.get("working_time")))


def _choice(event: Mapping[str, Any]) -> Mapping[str, Any]:
    output = as_object(event.get("output"), "the output of a model")
    choice = as_object(output["choices"][0], "a choice")
    return {**choice, "message": {**as_object(choice.get("message"), "a reply"), "role": "assistant"}}


def _turn(event: Mapping[str, Any], request: Iterable[Said], owner: str) -> ForeignTurn:
    output, choice = event["output"], _choice(event)
    (reply,) = turns_said(said_in([choice["message"]]))
    return msgspec.structs.replace(
        reply,
        conversation=tuple(each.message for each in request),
        message_count=None,
        sub_agent=owner or None,
        model=event.get("model"),
        finish_reason=str(choice["stop_reason"]) if choice.get("stop_reason") else None,
        latency_ms=_milliseconds(event.get("working_time") or output.get("time")),
        usage=_usage(output.get("usage") or {}),
    )


def _usage(given: Mapping[str, Any]) -> Usage:
    new, read, written = (given.get(f"input_tokens{suffix}") for suffix in ("", "_cache_read", "_cache_write"))
    return stated_usage(
        given.get("total_cost"),
        input_tokens=None if new is None else new + (read or 0) + (written or 0),
        output_tokens=given.get("output_tokens"),
        cached_input_tokens=read,
        cache_write_tokens=written,
    )


def stated_in(sample: Mapping[str, Any], turns: Sequence[ForeignTurn]) -> Usage:
    """Return the usage that a sample states, if no call of a grader or a helper is in it.

    It lacks replies that inspect_ai took from its own cache, which repeat the usage of an earlier sample.
    """
    replies = sum(each.get("event") == "model" and _has_reply(each) for each in sample.get("events") or ())
    used = (sample.get("model_usage") or {}).values() if replies == len(turns) else ()
    return total_usage(_usage(as_object(each, "a usage")) for each in used)


def _inputs(event: Mapping[str, Any], sample: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a request's messages, which are listed or given as ranges of the sample's message pool."""
    given = event.get("input") or []
    if not given and event.get("input_refs"):
        pool = (sample.get("events_data") or {}).get("messages") or []
        given = [message for start, end in event["input_refs"] for message in pool[start:end]]
    return [as_object(each, "a message") for each in given]


def _milliseconds(seconds: Any) -> float | None:
    return round(seconds * 1000, 3) if isinstance(seconds, int | float) else None


def duration_ms(sample: Mapping[str, Any]) -> float | None:
    """Return the duration of a sample in milliseconds, or None if the log does not state it."""
    if sample.get("total_time") is not None:
        return _milliseconds(sample["total_time"])
    return elapsed_ms(sample, "started_at", "completed_at")
