"""Hand-written variants of one task: the schema of ``variants.toml``, and the variants that its entries describe.

Every text is a template. The benchmark fills it: with a task's parameters, with passages of the user's own rows, or as
it is written.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from lhaw_record.recorder.events.values import (
    ChangeArgument,
    Dimension,
    EnvironmentChange,
    ExpectedQuestions,
    Fault,
    Segment,
    Severity,
    Task,
    Variant,
)
from lhaw_record.runners.base.text.normalization import whole
from lhaw_record.runners.environments.benchmarks.expected_answers import answer_problems
from lhaw_record.runners.environments.benchmarks.published import PublishedError
from lhaw_record.runners.models.replay import ReferenceParameter

VARIANTS = "variants.toml"
_OF_SOLUTION = ("parameters", "written", "guesses", "alternatives", "derived")
"""What a segment says about the task's solution, which is the same in all variants that remove its value."""
_SEVERITIES = ("delete", "vaguify", "genericize", "decoy")
Fill = Callable[[str], str]
"""Replaces the placeholders of a template."""


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file. Unknown keys are errors."""


class SegmentEntry(_Table, frozen=True, kw_only=True):
    """One removed segment.

    Attributes:
        value: What the prompt says and the variant does not, to the letter.
        text: The phrase around the value, if the value alone does not show what it is for.
        revealed_after: An earlier segment of the variant (S1 is the first) that must be known before anyone could ask
            for this one.
        decoy: What the request says instead of the value.
        parameters: The names of the task parameters that the value contains.
        written: How the solution spells it, for ``scripted/replay_masked``; the value itself if it is left out.
        guesses: What ``scripted/replay_masked`` writes instead while it does not know the value.
        alternatives: See :class:`ReferenceParameter`, as for ``derived``.
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
    revealed_after: str | None = None
    decoy: str | None = None
    parameters: tuple[str, ...] = ()
    written: str | None = None
    guesses: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    derived: tuple[tuple[int, str], ...] = ()


class Replacement(_Table, frozen=True, kw_only=True):
    """A passage that is once in the full prompt, and what is there instead."""

    text: str
    by: str


class VariantEntry(_Table, frozen=True, kw_only=True):
    """One variant: an underspecified prompt, a changed workspace, or a request with a fault.

    Attributes:
        prompt: The prompt; if it is left out, the task's own with the ``replacements``.
        change: The kind of the change to the environment, with its ``arguments``.
        follow_up: The second request, for the fault ``underspecified_follow_up``.
    """

    name: str
    severity: Severity | None = None
    fault: Fault | None = None
    failure_mode: str | None = None
    prompt: str | None = None
    replacements: tuple[Replacement, ...] = ()
    change: str | None = None
    arguments: dict[str, str] = {}
    follow_up: str | None = None
    segments: tuple[SegmentEntry, ...] = ()


class VariantsFile(_Table, frozen=True, kw_only=True):
    """The content of the file: ``[[variants]]``."""

    variants: tuple[VariantEntry, ...] = ()


def variant_of(entry: VariantEntry, benchmark: str, task_id: str, prompt: str, fill: Fill = str) -> Variant:
    """Return the variant of a task with a full prompt that an entry describes."""
    identified = [(f"S{number}", segment) for number, segment in enumerate(entry.segments, start=1)]
    if entry.prompt is not None:
        prompt = fill(entry.prompt).strip()
    for each in entry.replacements:
        prompt = prompt.replace(fill(each.text), fill(each.by))
    change = None
    if entry.change is not None:
        arguments = tuple(ChangeArgument(name=name, value=fill(text)) for name, text in entry.arguments.items())
        change = EnvironmentChange(kind=entry.change, arguments=arguments)
    return Variant(
        benchmark=benchmark,
        task_id=task_id,
        variant_id=f"{task_id}/{entry.name}",
        prompt=prompt,
        segments=tuple(segment_of(segment, segment_id, fill) for segment_id, segment in identified),
        origin="hand_written",
        severity=entry.severity,
        expected_questions=tuple(
            ExpectedQuestions(segment_id=segment_id, questions=segment.expected_questions)
            for segment_id, segment in identified
        ),
        failure_mode=entry.failure_mode,
        environment_change=change,
        fault=entry.fault,
        follow_up=_filled(entry.follow_up, fill),
    )


