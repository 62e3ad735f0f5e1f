"""Encodes a record for the journal, and refuses an event that could be journaled but never sealed.

Arrow has signed 64-bit integers; msgpack's largest integer is twice as large, and JSON's are unlimited.
"""

import re
from typing import Any

import msgspec

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.events import Envelope, type_name

LARGEST_INTEGER = (1 << 63) - 1

_encoder = msgspec.msgpack.Encoder()
_may_be_too_large = re.compile(rb"\xcf[\x80-\xff]").search  # a number of 64 bits, or similar text


def packed(envelope: Envelope) -> bytes:
    """Return the encoded record."""
    try:
        payload = _encoder.encode(envelope)
    except OverflowError:
        raise _too_large(envelope) from None
    if _may_be_too_large(payload) and _has_too_large(msgspec.to_builtins(envelope.event)):
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
        "nothing of it was recorded. Look for the number where it came from, such as a seed"
    )
