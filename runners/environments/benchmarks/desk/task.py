"""Desk tasks: templates whose parameters determine the prompt, the workspace and the grader."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Checkpoint, Variant
from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import CheckpointNotMet, OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import Files
from lhaw_record.runners.environments.benchmarks.published import decoded_file
from lhaw_record.runners.environments.benchmarks.variants_file import (
    VARIANTS,
    SegmentEntry,
    VariantsFile,
    variant_of,
)
from lhaw_record.runners.environments.grading.grade import CheckpointResult, Grade

_TASKS = Path(__file__).parent / "tasks"


@cache
def desk_tasks() -> tuple["DeskTask", ...]:
    """Return the published instances of all desk tasks, sorted by name."""
    names = sorted(path.parent.name for path in _TASKS.glob("*/task.py"))
    return tuple(
        import_module(f"lhaw_record.runners.environments.benchmarks.desk.tasks.{name}.task").TASK for name in names
    )


class PassageEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A passage that is once in the prompt, and what replaces it under each severity; None leaves it."""

    text: str
    delete: str | None = None
    vaguify: str | None = None
    genericize: str | None = None


class RewrittenSegment(SegmentEntry, frozen=True, kw_only=True):
    """A removable segment of the prompt, the passages to replace, and what goes wrong without it."""

    failure_mode: str
    passages: tuple[PassageEntry, ...]


class DeskVariantsFile(VariantsFile, frozen=True, kw_only=True):
    """A ``variants.toml`` that also has ``[[segments]]``, from which variants are generated."""

    segments: tuple[RewrittenSegment, ...] = ()


class DeskCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A sub-goal and the function that checks it.

    ``check(left, parameters)`` returns one sentence of evidence if the agent reached the sub-goal, and otherwise raises
    :class:`CheckpointNotMet`. Any other exception is attributed to the grader, not to the agent.
    """

    checkpoint_id: str
    label: str
    check: Callable[[OfficeDeliverables, Any], str]
    total: float = 1.0


class DeskTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task template together with the parameters of one instance.

    ``parameters`` is a frozen struct whose defaults define the published task. ``build(parameters)`` returns the files
    of the workspace and depends on nothing else. ``msgspec.structs.replace(task, parameters=...)`` creates another
    instance.
    """

    task_id: str
    domain: str
    parameters: msgspec.Struct
    build: Callable[[Any], Files]
    checkpoints: tuple[DeskCheckpoint, ...]

    @property
    def folder(self) -> Path:
        """The folder with everything that belongs to the task."""
        return _TASKS / self.task_id.replace("-", "_")

    def fill(self, template: str) -> str:
        """Return a template with every ``{parameter}`` replaced by its value."""
        return template.format_map(msgspec.structs.asdict(self.parameters))

    def prompt(self) -> str:
        """Return the well-specified prompt of this instance."""
        return self.fill((self.folder / "prompt.md").read_text(encoding="utf-8")).strip()

    def variants_file(self) -> DeskVariantsFile:
        """Return the hand-written variants, as templates."""
        return _variants_file(self.folder)

    def recorded_checkpoints(self) -> tuple[Checkpoint, ...]:
        """Return the checkpoints as they are recorded, in the same order."""
        return tuple(
            Checkpoint(checkpoint_id=item.checkpoint_id, label=item.label, total=item.total)
            for item in self.checkpoints
        )


@cache
def environment_digest(task: DeskTask) -> str:
    """Return the SHA-256 of the workspace's logical content, the same on every machine and library version."""
    return digest(task.build(task.parameters))


def modules_of(task: DeskTask) -> tuple[str, ...]:
    """Return the modules that the checks of a task need, including the one that reads workbooks."""
    return (*sorted({item.check.__module__ for item in task.checkpoints}), "openpyxl")


def prompt_variants(task: DeskTask) -> tuple[Variant, ...]:
    """Return the variants that remove something from the prompt of this instance, in file order."""
    return tuple(each for each in _variants(task) if each.fault is None and each.severity != "environment")


def faulty_requests(task: DeskTask) -> tuple[Variant, ...]:
    """Return the variants of this instance whose request has a fault, in file order."""
    return tuple(each for each in _variants(task) if each.fault is not None)


def environment_variants(task: DeskTask) -> tuple[Variant, ...]:
    """Return the variants that change the workspace of this instance, in file order. Generation registers them."""
    changed = (each for each in _variants(task) if each.severity == "environment")
    return tuple(msgspec.structs.replace(each, origin="generated") for each in changed)


@cache
def _variants_file(folder: Path) -> DeskVariantsFile:
    return decoded_file(folder / VARIANTS, DeskVariantsFile)


@cache
def _variants(task: DeskTask) -> tuple[Variant, ...]:
    prompt = task.prompt()
    return tuple(variant_of(each, "desk", task.task_id, prompt, task.fill) for each in task.variants_file().variants)


def grade_desk(left: OfficeDeliverables, task: DeskTask) -> Grade:
    """Grade an agent's deliverables. Success requires all points. This function runs in a child process.

    Raises:
        Exception: A check is faulty and raised this error. The caller attributes it to the grader.
    """
    results = tuple(_result(item, left, task.parameters) for item in task.checkpoints)
    is_success = all(result.score >= item.total for result, item in zip(results, task.checkpoints, strict=True))
    return Grade(results=results, is_success=is_success, artifacts=left.artifacts(task.build(task.parameters)))


def _result(checkpoint: DeskCheckpoint, left: OfficeDeliverables, parameters: msgspec.Struct) -> CheckpointResult:
    try:
        details, score = checkpoint.check(left, parameters), checkpoint.total
    except CheckpointNotMet as unmet:
        details, score = str(unmet), unmet.score
    return CheckpointResult(checkpoint_id=checkpoint.checkpoint_id, score=score, details=details)
