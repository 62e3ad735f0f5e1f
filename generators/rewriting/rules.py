"""The embedded rewriter: takes values out of a prompt by rules, without a model, and mends what is left."""

from collections.abc import Sequence
from pathlib import Path

from generators.errors import RewritingFailed
from generators.protocol import Removal, Rewriting, SourceTask
from generators.rewriting import english, questions, wording
from generators.rewriting.english import file_of
from generators.rewriting.occurrences import Prompt
from generators.rewriting.questions import Questions
from generators.rewriting.removing import Remover
from recorder.canonical import digest
from runners.models.calls import ModelCaller

NAME = "rules/2"


class RuleRewriter:
    """Removes segments by rules; implements :class:`generators.protocol.Rewriter`.

    Args:
        folder: Where the user's own ``english.toml``, ``rewriting.toml`` or ``questions.toml`` lie; a file that is not
            there is the bundled one.
    """

    name = NAME

    def __init__(self, folder: Path | None = None) -> None:
        self._remover = Remover(folder)
        self._questions = Questions(folder)
        files = (english.FILE_NAME, wording.FILE_NAME, questions.FILE_NAME)
        self.digest = digest([NAME, *(file_of(folder, name).read_text(encoding="utf-8") for name in files)])

    async def rewrite(
        self, source: SourceTask, removal: Removal, caller: ModelCaller | None, problems: Sequence[str] = ()
    ) -> Rewriting:
        """Return the prompt without the segments; the same every time, so a second attempt is none.

        Raises:
            RewritingFailed: A value is not in the prompt, or the rules have no words for its place, or this is a
                second attempt.
        """
        if problems:
            raise RewritingFailed(f"{NAME} gives the same prompt again, with the same problems: {'; '.join(problems)}")
        return self.rewriting(source.task.prompt, removal)

    def rewriting(self, prompt: str, removal: Removal) -> Rewriting:
        """Return the rewriting of a prompt.

        Raises:
            RewritingFailed: A value is not in the prompt, or the rules have no words for its place.
        """
        original = Prompt(prompt)
        for segment in removal.segments:
            if not segment.value.strip() or original.own_place(segment) is None:
                raise RewritingFailed(f"the value {segment.value!r} of {segment.segment_id} is not in the prompt")
        return Rewriting(
            prompt=self._remover.without(original, removal),
            expected_questions=self._questions.expected(original, removal),
            failure_mode=self._questions.failure_mode(original, removal),
        )
