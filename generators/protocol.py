"""The interfaces of generation: task sources, segment extractors and prompt rewriters."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from lhaw_record.recorder.events import RejectedSegment
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment, Severity, Task, Variant
from lhaw_record.runners.models.calls import ModelCaller


class TrajectoryStep(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a golden trajectory. ``result`` is None if the source does not include results."""

    name: str
    arguments_json: str
    result: str | None = None


class WrittenPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that occurs once in the prompt, and the text that replaces it under each severity.

    Under a severity without a replacement the passage stays.
    """

    text: str
    replacements: Mapping[Severity, str]


class WrittenSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment that a person labelled and rewrote: the passages to replace, the questions, and what goes wrong."""

    segment: Segment
    passages: tuple[WrittenPassage, ...]
    questions: tuple[str, ...]
    failure_mode: str


class SourceTask(msgspec.Struct, frozen=True, kw_only=True):
    """A well-specified task with the evidence that generation may use.

    Attributes:
        task: The task.
        files: The text of each file in the task's environment, by path; empty for a binary file.
        checkpoint_notes: What the benchmark says about grading beyond the checkpoint labels.
        trajectory: The golden trajectory; None if the source has none.
        variants: The variants that come with the task: other prompts that a person wrote, and changed environments.
        written: The segments that a person labelled and rewrote under each severity; empty if nobody did.
    """

    task: Task
    files: Mapping[str, str] = {}
    checkpoint_notes: str = ""
    trajectory: tuple[TrajectoryStep, ...] | None = None
    variants: tuple[Variant, ...] = ()
    written: tuple[WrittenSegment, ...] = ()


class Source(Protocol):
    """Where tasks come from: a benchmark, published files, or a user's own folder."""

    benchmark: str

    def tasks(self) -> Sequence[SourceTask]:
        """Return every task in a fixed order.

        Raises:
            SourceError: A task is unusable; the message names file, line or key.
        """
        ...


class Grounding(msgspec.Struct, frozen=True, kw_only=True):
    """What an extractor may read besides the prompt."""

    has_trajectory: bool = True
    has_checkpoints: bool = True
    has_environment: bool = True


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """The segments of one prompt, in prompt order, and the proposals that were rejected."""

    segments: tuple[Segment, ...]
    rejected: tuple[RejectedSegment, ...] = ()


class Extractor(Protocol):
    """Finds the removable segments of a prompt.

    ``name`` is recorded with the result: the model's name, or ``written``. ``digest`` covers everything that determines
    the result besides the task and its grounding: prompt templates, parameters.
    """

    name: str
    digest: str

    async def extract(self, source: SourceTask, grounding: Grounding, caller: ModelCaller | None) -> Extraction:
        """Return the segments of a task. Every ``value`` and ``text`` is an exact substring of the prompt.

        Args:
            source: The task.
            grounding: What may be read besides the prompt.
            caller: Calls the model and records each call; None if no model is needed.

        Raises:
            ExtractionFailed: The result is unusable.
            ModelBoundaryError: The model cannot be reached.
        """
        ...


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """Segments to remove together from one prompt, and the severity of the removal."""

    segments: tuple[Segment, ...]
    severity: Severity


class Rewriting(msgspec.Struct, frozen=True, kw_only=True):
    """A rewritten prompt, the questions expected for each removed segment, and what goes wrong if nobody asks."""

    prompt: str
    expected_questions: tuple[ExpectedQuestions, ...]
    failure_mode: str


class Rewriter(Protocol):
    """Removes segments from a prompt. ``name`` and ``digest`` have the same meaning as in :class:`Extractor`."""

    name: str
    digest: str

    async def rewrite(
        self, source: SourceTask, removal: Removal, caller: ModelCaller | None, problems: Sequence[str] = ()
    ) -> Rewriting:
        """Return the prompt without the segments. The result is not checked yet.

        Args:
            source: The task.
            removal: The segments, and how to remove them.
            caller: Calls the model and records each call; None if no model is needed.
            problems: Each refused attempt with its text and faults, as a JSON object; empty for the first attempt.

        Raises:
            RewritingFailed: The result is unusable, or the segments cannot be removed.
            ModelBoundaryError: The model cannot be reached.
        """
        ...
