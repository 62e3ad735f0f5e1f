"""The rewriter that asks a language model for the prompt without some segments, and for the expected questions."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lhaw_record.generators.errors import NotRemovable, RewritingFailed
from lhaw_record.generators.llm.prompt_templates import PromptTemplates
from lhaw_record.generators.llm.rewriting_replies import REWRITING_FORM, read_rewriting
from lhaw_record.generators.protocol import Removal, Rewriting, SourceTask
from lhaw_record.recorder.events.canonical_json import canonical_json, short_digest
from lhaw_record.recorder.events.values import Segment
from lhaw_record.runners.base.errors import ModelBoundaryError, NothingUsable
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.llm_jobs.question import ask

VERSION = 4
"""Part of the rewriter's digest. Raise it when requests, or how replies are read, change outside of the templates."""


class LlmRewriter:
    """Removes segments with a language model.

    Args:
        name: The model's name, recorded as the rewriter's name.
        parameters: Generation parameters. They only enter the digest; the model caller sends its own.
        wordings: The prompt templates.
    """

    def __init__(self, name: str, parameters: Mapping[str, Any], wordings: PromptTemplates | None = None) -> None:
        wordings = wordings or PromptTemplates()
        self.name = name
        self._template = wordings.rewriting
        self._severities = wordings.severities
        self.digest = short_digest([self._template.source, self._severities, name, dict(parameters), VERSION])

    async def rewrite(
        self, source: SourceTask, removal: Removal, caller: ModelCaller | None, problems: Sequence[str] = ()
    ) -> Rewriting:
        """Ask the model for the prompt without the segments, in at most two requests."""
        assert caller is not None, "this rewriter needs a model"
        prompt = source.task.prompt
        question = self._template.user(
            {
                "severity": self._severities[removal.severity],
                "segments": segments_text(removal.segments),
                "task": prompt,
                "problems": "\n".join(problems) or None,
            }
        )
        read = partial(read_rewriting, original=prompt, segments=removal.segments)
        try:
            found = await ask(caller, self._template, question, read, wanted="rewriting", form=REWRITING_FORM)
        except NothingUsable as error:
            raise RewritingFailed(str(error)) from error
        except ModelBoundaryError as error:
            if error.kind == "context_window":
                raise RewritingFailed(f"{error}; leave out the task") from error
            raise
        if isinstance(found, NotRemovable):
            raise found
        return found


def segments_text(segments: Sequence[Segment]) -> str:
    """Return the segments to remove, one JSON object per line, so that quotes and line breaks in values are clear."""
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
