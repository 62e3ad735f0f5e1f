"""The JSON Lines form: one object on each line is one task."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from generators.errors import SourceError
from generators.protocol import SourceTask
from generators.sources.checking import Placed
from generators.sources.own.schema import OwnRecord, steps_of, task_of, text_sha256
from generators.sources.own.strict import converted, json_value, utf8
from generators.sources.reading import Finding, error


def read_lines(path: Path, benchmark: str) -> Iterator[Placed | Finding]:
    """Yield the task of every line, or why there is none; blank lines are left out."""
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
            yield Placed(_task(line, place, benchmark), place)
        except SourceError as fault:
            yield error(str(fault))


def _task(line: str, place: str, benchmark: str) -> SourceTask:
    record = converted(json_value(line, place), OwnRecord, place)
    for name in record.files:
        _check_path(name, place)
    sha256s = {name: text_sha256(text) for name, text in record.files.items()}
    return SourceTask(
        task=task_of(benchmark, record.task_id, record.prompt, record.checkpoints, record.domain, sha256s),
        files=dict(sorted(record.files.items())),
        trajectory=steps_of(record.trajectory),
    )


def _check_path(name: str, place: str) -> None:
    """Hold a file's name against what a path below a folder is."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name or str(path) != name:
        raise SourceError(
            f"{place}, key 'files': {name!r} is no path inside the task's folder; write it as 'folder/name.txt'"
        )
