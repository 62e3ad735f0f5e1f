"""The rewriter through a model: asks for the prompt without some segments, and for the questions that they call for."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from generators.errors import RewritingFailed
from generators.llm.rewritings import read_rewriting
from generators.llm.wordings import Wordings
from generators.protocol import Removal, Rewriting, SourceTask
from recorder.canonical import canonical_json, short_digest
from recorder.values import Segment
from runners.asking import ask
from runners.errors import ModelBoundaryError, NothingUsable
from runners.models.calls import ModelCaller

VERSION = 1
"""Part of the digest: raise it when requests or replies change in another way than by their wording."""


class LlmRewriter:
    """Removes segments through a model.

    Args:
        name: The model's name, under which it is recorded.
        parameters: Generation parameters, for the digest; the caller sends its own.
        wordings: What it is asked.
    """

    def __init__(self, name: str, parameters: Mapping[str, Any], wordings: Wordings | None = None) -> None:
        wordings = wordings or Wordings()
        self.name = name
        self._template = wordings.rewriting
        self._severities = wordings.severities
        self.digest = short_digest([self._template.source, self._severities, name, dict(parameters), VERSION])

    async def rewrite(
        self, source: SourceTask, removal: Removal, caller: ModelCaller | None, problems: Sequence[str] = ()
    ) -> Rewriting:
        """Return the prompt without the segments; two requests at most.

        Raises:
            RewritingFailed: The prompt is too long for the model, or no reply could be used.
            ModelBoundaryError: The model cannot be reached.
        """
        assert caller is not None, "this rewriter needs a model"
        prompt = source.task.prompt
        question = self._template.user(
            {
                "severity": self._severities[removal.severity],
                "segments": segments_text(removal.segments),
                "task": prompt,
                "problems": "\n".join(f"- {problem}" for problem in problems) or None,
            }
        )
        read = partial(read_rewriting, original=prompt, segments=removal.segments)
        try:
            return await ask(caller, self._template, question, read, wanted="rewriting")
        except NothingUsable as error:
            raise RewritingFailed(str(error)) from error
        except ModelBoundaryError as error:
            if error.kind == "context_window":
                raise RewritingFailed(f"{error}; leave out the task") from error
            raise


def segments_text(segments: Sequence[Segment]) -> str:
    """Return the details to take out, one JSON object in a line: so a value with quotes or line breaks is plain."""
    return "\n".join(canonical_json(_shown(segment)).decode() for segment in segments)


def _shown(segment: Segment) -> dict[str, Any]:
    shown = {
        "segment_id": segment.segment_id,
        "kind": f"{segment.dimension}, {segment.subdimension}",
        "value": segment.value,
        "text": segment.text,
        "other_expressions": list(segment.synonyms),
    }
    return {name: value for name, value in shown.items() if value}
