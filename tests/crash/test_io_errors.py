"""A disk that fails: the recorder stops with advice, what was acknowledged is there, and the store can be mended."""

import errno
import itertools
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from lhaw_record.recorder.errors import RecorderError, RecordingFailed, StoreError
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.recovery.recovery import accept_loss
from lhaw_record.recorder.storage.creation import create_store
from tests.crash.judge import problems_after
from tests.crash.mutations import ARTIFACT_MUTATIONS, streams_left_open
from tests.crash.unsynced import UnsyncedDisk
from tests.crash.workload import STREAMS, record
from tests.support.depth import at_depth


class FailingDisk(UnsyncedDisk):
    """From the n-th operation on everything that needs room, or everything, fails with an error of the kernel.

    With a folder only what happens in it counts, and only its n-th operation fails.
    """

    def __init__(self, operation: int, error: int, folder: Path | None = None) -> None:
        self._left = operation
        self._error = error
        self._folder = folder

    def create(self, path: Path) -> int:
        self._fail(path)
        return super().create(path)

    def write(self, descriptor: int, data: bytes) -> None:
        try:
            self._fail(_path_of(descriptor))
        except OSError:
            super().write(descriptor, data[: len(data) // 3])  # as much as there was room for
            raise
        super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._fail(_path_of(descriptor))
        super().sync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self._fail(target)
        super().rename(source, target)

    def make_directory(self, path: Path) -> None:
        self._fail(path)
        super().make_directory(path)

    def sync_directory(self, path: Path) -> None:
        self._fail(path)
        super().sync_directory(path)

    def _fail(self, path: Path) -> None:
        is_counted = self._folder is None or self._folder in (path, *path.parents)
        self._left -= is_counted
        if self._left == 0 if self._folder and is_counted else self._left <= 0 and self._folder is None:
            raise OSError(self._error, os.strerror(self._error))


def _path_of(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def whatever_fails(
    root: Path, operation: int, error: int, folder: Path | None = None, streams: int = STREAMS
) -> tuple[Counter[str], list[Exception]]:
    """Record on a disk that fails; return what was acknowledged and what came out of it."""
    told: list[str] = []
    errors: list[Exception] = []
    try:
        anyio.run(lambda: record(root, FailingDisk(operation, error, folder), told.append, streams=streams))
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
    ("error", "first", "step"),
    [
        (errno.ENOSPC, 1, 34),
        pytest.param(errno.ENOSPC, 1, at_depth(2, 1), marks=pytest.mark.thorough),
        pytest.param(errno.EIO, 2, at_depth(2, 1), marks=pytest.mark.thorough),
    ],
)
def test_an_error_at_any_operation_loses_nothing_acknowledged(tmp_path, error, first, step):
    """From some operation on the disk fails: an error that names a file and a next step; then the store is mended."""
    for operation in itertools.count(first, step):
        root = tmp_path / str(operation)
        acknowledged, errors = whatever_fails(root, operation, error)
        assert problems_after(root, acknowledged) == [], f"{errno.errorcode[error]} from operation {operation}"
        for each in errors:
            assert str(root) in str(each) or isinstance(each, OSError)
        shutil.rmtree(root)
        if not errors:
            break
    assert operation > 100


def test_a_close_that_fails_does_not_hide_why(tmp_path, monkeypatch):
    """NFS repeats a failed write when a file is closed, without a name; the run still says which file it was."""
    root, closed = tmp_path / "store", os.close

    def close(descriptor: int) -> None:
        is_ours = _path_of(descriptor).parent in (root / "journal", root / "locks")
        closed(descriptor)
        if is_ours:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("lhaw_record.recorder.storage.store.os.close", close)
    _, errors = whatever_fails(root, 30, errno.EIO, streams=2)
    assert errors
    assert all(isinstance(each, RecordingFailed) and str(root) in str(each) for each in errors)


def problems_of_artifacts(folder: Path) -> Iterator[list[str]]:
    """Let each operation of keeping an artifact fail once with a full disk, as one that has room again does.

    Yields for each operation what was wrong after it: as the recorder left it, without any recovery, and afterwards.
    """
    for operation in itertools.count(2):  # the first makes the folder
        root = folder / str(operation)
        acknowledged, errors = whatever_fails(root, operation, errno.ENOSPC, root / "blobs", streams=2)
        if not errors:
            return
        report = verify(root)
        problems = [finding.problem for finding in report.findings] + problems_after(root, acknowledged)
        problems += [f"{report.open_streams} streams are open"] if report.open_streams else []
        try:
            anyio.run(lambda: record(root, UnsyncedDisk(), lambda stream_id: None, streams=2))  # noqa: B023 - it runs at once
        except* StoreError as group:
            problems += [str(each) for each in _leaves(group) if "already has a stream" not in str(each)]
        else:
            problems.append("the streams were begun a second time")
        yield [f"operation {operation}: {each}" for each in (*problems, *problems_after(root, acknowledged))]
        shutil.rmtree(root)


@pytest.mark.thorough
def test_an_artifact_that_cannot_be_kept_leaves_no_stream_open(tmp_path):
    """The recorder's own disk works, so it closes what its tasks left, and no name is given a second time."""
    found = list(problems_of_artifacts(tmp_path))
    assert [problem for problems in found for problem in problems] == []
    assert len(found) >= 6


@pytest.mark.parametrize("mutation", ARTIFACT_MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_recorder_that_leaves_streams_is_caught(tmp_path, mutation):
    """Without the closing at the end, and without the refusal of names, the same cases find something."""
    with mutation():
        assert any(problems_of_artifacts(tmp_path))


def test_streams_whose_rest_is_lost_are_closed_when_the_loss_is_accepted(tmp_path):
    """A store whose journals are sealed and whose streams are open: they get their end once, and a retry is owed."""
    root = tmp_path / "store"
    with streams_left_open():
        acknowledged, errors = whatever_fails(root, 3, errno.ENOSPC, root / "blobs")
    assert errors
    before = verify(root)
    assert (before.open_streams > 0, before.journals) == (True, 0)
    for _ in range(2):
        assert accept_loss(create_store(root)) == []
        after = verify(root)
        assert (after.open_streams, after.events) == (0, before.events + before.open_streams)
    assert problems_after(root, acknowledged) == []
