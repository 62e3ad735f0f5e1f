"""The extractor that asks a language model for the segments of a prompt and keeps the valid ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from lhaw_record.generators.errors import ExtractionFailed
from lhaw_record.generators.llm.prompt_templates import PromptTemplates
from lhaw_record.generators.llm.segment_replies import SEGMENTS_FORM, PromptEvidence, read_proposals
from lhaw_record.generators.protocol import Extraction, Grounding, SourceTask, TrajectoryStep
from lhaw_record.recorder.events.canonical_json import short_digest
from lhaw_record.recorder.events.values import Checkpoint
from lhaw_record.runners.base.errors import ModelBoundaryError, NothingUsable, UnusableReply
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.llm_jobs.json_replies import repaired_object
from lhaw_record.runners.models.llm_jobs.prompt_template import cut, shortened
from lhaw_record.runners.models.llm_jobs.question import ask

VERSION = 2
"""Part of the extractor's digest. Raise it when replies are read differently."""

_KEY = "segments"
_DEPTH_BETWEEN_SEGMENTS = 2  # the object and its list
_SHOWN_REASONS = 5
LAYOUT = 1
"""Part of the extractor's digest. Raise it when a change here changes what a model sees."""
_CHARACTERS_PER_TOKEN = 4  # a rough average for English and JSON
_TRAJECTORY_TOKENS = 8_000
_CHECKPOINT_TOKENS = 4_000
_FILES_SHOWN = 200
_ARGUMENT_CHARACTERS = 600
_RESULT_CHARACTERS = 400


class LlmExtractor:
    """Finds segments with a language model.

    Args:
        name: The model's name, recorded as the extractor's name.
        parameters: Generation parameters. They only enter the digest; the model caller sends its own.
        wordings: The prompt templates.
    """

    def __init__(self, name: str, parameters: Mapping[str, Any], wordings: PromptTemplates | None = None) -> None:
        self.name = name
        self._template = (wordings or PromptTemplates()).extraction
        self.digest = short_digest([self._template.source, name, dict(parameters), LAYOUT, VERSION])

    async def extract(self, source: SourceTask, grounding: Grounding, caller: ModelCaller | None) -> Extraction:
        """Ask the model for the segments of a task, in at most two requests."""
        assert caller is not None, "this extractor needs a model"
        prompt = source.task.prompt
        if not prompt.strip():
            raise ExtractionFailed(f"task {source.task.task_id} has an empty prompt; leave it out")
        texts = grounding_texts(source, grounding)
        checkpoints = source.task.checkpoints if texts["checkpoints"] else ()
        shown = PromptEvidence(
            checkpoint_ids=tuple(checkpoint.checkpoint_id for checkpoint in checkpoints),
            has_trajectory=texts["trajectory"] is not None,
        )
        reader = _Reader(prompt, shown)
        question = self._template.user({"task": prompt, **texts})
        try:
            return await ask(caller, self._template, question, reader.read, wanted=_KEY, form=SEGMENTS_FORM)
        except NothingUsable as error:
            raise ExtractionFailed(f"{error}; run the same command again to ask once more") from error
        except ModelBoundaryError as error:
            if error.kind == "context_window":
                raise ExtractionFailed(f"{error}; show the model less, or leave out the task") from error
            raise


class _Reader:
    """Reads the replies to one question.

    The first reply whose proposals are all invalid is rejected, so that the model is asked again. Later replies are
    accepted.
    """

    def __init__(self, prompt: str, shown: PromptEvidence) -> None:
        self._prompt = prompt
        self._shown = shown
        self._has_objected = False

    def read(self, reply: str) -> Extraction:
        found = repaired_object(reply, _KEY, is_list=True)
        proposals = found.value[_KEY]
        if not isinstance(proposals, list):
            raise UnusableReply(f'there is no list under the key "{_KEY}"')
        if found.open_depth > _DEPTH_BETWEEN_SEGMENTS:
            raise UnusableReply("it ends inside a segment, or a quotation mark in a text is not escaped")
        extraction = read_proposals(proposals, self._prompt, self._shown)
        if extraction.rejected and not extraction.segments and not self._has_objected:
            self._has_objected = True
            reasons = dict.fromkeys(f"{each.value!r}: {each.reason}" for each in extraction.rejected[:_SHOWN_REASONS])
            raise UnusableReply("no segment can be taken (" + "; ".join(reasons) + ")")
        return extraction


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
