"""What is measured: tasks and variants, registered in full when a run first uses them."""

from recorder.events._base import Event
from recorder.values import Task, Variant


class TaskRegistered(Event, frozen=True, tag="task_registered"):
    """A task as this run used it, checkpoints in the order of the terminal state."""

    task: Task
    task_digest: str


class VariantGenerated(Event, frozen=True, tag="variant_generated"):
    """A variant as this run used it, whoever made it (``variant.origin``).

    Where this program made it, ``rewriter`` is ``rules/N`` or a model's name, ``rewriter_digest`` covers rules or
    prompt and parameters, and ``diff`` is the unified diff of the words of the two prompts. ``terminal_states`` are the
    distinct ones of the trials behind an imported label, where the source tells them without the trials.
    """

    variant: Variant
    variant_digest: str
    task_digest: str | None = None
    rewriter: str | None = None
    rewriter_digest: str | None = None
    diff: str | None = None
    terminal_states: tuple[tuple[int, ...], ...] | None = None
