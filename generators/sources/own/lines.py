"""Reads a user's tasks in JSON Lines form: the object on each line is one task."""

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from lhaw_record.generators.errors import SourceError
from lhaw_record.generators.protocol import SourceTask
from lhaw_record.generators.sources.own.schema import OwnRecord, steps_of, task_of
from lhaw_record.generators.sources.own.strict import converted, json_value, utf8
from lhaw_record.generators.sources.reading import Finding, error
from lhaw_record.generators.sources.task_checks import LocatedTask


def read_lines(path: Path, benchmark: str) -> Iterator[LocatedTask | Finding]:
    """Yield a task or an error for every line. Blank lines are skipped."""
    try:
        lines = utf8(path.read_bytes(), str(path)).split("\n")
    except SourceError as fault:
        yield error(str(fault))
        return
    except OSError as fault:
        yield error(f"cannot read {path}: {fault.strerror}; name a file that you may read")
        return
    for number, line in enumerate(lines, start=1):
        if not line.removeprefix("\ufeff").strip():
            continue
        try:
            place = f"{path}, line {number}"
            yield LocatedTask(_task(line, place, benchmark), place)
        except SourceError as fault:
            yield error(str(fault))


def _task(line: str, place: str, benchmark: str) -> SourceTask:
    record = converted(json_value(line, place), OwnRecord, place)
    for name in record.files:
        _check_path(name, place)
    sha256s = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in record.files.items()}
    return SourceTask(
        task=task_of(benchmark, record.task_id, record.prompt, record.checkpoints, record.domain, sha256s),
        files=dict(sorted(record.files.items())),
        trajectory=steps_of(record.trajectory),
    )


def _check_path(name: str, place: str) -> None:
    """Check that a file name is a relative path that stays inside the task's folder."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name or str(path) != name:
        raise SourceError(
            f"{place}, key 'files': {name!r} is not a path inside the task's folder; write it as 'folder/name.txt'"
        )
