"""Controls: variants in which nothing that matters is missing; what they change is noise, what they ask is too much."""

from collections.abc import Sequence

from generators.protocol import SourceTask
from recorder.values import Segment, Variant


def unmodified(source: SourceTask) -> Variant:
    """Return the control of a task whose prompt is the task's own."""
    task = source.task
    return Variant(
        benchmark=task.benchmark,
        task_id=task.task_id,
        variant_id=f"{task.task_id}/control-unmodified",
        prompt=task.prompt,
        segments=(),
        origin="control",
    )


def benign_segments(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments that nobody needs to be told: of criticality 0, or of guessability 1."""
    return [each for each in segments if each.criticality == 0.0 or each.guessability == 1.0]
