"""Checks a store against its manifest: every file must exist with its full length and original bytes."""

import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.files.disk import publish
from lhaw_record.recorder.files.layout import SCHEMA_FILE, JournalName
from lhaw_record.recorder.storage.journal import is_live, read_journal, read_mark
from lhaw_record.recorder.storage.journal_format import scan
from lhaw_record.recorder.storage.manifest import ManifestEntry, append, create, has_manifest, is_lost, read_entries
from lhaw_record.recorder.storage.segments import StoreSegment, choose, describe, list_segments, where_now
from lhaw_record.recorder.storage.store import Store, retry_vanished

_READ_BYTES = 1 << 22
_GONE = "is gone: "


class FileProblem(msgspec.Struct, frozen=True):
    """A file that differs from the manifest. ``is_changed`` says that it is there with other bytes."""

    file: str
    text: str
    is_changed: bool = False


def create_manifest(store: Store) -> None:
    """Create the manifest of a new store. A lost one is not recreated, which would hide other missing files."""
    if not is_lost(store):
        create(store, tuple)


def check_manifest(store: Store) -> None:
    """Refuse a store that differs from its manifest, because results computed from it would be wrong."""
    found = retry_vanished(store, lambda: find_problems(store))
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise DamagedStore(
            f"{found[0].file} {found[0].text}{more}. 'lhaw-record log verify' lists all such files; restore them "
            "from a backup, or go on without them: 'lhaw-record log repair --accept-loss'"
        )


def find_problems(store: Store, unreadable: Collection[Path] = ()) -> list[FileProblem]:
    """Return every missing, truncated or changed file, or nothing if the store has no manifest.

    A problem counts only if a second check confirms it, because other processes may be writing. Unreadable segments
    count as missing.
    """
    if is_lost(store):
        return [FileProblem(str(store.manifest_path), "is gone, and with it the list of what the store must hold")]
    if not has_manifest(store):
        return []
    found = _look(store, unreadable)
    if found:
        confirmed = set(_look(store, unreadable))
        found = [each for each in found if each in confirmed]
    return found


def find_losses(store: Store) -> list[FileProblem]:
    """Return what ``accept_loss`` would go on without, one problem per file, with unreadable and repeating ones."""
    unreadable = {path: text for path in store.segment_paths() if (text := _unreadable(path))}
    unreadable |= _repeated(store, unreadable)
    broken = {path: text for path in store.journals().values() if (text := _broken(path))}
    texts = {str(path): text for path, text in (unreadable | broken).items()}
    found = find_problems(store, unreadable)
    for each in found:
        held = f"{texts[each.file]}; it held {each.text.removeprefix(_GONE)}" if each.file in texts else each.text
        texts[each.file] = held
    changed = {each.file for each in found if each.is_changed} | set(map(str, unreadable))
    return [FileProblem(file, text, is_changed=file in changed) for file, text in texts.items()]


def accept_loss(store: Store) -> list[FileProblem]:
    """Go on without what is missing or damaged, and return the problems. Damaged files move into ``damaged/``.

    The manifest then says which journals are lost. A journal damaged in the middle keeps what is before the damage.
    """
    found = find_losses(store)
    entries = read_entries(store)[0] if store.manifest_path.exists() else []
    for problem in found:
        if problem.is_changed:
            _set_aside(store, Path(problem.file))
    for path in store.journals().values():
        if _broken(path):
            _cut(store, path)
    announced = {(each.kind, each.file, each.journals) for each in entries}
    adopted = [each for each in _present(store) if (each.kind, each.file, each.journals) not in announced]
    if has_manifest(store):
        for entry in adopted:
            append(store, entry)
    create(store, lambda: [*entries, *adopted])  # if it was damaged or is lost
    lost = sorted(map(str, _missing([*entries, *adopted], list_segments(store).chosen, store.journals())))
    if lost:
        append(store, ManifestEntry(kind="lost", journals=tuple(lost)))
    for name, path in store.journals().items():
        if truncation(store, name, path) or read_mark(store.mark_path(name)) is None:
            store.mark_path(name).unlink(missing_ok=True)
    return found


def _unreadable(path: Path) -> str | None:
    """Describe a segment whose footer cannot be read."""
    try:
        pq.read_metadata(where_now(path))
    except (OSError, ValueError, pa.ArrowException) as error:
        return f"cannot be read ({error})"
    return None


def _repeated(store: Store, unreadable: Collection[Path]) -> dict[Path, str]:
    """Describe the segments with a stream that an earlier one has, too: a restored backup went on beside the store."""
    order = {each.file: place for place, each in enumerate(read_entries(store)[0])} if has_manifest(store) else {}
    segments = choose([describe(path) for path in store.segment_paths() if path not in unreadable]).chosen
    begun: set[tuple[str, str]] = set()
    found: dict[Path, str] = {}
    for each in sorted(segments, key=lambda one: order.get(one.path.relative_to(store.root).as_posix(), len(order))):
        firsts = pq.read_table(where_now(each.path), columns=["stream_id"], filters=[("sequence", "=", 0)])
        streams = {(each.experiment_id, stream_id) for stream_id in firsts["stream_id"].to_pylist()}
        if twice := streams & begun:
            found[each.path] = (
                f"shares {len(twice)} of {len(streams)} streams with other segments, such as {min(twice)[1]}"
            )
        else:
            begun |= streams
    return found


def _broken(path: Path) -> str | None:
    """Describe the damage in the middle of a dead writer's journal."""
    data = path.read_bytes()
    try:
        read_journal(path, data)
    except DamagedStore:
        if not is_live(path):
            return f"is damaged at byte {scan(data)[1].good_end} of {len(data)}; what comes before it is kept"
    return None


