"""Artifacts by content: the bytes lie under their SHA-256 and are durable before the event that names them."""

import hashlib

from recorder.disk import publish
from recorder.errors import RecordingFailed
from recorder.store import Store


def store_blob(store: Store, content: bytes) -> str:
    """Write bytes once and return their SHA-256 as hexadecimal digits. Blocking: call it from a thread.

    Raises:
        RecordingFailed: The bytes cannot be written.
    """
    sha256 = hashlib.sha256(content).hexdigest()
    path = store.blobs_dir / sha256[:2] / sha256
    try:
        if not path.exists():
            store.disk.make_directory(path.parent)
            store.disk.sync_directory(store.blobs_dir)
            publish(store.disk, path, content)
    except OSError as error:
        raise RecordingFailed(
            f"cannot keep an artifact at {path}: {error.strerror}; free space, then run again"
        ) from error
    return sha256


def load_blob(store: Store, sha256: str) -> bytes:
    """Return the bytes of an artifact.

    Raises:
        FileNotFoundError: It is not in this store.
    """
    return (store.blobs_dir / sha256[:2] / sha256).read_bytes()
