"""What generation is made of: where tasks come from, who finds their segments, who removes them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from recorder.events import RejectedSegment
from recorder.values import ExpectedQuestions, Segment, Severity, Task, Variant
from runners.models.calls import ModelCaller


class TrajectoryStep(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a golden trajectory; ``result`` is None where the source leaves it out."""

    name: str
    arguments_json: str
    result: str | None = None


class SourceTask(msgspec.Struct, frozen=True, kw_only=True):
    """A well-specified task with what generation may know about it.

    ``files`` is what its environment holds: path to text, the text empty where it is none. ``checkpoint_notes`` is the
    benchmark's own text about grading, beyond the labels of the checkpoints. ``trajectory`` None: there is none.
    ``changed_workspaces`` are variants that the benchmark brings: the prompt is the task's, the environment is not.
    """

    task: Task
    files: Mapping[str, str] = {}
    checkpoint_notes: str = ""
    trajectory: tuple[TrajectoryStep, ...] | None = None
    changed_workspaces: tuple[Variant, ...] = ()


class Source(Protocol):
    """Where tasks come from: a benchmark, published files, or a user's own folder."""

    benchmark: str

    def tasks(self) -> Sequence[SourceTask]:
        """Return every task in a fixed order.

        Raises:
            SourceError: One cannot be used; the message names file, line or key.
        """
        ...


class Grounding(msgspec.Struct, frozen=True, kw_only=True):
    """What an extractor may look at beside the prompt."""

    has_trajectory: bool = True
    has_checkpoints: bool = True
    has_environment: bool = True


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """The segments of one prompt in the order of their place in it, and what was proposed and not taken."""

    segments: tuple[Segment, ...]
    rejected: tuple[RejectedSegment, ...] = ()


class Extractor(Protocol):
    """Finds the removable segments of a prompt.

    ``name`` is what is recorded: ``rules/2``, or the model's name. ``digest`` covers everything that decides the result
    beside the task and its grounding: rules, prompt, parameters.
    """

    name: str
    digest: str

    async def extract(self, source: SourceTask, grounding: Grounding, caller: ModelCaller | None) -> Extraction:
        """Return the segments of a task. Every ``value`` and ``text`` is an exact substring of the prompt.

        Args:
            source: The task.
            grounding: What may be looked at.
            caller: The recorded model; None for an extractor that needs none.

        Raises:
            ExtractionFailed: There is no usable result.
            ModelBoundaryError: The model cannot be reached.
        """
        ...


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """Which segments are removed from a prompt together, and how."""

    segments: tuple[Segment, ...]
    severity: Severity


class Rewriting(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt with segments removed, what a good agent would ask for each, and what goes wrong if it does not."""

    prompt: str
    expected_questions: tuple[ExpectedQuestions, ...]
    failure_mode: str


class Rewriter(Protocol):
    """Removes segments from a prompt; ``name`` and ``digest`` as for :class:`Extractor`."""

    name: str
    digest: str

    async def rewrite(
        self, source: SourceTask, removal: Removal, caller: ModelCaller | None, problems: Sequence[str] = ()
    ) -> Rewriting:
        """Return the prompt without the segments; the caller checks it.

        Args:
            source: The task.
            removal: What is removed, and how.
            caller: The recorded model; None for a rewriter that needs none.
            problems: What the checks found in the last attempt; empty at first.

        Raises:
            RewritingFailed: There is no usable result.
            ModelBoundaryError: The model cannot be reached.
        """
        ...
