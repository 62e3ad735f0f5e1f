"""The byte format of a journal: a magic number, then commits, each made durable by one sync.

    offset 0   8 bytes   b"LHAWJRN" and the format number 1
    then, for each commit:
               4 bytes   C1 4C 48 57: C1 occurs neither in UTF-8 nor as a type of MessagePack, so a search finds it
               4 bytes   n, length of the body, unsigned little endian
               4 bytes   CRC-32 of the commit's own offset (8 bytes), n and the body
               n bytes   body: records, each a length (4 bytes) and a payload of MessagePack

The CRC of the first commit is the starting value of all later ones, and each covers the commit's offset. So a commit is
valid only at its own offset in its own journal, and old disk blocks of a deleted file are never taken for new records.

The first record is the header, the last one of a properly closed journal is the footer, all others are envelopes. This
file handles bytes only; ``lhaw_record.recorder.storage.journal`` decodes them.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

MAGIC = b"LHAWJRN\x01"
MARK = b"\xc1LHW"
_HEAD = struct.Struct("<4sII")
_PLACE = struct.Struct("<QI")
_LENGTH = struct.Struct("<I")
HEAD_BYTES = _HEAD.size
MAX_BODY_BYTES = 1 << 30


class Commit(msgspec.Struct, frozen=True):
    """A complete commit in a journal. ``body`` views its bytes, ``end`` is the offset of the first byte after it."""

    offset: int
    end: int
    crc: int
    body: memoryview


class JournalTail(msgspec.Struct, frozen=True, kw_only=True):
    """How a journal's bytes end.

    ``good_end`` is the offset after the last good commit. ``torn_bytes`` counts the bytes after it, which an unfinished
    commit left, and is 0 if the journal ends cleanly. ``is_corrupt`` says that a complete commit follows these bytes.
    They are then damage, because everything before a commit was durable when the commit was written. If the first
    commit, which holds the header, is bad, later commits cannot be checked, so any later commit mark counts as one.
    """

    good_end: int
    torn_bytes: int
    is_corrupt: bool


def record(payload: bytes) -> bytes:
    """Frame a payload as a record: its length, then the payload."""
    return _LENGTH.pack(len(payload)) + payload


def commit(records: Iterable[bytes], offset: int, seed: int) -> tuple[bytes, int]:
    """Return a commit and its CRC."""
    body = b"".join(records)
    crc = _crc(body, offset, seed)
    return _HEAD.pack(MARK, len(body), crc) + body, crc


def scan(data: bytes) -> tuple[list[Commit], JournalTail]:
    """Return all commits before the first one that is incomplete or fails its CRC, and how the journal ends."""
    found: list[Commit] = []
    end = len(MAGIC)
    while data.startswith(MAGIC) and (following := _commit_at(data, end, seed_of(found))) is not None:
        found.append(following)
        end = following.end
    if not found:
        return [], JournalTail(good_end=0, torn_bytes=len(data), is_corrupt=data.find(MARK, len(MAGIC) + 1) >= 0)
    is_corrupt = _has_commit_after(data, end, seed_of(found))
    return found, JournalTail(good_end=end, torn_bytes=len(data) - end, is_corrupt=is_corrupt)


def first_commit(data: bytes) -> bytes:
    """Return a journal's bytes up to the end of its first commit, or no bytes if that commit is incomplete."""
    found = _commit_at(data, len(MAGIC), 0) if data.startswith(MAGIC) else None
    return data[: found.end] if found else b""


def seed_of(found: Sequence[Commit]) -> int:
    """Return the starting value of the next commit's CRC."""
    return found[0].crc if found else 0


def payloads(body: memoryview) -> Iterator[bytes]:
    """Yield the payloads of a commit's records."""
    offset = 0
    while offset < len(body):
        start = offset + _LENGTH.size
        offset = start + _LENGTH.unpack_from(body, offset)[0]
        yield bytes(body[start:offset])


def _crc(body: bytes | memoryview, offset: int, seed: int) -> int:
    return zlib.crc32(body, zlib.crc32(_PLACE.pack(offset, len(body)), seed))


def _commit_at(data: bytes, offset: int, seed: int) -> Commit | None:
    start = offset + HEAD_BYTES
    if start > len(data):
        return None
    mark, length, crc = _HEAD.unpack_from(data, offset)
    end = start + length
    if mark != MARK or not 0 < length <= MAX_BODY_BYTES or end > len(data):
        return None
    body = memoryview(data)[start:end]
    return Commit(offset, end, crc, body) if _crc(body, offset, seed) == crc else None


def _has_commit_after(data: bytes, end: int, seed: int) -> bool:
    """Return whether a good commit follows the bad one at ``end``."""
    offset = data.find(MARK, end + 1)
    while offset >= 0 and _commit_at(data, offset, seed) is None:
        offset = data.find(MARK, offset + 1)
    return offset >= 0
