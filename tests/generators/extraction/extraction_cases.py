"""Runs the rule extractor on an invented prompt."""

import asyncio

from lhaw_record.generators.extraction import RuleExtractor
from lhaw_record.generators.protocol import Grounding, SourceTask
from lhaw_record.recorder.events.values import Checkpoint, Task

PROMPT_ONLY = Grounding(has_trajectory=False, has_checkpoints=False, has_environment=False)


def source(prompt, *, labels=(), notes="", files=None, trajectory=None):
    """A task with what generation may know about it."""
    checkpoints = tuple(
        Checkpoint(checkpoint_id=f"c{number}", label=label, total=1.0) for number, label in enumerate(labels)
    )
    task = Task(
        benchmark="b",
        benchmark_version="1",
        task_id="t",
        prompt=prompt,
        checkpoints=checkpoints,
        environment_digest="",
    )
    return SourceTask(task=task, files=files or {}, checkpoint_notes=notes, trajectory=trajectory)


def segments(given, grounding=PROMPT_ONLY):
    """The segments of a prompt or of a task."""
    task = source(given) if isinstance(given, str) else given
    return asyncio.run(RuleExtractor().extract(task, grounding)).segments


def found(given, grounding=PROMPT_ONLY):
    """Value -> dimension/subdimension of every segment."""
    return {each.value: f"{each.dimension}/{each.subdimension}" for each in segments(given, grounding)}


def segment(given, value, grounding=PROMPT_ONLY):
    """The segment of a value."""
    return next(each for each in segments(given, grounding) if each.value == value)
