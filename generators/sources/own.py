"""Source ``own``: a user's tasks, from a folder with a folder for each task, or from JSON Lines."""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import msgspec

from lhaw_record.generators.errors import SourceError
from lhaw_record.generators.protocol import SourceTask, TrajectoryStep
from lhaw_record.generators.sources.environment_files import files_below, texts_of
from lhaw_record.generators.sources.task_checks import CheckedSource, LocatedTask, SourceFinding, error, warning
from lhaw_record.recorder.events.canonical_json import canonical_json, digest
from lhaw_record.recorder.events.values import Checkpoint, Task
from lhaw_record.runners.environments.benchmarks import BENCHMARKS
from lhaw_record.runners.environments.benchmarks.published import PublishedError
from lhaw_record.runners.environments.benchmarks.swebench_pro import BENCHMARK as SWEBENCH_PRO
from lhaw_record.runners.environments.benchmarks.tac import BENCHMARK as TAC
from lhaw_record.runners.environments.benchmarks.variants_file import VARIANTS, VariantEntry, VariantsFile, variants_of
from lhaw_record.runners.experiment.decoding import key_problem
from lhaw_record.runners.imports.formats.lhaw_dataset import BENCHMARKS as RELEASED

VERSION = "1"


class OwnCheckpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One gradable sub-goal. Checkpoints without an id are numbered ``c1``, ``c2``, … by position."""

    label: str
    total: float = 1.0
    checkpoint_id: str | None = None


class OwnStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool call of a successful run."""

    name: str
    arguments: dict[str, Any] = {}
    result: str | None = None


class CheckpointsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of ``checkpoints.toml``."""

    checkpoints: tuple[OwnCheckpoint, ...] = ()
    domain: str | None = None


class OwnRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the JSON Lines form."""

    task_id: str
    prompt: str
    checkpoints: tuple[OwnCheckpoint, ...] = ()
    trajectory: tuple[OwnStep, ...] | None = None
    files: dict[str, str] = {}
    domain: str | None = None
    variants: tuple[VariantEntry, ...] = ()


def source_task(benchmark: str, record: OwnRecord, sha256s: Mapping[str, str], place: str) -> SourceTask:
    """Build a task with what belongs to it. Its environment digest covers the path and the SHA-256 of every file."""
    task = Task(
        benchmark=benchmark,
        benchmark_version=VERSION,
        task_id=record.task_id,
        prompt=record.prompt,
        checkpoints=tuple(
            Checkpoint(checkpoint_id=each.checkpoint_id or f"c{number}", label=each.label, total=each.total)
            for number, each in enumerate(record.checkpoints, start=1)
        ),
        environment_digest=digest(dict(sha256s)),
        domain=record.domain,
    )
    try:
        variants = variants_of(record.variants, task, place)
    except PublishedError as error:
        raise SourceError(str(error)) from error
    return SourceTask(task=task, files=record.files, trajectory=_steps(record.trajectory), variants=variants)


def _steps(steps: Sequence[OwnStep] | None) -> tuple[TrajectoryStep, ...] | None:
    if steps is None:
        return None
    return tuple(
        TrajectoryStep(name=step.name, arguments_json=canonical_json(step.arguments).decode(), result=step.result)
        for step in steps
    )


T = TypeVar("T")
_BYTE_ORDER_MARK = "\ufeff"
_HALF_PAIR = re.compile(r"[\ud800-\udfff]")


def utf8(content: bytes, place: str) -> str:
    """Decode bytes as UTF-8. Line endings and a byte order mark are kept."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"{place}, line {line}: byte {error.start} (0x{content[error.start]:02x}) is not UTF-8; save it as UTF-8"
        ) from error


def json_value(text: str, place: str) -> Any:
    """Decode JSON strictly: duplicate keys, NaN, infinities and unpaired surrogates are errors."""
    text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text.strip() else ""
        raise SourceError(f"{place}, {line}column {error.colno}: not JSON: {error.msg}; correct it") from error
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{place}: {error}") from error
    half = _HALF_PAIR.search(text) or ("\\u" in text and _HALF_PAIR.search(json.dumps(value, ensure_ascii=False)))
    if half:
        raise SourceError(f"{place}: {half[0]!r} is half a surrogate pair; write the whole character")
    return value


def toml_value(text: str, place: str) -> dict[str, Any]:
    """Decode TOML."""
    try:
        return tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK))
    except tomllib.TOMLDecodeError as error:
        raise SourceError(f"{place}: not TOML: {error}; correct it") from error


def converted(value: Any, kind: type[T], place: str) -> T:
    """Convert a decoded value to a type."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise SourceError(f"{place}: {key_problem(error, kind, value)}") from error


def _without_repeats(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} occurs twice; remove one")
        found[key] = value
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number; write a number")


