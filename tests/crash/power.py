"""Power cuts: what a disk may hold when the power goes after some operation.

The model is stricter than any file system that is in use. Everything since a file's last sync is pieces of 512 bytes,
of which any subset may be there, in any order, others missing as zeros, torn, or holding what an older file had there;
every change of a directory since its last sync is there or not, independently of all others and of the files. Syncing
a file does not make its name durable. A rename happens or does not; one into another folder happens in each of the two,
or does not.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from random import Random

import msgspec

from tests.crash.tracing import Operation

SECTOR_BYTES = 512


class Extreme(Random):
    """No chance at all: ``Extreme(NOTHING)`` keeps only what was synced, ``Extreme(EVERYTHING)`` all that was done."""

    def __init__(self, way: float) -> None:
        super().__init__(0)
        self._way = way

    def random(self) -> float:
        """Always choose the same way."""
        return self._way


NOTHING = 0.0
EVERYTHING = 0.25
"""The ways of ``_survivors`` and ``Power._torn`` that lose and keep everything."""


class _File:
    """What is surely on the disk of a file, and what may be."""

    def __init__(self) -> None:
        self.durable = b""
        self.pending: list[Operation] = []

    def sync(self) -> None:
        for operation in self.pending:
            self.durable = _applied(self.durable, operation)
        self.pending = []


class _Directory:
    """The same of a directory: names and the files they stand for; None stands for a directory."""

    def __init__(self) -> None:
        self.durable: dict[str, int | None] = {}
        self.current: dict[str, int | None] = {}
        self.pending: list[tuple[Operation, int | None]] = []

    def change(self, operation: Operation, file: int | None) -> None:
        self.pending.append((operation, file))
        _rename(self.current, operation, file)

    def sync(self) -> None:
        self.durable = dict(self.current)
        self.pending = []


class Power:
    """The state of a disk that follows a trace; ``image`` cuts the power."""

    def __init__(self) -> None:
        self.acknowledged: Counter[str] = Counter()
        self._files: dict[int, _File] = {}
        self._directories: dict[str, _Directory] = {".": _Directory()}
        self._old_data: list[bytes] = []

    def follow(self, operation: Operation) -> None:
        """Take over one more operation."""
        match operation.kind:
            case "ack":
                self.acknowledged[operation.stream_id] += 1
            case "write" | "truncate":
                self._files[operation.file].pending.append(operation)
            case "sync":
                self._files[operation.file].sync()
            case "sync_directory":
                self._directories[operation.path].sync()
            case "create":
                self._files[operation.file] = _File()
                self._parent(operation).change(operation, operation.file)
            case "make_directory":
                self._directories[operation.path] = _Directory()
                self._parent(operation).change(operation, None)
            case "rename":
                parent, target = self._parent(operation), self._directories[_folder(operation.target)]
                file = parent.current[PurePosixPath(operation.path).name]
                if target is not parent:  # stricter than any disk: the name may be in both folders, or in none
                    parent.change(msgspec.structs.replace(operation, kind="remove"), None)
                    operation = msgspec.structs.replace(operation, kind="create", path=operation.target)
                target.change(operation, file)
            case "remove":
                parent = self._parent(operation)
                self._old_data.append(self._files[parent.current[PurePosixPath(operation.path).name]].durable)
                parent.change(operation, None)

    def image(self, chance: Random) -> dict[str, bytes | None]:
        """Return one possible content of the disk: path to bytes, None for a directory."""
        found: dict[str, bytes | None] = {}
        self._collect(".", chance, found)
        return found

    def _collect(self, path: str, chance: Random, found: dict[str, bytes | None]) -> None:
        directory = self._directories[path]
        names = dict(directory.durable)
        for operation, file in _survivors(directory.pending, chance):
            _rename(names, operation, file)
        for name, file in names.items():
            below = str(PurePosixPath(path) / name)
            found[below] = None if file is None else self._content(self._files[file], chance)
            if file is None:
                self._collect(below, chance, found)

    def _content(self, file: _File, chance: Random) -> bytes:
        data = file.durable
        for operation in _survivors(file.pending, chance):
            data = _applied(data, self._torn(operation, chance)) if operation.kind == "write" else data
            data = data[: operation.offset] if operation.kind == "truncate" else data
        return data

    def _torn(self, operation: Operation, chance: Random) -> Operation:
        """Some of the sectors of a write, in place; what is missing before the last one is zeros, or old data."""
        data, way = operation.data, chance.random()
        if way < 0.3:
            return operation
        if way < 0.6:
            return msgspec.structs.replace(operation, data=data[: chance.randrange(len(data) + 1)])
        old = chance.choice(self._old_data) if self._old_data and chance.random() < 0.5 else b""
        pieces = []
        for start in range(0, len(data), SECTOR_BYTES):
            piece = data[start : start + SECTOR_BYTES]
            place = operation.offset + start
            stale = old[place : place + len(piece)].ljust(len(piece), b"\0")
            pieces.append(piece if chance.random() < 0.6 else stale)
        kept = b"".join(pieces)[: chance.choice([len(data), chance.randrange(len(data) + 1)])]
        return msgspec.structs.replace(operation, data=kept)

    def _parent(self, operation: Operation) -> _Directory:
        return self._directories[_folder(operation.path)]


def _folder(path: str) -> str:
    return str(PurePosixPath(path).parent)


def write_image(image: dict[str, bytes | None], root: Path) -> None:
    """Put an image into an empty directory."""
    root.mkdir()
    for path, content in image.items():  # directories come before what is in them
        if content is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(content)


def _survivors(pending: Sequence, chance: Random) -> list:
    """All, none, the first ones, or any of what was not synced."""
    way = chance.random()
    if way < 0.2:
        return []
    if way < 0.4:
        return list(pending)
    if way < 0.6:
        return list(pending[: chance.randrange(len(pending) + 1)])
    return [each for each in pending if chance.random() < 0.5]


def _applied(data: bytes, operation: Operation) -> bytes:
    if operation.kind == "truncate":
        return data[: operation.offset]
    before = data[: operation.offset].ljust(operation.offset, b"\0")
    return before + operation.data + data[operation.offset + len(operation.data) :]


def _rename(names: dict[str, int | None], operation: Operation, file: int | None) -> None:
    """Change the names of a directory as an operation does."""
    name = PurePosixPath(operation.path).name
    if operation.kind in ("create", "make_directory"):
        names[name] = file
    else:
        names.pop(name, None)
    if operation.kind == "rename":
        names[PurePosixPath(operation.target).name] = file
