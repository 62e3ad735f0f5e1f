"""Creates a store: the directory on this host and, for a shared store, the remote side."""

import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.errors import DamagedStore, StoreError, refusal
from lhaw_record.recorder.events.arrow_schema import event_schema
from lhaw_record.recorder.files.disk import Disk, publish
from lhaw_record.recorder.files.layout import FOLDERS, MANIFEST, MARKER, SCHEMA_FILE, marker
from lhaw_record.recorder.files.remote import Remote
from lhaw_record.recorder.storage.manifest import ManifestEntry, append
from lhaw_record.recorder.storage.manifest_check import FileProblem, create_manifest, schema_problem
from lhaw_record.recorder.storage.store import Store

_KNOWN_MAKERS_FILE = "remote.makers"


def create_store(root: Path, disk: Disk | None = None) -> Store:
    """Open a store for writing, and create what is missing."""
    disk = disk or Disk()
    try:
        root.mkdir(parents=True, exist_ok=True)
        disk.sync_directory(root.parent)
        if not (root / MARKER).exists():
            _refuse_other_files(root)
            publish(disk, root / MARKER, marker())
        store = Store(root, disk)
        if store.is_remote_side:
            raise StoreError(f"{root} is shared by several hosts; name it as shared:{root.resolve()}")
        for name in FOLDERS:
            disk.make_directory(root / name)
        create_manifest(store)
        _write_schema_file(store)
        disk.sync_directory(root)
    except OSError as error:
        raise StoreError(f"cannot write a store to {refusal(error, root)}") from error
    if store.remote is not None:
        _create_remote_side(store, store.remote)
    return store


def restore_marker(root: Path) -> list[FileProblem]:
    """Write the marker of a store of one host again if it is missing or damaged, and say so."""
    try:
        Store(root)
    except DamagedStore:
        if (root / MANIFEST).exists():
            publish(Disk(), root / MARKER, marker())
            return [FileProblem(str(root / MARKER), "was missing or damaged, and is written again")]
    return []


def check_remote(store: Store, remote: Remote) -> None:
    """Check that the remote side is the store of this working copy, and save its identity on first contact.

    The check can fail because a directory is not mounted or a bucket was recreated.
    """
    known = _known_makers(store)
    if not remote.is_made():
        advice = "it did before: restore it (is it mounted?)" if known else "'lhaw-record run' makes one"
        raise StoreError(f"{remote.address} holds no shared store; {advice}")
    if not known:
        publish(store.disk, store.root / _KNOWN_MAKERS_FILE, "\n".join(sorted(remote.makers)).encode())
    elif known.isdisjoint(remote.makers):
        raise StoreError(
            f"{remote.address} holds another store than before; {store.root} is a working copy of the old one. Restore "
            "the old store, or use the new one and move that directory away (its journals were never published)"
        )


def _refuse_other_files(root: Path) -> None:
    ours = (*FOLDERS, *(path.name for path in root.glob(f"{MARKER}.*.tmp")))  # left by a crash during creation
    strangers = [path.name for path in root.iterdir() if path.name not in ours]
    if strangers:
        raise StoreError(f"{root} is neither empty nor a store (it holds {strangers[0]!r}); name an empty directory")


def _write_schema_file(store: Store) -> None:
    """Write an empty Parquet file with every column, so that other programs see the whole schema.

    The file has its own partition, because those programs read the store with hive partitions.
    """
    path = store.root / SCHEMA_FILE
    if path.exists() and schema_problem(store) is None:
        return
    store.disk.make_directory(path.parent)
    store.disk.sync_directory(store.events_dir)
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, event_schema(), store_schema=False).close()
    content = sink.getvalue().to_pybytes()
    entry = ManifestEntry(kind="schema", journals=(), file=SCHEMA_FILE, bytes=len(content), crc32=zlib.crc32(content))
    append(store, entry)
    publish(store.disk, path, content)


def _create_remote_side(store: Store, remote: Remote) -> None:
    if not remote.is_made() and not _known_makers(store):
        remote.make()
    check_remote(store, remote)
    remote.put(SCHEMA_FILE, (store.root / SCHEMA_FILE).read_bytes())


def _known_makers(store: Store) -> frozenset[str]:
    """Return the identity of the shared store as this working copy first saw it, empty before first contact."""
    try:
        return frozenset((store.root / _KNOWN_MAKERS_FILE).read_text(errors="replace").split())
    except FileNotFoundError:
        return frozenset()
