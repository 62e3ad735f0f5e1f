"""The encoded form of a record in journals and stream digests: MessagePack in its shortest form.

Fields equal to their default are omitted, so adding a field does not change existing encoded records. An event that
could be journaled but never sealed is rejected: Arrow integers are signed 64-bit, MessagePack integers can be twice as
large, and JSON integers are unlimited.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.events import AnyEvent, Envelope, Event, type_name

EventT = TypeVar("EventT", bound=Event)

LARGEST_INTEGER = (1 << 63) - 1

_encoder = msgspec.msgpack.Encoder()
_may_be_too_large = re.compile(rb"\xcf[\x80-\xff]").search  # an integer above 2**63 - 1, or text that looks like one


def encoded(envelope: Envelope) -> bytes:
    """Return the encoded record, or raise RecordingFailed if Parquet cannot store one of its integers."""
    plain = msgspec.to_builtins(envelope)  # a dictionary's header depends on its size, a struct's on its class
    try:
        payload = _encoder.encode(plain)
    except OverflowError:
        raise _too_large(envelope) from None
    except UnicodeEncodeError:  # models write lone surrogates in JSON, which UTF-8 cannot encode
        return encoded(msgspec.structs.replace(envelope, event=map_text(envelope.event, valid_text)))
    if _may_be_too_large(payload) and _has_too_large(plain["event"]):
        raise _too_large(envelope)
    return payload


def _has_too_large(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_too_large, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_too_large, value))
    return isinstance(value, int) and value > LARGEST_INTEGER


def _too_large(envelope: Envelope) -> RecordingFailed:
    return RecordingFailed(
        f"a {type_name(type(envelope.event))} event holds an integer of more than 64 bits, which Parquet cannot store; "
        "the event was not recorded. Look for the source of the number, such as a seed"
    )


def map_text(event: EventT, function: Callable[[str], str]) -> EventT:
    """Return the event with a function applied to every string except the log's own vocabulary."""

    def apply(value: object) -> object:
        if isinstance(value, str):
            return value if value in _log_words() else function(value)
        if isinstance(value, dict):
            return {key: apply(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [apply(item) for item in value]
        return value

    return msgspec.convert(apply(msgspec.to_builtins(event)), type(event))


@cache
def _log_words() -> frozenset[str]:
    """Return event type names and Literal values, which redaction must keep even if a secret is spelled the same."""
    pending: list[object] = [msgspec.json.schema(AnyEvent)]
    found: set[str] = set()
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            found.update(each for each in part.get("enum", ()) if isinstance(each, str))
        if isinstance(part, dict | list):
            pending += part.values() if isinstance(part, dict) else part
    return frozenset(found)


def valid_text(text: str) -> str:
    """Return text that UTF-8 can encode: half a surrogate pair becomes U+FFFD, and two halves one character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
