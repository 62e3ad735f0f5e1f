"""The rewriter that asks a language model for the prompt without some segments, and for the expected questions."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import Any

from lhaw_record.generators.errors import NotRemovable, RewritingFailed
from lhaw_record.generators.llm.prompt_templates import PromptTemplates
from lhaw_record.generators.protocol import Removal, Rewriting, SourceTask
from lhaw_record.recorder.events.canonical_json import canonical_json, short_digest
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment
from lhaw_record.runners.base.errors import ModelBoundaryError, NothingUsable, UnusableReply
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.llm_jobs.json_replies import repaired_object
from lhaw_record.runners.models.llm_jobs.question import ask
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema

VERSION = 4
"""Part of the rewriter's digest. Raise it when requests, or how replies are read, change outside of the templates."""
_KEY = "underspecified_prompt"
REWRITING_FORM = ReplyForm(
    "rewriting",
    object_schema(
        {
            "plan": {"type": "string"},
            "impossible": {"type": "string"},
            _KEY: {"type": "string"},
            "expected_questions": {
                "type": "array",
                "items": object_schema(
                    {"segment_id": {"type": "string"}, "questions": {"type": "array", "items": {"type": "string"}}}
                ),
            },
            "failure_mode": {"type": "string"},
        }
    ),
)
"""The form of a reply, for models that take JSON schemas. What a model has to think about first comes first."""
_FENCE = re.compile(r"\A\s*(`{3,}|~{3,})[^\n`]*\n(.*?)\n?\s*\1\s*\Z", re.DOTALL)
_TAGS = re.compile(r"\A\s*<(data|task|prompt)>\s*(.*?)\s*</\1>\s*\Z", re.DOTALL)
_ESCAPES = {"\\r\\n": "\n", "\\n": "\n", "\\t": "\t", '\\"': '"'}
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


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


def read_rewriting(reply: str, original: str, segments: Sequence[Segment]) -> Rewriting | NotRemovable:
    """Return the rewriting that a reply contains, or that the segments cannot be taken out, and why."""
    found = repaired_object(reply, _KEY)
    if found.open_depth:
        raise UnusableReply("it ends before the JSON object does, or a quotation mark in a text is not escaped")
    why_not = found.value.get("impossible")
    if isinstance(why_not, str) and why_not.strip() and not found.value[_KEY]:
        return NotRemovable(" ".join(why_not.split()))
    prompt, failure_mode = found.value[_KEY], found.value.get("failure_mode")
    if not isinstance(prompt, str) or not prompt.strip():
        raise UnusableReply(f'there is no text under the key "{_KEY}"')
    if not isinstance(failure_mode, str) or not failure_mode.strip():
        raise UnusableReply('there is no text under the key "failure_mode"')
    return Rewriting(
        prompt=restored(prompt, original),
        expected_questions=_questions(found.value.get("expected_questions"), segments),
        failure_mode=failure_mode.strip(),
    )


def restored(prompt: str, original: str) -> str:
    """Return a rewritten prompt with the original's line endings and outer spaces, without an added fence or tags."""
    for pattern in (_FENCE, _TAGS):
        match = pattern.match(prompt)
        if match and not pattern.match(original):
            prompt = match[2]
    if "\n" in original.strip() and "\n" not in prompt.strip():
        prompt = _unescaped(prompt, original)
    body = prompt.strip()
    start = original[: len(original) - len(original.lstrip())]
    end = original[len(original.rstrip()) :]
    return _with_line_endings(start + body + end, original)


def _unescaped(prompt: str, original: str) -> str:
    """Resolve the escapes in a prompt that was escaped twice. Escapes that the original also contains are kept."""
    for written, meant in _ESCAPES.items():
        if written not in original:
            prompt = prompt.replace(written, meant)
    return prompt


def _with_line_endings(prompt: str, original: str) -> str:
    """Return the prompt with the original's line endings. If those are mixed, new lines get the most frequent one."""
    before = _LINE.findall(original)
    endings = Counter(_ending(line) for line in before if _ending(line))
    lines = _LINE.findall(prompt)
    if not endings:
        return prompt
    usual = endings.most_common(1)[0][0]
    if len(endings) == 1:
        return "".join(_bare(line) + (usual if _ending(line) else "") for line in lines)
    kept: dict[int, str] = {}
    matcher = SequenceMatcher(None, [_bare(line) for line in before], [_bare(line) for line in lines], autojunk=False)
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            kept[block.b + offset] = _ending(before[block.a + offset])
    return "".join(
        _bare(line) + ((kept.get(place) or usual) if _ending(line) else "") for place, line in enumerate(lines)
    )


def _bare(line: str) -> str:
    return line.rstrip("\r\n")


def _ending(line: str) -> str:
    return line[len(_bare(line)) :]


def _questions(given: Any, segments: Sequence[Segment]) -> tuple[ExpectedQuestions, ...]:
    """Return the expected questions for every segment, in order."""
    by_id: dict[str, list[str]] = {}
    for item in given if isinstance(given, list) else [given]:
        if isinstance(item, Mapping):
            pairs = {item.get("segment_id"): item["questions"]} if "questions" in item else item
            for name, texts in pairs.items():
                by_id.setdefault(str(name).strip().casefold(), []).extend(_texts(texts))
    if len(segments) == 1:  # the questions are about it, whatever their id
        by_id = {segments[0].segment_id.casefold(): [text for texts in by_id.values() for text in texts]}
    found = [(segment, by_id.get(segment.segment_id.casefold(), [])) for segment in segments]
    missing = [segment.segment_id for segment, texts in found if not texts]
    if missing:
        raise UnusableReply(f'"expected_questions" has no question for {", ".join(missing)}')
    return tuple(
        ExpectedQuestions(segment_id=segment.segment_id, questions=tuple(dict.fromkeys(texts)))
        for segment, texts in found
    )


def _texts(given: Any) -> list[str]:
    items = given if isinstance(given, list) else [given]
    return [item.strip() for item in items if isinstance(item, str) and item.strip()]
