"""The manifest, a chain of lines that names everything a store has held and reveals missing and changed files.

``STORE/manifest.jsonl`` has a line for each started journal, each segment before it gets its name, each empty journal,
and each accepted loss. A line holds a digest over itself and the previous line, and is durable before the file that it
announces.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from lhaw_record.recorder.files.disk import publish
from lhaw_record.recorder.storage.store import Store

NO_CHAIN = ""
_LONGEST_APPEND_BYTES = 1 << 16
"""More unreadable bytes than this at the end are damage, not a torn append."""


class ManifestEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the manifest.

    Depending on ``kind``, ``journals`` were started, covered by a segment, empty, or accepted as lost. The fields from
    ``file`` on describe a segment or the schema file: its path in the store, the length and CRC-32 of the file, and its
    content. Times are in microseconds since the epoch.
    """

    kind: Literal["journal", "segment", "empty", "lost", "schema"]
    journals: tuple[str, ...]
    experiment_id: str = ""
    file: str = ""
    bytes: int = 0
    crc32: int = 0
    records: int = 0
    streams: int = 0
    trials: int = 0
    first_us: int | None = None
    last_us: int | None = None
    chain: str = NO_CHAIN


def has_manifest(store: Store) -> bool:
    """Return whether a store has a manifest. The working copy of a shared store has none."""
    return store.address is None and store.manifest_path.exists()


def is_lost(store: Store) -> bool:
    """Return whether the manifest is missing from a store with data. Shared stores have no manifest."""
    is_shared = store.address is not None or store.is_remote_side
    return not is_shared and not store.manifest_path.exists() and bool(store.journals() or store.segment_paths())


def append(store: Store, entry: ManifestEntry) -> None:
    """Append one line durably if the store has a manifest (two lines in one write could be torn apart unnoticed)."""
    if not has_manifest(store):
        return
    with store.hold("manifest"):
        descriptor = os.open(store.manifest_path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            data = store.manifest_path.read_bytes()
            whole = _whole_bytes(data)
            if whole < len(data):  # a truncated append announced nothing
                store.disk.truncate(descriptor, whole)
            last = _entry(data[_start(data, whole) : whole]) if whole else None
            store.disk.write(descriptor, _lines([entry], last.chain if last else NO_CHAIN))
            store.disk.sync(descriptor)
        finally:
            os.close(descriptor)


def create(store: Store, adopted: Callable[[], Iterable[ManifestEntry]]) -> None:
    """Create the manifest unless it exists."""
    if store.address is not None or store.manifest_path.exists():
        return
    with store.hold("manifest"):
        if not store.manifest_path.exists():
            publish(store.disk, store.manifest_path, _lines(adopted(), NO_CHAIN))


def read_entries(store: Store) -> tuple[list[ManifestEntry], int | None]:
    """Return the intact lines, also those after a damaged one, and the number of the first damaged line or None.

    A line is intact if its chain continues that of the line before, whether or not that one is intact.
    """
    if not store.manifest_path.is_file() and store.manifest_path.exists():  # reading a device would never end
        return [], 1
    data = store.manifest_path.read_bytes()
    entries: list[ManifestEntry] = []
    damaged: list[int] = []
    chain = NO_CHAIN
    for number, line in enumerate(data[: _whole_bytes(data)].splitlines(), 1):
        entry = _entry(line)
        if entry is not None and entry.chain == _chain_of(entry, chain):
            entries.append(entry)
        else:
            damaged.append(number)
        chain = chain if entry is None else entry.chain
    return entries, min(damaged, default=None)


def _whole_bytes(data: bytes) -> int:
    """Return the length of the manifest without an unacknowledged append that a power cut interrupted.

    Sectors that never reached the disk read as zeros or as bytes of an older file, which may include line feeds. No
    entry follows a torn append, so a damaged line followed by entries is kept and reported.
    """
    lines_end = end = data.rfind(b"\n") + 1
    while end and _entry(data[_start(data, end) : end]) is None:
        end = _start(data, end)
        if lines_end - end > _LONGEST_APPEND_BYTES:
            return lines_end
    return end


def _start(data: bytes, end: int) -> int:
    """Return where the line that ends at ``end`` starts."""
    return data.rfind(b"\n", 0, end - 1) + 1


def _entry(line: bytes) -> ManifestEntry | None:
    try:
        return msgspec.json.decode(line, type=ManifestEntry)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _lines(entries: Iterable[ManifestEntry], chain: str) -> bytes:
    return b"".join(_chained(entries, chain))


def _chained(entries: Iterable[ManifestEntry], chain: str) -> Iterator[bytes]:
    for entry in entries:
        chain = _chain_of(entry, chain)
        yield msgspec.json.encode(msgspec.structs.replace(entry, chain=chain)) + b"\n"


def _chain_of(entry: ManifestEntry, before: str) -> str:
    plain = msgspec.json.encode(msgspec.structs.replace(entry, chain=NO_CHAIN))
    return hashlib.sha256(before.encode() + plain).hexdigest()[:32]