def _cut(store: Store, path: Path) -> None:
    """Keep only what is before the damage in a journal; the whole of it is set aside."""
    data = path.read_bytes()
    _, tail = scan(data)
    publish(store.disk, _place_aside(store, path), data)
    if tail.is_corrupt and tail.good_end:
        publish(store.disk, path, data[: tail.good_end])
    else:
        store.disk.remove(path)


def _set_aside(store: Store, path: Path) -> None:
    """Set a damaged file aside, so that it is not read."""
    place = _place_aside(store, path)
    with suppress(FileNotFoundError):
        store.disk.rename(path, place)
    store.disk.sync_directory(place.parent)
    store.disk.sync_directory(path.parent)


def _place_aside(store: Store, path: Path) -> Path:
    folder = store.root / "damaged"
    store.disk.make_directory(folder)
    return folder / f"{path.name}.{time.time_ns()}.damaged"


def schema_problem(store: Store) -> FileProblem | None:
    """Return what is wrong with the file of the whole schema, which only other programs read."""
    entries = read_entries(store)[0] if has_manifest(store) else []
    path = store.root / SCHEMA_FILE
    for entry in [each for each in entries if each.kind == "schema"][-1:]:
        if not path.is_file() or _size_and_crc32(path) != (entry.bytes, entry.crc32):
            return FileProblem(str(path), "is not as it was written; 'run' and 'log recover' write it again")
    return None


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


def _present(store: Store) -> Iterator[ManifestEntry]:
    yield from (_entry_of(store, segment) for segment in list_segments(store).chosen)
    yield from (ManifestEntry(kind="journal", journals=(str(name),)) for name in store.journals())


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


def _look(store: Store, unreadable: Collection[Path]) -> list[FileProblem]:
    entries, bad_line = read_entries(store)
    journals = store.journals()
    found: list[FileProblem] = []
    if bad_line is not None:
        found.append(FileProblem(str(store.manifest_path), f"is damaged at line {bad_line}", is_changed=True))
    announced = {name for each in entries for name in each.journals}
    for name, path in journals.items():
        with suppress(FileNotFoundError):
            text = truncation(store, name, path)
            found += [FileProblem(str(path), text)] if text else []
            if bad_line is None and str(name) not in announced and _has_events(path):
                found.append(FileProblem(str(store.manifest_path), f"has lost the line that announced {path}"))
    segments = choose([describe(path) for path in store.segment_paths() if path not in unreadable]).chosen
    segment_entries = [each for each in entries if each.kind == "segment"]
    by_file = {each.file: each for each in segment_entries}
    with ThreadPoolExecutor(2) as pool:
        checked = pool.map(lambda segment: _changed(store, segment, by_file), segments)
        found += [each for each in checked if each and (each.is_changed or bad_line is None)]
    holders = {name: each for each in segment_entries for name in each.journals}
    missing: dict[str, list[str]] = {}
    for name in _missing(entries, segments, journals):
        holder = holders.get(str(name))
        file = store.root / holder.file if holder else store.journal_path(name)
        missing.setdefault(str(file), []).append(str(name))
    return found + [FileProblem(file, _missing_text(names, holders.get(names[0]))) for file, names in missing.items()]


def _has_events(path: Path) -> bool:
    """Return whether a journal holds events. A damaged one does; verification reports it."""
    try:
        content = read_journal(path, path.read_bytes())
    except DamagedStore:
        return True
    return content is not None and bool(content.payloads)


def _missing(
    entries: Sequence[ManifestEntry], segments: Iterable[StoreSegment], journals: Iterable[JournalName]
) -> list[JournalName]:
    """Return the journals that had events and are in no file or segment now, except those whose loss was accepted."""
    present = set(journals).union(*(segment.covers for segment in segments))
    settled = {name for each in entries if each.kind in ("empty", "lost") for name in each.journals}
    begun = dict.fromkeys(name for each in entries if each.kind in ("journal", "segment") for name in each.journals)
    names = [JournalName.parse(each) for each in begun if each not in settled]
    return [name for name in names if name not in present]


def _missing_text(names: Sequence[str], holder: ManifestEntry | None) -> str:
    writers = ", ".join(sorted({name.rpartition("-")[0] for name in names}))
    if holder is None:
        return f"{_GONE}a journal of writer {writers}, with an unknown number of events"
    return (
        f"{_GONE}{holder.records} events of writer {writers} in {holder.streams} streams of {holder.trials} trials, "
        f"recorded from {holder.first_us} to {holder.last_us} (microseconds)"
    )


def _changed(store: Store, segment: StoreSegment, by_file: dict[str, ManifestEntry]) -> FileProblem | None:
    entry = by_file.get(segment.path.relative_to(store.root).as_posix())
    if entry is None:
        text = f"is not in {store.manifest_path}: its line is gone, or another program put it there"
        return FileProblem(str(segment.path), text)
    path = where_now(segment.path)
    if not path.is_file() and path.exists():  # reading a device would never end
        return FileProblem(str(segment.path), "is not a regular file: another program put it there", is_changed=True)
    size, crc32 = _size_and_crc32(path)
    if size != entry.bytes:
        text = f"has {size} of {entry.bytes} bytes ({entry.records} events)"
        return FileProblem(str(segment.path), text, is_changed=True)
    if crc32 != entry.crc32:
        return FileProblem(
            str(segment.path),
            f"has other bytes than were written ({entry.records} events of {entry.trials} trials)",
            is_changed=True,
        )
    return None


def _size_and_crc32(path: Path) -> tuple[int, int]:
    size = crc32 = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_READ_BYTES):
            crc32 = zlib.crc32(piece, crc32)
            size += len(piece)
    return size, crc32
