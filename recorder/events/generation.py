"""Events about generating a benchmark, and about registering tasks and variants when a run first uses them."""

from lhaw_record.recorder.events.values import Event, Segment, Task, Usage, Value, Variant


class RejectedSegment(Value, frozen=True):
    """A proposed segment that was not used, for example because its value is not in the prompt."""

    value: str
    reason: str


class SegmentsExtracted(Event, frozen=True, tag="segments_extracted"):
    """An extractor found the removable segments of a task, listed in prompt order.

    ``extractor`` is ``rules/N`` or the name of a model. ``grounding`` names the extractor's inputs besides the prompt
    (``trajectory``, ``checkpoints``, ``environment``, ``trials``). ``extractor_digest`` covers the extractor's rules or
    prompt, its parameters and ``grounding``.
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
    """A check that a rewritten prompt failed."""

    check: str
    message: str


class GateJudgement(Value, frozen=True):
    """A model's judgement of a rewritten prompt, in addition to the rules of the gate.

    ``judge`` is the model's name. ``judge_digest`` covers the prompts, the parameters and the number of guesses.
    ``judged`` names the questions. ``guesses`` counts the usable attempts to guess a removed value, and ``hits`` the
    correct ones.
    """

    judge: str
    judge_digest: str
    judged: tuple[str, ...]
    guesses: int = 0
    hits: int = 0


class VariantRejected(Event, frozen=True, tag="variant_rejected"):
    """A rewritten prompt failed its checks. ``attempt`` counts from 1. ``is_final`` marks the last attempt.

    ``attempt`` 0 withdraws a variant that was generated without a model's judgement and that a model rejected later.

    ``prompt`` and ``diff`` are None if the rewriter returned no prompt. ``reason`` is one sentence.
    ``judgement`` is None if no model judged the prompt.
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
    judgement: GateJudgement | None = None


class Quota(Value, frozen=True):
    """How many variants of one ambiguity class were wanted, and how many were chosen."""

    ambiguity_class: str
    wanted: int
    chosen: int


class SelectedVariant(Value, frozen=True):
    """A selected variant and the ambiguity class it was selected for."""

    variant_id: str
    variant_digest: str
    ambiguity_class: str


class Excluded(Value, frozen=True):
    """How many variants were not eligible, and why."""

    reason: str
    count: int


class BenchmarkSelected(Event, frozen=True, tag="benchmark_selected"):
    """A set of variants was selected. A quota with too few eligible variants stays short."""

    selection: str
    benchmark: str
    seed: int
    max_variants: int
    classifier: str
    quotas: tuple[Quota, ...]
    variants: tuple[SelectedVariant, ...]
    excluded: tuple[Excluded, ...] = ()


class TaskRegistered(Event, frozen=True, tag="task_registered"):
    """A run used a task, whose checkpoints are in the order of the terminal state."""

    task: Task
    task_digest: str


class VariantGenerated(Event, frozen=True, tag="variant_generated"):
    """A run used a variant. ``variant.origin`` says where the variant came from.

    If this program generated the variant, ``rewriter`` is ``rules/N`` or the name of a model. ``rewriter_digest``
    covers the rules, or the prompt and the parameters. ``diff`` is a unified diff of the words of the two prompts.
    ``terminal_states`` are the distinct terminal states behind an imported label whose trials were not imported.
    ``judgement`` is None if no model judged the prompt.
    """

    variant: Variant
    variant_digest: str
    task_digest: str | None = None
    rewriter: str | None = None
    rewriter_digest: str | None = None
    diff: str | None = None
    terminal_states: tuple[tuple[int, ...], ...] | None = None
    judgement: GateJudgement | None = None
