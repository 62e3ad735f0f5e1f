"""Reads the variants of a desk task from its ``variants.toml``: what is removed, what changes, and what is at fault."""

import msgspec

from lhaw_record.recorder.events.values import (
    ChangeArgument,
    Dimension,
    EnvironmentChange,
    ExpectedQuestions,
    Fault,
    Segment,
    Severity,
    Variant,
)
from lhaw_record.runners.environments.benchmarks.desk.task import DeskTask

_ONLY_SEGMENT = "S1"


class SegmentEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One removed segment. ``value`` is a template that uses exactly the names in ``parameters``.

    ``text`` is a template for the phrase around the value, if the value alone does not show what it is for.
    ``revealed_after`` names an earlier segment of the variant (S1 is the first) that must be known before anyone could
    ask for this one.
    """

    parameters: tuple[str, ...]
    value: str
    dimension: Dimension
    subdimension: str
    criticality: float
    guessability: float
    expected_questions: tuple[str, ...]
    checkpoint_refs: tuple[str, ...]
    synonyms: tuple[str, ...] = ()
    text: str | None = None
    revealed_after: str | None = None


class VariantEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One underspecified prompt, as a template."""

    name: str
    severity: Severity
    failure_mode: str
    prompt: str
    segments: tuple[SegmentEntry, ...]


class ChangeEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One changed workspace. All texts are templates. ``value`` is the user's answer to a question about the change."""

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


class Replacement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A passage that is once in the full prompt, and what is there instead. Both are templates."""

    text: str
    by: str


class FaultEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request with a fault, as what differs from the full prompt. All texts are templates.

    The value of ``segment`` is what the user means, and ``decoy`` what the request says instead. ``appended`` is added
    at the end of the text file ``file``.
    """

    name: str
    fault: Fault
    failure_mode: str
    replacements: tuple[Replacement, ...]
    segment: SegmentEntry
    decoy: str | None = None
    follow_up: str | None = None
    file: str | None = None
    appended: str | None = None


class VariantsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of ``variants.toml``, with ``[[variants.segments]]`` below each of ``[[variants]]``."""

    variants: tuple[VariantEntry, ...]
    changes: tuple[ChangeEntry, ...] = ()
    faults: tuple[FaultEntry, ...] = ()


def read_variants(task: DeskTask) -> VariantsFile:
    """Read the ``variants.toml`` of a task."""
    return msgspec.toml.decode((task.folder / "variants.toml").read_bytes(), type=VariantsFile)


def prompt_variants(task: DeskTask) -> tuple[Variant, ...]:
    """Return the variants that change the prompt of this task instance, in file order."""
    return tuple(variant_of(task, entry) for entry in read_variants(task).variants)


def environment_variants(task: DeskTask) -> tuple[Variant, ...]:
    """Return the variants that change the workspace of this task instance, in file order."""
    return tuple(_changed_workspace(task, entry) for entry in read_variants(task).changes)


def faulty_requests(task: DeskTask) -> tuple[Variant, ...]:
    """Return the requests with a fault of this task instance, in file order."""
    return tuple(_faulty(task, entry) for entry in read_variants(task).faults)


def variant_of(task: DeskTask, entry: VariantEntry) -> Variant:
    """Turn an entry of the file into a variant of this task instance."""
    identified = [(f"S{number}", segment) for number, segment in enumerate(entry.segments, start=1)]
    return Variant(
        benchmark="desk",
        task_id=task.task_id,
        variant_id=f"{task.task_id}/{entry.name}",
        prompt=task.fill(entry.prompt).strip(),
        segments=tuple(segment_of(task, segment_id, segment) for segment_id, segment in identified),
        origin="hand_written",
        severity=entry.severity,
        expected_questions=tuple(
            ExpectedQuestions(segment_id=segment_id, questions=segment.expected_questions)
            for segment_id, segment in identified
        ),
        failure_mode=entry.failure_mode,
    )


def segment_of(task: DeskTask, segment_id: str, entry: SegmentEntry) -> Segment:
    """Turn an entry of a file into a segment of this task instance."""
    return Segment(
        segment_id=segment_id,
        value=task.fill(entry.value),
        text=None if entry.text is None else task.fill(entry.text),
        dimension=entry.dimension,
        subdimension=entry.subdimension,
        criticality=entry.criticality,
        guessability=entry.guessability,
        checkpoint_refs=entry.checkpoint_refs,
        synonyms=entry.synonyms,
        revealed_after=entry.revealed_after,
    )


def _faulty(task: DeskTask, entry: FaultEntry) -> Variant:
    segment = segment_of(task, _ONLY_SEGMENT, entry.segment)
    prompt = task.prompt()
    for each in entry.replacements:
        prompt = prompt.replace(task.fill(each.text), task.fill(each.by))
    change = None
    if entry.file is not None and entry.appended is not None:
        added = {"file": task.fill(entry.file), "text": task.fill(entry.appended)}
        change = EnvironmentChange(
            kind="appended", arguments=tuple(ChangeArgument(name=name, value=text) for name, text in added.items())
        )
    return Variant(
        benchmark="desk",
        task_id=task.task_id,
        variant_id=f"{task.task_id}/{entry.name}",
        prompt=prompt,
        segments=(msgspec.structs.replace(segment, decoy=None if entry.decoy is None else task.fill(entry.decoy)),),
        origin="hand_written",
        expected_questions=(ExpectedQuestions(segment_id=_ONLY_SEGMENT, questions=entry.segment.expected_questions),),
        failure_mode=entry.failure_mode,
        environment_change=change,
        fault=entry.fault,
        follow_up=None if entry.follow_up is None else task.fill(entry.follow_up),
    )


def _changed_workspace(task: DeskTask, entry: ChangeEntry) -> Variant:
    segment = Segment(
        segment_id=_ONLY_SEGMENT,
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
        expected_questions=(ExpectedQuestions(segment_id=_ONLY_SEGMENT, questions=entry.expected_questions),),
        failure_mode=entry.failure_mode,
        environment_change=EnvironmentChange(
            kind=entry.kind,
            arguments=tuple(ChangeArgument(name=name, value=task.fill(text)) for name, text in entry.arguments.items()),
        ),
    )
