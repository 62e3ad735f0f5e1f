"""A disk that fails: the recorder stops with advice, what was acknowledged is there, and the store can be mended."""

import errno
import itertools
import os
import shutil
from collections import Counter
from pathlib import Path

import anyio
import pytest

from recorder.errors import RecorderError
from tests.crash.judge import problems_after
from tests.crash.unsynced import UnsyncedDisk
from tests.crash.workload import record


class FailingDisk(UnsyncedDisk):
    """From the n-th operation on everything that needs room, or everything, fails with an error of the kernel."""

    def __init__(self, operation: int, error: int) -> None:
        self._left = operation
        self._error = error

    def create(self, path: Path) -> int:
        self._fail()
        return super().create(path)

    def write(self, descriptor: int, data: bytes) -> None:
        try:
            self._fail()
        except OSError:
            super().write(descriptor, data[: len(data) // 3])  # as much as there was room for
            raise
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._fail()
        super().sync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self._fail()
        super().rename(source, target)

    def make_directory(self, path: Path) -> None:
        self._fail()
        super().make_directory(path)

    def sync_directory(self, path: Path) -> None:
        self._fail()
        super().sync_directory(path)

    def _fail(self) -> None:
        self._left -= 1
        if self._left <= 0:
            raise OSError(self._error, os.strerror(self._error))


def whatever_fails(root: Path, operation: int, error: int) -> tuple[Counter[str], list[Exception]]:
    """Record on a disk that fails; return what was acknowledged and what came out of it."""
    told: list[str] = []
    errors: list[Exception] = []
    try:
        anyio.run(lambda: record(root, FailingDisk(operation, error), told.append))
    except* (RecorderError, OSError) as group:
        errors += _leaves(group)
    return Counter(told), errors


def _leaves(group: BaseException):
    if isinstance(group, BaseExceptionGroup):
        for each in group.exceptions:
            yield from _leaves(each)
    else:
        yield group


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (errno.ENOSPC, 17),
        pytest.param(errno.ENOSPC, 1, marks=pytest.mark.thorough),
        pytest.param(errno.EIO, 1, marks=pytest.mark.thorough),
    ],
)
def test_an_error_at_any_operation_loses_nothing_acknowledged(tmp_path, error, step):
    """From some operation on the disk fails: an error that names a file and a next step; then the store is mended."""
    for operation in itertools.count(1, step):
        root = tmp_path / str(operation)
        acknowledged, errors = whatever_fails(root, operation, error)
        assert problems_after(root, acknowledged) == [], f"{errno.errorcode[error]} from operation {operation}"
        for each in errors:
            assert str(root) in str(each) or isinstance(each, OSError)
        shutil.rmtree(root)
        if not errors:
            break
    assert operation > 100
