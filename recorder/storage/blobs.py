"""Stores artifacts under the SHA-256 of their content. A file is durable before the event that names it."""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from lhaw_record.recorder.errors import DamagedStore, RecordingFailed
from lhaw_record.recorder.events.identifiers import is_sha256
from lhaw_record.recorder.files.disk import publish
from lhaw_record.recorder.storage.store import Store

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a FIFO would block


def store_blob(store: Store, content: bytes) -> str:
    """Store bytes once and return their SHA-256 as hexadecimal digits (blocking: call it from a worker thread)."""
    sha256 = hashlib.sha256(content).hexdigest()
    path = _path(store, sha256)
    try:
        if not path.exists():
            _keep(store, path, content)
    except OSError as error:
        raise RecordingFailed(
            f"cannot keep an artifact at {path}: {error.strerror}; free space, then run again"
        ) from error
    return sha256


def load_blob(store: Store, sha256: str) -> bytes:
    """Return the bytes of an artifact, which are fetched once from a shared store and kept in the working copy.

    Neither the event that names the artifact nor the store's folder is trusted, so only a regular file inside the blobs
    folder is read, and symbolic links are not followed.
    """
    path = _path(store, sha256)
    try:
        return _read(store, path)
    except FileNotFoundError:
        if store.remote is None:
            raise
    content = store.remote.get(_remote_name(sha256))
    _keep(store, path, content)
    return content


def publish_blob(store: Store, sha256: str) -> None:
    """Upload an artifact to the shared store, skipping a missing one, which verification reports."""
    assert store.remote is not None
    with suppress(FileNotFoundError):
        store.remote.put(_remote_name(sha256), _read(store, _path(store, sha256)))


def _read(store: Store, path: Path) -> bytes:
    """Read a regular file below the blobs folder without following symbolic links."""
    root = os.open(store.blobs_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        folder = os.open(path.parent.name, _FOLDER, dir_fd=root)
        try:
            descriptor = os.open(path.name, _FILE, dir_fd=folder)
        finally:
            os.close(folder)
    except FileNotFoundError:
        raise
    except OSError as error:  # a symbolic link, or a file instead of a folder
        raise _foreign(path) from error
    finally:
        os.close(root)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _foreign(path)
        return file.read()


def _foreign(path: Path) -> DamagedStore:
    return DamagedStore(
        f"{path} is not a regular file inside the folder of artifacts (it is a symbolic link or a device), so it is "
        "not read; replace it by a copy of the file"
    )


def _keep(store: Store, path: Path, content: bytes) -> None:
    store.disk.make_directory(path.parent)
    store.disk.sync_directory(store.blobs_dir)
    publish(store.disk, path, content)


def _path(store: Store, sha256: str) -> Path:
    if not is_sha256(sha256):
        raise DamagedStore(f"{sha256[:100]!r} is not the name of an artifact, a SHA-256 of 64 hexadecimal digits")
    return store.blobs_dir / sha256[:2] / sha256


def _remote_name(sha256: str) -> str:
    return f"blobs/{sha256[:2]}/{sha256}"
