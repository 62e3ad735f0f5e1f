"""Artifacts by content: the bytes lie under their SHA-256 and are durable before the event that names them."""

import hashlib
from contextlib import suppress
from pathlib import Path

from recorder.disk import publish
from recorder.errors import RecordingFailed
from recorder.store import Store


def store_blob(store: Store, content: bytes) -> str:
    """Write bytes once and return their SHA-256 as hexadecimal digits. Blocking: call it from a thread.

    Raises:
        RecordingFailed: The bytes cannot be written.
    """
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
    """Return the bytes of an artifact; on a shared store they are fetched once and kept.

    Raises:
        FileNotFoundError: It is not in this store.
        StoreError: The place of a shared store cannot be reached.
    """
    path = _path(store, sha256)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        if store.remote is None:
            raise
    content = store.remote.get(_remote_name(sha256))
    _keep(store, path, content)
    return content


def publish_blob(store: Store, sha256: str) -> None:
    """Put an artifact of this host where all hosts see it. One that is missing here stays missing, and is a finding.

    Raises:
        StoreError: The place of the shared store cannot be reached or written.
    """
    assert store.remote is not None
    with suppress(FileNotFoundError):
        store.remote.put(_remote_name(sha256), _path(store, sha256).read_bytes())


def _keep(store: Store, path: Path, content: bytes) -> None:
    store.disk.make_directory(path.parent)
    store.disk.sync_directory(store.blobs_dir)
    publish(store.disk, path, content)


def _path(store: Store, sha256: str) -> Path:
    return store.blobs_dir / sha256[:2] / sha256


def _remote_name(sha256: str) -> str:
    return f"blobs/{sha256[:2]}/{sha256}"
