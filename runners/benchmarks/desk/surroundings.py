"""Variants whose prompt is the task's own and whose workspace is not, read from ``data/desk/environment.toml``."""

from functools import cache

import msgspec

from recorder.resources import data_path
from recorder.values import ChangeArgument, EnvironmentChange, ExpectedQuestions, Segment, Variant
from runners.benchmarks.desk.template import DeskTask

_SEGMENT_ID = "S1"


class ChangeEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change; the texts are templates, ``value`` is what the user answers when asked about it."""

    task: str
    name: str
    kind: str
    arguments: dict[str, str]
    value: str
    subdimension: str
    guessability: float
    expected_questions: tuple[str, ...]
    checkpoint_refs: tuple[str, ...]
    failure_mode: str
    criticality: float = 1.0
    synonyms: tuple[str, ...] = ()


class ChangesFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file: ``[[changes]]``."""

    changes: tuple[ChangeEntry, ...]


@cache
def read_changes() -> tuple[ChangeEntry, ...]:
    """Return every entry, in the order of the file.

    Raises:
        msgspec.ValidationError: A key is unknown, missing or of the wrong type.
    """
    return msgspec.toml.decode(data_path("desk", "environment.toml").read_bytes(), type=ChangesFile).changes


def environment_variants(task: DeskTask) -> tuple[Variant, ...]:
    """Return the variants of a task that change its workspace, in the order of the file."""
    return tuple(_variant(task, entry) for entry in read_changes() if entry.task == task.task_id)


def _variant(task: DeskTask, entry: ChangeEntry) -> Variant:
    segment = Segment(
        segment_id=_SEGMENT_ID,
        value=task.fill(entry.value),
        dimension="input",
        subdimension=entry.subdimension,
        criticality=entry.criticality,
        guessability=entry.guessability,
        checkpoint_refs=entry.checkpoint_refs,
        synonyms=entry.synonyms,
    )
    return Variant(
        benchmark="desk",
        task_id=task.task_id,
        variant_id=f"{task.task_id}/environment-{entry.name}",
        prompt=task.prompt(),
        segments=(segment,),
        origin="generated",
        severity="environment",
        expected_questions=(ExpectedQuestions(segment_id=_SEGMENT_ID, questions=entry.expected_questions),),
        failure_mode=entry.failure_mode,
        environment_change=EnvironmentChange(
            kind=entry.kind,
            arguments=tuple(ChangeArgument(name=name, value=task.fill(text)) for name, text in entry.arguments.items()),
        ),
    )
