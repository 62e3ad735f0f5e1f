"""A disk that really works and writes down every operation, with the acknowledgements in between."""

import os
import threading
from pathlib import Path
from typing import Literal

import msgspec

from lhaw_record.recorder.files.disk import Disk

Kind = Literal["create", "write", "sync", "truncate", "rename", "remove", "make_directory", "sync_directory", "ack"]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. ``file`` numbers files in the order of their making; paths are relative to the store."""

    kind: Kind
    file: int = -1
    path: str = ""
    target: str = ""
    offset: int = 0
    data: bytes = b""
    stream_id: str = ""


class TracingDisk(Disk):
    """Does what ``Disk`` does below a root and keeps the list of it.

    ``operations`` begin with what is there already, as if it had been made and synced.
    """

    def __init__(self, root: Path) -> None:
        self.operations: list[Operation] = []
        self._root = root
        self._files: dict[int, int] = {}
        self._count = 0
        self._lock = threading.Lock()
        for path in sorted(root.rglob("*")):
            self._take_over(path)
        self.operations += [
            Operation(kind="sync_directory", path=self._relative(path))
            for path in (root, *sorted(root.rglob("*")))
            if path.is_dir()
        ]

    def _take_over(self, path: Path) -> None:
        if path.is_dir():
            self._note(Operation(kind="make_directory", path=self._relative(path)))
            return
        number = self._files[path.stat().st_ino] = self._count
        self._count += 1
        self._note(Operation(kind="create", file=number, path=self._relative(path)))
        self._note(Operation(kind="write", file=number, data=path.read_bytes()))
        self._note(Operation(kind="sync", file=number))

    def acknowledged(self, stream_id: str) -> None:
        """Note that an append of a stream returned."""
        self._note(Operation(kind="ack", stream_id=stream_id))

    def create(self, path: Path) -> int:
        descriptor = super().create(path)
        with self._lock:
            self._files[os.fstat(descriptor).st_ino] = self._count
            self.operations.append(Operation(kind="create", file=self._count, path=self._relative(path)))
            self._count += 1
        return descriptor

    def write(self, descriptor: int, data: bytes) -> None:
        offset = os.fstat(descriptor).st_size
        super().write(descriptor, data)
        self._note(Operation(kind="write", file=self._file(descriptor), offset=offset, data=bytes(data)))

    def sync(self, descriptor: int) -> None:
        self.really_sync(descriptor)

    def really_sync(self, descriptor: int) -> None:
        """Sync; ``sync`` itself is what a mutation takes away."""
        super().sync(descriptor)
        self._note(Operation(kind="sync", file=self._file(descriptor)))

    def truncate(self, descriptor: int, size: int) -> None:
        super().truncate(descriptor, size)
        self._note(Operation(kind="truncate", file=self._file(descriptor), offset=size))

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._note(Operation(kind="rename", path=self._relative(source), target=self._relative(target)))

    def remove(self, path: Path) -> None:
        was_there = path.exists()
        super().remove(path)
        if was_there:
            self._note(Operation(kind="remove", path=self._relative(path)))

    def make_directory(self, path: Path) -> None:
        was_there = path.exists()
        super().make_directory(path)
        if not was_there:
            self._note(Operation(kind="make_directory", path=self._relative(path)))

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        if path.is_relative_to(self._root):
            self._note(Operation(kind="sync_directory", path=self._relative(path)))

    def path_of(self, descriptor: int) -> Path:
        """Return the name that an open file has now."""
        return Path(f"/proc/self/fd/{descriptor}").readlink()

    def _note(self, operation: Operation) -> None:
        with self._lock:
            self.operations.append(operation)

    def _file(self, descriptor: int) -> int:
        return self._files[os.fstat(descriptor).st_ino]

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self._root))
