"""Checks a store against its manifest: every file must exist with its full length and original bytes."""

import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec

from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.storage.journal import read_journal, read_mark
from lhaw_record.recorder.storage.manifest import ManifestEntry, append, create, has_manifest, is_lost, read_entries
from lhaw_record.recorder.storage.segments import StoreSegment, list_segments, where_now
from lhaw_record.recorder.storage.store import Store, retry_vanished

_READ_BYTES = 1 << 22


class FileProblem(msgspec.Struct, frozen=True):
    """A file that differs from the manifest: missing, truncated or changed."""

    file: str
    text: str


def create_manifest(store: Store) -> None:
    """Create the manifest of a new store, but not a lost one, because other missing files would go unnoticed."""
    if not is_lost(store):
        create(store, tuple)


def check_manifest(store: Store) -> None:
    """Refuse a store that differs from its manifest, because results computed from it would be wrong."""
    found = retry_vanished(store, lambda: find_problems(store))
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise DamagedStore(
            f"{found[0].file} {found[0].text}{more}. 'lhaw-record log verify' names everything; restore it from a "
            "backup, or go on without it: 'lhaw-record log repair --accept-loss'"
        )


def find_problems(store: Store) -> list[FileProblem]:
    """Return every missing, truncated or changed file, or nothing if the store has no manifest.

    A problem counts only if a second check confirms it, because other processes may be writing.
    """
    if is_lost(store):
        return [FileProblem(str(store.manifest_path), "is gone, and with it the list of what the store must hold")]
    if not has_manifest(store):
        return []
    found = _look(store)
    if found:
        confirmed = set(_look(store))
        found = [each for each in found if each in confirmed]
    return found


def accept_loss(store: Store) -> list[FileProblem]:
    """Record that missing data is lost, and return the problems. Changed files must be moved out of the store first."""
    found = find_problems(store)
    if is_lost(store):
        create(store, lambda: _adopted(store))
    entries, _ = read_entries(store)
    lost = sorted(map(str, _missing(entries, list_segments(store).chosen, store.journals())))
    if lost:
        append(store, ManifestEntry(kind="lost", journals=tuple(lost)))
    for name, path in store.journals().items():
        if truncation(store, name, path):
            store.mark_path(name).unlink(missing_ok=True)
    return found


def truncation(store: Store, name: JournalName, path: Path) -> str | None:
    """Describe what a journal lost at its end according to its mark, or return None if it lost nothing.

    The mark is read before the journal, so it never promises more than was durable by then.
    """
    mark = read_mark(store.mark_path(name))
    data = path.read_bytes()
    try:
        content = read_journal(path, data)
    except DamagedStore:
        return None  # verification reports it
    end = content.tail.good_end if content else 0
    if mark is None or end >= mark.bytes:
        return None
    left = len(content.payloads) if content else 0
    return (
        f"was cut: {end} of {mark.bytes} bytes and {left} of {mark.records} events of writer {name.writer_id} are left"
    )


def _adopted(store: Store) -> list[ManifestEntry]:
    entries = [_entry_of(store, segment) for segment in list_segments(store).chosen]
    return entries + [ManifestEntry(kind="journal", journals=(str(name),)) for name in store.journals()]


def _entry_of(store: Store, segment: StoreSegment) -> ManifestEntry:
    size, crc32 = _size_and_crc32(segment.path)
    return ManifestEntry(
        kind="segment",
        journals=tuple(map(str, segment.covers)),
        experiment_id=segment.experiment_id,
        file=segment.path.relative_to(store.root).as_posix(),
        bytes=size,
        crc32=crc32,
        records=segment.records,
    )


def _look(store: Store) -> list[FileProblem]:
    entries, bad_line = read_entries(store)
    journals = store.journals()
    found: list[FileProblem] = []
    if bad_line is not None:
        found.append(FileProblem(str(store.manifest_path), f"is damaged at line {bad_line}; restore it"))
    for name, path in journals.items():
        with suppress(FileNotFoundError):
            text = truncation(store, name, path)
            found += [FileProblem(str(path), text)] if text else []
    segments = list_segments(store).chosen
    segment_entries = [each for each in entries if each.kind == "segment"]
    by_file = {each.file: each for each in segment_entries}
    with ThreadPoolExecutor(2) as pool:
        checked = pool.map(lambda segment: _changed(store, segment, by_file), segments)
        found += [problem for problem in checked if problem]
    holders = {name: each for each in segment_entries for name in each.journals}
    missing: dict[str, list[str]] = {}
    for name in _missing(entries, segments, journals):
        holder = holders.get(str(name))
        file = store.root / holder.file if holder else store.journal_path(name)
        missing.setdefault(str(file), []).append(str(name))
    return found + [FileProblem(file, _missing_text(names, holders.get(names[0]))) for file, names in missing.items()]


def _missing(
    entries: Sequence[ManifestEntry], segments: Iterable[StoreSegment], journals: Iterable[JournalName]
) -> list[JournalName]:
    """Return the started journals with no file and no segment that were not empty and whose loss was not accepted."""
    present = set(journals).union(*(segment.covers for segment in segments))
    settled = {name for each in entries if each.kind in ("empty", "lost") for name in each.journals}
    begun = dict.fromkeys(name for each in entries if each.kind in ("journal", "segment") for name in each.journals)
    names = [JournalName.parse(each) for each in begun if each not in settled]
    return [name for name in names if name not in present]


def _missing_text(names: Sequence[str], holder: ManifestEntry | None) -> str:
    writers = ", ".join(sorted({name.rpartition("-")[0] for name in names}))
    if holder is None:
        return f"is gone: a journal of writer {writers}, with an unknown number of events"
    return (
        f"is gone: {holder.records} events of writer {writers} in {holder.streams} streams of {holder.trials} trials, "
        f"recorded from {holder.first_us} to {holder.last_us} (microseconds)"
    )


def _changed(store: Store, segment: StoreSegment, by_file: dict[str, ManifestEntry]) -> FileProblem | None:
    entry = by_file.get(segment.path.relative_to(store.root).as_posix())
    if entry is None:
        return FileProblem(str(segment.path), "is not in the manifest: another program put it there")
    path = where_now(segment.path)
    if not path.is_file() and path.exists():  # reading a device would never end
        return FileProblem(str(segment.path), "is not a regular file: another program put it there")
    size, crc32 = _size_and_crc32(path)
    if size != entry.bytes:
        return FileProblem(str(segment.path), f"has {size} of {entry.bytes} bytes ({entry.records} events)")
    if crc32 != entry.crc32:
        return FileProblem(
            str(segment.path),
            f"has other bytes than were written ({entry.records} events of {entry.trials} trials)",
        )
    return None


def _size_and_crc32(path: Path) -> tuple[int, int]:
    size = crc32 = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_READ_BYTES):
            crc32 = zlib.crc32(piece, crc32)
            size += len(piece)
    return size, crc32
