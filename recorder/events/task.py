"""Events that register tasks and variants. Each is stored in full when a run first uses it."""

from lhaw_record.recorder.events.generation import GateJudgement
from lhaw_record.recorder.events.values import Event, Task, Variant


class TaskRegistered(Event, frozen=True, tag="task_registered"):
    """A run used a task. The task's checkpoints are in the order of the terminal state."""

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
