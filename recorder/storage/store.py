"""A store, the directory with journals, segments, blobs and locks, and the paths of its files."""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lhaw_record.recorder.errors import DamagedStore, StoreError, StoreInUse, refusal
from lhaw_record.recorder.events.identifiers import is_experiment_id
from lhaw_record.recorder.files.disk import Disk
from lhaw_record.recorder.files.layout import FORMAT, MANIFEST, MARKER, JournalName, is_journal, is_segment

if TYPE_CHECKING:
    from lhaw_record.recorder.files.remote import Remote

T = TypeVar("T")

_MOST_TRIES = 100


class Store:
    """The paths and locks of one store. Opening it writes nothing, so a read-only copy can be queried.

    ``address`` names the shared store that the directory is a working copy of. It is None for a store of one host.

    Args:
        root: The store's directory.
        disk: Performs all file changes. None means the real disk.

    Raises:
        StoreError: There is no store at ``root``, or the store has a different format.
    """

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self.root = root
        self.disk = disk or Disk()
        self.journal_dir = root / "journal"
        self.events_dir = root / "events"
        self.blobs_dir = root / "blobs"
        self.locks_dir = root / "locks"
        self.questions_dir = root / "questions"
        self.index_dir = root / "index"
        self.manifest_path = root / MANIFEST
        self.retired_dir = root / "retired"
        path = root / MARKER
        try:
            said = json.loads(path.read_bytes())
            found = said["format"]
        except (FileNotFoundError, NotADirectoryError):
            if self.manifest_path.exists():
                raise DamagedStore(f"{path} is missing; 'lhaw-record log repair --accept-loss' writes it") from None
            raise StoreError(f"{root} is not a store: {path} is missing; 'lhaw-record run' makes one") from None
        except (ValueError, KeyError, TypeError) as error:
            advice = f"restore it as {{\"format\": {FORMAT}}}; 'lhaw-record log repair --accept-loss' does this"
            raise DamagedStore(f"{path} is damaged ({error}); {advice}") from error
        if found != FORMAT:
            raise StoreError(
                f"{root} has store format {found}, this version reads {FORMAT}; use the version that wrote it"
            )
        self.address: str | None = said.get("address")
        self.is_remote_side = bool(said.get("is_shared"))

    @property
    def name(self) -> str:
        """The display name of the store: its address or its directory."""
        return self.address or str(self.root)

    @cached_property
    def remote(self) -> "Remote | None":
        """The files that all hosts see, or None for a store of one host."""
        if self.address is None:
            return None
        from lhaw_record.recorder.files.remote import Remote  # only shared stores need it

        return Remote(self.address)

    def attempt_stream(self, trial_id: str, attempt: int, writer_id: str) -> str:
        """Return the id of an attempt's stream, with the writer id if several hosts may run the same attempt."""
        return f"{trial_id}-{attempt}" + (f"-{writer_id}" if self.address else "")

    def journal_path(self, name: JournalName) -> Path:
        return self.journal_dir / f"{name}.journal"

    def mark_path(self, name: JournalName) -> Path:
        """Return the path of a journal's mark, which holds its minimum valid length."""
        return self.journal_dir / f"{name}.mark"

    def journals(self) -> dict[JournalName, Path]:
        """Return the current journals of the store, sorted by name."""
        paths = sorted(self.journal_dir.glob("*.journal"))
        return {JournalName.parse(path.stem): path for path in paths if is_journal(path)}

    def segment_paths(self) -> list[Path]:
        """Return the paths of the current segments, sorted by name."""
        paths = self.events_dir.glob("experiment=*/*.parquet")
        return sorted(path for path in paths if is_segment(path))

    @contextmanager
    def hold_experiment(self, experiment_id: str) -> Iterator[None]:
        """Hold the lock of one experiment, so that only one run at a time records it."""
        with self._opened_lock(f"{experiment_id}.lock") as descriptor:
            if not try_lock(descriptor):
                holder = os.read(descriptor, 4096).decode(errors="replace") or "an unnamed process"
                raise StoreInUse(
                    f"experiment {experiment_id!r} in {self.name} is being run by {holder.strip()}; "
                    "wait for it or stop it, then run the same command again"
                )
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()} since {since}\n".encode(), 0)
            yield

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Wait for and hold one of the store's own locks."""
        with self._opened_lock(f".{name}") as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield

    @contextmanager
    def try_to_hold(self, name: str) -> Iterator[bool]:
        """Hold one of the store's own locks if it is free, and yield whether it was."""
        with self._opened_lock(f".{name}") as descriptor:
            yield try_lock(descriptor)

    @contextmanager
    def _opened_lock(self, name: str) -> Iterator[int]:
        try:
            descriptor = os.open(self.locks_dir / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"cannot write to the store at {self.root}: {refusal(error)}") from error
        try:
            yield descriptor
        finally:
            close(descriptor)


def has_store(root: Path) -> bool:
    """Return whether a directory holds a store and, for a working copy, a store exists at its address."""
    if not (root / MARKER).exists():
        return False
    store = Store(root)
    return store.remote is None or store.remote.is_made()


def retry_vanished(store: Store, read: Callable[[], T]) -> T:
    """Return the result of a function that reads a store, calling it again if sealing or compaction removes a file."""
    for _ in range(_MOST_TRIES):
        try:
            return read()
        except FileNotFoundError:
            continue
    raise StoreError(f"{store.name} changed {_MOST_TRIES} times while it was being read; try again")


def check_experiment_id(experiment_id: str) -> str:
    """Return an experiment id after checking that it can be a folder name."""
    if not is_experiment_id(experiment_id):
        raise StoreError(
            f"experiment name {experiment_id!r} is not usable: use lower-case letters, digits, '.', '_' and '-', "
            "at most 100, and begin with a letter or digit"
        )
    return experiment_id


def try_lock(descriptor: int, *, is_shared: bool = False) -> bool:
    """Try to take the advisory lock of an open file, and return whether it was free."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def close(descriptor: int) -> None:
    """Close a file and release its lock. NFS repeats here an error of a write, which a sync has raised before."""
    with suppress(OSError):
        os.close(descriptor)