def variants_of(
    entries: Sequence[VariantEntry], task: Task, place: str, prompt_name: str = "the prompt"
) -> tuple[Variant, ...]:
    """Return the variants of a task of files, whose environment stays as it is, in the order of the file.

    ``prompt_name`` is what messages call the task's prompt.

    Raises:
        PublishedError: A variant does not fit its task.
    """
    names = [entry.name for entry in entries]
    found = []
    for entry in entries:
        variant = variant_of(entry, task.benchmark, task.task_id, task.prompt)
        is_twice = "two variants have this name" if names.count(entry.name) > 1 else None
        problem = next(_problems(entry, variant, task, prompt_name), is_twice)
        if problem is not None:
            raise PublishedError(f"{place}: variant {entry.name!r}: {problem}")
        found.append(variant)
    return tuple(found)


def _problems(entry: VariantEntry, variant: Variant, task: Task, prompt_name: str) -> Iterator[str]:
    if variant.severity not in _SEVERITIES:
        yield f"severity {variant.severity!r} is not one of {', '.join(_SEVERITIES)}"
    if entry.fault or entry.change or entry.arguments or entry.follow_up:
        yield "it changes the environment or has a fault, which a task of files cannot have"
    if not variant.segments:
        yield "it removes nothing; add [[variants.segments]]"
    for each in entry.replacements:
        if (count := task.prompt.count(each.text)) != 1:
            yield f"the passage {each.text!r} to replace is {count} times in {prompt_name}; it must occur once"
    for number, segment in enumerate(variant.segments):
        yield from _segment_problems(segment, variant.segments[:number], variant, task, prompt_name)
    yield from answer_problems(variant, task)


def _segment_problems(
    segment: Segment, earlier: Sequence[Segment], variant: Variant, task: Task, prompt_name: str
) -> Iterator[str]:
    if not whole(segment.value).search(task.prompt):
        yield f"the value {segment.value!r} is not in {prompt_name}, letter for letter"
    if whole(segment.value).search(variant.prompt):
        yield f"its prompt still has the value {segment.value!r}"
    if segment.revealed_after not in (None, *(each.segment_id for each in earlier)):
        yield f"revealed_after has {segment.revealed_after!r}, which is not an earlier segment of the variant"
    checkpoints = {each.checkpoint_id for each in task.checkpoints}
    for name in segment.checkpoint_refs:
        if name not in checkpoints:
            yield f"checkpoint_refs has {name!r}; the task's checkpoints are {', '.join(sorted(checkpoints))}"


def segment_of(entry: SegmentEntry, segment_id: str, fill: Fill = str) -> Segment:
    """Return the segment that an entry describes."""
    return Segment(
        segment_id=segment_id,
        value=fill(entry.value),
        text=_filled(entry.text, fill),
        dimension=entry.dimension,
        subdimension=entry.subdimension,
        criticality=entry.criticality,
        guessability=entry.guessability,
        checkpoint_refs=entry.checkpoint_refs,
        synonyms=entry.synonyms,
        revealed_after=entry.revealed_after,
        decoy=_filled(entry.decoy, fill),
    )


def parameters_of(entries: Sequence[VariantEntry], fill: Fill = str) -> Iterator[ReferenceParameter]:
    """Yield each removed value that has an expected question once; calls may depend on it.

    Raises:
        PublishedError: Two variants remove a value and say different things about its place in the solution.
    """
    segments: dict[str, SegmentEntry] = {}
    for each in (segment for entry in entries for segment in entry.segments):
        same = segments.setdefault(fill(each.value), each)
        if any(getattr(same, name) != getattr(each, name) for name in _OF_SOLUTION):
            raise PublishedError(
                f"two segments with the value {fill(each.value)!r} differ in {', '.join(_OF_SOLUTION)}"
            )
    for number, (value, each) in enumerate(segments.items(), start=1):
        if each.expected_questions:
            yield ReferenceParameter(
                name=each.parameters[0] if each.parameters else f"p{number}",
                value=value,
                written=each.written or value,
                question=each.expected_questions[0],
                guesses=each.guesses,
                alternatives=each.alternatives,
                derived=each.derived,
            )


def _filled(text: str | None, fill: Fill) -> str | None:
    return None if text is None else fill(text)
