"""The encoded form of a record, which journals store and stream digests cover: MessagePack in its shortest form.

Fields that equal their default are left out, so a field that is added later changes no encoded record. An event that
could be journaled but never sealed is refused: Arrow has signed 64-bit integers, msgpack's largest integer is twice as
large, and JSON's are unlimited.
"""

import re
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.events import Envelope, type_name

LARGEST_INTEGER = (1 << 63) - 1
_MOST_FIELDS = 15  # a map with more entries has a longer header

_encoder = msgspec.msgpack.Encoder()
_may_be_too_large = re.compile(rb"\xcf[\x80-\xff]").search  # a number of 64 bits, or similar text


def encoded(envelope: Envelope) -> bytes:
    """Return the encoded record.

    Raises:
        RecordingFailed: The event holds an integer that Parquet cannot store.
    """
    try:
        # msgspec gives a struct of more than 15 fields a long header even if it writes few of them
        payload = _encoder.encode(
            msgspec.to_builtins(envelope) if _is_wide(type(envelope.event)) else envelope,
        )
    except OverflowError:
        raise _too_large(envelope) from None
    if _may_be_too_large(payload) and _has_too_large(msgspec.to_builtins(envelope.event)):
        raise _too_large(envelope)
    return payload


@cache
def _is_wide(annotation: Any) -> bool:
    """Return whether a type is or contains a struct of more than 15 fields, counting the event's type as one."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        fields = len(annotation.__struct_fields__) + (annotation.__struct_config__.tag is not None)
        return fields > _MOST_FIELDS or any(map(_is_wide, get_type_hints(annotation).values()))
    return any(map(_is_wide, get_args(annotation)))


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
