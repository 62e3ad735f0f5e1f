"""Read the variants that a person wrote for one Harbor task, from ``variants.toml`` beside its ``task.toml``."""

from collections.abc import Iterator, Sequence

import msgspec

from lhaw_record.recorder.events.values import Dimension, ExpectedQuestions, Segment, Severity, Task, Variant
from lhaw_record.runners.environments.benchmarks.expected_answers import answer_problems
from lhaw_record.runners.environments.benchmarks.published import PublishedError
from lhaw_record.runners.models.replay import Parameter

VARIANTS = "variants.toml"
_SEVERITIES = ("delete", "vaguify", "genericize", "decoy")


class SegmentEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One removed segment.

    Attributes:
        value: What the prompt says and the variant does not, to the letter.
        written: How the solution spells it, for ``scripted/replay_masked``; the value itself if it is left out.
        guesses: What ``scripted/replay_masked`` writes instead while it does not know the value.
    """

    value: str
    dimension: Dimension
    subdimension: str
    expected_questions: tuple[str, ...]
    checkpoint_refs: tuple[str, ...] = ()
    criticality: float | None = None
    guessability: float | None = None
    synonyms: tuple[str, ...] = ()
    text: str | None = None
    written: str | None = None
    guesses: tuple[str, ...] = ()


class VariantEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One underspecified prompt."""

    name: str
    severity: Severity
    prompt: str
    segments: tuple[SegmentEntry, ...]
    failure_mode: str | None = None


class VariantsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of ``variants.toml``: ``[[variants]]`` with ``[[variants.segments]]``."""

    variants: tuple[VariantEntry, ...] = ()


def variants_of(entries: Sequence[VariantEntry], task: Task, place: str) -> tuple[Variant, ...]:
    """Return the variants of a task, in the order of the file."""
    variants = tuple(_variant(entry, task) for entry in entries)
    names = [entry.name for entry in entries]
    for name, variant in zip(names, variants, strict=True):
        problem = next(_problems(variant, task), "two have that name" if names.count(name) > 1 else None)
        if problem is not None:
            raise PublishedError(f"{place}: variant {name!r}: {problem}")
    return variants


def parameters_of(entries: Sequence[VariantEntry], solution: Sequence[str]) -> tuple[Parameter, ...]:
    """Return the values that a solution depends on: those of segments whose spelling occurs in it, each once."""
    segments = {each.value: each for entry in entries for each in entry.segments}
    return tuple(
        Parameter(
            name=f"p{number}",
            value=each.value,
            written=each.written or each.value,
            question=each.expected_questions[0],
            guesses=each.guesses,
        )
        for number, each in enumerate(segments.values(), start=1)
        if each.expected_questions and any((each.written or each.value) in text for text in solution)
    )


def _variant(entry: VariantEntry, task: Task) -> Variant:
    identified = [(f"S{number}", segment) for number, segment in enumerate(entry.segments, start=1)]
    return Variant(
        benchmark=task.benchmark,
        task_id=task.task_id,
        variant_id=f"{task.task_id}/{entry.name}",
        prompt=entry.prompt,
        segments=tuple(
            Segment(
                segment_id=segment_id,
                value=each.value,
                text=each.text,
                dimension=each.dimension,
                subdimension=each.subdimension,
                criticality=each.criticality,
                guessability=each.guessability,
                checkpoint_refs=each.checkpoint_refs,
                synonyms=each.synonyms,
            )
            for segment_id, each in identified
        ),
        origin="hand_written",
        severity=entry.severity,
        expected_questions=tuple(
            ExpectedQuestions(segment_id=segment_id, questions=each.expected_questions)
            for segment_id, each in identified
        ),
        failure_mode=entry.failure_mode,
    )


def _problems(variant: Variant, task: Task) -> Iterator[str]:
    if variant.severity not in _SEVERITIES:
        yield f"severity {variant.severity!r} changes the environment, which a Harbor task cannot"
    if not variant.segments:
        yield "it removes nothing; add [[variants.segments]]"
    checkpoints = {each.checkpoint_id for each in task.checkpoints}
    for segment in variant.segments:
        if segment.value not in task.prompt:
            yield f"the value {segment.value!r} is not in instruction.md to the letter"
        if segment.value in variant.prompt:
            yield f"its prompt still has the value {segment.value!r}"
        for name in segment.checkpoint_refs:
            if name not in checkpoints:
                yield f"checkpoint_refs has {name!r}; the task's checkpoints are {', '.join(sorted(checkpoints))}"
    yield from answer_problems(variant, task)
