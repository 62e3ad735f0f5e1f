"""Writes the grounding text for a model, cut to a budget: checkpoints, file names and the golden trajectory. Pure."""

from collections.abc import Mapping, Sequence

from lhaw_record.generators.protocol import Grounding, SourceTask, TrajectoryStep
from lhaw_record.recorder.events.values import Checkpoint
from lhaw_record.runners.models.llm_jobs.prompt_template import cut, shortened

LAYOUT = 1
"""Part of the extractor's digest. Raise it when a change here changes what a model sees."""

_CHARACTERS_PER_TOKEN = 4  # a rough average for English and JSON
_TRAJECTORY_TOKENS = 8_000
_CHECKPOINT_TOKENS = 4_000
_FILES_SHOWN = 200
_ARGUMENT_CHARACTERS = 600
_RESULT_CHARACTERS = 400


def grounding_texts(source: SourceTask, grounding: Grounding) -> dict[str, str | None]:
    """Return the text for each placeholder of the template. A text is None if it is empty or must not be shown."""
    return {
        "checkpoints": _checkpoints(source) if grounding.has_checkpoints else None,
        "files": _files(source.files) if grounding.has_environment else None,
        "trajectory": _trajectory(source.trajectory or ()) if grounding.has_trajectory else None,
    }


def _checkpoints(source: SourceTask) -> str | None:
    lines = [_checkpoint(checkpoint) for checkpoint in source.task.checkpoints]
    if source.checkpoint_notes.strip():
        lines.append(source.checkpoint_notes.strip())
    return cut("\n".join(lines), _CHECKPOINT_TOKENS * _CHARACTERS_PER_TOKEN) or None


def _checkpoint(checkpoint: Checkpoint) -> str:
    return f"- {checkpoint.checkpoint_id}: {checkpoint.label}; {checkpoint.total:g}"


def _files(files: Mapping[str, str]) -> str | None:
    paths = sorted(files)
    more = len(paths) - _FILES_SHOWN
    return "\n".join([*paths[:_FILES_SHOWN], *([f"(and {more} more)"] if more > 0 else [])]) or None


def _trajectory(steps: Sequence[TrajectoryStep]) -> str | None:
    """Return the numbered steps, or None if there are none.

    If the text is too long, the results are dropped first, then steps in the middle.
    """
    budget = _TRAJECTORY_TOKENS * _CHARACTERS_PER_TOKEN
    blocks = [_step(place, step, len(steps), has_result=True) for place, step in enumerate(steps)]
    if sum(map(len, blocks)) > budget:
        blocks = [_step(place, step, len(steps), has_result=False) for place, step in enumerate(steps)]
    return "\n".join(shortened(blocks, budget)) or None


def _step(place: int, step: TrajectoryStep, count: int, *, has_result: bool) -> str:
    line = f"step {place + 1} of {count}: {step.name} {cut(step.arguments_json, _ARGUMENT_CHARACTERS)}"
    if step.result is None or not has_result:
        return line
    return f"{line}\n  gives: {cut(step.result, _RESULT_CHARACTERS)}"