_PROMPT = "prompt.md"
_CHECKPOINTS = "checkpoints.toml"
_TRAJECTORIES = ("trajectory.json", "trajectory.jsonl")
_FILES = "files"
_KNOWN = (_PROMPT, _CHECKPOINTS, VARIANTS, *_TRAJECTORIES, _FILES)
_LINES = (".jsonl", ".ndjson")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TAKEN = frozenset((*BENCHMARKS, TAC, SWEBENCH_PRO))
_SIGNS = re.compile(r"[\W_]+")
_RELEASED = {_SIGNS.sub("", name.lower()): name for name in (*RELEASED.values(), *RELEASED)}


class OwnSource(CheckedSource):
    """Tasks from a folder or a JSON Lines file.

    Args:
        path: The folder or file.
        benchmark: The name of the benchmark that the tasks belong to.
    """

    def __init__(self, path: Path, benchmark: str) -> None:
        self._path = path
        self.benchmark = benchmark

    def found(self) -> Iterator[LocatedTask | SourceFinding]:
        """Yield the tasks, folders sorted by name and lines in file order, and where they break docs/own-tasks.md."""
        if self._path.is_dir():
            yield from _read_folder(self._path, self.benchmark)
        elif self._path.suffix.lower() in _LINES:
            yield from _read_lines(self._path, self.benchmark)
        else:
            yield error(f"{self._path} is neither a folder nor named {' or '.join(_LINES)}; rename it")


def default_name(path: Path) -> str:
    """Return the default benchmark name: the folder's name, or the file's name without its suffix."""
    resolved = path.resolve()
    return resolved.stem if resolved.suffix.lower() in _LINES else resolved.name


def name_problem(name: str) -> str | None:
    """Return why a benchmark name is invalid, or None if it is valid."""
    if name in _TAKEN:
        return f"{name!r} is the name of another benchmark"
    released = _RELEASED.get(_SIGNS.sub("", name.lower()))
    if released is not None:
        return f"{name!r} is the name of {released} in the released dataset, whose variants would be taken for yours"
    if not _NAME.fullmatch(name):
        return f"{name!r} is not a name; use letters, digits, '.', '_' and '-'"
    return None


def _read_lines(path: Path, benchmark: str) -> Iterator[LocatedTask | SourceFinding]:
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
            yield LocatedTask(_line_task(line, place, benchmark), place)
        except SourceError as fault:
            yield error(str(fault))


def _line_task(line: str, place: str, benchmark: str) -> SourceTask:
    record = converted(json_value(line, place), OwnRecord, place)
    for name in record.files:
        _check_path(name, place)
    sha256s = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in record.files.items()}
    record = msgspec.structs.replace(record, files=dict(sorted(record.files.items())))
    return source_task(benchmark, record, sha256s, place)


def _check_path(name: str, place: str) -> None:
    """Check that a file name is a relative path that stays inside the task's folder."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name or str(path) != name:
        raise SourceError(
            f"{place}, key 'files': {name!r} is not a path inside the task's folder; write it as 'folder/name.txt'"
        )


def _read_folder(root: Path, benchmark: str) -> Iterator[LocatedTask | SourceFinding]:
    """Yield the tasks and findings of the folders in ``root``, sorted by folder name."""
    if (root / _PROMPT).exists():
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


def _task(folder: Path, benchmark: str) -> Iterator[LocatedTask | SourceFinding]:
    try:
        yield from _read_task(folder, benchmark)
    except SourceError as fault:
        yield error(str(fault), folder.name)
    except OSError as fault:
        yield error(f"cannot read {fault.filename}: {fault.strerror}; name files that you may read", folder.name)


def _read_task(folder: Path, benchmark: str) -> Iterator[LocatedTask | SourceFinding]:
    _check_names(folder)
    about = _toml(folder, _CHECKPOINTS, CheckpointsFile)
    found = files_below(folder / _FILES)
    if found.refused:
        first = found.refused[0]
        raise SourceError(f"{folder / _FILES / first.path} is {first.reason}")
    sha256s = {name: _sha256(path) for name, path in found.files.items()}
    texts = texts_of(found.files)
    record = OwnRecord(
        task_id=folder.name,
        prompt=_text(folder, _PROMPT),
        checkpoints=about.checkpoints,
        trajectory=_trajectory(folder),
        files=dict(texts.files),
        domain=about.domain,
        variants=_toml(folder, VARIANTS, VariantsFile).variants,
    )
    yield LocatedTask(source_task(benchmark, record, sha256s, str(folder / VARIANTS)), str(folder))
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
    if _PROMPT not in names:
        raise SourceError(f"{folder} has no {_PROMPT}; write the task's prompt into it, or move the folder away")
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


def _toml(folder: Path, name: str, kind: type[T]) -> T:
    """Return the content of a TOML file, which may be missing."""
    path = folder / name
    text = _text(folder, name) if path.exists() or path.is_symlink() else ""
    return converted(toml_value(text, str(path)), kind, str(path))


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
