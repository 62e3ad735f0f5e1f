"""The bytes of a journal: a magic number, then records of length, CRC and payload.

    offset 0   8 bytes   b"LHAWJRN" and the format number 1
    then, for each record:
               4 bytes   payload length n, unsigned little endian
               4 bytes   CRC-32 of those four bytes and the payload
               n bytes   payload: MessagePack

The first payload is the journal's header, the last of a journal that was closed in order is its footer, all others are
envelopes. This file knows bytes only; ``recorder.journal`` knows what they mean.
"""

import struct
import zlib
from collections.abc import Iterator

import msgspec

MAGIC = b"LHAWJRN\x01"
_HEAD = struct.Struct("<II")
_LENGTH = struct.Struct("<I")
HEAD_SIZE = _HEAD.size
MAX_PAYLOAD = 1 << 30


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """How a journal's bytes end.

    ``good_end`` is the offset after the last whole record. ``torn_bytes`` follow it (0 when it ends cleanly): an append
    that never finished. ``is_corrupt`` says that a whole, checksummed record lies beyond them, so they are damage
    and no torn tail.
    """

    good_end: int
    torn_bytes: int
    is_corrupt: bool


def frame(payload: bytes) -> bytes:
    """Return a record: the head and the payload."""
    length = _LENGTH.pack(len(payload))
    return length + _LENGTH.pack(zlib.crc32(payload, zlib.crc32(length))) + payload


def payloads(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, payload) of every whole record, up to the first that is torn or fails its CRC."""
    offset = len(MAGIC)
    while (payload := _payload_at(data, offset)) is not None:
        yield offset, payload
        offset += HEAD_SIZE + len(payload)


def tail_of(data: bytes) -> Tail:
    """Return how the bytes of a journal end."""
    if not data.startswith(MAGIC):
        return Tail(good_end=0, torn_bytes=len(data), is_corrupt=len(data) >= len(MAGIC))
    end = len(MAGIC)
    for offset, payload in payloads(data):
        end = offset + HEAD_SIZE + len(payload)
    return Tail(good_end=end, torn_bytes=len(data) - end, is_corrupt=_has_record_after(data, end))


def _payload_at(data: bytes, offset: int) -> bytes | None:
    if offset + HEAD_SIZE > len(data):
        return None
    length, crc = _HEAD.unpack_from(data, offset)
    end = offset + HEAD_SIZE + length
    if length == 0 or length > MAX_PAYLOAD or end > len(data):
        return None
    payload = data[offset + HEAD_SIZE : end]
    return payload if zlib.crc32(payload, zlib.crc32(data[offset : offset + _LENGTH.size])) == crc else None


def _has_record_after(data: bytes, end: int) -> bool:
    """Whether any whole record starts beyond a bad place. Every offset is tried: the bad record's own length may be
    what was damaged. A random four-byte length and CRC fit by chance once in 2**32 offsets.
    """
    limit = min(len(data) - HEAD_SIZE, end + (1 << 22))
    return any(_payload_at(data, offset) is not None for offset in range(end + 1, limit))
