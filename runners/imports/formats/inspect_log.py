"""Reads an ``.eval`` log of inspect_ai: the JSON files of its zip archive, and the turns of a sample.

Python's zipfile reads zstd entries (method 93) only from version 3.14 on, so this module unpacks the entries itself.
"""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.text.fields import as_list, as_number, as_object, optional_count, with_valid_text
from lhaw_record.runners.imports.foreign_trial import ImportFailed, SourceFile, elapsed_ms
from lhaw_record.runners.imports.source_files import most_unpacked_bytes, too_large
from lhaw_record.runners.imports.trajectory import CallResult, ForeignTurn, message_of, turns_of

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_ZSTD = 93


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
                f"{source.label} is not a whole .eval log ({error}); 'inspect log' can repair a truncated log"
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
            raise ImportFailed(f"{self._source.label}: {name} cannot be read ({error}); get the log again") from error

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

            return self._bounded(pa.CompressedInputStream(io.BytesIO(packed), "zstd").read(self._left + 1))
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


def turns_of_sample(sample: Mapping[str, Any]) -> list[ForeignTurn]:
    """Return the agent's turns. Model calls by graders are left out."""
    events = [as_object(event, "an event") for event in sample.get("events") or []]
    calls = [event for event in _before_scoring(events) if event.get("event") == "model" and _has_reply(event)]
    given = [as_object(each, "a message") for each in as_list(sample.get("messages") or [], "messages")]
    messages = [message_of(each) for each in given]
    errors = {str(each["tool_call_id"]): bool(each.get("error")) for each in given if each.get("tool_call_id")}
    outcomes = _outcomes(events)
    if not calls:
        return turns_of(messages, {**errors, **{call_id: outcome.is_error for call_id, outcome in outcomes.items()}})
    own_results = {
        each.tool_call_id: CallResult(text=each.content, is_error=errors[each.tool_call_id])
        for each in messages
        if each.tool_call_id is not None
    }
    return [_turn(event, sample, {**own_results, **outcomes}) for event in calls]


def has_trajectory(sample: Mapping[str, Any]) -> bool:
    """Return whether a sample says what the agent did, which a log can omit."""
    return bool(sample.get("messages") or sample.get("events"))


def _before_scoring(events: Sequence[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Yield the events up to the point where the scorers begin."""
    for event in events:
        if event.get("event") == "span_begin" and event.get("type") == "scorers":
            return
        yield event


def _has_reply(event: Mapping[str, Any]) -> bool:
    return not event.get("error") and bool((event.get("output") or {}).get("choices"))


def _outcomes(events: Iterable[Mapping[str, Any]]) -> dict[str, CallResult]:
    """Return the outcome of each tool call by the call's id."""
    found: dict[str, CallResult] = {}
    for event in events:
        if event.get("event") == "tool":
            error = event.get("error")
            text = str(error.get("message") or "") if isinstance(error, dict) else _text(event.get("result"))
            found[str(event.get("id"))] = CallResult(
                text=text, is_error=bool(error), duration_ms=_milliseconds(event.get("working_time"))
            )
    return found


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in result):
        return "\n".join(str(part.get("text") or "") for part in result)
    return "" if result is None else canonical_json(result).decode()


def _turn(event: Mapping[str, Any], sample: Mapping[str, Any], outcomes: Mapping[str, CallResult]) -> ForeignTurn:
    output = as_object(event.get("output"), "the output of a model")
    choice = as_object(output["choices"][0], "a choice")
    reply = message_of({**as_object(choice.get("message"), "a reply"), "role": "assistant"})
    usage = output.get("usage") or {}
    cost = usage.get("total_cost")
    return ForeignTurn(
        request=tuple(_request(event, sample)),
        reply=reply,
        outcomes=tuple(outcomes.get(call.call_id) for call in reply.tool_calls),
        finish_reason=str(choice["stop_reason"]) if choice.get("stop_reason") else None,
        latency_ms=_milliseconds(event.get("working_time") or output.get("time")),
        input_tokens=optional_count(usage.get("input_tokens"), "input_tokens"),
        output_tokens=optional_count(usage.get("output_tokens"), "output_tokens"),
        cached_input_tokens=optional_count(usage.get("input_tokens_cache_read"), "input_tokens_cache_read"),
        cost_usd=None if cost is None else as_number(cost, "total_cost"),
    )


def _request(event: Mapping[str, Any], sample: Mapping[str, Any]) -> list[Message]:
    """Return a request's messages, which are listed or given as ranges of the sample's message pool."""
    given = event.get("input") or []
    if not given and event.get("input_refs"):
        pool = (sample.get("events_data") or {}).get("messages") or []
        given = [message for start, end in event["input_refs"] for message in pool[start:end]]
    return [message_of(as_object(each, "a message")) for each in given]


def _milliseconds(seconds: Any) -> float | None:
    return round(seconds * 1000, 3) if isinstance(seconds, int | float) else None


def duration_ms(sample: Mapping[str, Any]) -> float | None:
    """Return the duration of a sample in milliseconds, or None if the log does not state it."""
    if sample.get("total_time") is not None:
        return _milliseconds(sample["total_time"])
    return elapsed_ms(sample, "started_at", "completed_at")
