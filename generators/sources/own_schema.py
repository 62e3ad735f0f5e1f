"""The schema of a user's own task, its strict decoding, and its conversion into a task."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from lhaw_record.generators.errors import SourceError
from lhaw_record.generators.protocol import SourceTask, TrajectoryStep
from lhaw_record.recorder.events.canonical_json import canonical_json, digest
from lhaw_record.recorder.events.values import Checkpoint, Task
from lhaw_record.runners.environments.benchmarks.published import PublishedError
from lhaw_record.runners.environments.benchmarks.variants_file import VariantEntry, variants_of
from lhaw_record.runners.experiment.decoding import key_problem

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
