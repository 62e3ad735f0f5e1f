"""How a benchmark was made: the segments found, the variants that failed their checks, the set that was chosen."""

from recorder.events._base import Event
from recorder.values import Segment, Usage, Value


class RejectedSegment(Value, frozen=True):
    """A segment that was proposed and not taken, for example because its value does not stand in the prompt."""

    value: str
    reason: str


class SegmentsExtracted(Event, frozen=True, tag="segments_extracted"):
    """The segments of one task by one extractor, in the order of their place in the prompt.

    ``extractor`` is ``rules/N`` or a model's name; ``extractor_digest`` covers rules or prompt, parameters and
    ``grounding``: what it looked at beside the prompt (``trajectory``, ``checkpoints``, ``environment``, ``trials``).
    """

    benchmark: str
    task_id: str
    task_digest: str
    extractor: str
    extractor_digest: str
    grounding: tuple[str, ...]
    segments: tuple[Segment, ...]
    rejected: tuple[RejectedSegment, ...] = ()
    usage: Usage | None = None


class FailedCheck(Value, frozen=True):
    """One check that a rewritten prompt failed: its name, and what it found."""

    check: str
    message: str


class VariantRejected(Event, frozen=True, tag="variant_rejected"):
    """A rewritten prompt that failed its checks; ``attempt`` counts from 1, and ``is_final`` says none follows.

    ``prompt`` and ``diff`` are None where the rewriter gave none; ``reason`` says in one sentence why.
    """

    benchmark: str
    task_id: str
    task_digest: str
    variant_id: str
    severity: str
    segments: tuple[Segment, ...]
    rewriter: str
    rewriter_digest: str
    attempt: int
    is_final: bool
    reason: str
    checks: tuple[FailedCheck, ...] = ()
    prompt: str | None = None
    diff: str | None = None


class Quota(Value, frozen=True):
    """How many variants of one ambiguity class were wanted, and how many there were to choose."""

    ambiguity_class: str
    wanted: int
    chosen: int


class SelectedVariant(Value, frozen=True):
    """A chosen variant with the class that it was chosen for."""

    variant_id: str
    variant_digest: str
    ambiguity_class: str


class Excluded(Value, frozen=True):
    """How many variants were not to be chosen at all, and why."""

    reason: str
    count: int


class BenchmarkSelected(Event, frozen=True, tag="benchmark_selected"):
    """A set of variants was chosen; shortfalls are the quotas with fewer chosen than wanted, never padded."""

    selection: str
    benchmark: str
    seed: int
    max_variants: int
    classifier: str
    quotas: tuple[Quota, ...]
    variants: tuple[SelectedVariant, ...]
    excluded: tuple[Excluded, ...] = ()
