"""What is measured: tasks and variants, registered in full when a run first uses them."""

from recorder.events._base import Event
from recorder.values import Task, Variant


class TaskRegistered(Event, frozen=True, tag="task_registered"):
    """A task as this run used it, checkpoints in the order of the terminal state."""

    task: Task
    task_digest: str


class VariantGenerated(Event, frozen=True, tag="variant_generated"):
    """A variant as this run used it, whoever made it (``variant.origin``)."""

    variant: Variant
    variant_digest: str
