"""Reads a user's tasks in folder form: one folder for each task, with the task's id as its name."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from lhaw_record.generators.errors import SourceError
from lhaw_record.generators.protocol import SourceTask
from lhaw_record.generators.sources.environment_files import files_below, texts_of
from lhaw_record.generators.sources.own.schema import CheckpointsFile, OwnStep, steps_of, task_of
from lhaw_record.generators.sources.own.strict import converted, json_value, toml_value, utf8
from lhaw_record.generators.sources.reading import Finding, error, warning
from lhaw_record.generators.sources.task_checks import LocatedTask

PROMPT = "prompt.md"
_CHECKPOINTS = "checkpoints.toml"
_TRAJECTORIES = ("trajectory.json", "trajectory.jsonl")
_FILES = "files"
_KNOWN = (PROMPT, _CHECKPOINTS, *_TRAJECTORIES, _FILES)


def read_folder(root: Path, benchmark: str) -> Iterator[LocatedTask | Finding]:
    """Yield the tasks and findings of the folders in ``root``, sorted by folder name."""
    if (root / PROMPT).exists():
        yield error(f"{root} is the folder of one task; name the folder above it, which holds a folder for each task")
        return
    for folder in sorted(root.iterdir()):
        if folder.name.startswith("."):
            continue
        if folder.is_symlink() and not folder.resolve().is_relative_to(root.resolve()):
            yield error(f"{folder} is a link that leaves {root}; put the folder itself there", folder.name)
        elif not folder.is_dir():
            yield warning(f"{folder} is not a task folder and is left out")
        else:
            yield from _task(folder, benchmark)


def _task(folder: Path, benchmark: str) -> Iterator[LocatedTask | Finding]:
    try:
        yield from _read_task(folder, benchmark)
    except SourceError as fault:
        yield error(str(fault), folder.name)
    except OSError as fault:
        yield error(f"cannot read {fault.filename}: {fault.strerror}; name files that you may read", folder.name)


def _read_task(folder: Path, benchmark: str) -> Iterator[LocatedTask | Finding]:
    _check_names(folder)
    about = _checkpoints(folder)
    steps = _trajectory(folder)
    found = files_below(folder / _FILES)
    if found.refused:
        first = found.refused[0]
        raise SourceError(f"{folder / _FILES / first.path} is {first.reason}")
    sha256s = {name: _sha256(path) for name, path in found.files.items()}
    texts = texts_of(found.files)
    task = task_of(benchmark, folder.name, _text(folder, PROMPT), about.checkpoints, about.domain, sha256s)
    yield LocatedTask(SourceTask(task=task, files=texts.files, trajectory=steps_of(steps)), str(folder))
    for name in texts.too_large:
        yield warning(f"{folder / _FILES / name} is too large to be read; only its name is used", folder.name)


def _check_names(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    strangers = [name for name in names if name not in _KNOWN]
    if strangers:
        raise SourceError(
            f"{folder / strangers[0]}: a task's folder has no such file; known: {', '.join(_KNOWN)}; "
            f"what an agent finds goes into {_FILES}/"
        )
    if PROMPT not in names:
        raise SourceError(f"{folder} has no {PROMPT}; write the task's prompt into it, or move the folder away")
    if all(name in names for name in _TRAJECTORIES):
        raise SourceError(f"{folder} has {' and '.join(_TRAJECTORIES)}; keep one")
    if _FILES in names and ((folder / _FILES).is_symlink() or not (folder / _FILES).is_dir()):
        raise SourceError(f"{folder / _FILES} is not a folder; put the agent's files into a folder of that name")


def _text(folder: Path, name: str) -> str:
    path = folder / name
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise SourceError(f"{path} is a link that leaves the task's folder; put the file itself there")
    if not path.is_file():
        raise SourceError(f"{path} is not a file; write it as a text file")
    return utf8(path.read_bytes(), str(path))


def _checkpoints(folder: Path) -> CheckpointsFile:
    path = folder / _CHECKPOINTS
    if not (path.exists() or path.is_symlink()):
        return CheckpointsFile()
    return converted(toml_value(_text(folder, _CHECKPOINTS), str(path)), CheckpointsFile, str(path))


def _trajectory(folder: Path) -> tuple[OwnStep, ...] | None:
    for name in _TRAJECTORIES:
        path = folder / name
        if not (path.exists() or path.is_symlink()):
            continue
        text = _text(folder, name)
        if name.endswith(".json"):
            return converted(json_value(text, str(path)), tuple[OwnStep, ...], str(path))
        lines = [(f"{path}, line {number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        return tuple(converted(json_value(line, place), OwnStep, place) for place, line in lines)
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
