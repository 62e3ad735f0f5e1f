"""``RuleRewriter``: removes values from a prompt where rules are sure, and refuses the rest."""

from collections.abc import Sequence

import msgspec

from generators.errors import RewritingFailed
from generators.protocol import Removal, Rewriting, SourceTask
from generators.rewriting import english, questions, wording
from generators.rewriting.narrow import without
from generators.rewriting.occurrences import Prompt
from generators.rewriting.questions import Questions
from recorder.events.canonical_json import digest
from recorder.resources import data_path
from runners.models.calls import ModelCaller

NAME = "rules/5"


class RuleRewriter:
    """Removes segments by rules. Implements :class:`generators.protocol.Rewriter`."""

    name = NAME

    def __init__(self) -> None:
        self._questions = Questions()
        files = (english.FILE_NAME, wording.FILE_NAME, questions.FILE_NAME)
        self.digest = digest([NAME, *(data_path("generation", name).read_text(encoding="utf-8") for name in files)])

    async def rewrite(
        self, source: SourceTask, removal: Removal, caller: ModelCaller | None, problems: Sequence[str] = ()
    ) -> Rewriting:
        """Return the prompt without the segments. The result is deterministic, so a second attempt is refused.

        Raises:
            RewritingFailed: A value is not in the prompt, the rules have no replacement for it, or this is a second
                attempt.
        """
        if problems:
            raise RewritingFailed(f"{NAME} gives the same prompt again, with the same problems: {'; '.join(problems)}")
        return self.rewriting(source.task.prompt, removal)

    def rewriting(self, prompt: str, removal: Removal) -> Rewriting:
        """Rewrite a prompt without the removed segments, and add the expected questions and the failure mode.

        Raises:
            RewritingFailed: A value is not in the prompt, or the rules have no replacement for it.
        """
        original = Prompt(prompt)
        for segment in removal.segments:
            if not segment.value.strip() or original.own_place(segment) is None:
                raise RewritingFailed(f"the value {segment.value!r} of {segment.segment_id} is not in the prompt")
        text, asked = without(prompt, removal)
        expected = (
            msgspec.structs.replace(each, questions=(asked[each.segment_id] or each.questions[0],))
            for each in self._questions.expected(original, removal)
        )
        return Rewriting(
            prompt=text,
            expected_questions=tuple(expected),
            failure_mode=self._questions.failure_mode(removal),
        )
