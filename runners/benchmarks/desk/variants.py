"""The hand-written variants of a desk task, read from its ``variants.toml``."""

import msgspec

from recorder.resources import data_path
from recorder.values import Dimension, ExpectedQuestions, Segment, Severity, Variant
from runners.benchmarks.desk.template import DeskTask


class SegmentEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One removed segment; ``value`` is a template that holds ``parameters`` and nothing else that varies.

    ``text`` is the phrase around the value where the value alone does not say what it is for; also a template.
    ``revealed_after`` is the number of an earlier segment of the variant (S1 is the first) without which nobody could
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
    """One variant; ``prompt`` is the underspecified prompt as a template."""

    name: str
    severity: Severity
    failure_mode: str
    prompt: str
    segments: tuple[SegmentEntry, ...]


class VariantsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file: ``[[variants]]`` with ``[[variants.segments]]``."""

    variants: tuple[VariantEntry, ...]


def read_variants(task: DeskTask) -> tuple[VariantEntry, ...]:
    """Return the entries of the task's file, in its order.

    Raises:
        msgspec.ValidationError: A key is unknown, missing or of the wrong type.
    """
    content = data_path("desk", task.task_id, "variants.toml").read_bytes()
    return msgspec.toml.decode(content, type=VariantsFile).variants


def variant_of(task: DeskTask, entry: VariantEntry) -> Variant:
    """Return an entry as a variant of this instance of the task."""
    identified = [(f"S{number}", segment) for number, segment in enumerate(entry.segments, start=1)]
    return Variant(
        benchmark="desk",
        task_id=task.task_id,
        variant_id=f"{task.task_id}/{entry.name}",
        prompt=task.fill(entry.prompt).strip(),
        segments=tuple(_segment(task, segment_id, segment) for segment_id, segment in identified),
        origin="hand_written",
        severity=entry.severity,
        expected_questions=tuple(
            ExpectedQuestions(segment_id=segment_id, questions=segment.expected_questions)
            for segment_id, segment in identified
        ),
        failure_mode=entry.failure_mode,
    )


def _segment(task: DeskTask, segment_id: str, entry: SegmentEntry) -> Segment:
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
