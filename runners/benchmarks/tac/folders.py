"""One published task folder: prompt, grading text, services, simulated colleagues, and the files of its agent."""

import fnmatch
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from runners.benchmarks.published import PublishedError, read_text
from runners.benchmarks.tac.checkpoints import Checkpoints, read_checkpoints
from runners.benchmarks.tac.image import Copied, agent_files

_PROMPT = "task.md"
_NEVER_SHOWN = (
    "evaluator*",
    "solution*",
    "golden*",
    "*_golden*",
    "ref_*",
    "answers*",
    "eval_data",
    "checkpoints.md",
    "scenarios.json",
)
"""Names of files and folders that only a grader may see, whatever a Dockerfile says."""


class Colleague(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulated colleague knows, and how he behaves; never shown to an agent."""

    extra_info: str = ""
    strategy_hint: str = ""


class PublishedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task folder.

    ``agent_files`` maps paths in the agent's container to the files here; ``remarks`` say what is odd about the folder.
    """

    task_id: str
    prompt: str
    checkpoint_text: str
    checkpoints: Checkpoints
    services: tuple[str, ...]
    colleagues: Mapping[str, Colleague]
    agent_files: Mapping[str, Path]
    remarks: tuple[str, ...] = ()


def is_task_folder(folder: Path) -> bool:
    """Return whether a folder holds a published task."""
    return (folder / _PROMPT).is_file()


def read_task(folder: Path) -> PublishedTask:
    """Return the task of a folder; its name is the folder's.

    Raises:
        PublishedError: A file cannot be read or is not what it should be.
    """
    checkpoint_text = _optional_text(folder / "checkpoints.md")
    dockerfile = _optional_text(folder / "Dockerfile")
    given = agent_files(dockerfile)
    return PublishedTask(
        task_id=folder.resolve().name,
        prompt=read_text(folder / _PROMPT),
        checkpoint_text=checkpoint_text,
        checkpoints=read_checkpoints(checkpoint_text),
        services=_services(folder / "dependencies.yml"),
        colleagues=_colleagues(folder / "scenarios.json"),
        agent_files={target: path for copied in given.copied for target, path in _files(folder, copied)},
        remarks=(f"no file is shown: {given.reason}",) if given.reason else (),
    )


def _optional_text(path: Path) -> str:
    return read_text(path) if path.is_file() else ""


def _services(path: Path) -> tuple[str, ...]:
    """The servers that a task needs; a file that is empty or not there names none."""
    import yaml

    try:
        names = yaml.safe_load(_optional_text(path))
    except yaml.YAMLError as error:
        raise PublishedError(f"{path} is no YAML: {' '.join(str(error).split())}; get the file again") from error
    if names is None:
        return ()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise PublishedError(f"{path}: expected a list of services such as '- owncloud', found {names!r}")
    return tuple(names)


def _colleagues(path: Path) -> dict[str, Colleague]:
    text = _optional_text(path)
    if not text.strip():
        return {}
    try:
        return msgspec.convert(json.loads(text.removeprefix("\ufeff")), dict[str, Colleague])
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise PublishedError(f"{path}: expected a person's name with extra_info and strategy_hint: {error}") from error


def _files(folder: Path, copied: Copied) -> Iterator[tuple[str, Path]]:
    """The files of one source with their paths in the image: itself, those below it, or those that a pattern fits."""
    is_pattern = any(sign in copied.source for sign in "*?[")
    for path in sorted(folder.glob(copied.source)) if is_pattern else [folder / copied.source]:
        is_below = copied.is_into or is_pattern
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if _is_shown(each, folder):
                name = each.relative_to(path).as_posix() if path.is_dir() else each.name
                yield (f"{copied.target}/{name}" if is_below or path.is_dir() else copied.target), each


def _is_shown(path: Path, folder: Path) -> bool:
    """Whether a file really lies in the folder, and none of its names is one of those that only a grader may see."""
    if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
        return False
    parts = path.resolve().relative_to(folder.resolve()).parts
    return not any(fnmatch.fnmatchcase(part.lower(), pattern) for part in parts for pattern in _NEVER_SHOWN)
