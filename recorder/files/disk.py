"""The recorder's file operations. Every change on disk goes through the class ``Disk``.

Crash tests substitute a disk that records each write, sync and rename and can fail at any of them.
"""

import errno
import fcntl
import os
import secrets
from pathlib import Path

_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)
_sync_data = getattr(os, "fdatasync", os.fsync)


def _make_durable(descriptor: int) -> None:
    """On macOS ``fsync`` leaves data in the drive's cache; ``F_FULLFSYNC`` does not, if the file system supports it."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
        else:
            return
    _sync_data(descriptor)


class Disk:
    """The real disk. Every method raises the kernel's OSError."""

    def create(self, path: Path) -> int:
        """Create a file for appending and return its descriptor. The file must not exist."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, descriptor: int, data: bytes) -> None:
        """Append all bytes to an open file."""
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    def sync(self, descriptor: int) -> None:
        """Make the content and length of a file durable."""
        _make_durable(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Truncate a file to ``size`` bytes. The change is durable after the next ``sync``."""
        os.ftruncate(descriptor, size)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file atomically, replacing the target. The change is durable after ``sync_directory``."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file if it exists. The change is durable after ``sync_directory``."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Create a directory if it is missing. The change is durable after ``sync_directory`` of the parent."""
        path.mkdir(exist_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Make the entries of a directory durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _make_durable(descriptor)
        finally:
            os.close(descriptor)


def publish(disk: Disk, path: Path, content: bytes) -> None:
    """Write a file atomically and durably."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")  # several processes may write the same blob
    try:
        descriptor = disk.create(temporary)
        try:
            disk.write(descriptor, content)
            disk.sync(descriptor)
        finally:
            os.close(descriptor)
        disk.rename(temporary, path)
    except BaseException:
        disk.remove(temporary)
        raise
    disk.sync_directory(path.parent)
