"""Playbooks: our additions to single tasks, namely removable segments, variants, and scripts of tool calls.

A playbook does not contain any text of a published prompt. It has the SHA-256 of the prompt and character positions in
it, and the segments and underspecified prompts are cut out of the user's own rows. A prompt with a different hash gets
no segments or variants.
"""

import hashlib
import tomllib
from functools import lru_cache
from typing import Any

import msgspec

from lhaw_record.recorder.events.values import ExpectedQuestions, Segment, Severity, Variant
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.models.replay import Parameter, ReferenceCall


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a playbook file. Unknown keys are errors."""


class SegmentEntry(_Table, frozen=True, kw_only=True):
    """One removable segment: the positions of its value and of the text around it, what to remove, and replay data.

    ``removals`` are (start, end, replacement), with positions in characters of the prompt. See :class:`Parameter` for
    the last four fields.
    """

    name: str
    value: tuple[int, int]
    text: tuple[int, int] | None = None
    removals: tuple[tuple[int, int, str], ...]
    dimension: str
    subdimension: str
    criticality: float
    guessability: float
    questions: tuple[str, ...]
    synonyms: tuple[str, ...] = ()
    written: str | None = None
    guesses: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    derived: tuple[tuple[int, str], ...] = ()


class VariantEntry(_Table, frozen=True, kw_only=True):
    """One variant: the segments that it lacks, and how they were removed."""

    name: str
    segments: tuple[str, ...]
    severity: Severity
    failure_mode: str


class CallEntry(_Table, frozen=True, kw_only=True):
    """One tool call of our script."""

    tool: str
    arguments: dict[str, Any] = {}


class Playbook(_Table, frozen=True, kw_only=True):
    """Everything that we wrote for one task. ``answer`` names a function of :mod:`reference_answers`."""

    task: str
    prompt_sha256: str
    answer: str
    segments: tuple[SegmentEntry, ...]
    variants: tuple[VariantEntry, ...]
    calls: tuple[CallEntry, ...] = ()

    def fits(self, prompt: str) -> bool:
        """Return whether the positions in this playbook apply to a prompt."""
        return hashlib.sha256(prompt.encode()).hexdigest() == self.prompt_sha256

    def parameters(self, prompt: str) -> tuple[Parameter, ...]:
        """Return the values in the prompt that the tool calls depend on."""
        return tuple(
            Parameter(
                name=entry.name,
                value=_value(entry, prompt),
                written=entry.written or _value(entry, prompt),
                question=entry.questions[0],
                guesses=entry.guesses,
                alternatives=entry.alternatives,
                derived=entry.derived,
            )
            for entry in self.segments
        )

    def own_calls(self) -> tuple[ReferenceCall, ...]:
        """Return our own script of tool calls. It is empty if the task's rows have a reference."""
        return tuple(ReferenceCall(name=call.tool, arguments=call.arguments) for call in self.calls)

    def variants_of(self, benchmark: str, prompt: str) -> tuple[Variant, ...]:
        """Cut the variants out of a prompt, which must be the one that this playbook was written for."""
        entries = {entry.name: entry for entry in self.segments}
        return tuple(
            Variant(
                benchmark=benchmark,
                task_id=self.task,
                variant_id=f"{self.task}/{variant.name}",
                prompt=cut(prompt, [span for name in variant.segments for span in entries[name].removals]),
                segments=tuple(_segment(entries[name], prompt) for name in variant.segments),
                origin="hand_written",
                severity=variant.severity,
                expected_questions=tuple(
                    ExpectedQuestions(segment_id=name, questions=entries[name].questions) for name in variant.segments
                ),
                failure_mode=variant.failure_mode,
            )
            for variant in self.variants
        )


@lru_cache(maxsize=1)
def playbooks() -> dict[str, Playbook]:
    """Return the bundled playbooks by task id."""
    files = sorted(data_path("mcp_atlas", "tasks").glob("*.toml"))
    books = [msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Playbook) for file in files]
    return {book.task: book for book in books}


def cut(prompt: str, removals: list[tuple[int, int, str]]) -> str:
    """Return a prompt with spans replaced."""
    text = prompt
    border = len(prompt)
    for start, end, replacement in sorted(removals, reverse=True):
        if not 0 <= start < end <= border:
            raise ValueError(
                f"span {start}-{end} overlaps the next one or leaves the prompt of {len(prompt)} characters"
            )
        text = text[:start] + replacement + text[end:]
        border = start
    return text.strip()


def _value(entry: SegmentEntry, prompt: str) -> str:
    return prompt[entry.value[0] : entry.value[1]]


def _segment(entry: SegmentEntry, prompt: str) -> Segment:
    first, last = entry.text or entry.value
    return Segment(
        segment_id=entry.name,
        value=_value(entry, prompt),
        text=prompt[first:last].strip(),
        dimension=entry.dimension,
        subdimension=entry.subdimension,
        criticality=entry.criticality,
        guessability=entry.guessability,
        synonyms=entry.synonyms,
    )
