"""Read one published task folder: prompt, grading text, services, simulated colleagues, and the files for the agent.

The images keep three areas apart. ``/instruction`` and ``/workspace`` belong to the agent, ``/utils`` to the grader and
``/npc`` to the simulated colleagues. An agent must not look into the last two (base image of TheAgentCompany 1.0.0).
"""

import fnmatch
import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from lhaw_record.runners.environments.benchmarks.published import PublishedError, read_text
from lhaw_record.runners.environments.benchmarks.tac.checkpoints import Checkpoints, read_checkpoints

WORKSPACE = "/workspace"  # also the base of relative targets
_AGENTS = (WORKSPACE, "/instruction")
_COPY = ("COPY", "ADD")


class CopyInstruction(msgspec.Struct, frozen=True, kw_only=True):
    """One source of a ``COPY``, relative to the task's folder, and its absolute target path in the image.

    If ``is_into`` is true, a file keeps its name below the target. The contents of a folder always go below the target.
    """

    source: str
    target: str
    is_into: bool


class AgentFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a Dockerfile gives the agent. ``reason`` says why they cannot be determined, or is None."""

    copied: tuple[CopyInstruction, ...] = ()
    reason: str | None = None


def agent_files(dockerfile: str) -> AgentFiles:
    """Return the files that a task's Dockerfile copies to the agent.

    If a later build command changes the agent's directories, the copied files are not what the agent finds. In that
    case no file is returned.
    """
    copied: list[CopyInstruction] = []
    for name, rest in _instructions(dockerfile):
        if name in _COPY:
            copied += [each for each in _copies(rest) if _is_agents(each.target)]
        elif name == "RUN" and copied and any(place in rest for place in _AGENTS):
            return AgentFiles(reason="a command of its Dockerfile changes the agent's directory after copying to it")
    return AgentFiles(copied=tuple(copied))


def _instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Yield every instruction with its arguments. Continued lines are joined, and comments are left out."""
    lines = (line for line in dockerfile.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\s*\n", " ", "\n".join(lines)).splitlines():
        name, _, rest = line.strip().partition(" ")
        if name:
            yield name.upper(), rest.strip()


def _copies(rest: str) -> Iterator[CopyInstruction]:
    """Yield each source of one instruction with its target. Sources in other images and on the network are left out."""
    try:
        words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
    except ValueError:
        return
    if any(word.startswith("--from") for word in words):
        return
    *sources, target = [word for word in words if not word.startswith("--")] or [""]
    path = posixpath.normpath(posixpath.join(WORKSPACE, target))
    is_into = target.endswith("/") or len(sources) > 1 or path in _AGENTS
    for source in sources:
        if "://" not in source:
            yield CopyInstruction(source=source.strip("/"), target=path, is_into=is_into)


def _is_agents(path: str) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in _AGENTS)


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
"""Name patterns of files and folders that only a grader may see, regardless of the Dockerfile."""


class Colleague(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulated colleague knows and how they behave. Never shown to an agent."""

    extra_info: str = ""
    strategy_hint: str = ""


class PublishedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One published task folder.

    ``agent_files`` maps paths in the agent's container to files on this machine. ``remarks`` describe oddities of the
    folder.
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
    """Return whether a folder contains a published task."""
    return (folder / _PROMPT).is_file()


def read_task(folder: Path) -> PublishedTask:
    """Read the task in a folder. The task is named after the folder."""
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
    """Return the services that a task needs. An empty or missing file means none."""
    import yaml

    try:
        names = yaml.safe_load(_optional_text(path))
    except yaml.YAMLError as error:
        raise PublishedError(f"{path} is not YAML: {' '.join(str(error).split())}; get the file again") from error
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


def _files(folder: Path, copied: CopyInstruction) -> Iterator[tuple[str, Path]]:
    """Yield the files of one source with their paths in the image.

    The source is a file, a folder whose files are all copied, or a pattern whose matches are copied.
    """
    is_pattern = any(sign in copied.source for sign in "*?[")
    for path in sorted(folder.glob(copied.source)) if is_pattern else [folder / copied.source]:
        is_below = copied.is_into or is_pattern
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if _is_shown(each, folder):
                name = each.relative_to(path).as_posix() if path.is_dir() else each.name
                yield (f"{copied.target}/{name}" if is_below or path.is_dir() else copied.target), each


def _is_shown(path: Path, folder: Path) -> bool:
    """Return whether a file is inside the folder after resolving links, and its name is not reserved for graders."""
    if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
        return False
    parts = path.resolve().relative_to(folder.resolve()).parts
    return not any(fnmatch.fnmatchcase(part.lower(), pattern) for part in parts for pattern in _NEVER_SHOWN)
