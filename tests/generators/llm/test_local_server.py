"""The local server for whole pipelines: what it is asked it lets an extractor and a rewriter without a model do."""

from lhaw_record.generators.protocol import Extraction, Removal, Rewriting
from lhaw_record.recorder.events.values import ExpectedQuestions
from tests.generators.llm.question_setup import OUT, PROMPT, caller_of, extracted, rewritten
from tests.support.canned_model import MemoryRecording
from tests.support.chat_server import ChatServer
from tests.support.generation_model import HandlerModel, handler_of, source_of


class Finds:
    """Finds the same segment in every prompt."""

    name, digest = "finds", "0"

    async def extract(self, source, grounding, caller):
        """Return it."""
        return Extraction(segments=(OUT,))


class Removes:
    """Puts the severity where a segment was."""

    name, digest = "removes", "0"

    async def rewrite(self, source, removal, caller, problems=()):
        """Return the prompt with it."""
        (segment,) = removal.segments
        return Rewriting(
            prompt=source.task.prompt.replace(segment.value, removal.severity),
            expected_questions=(ExpectedQuestions(segment_id=segment.segment_id, questions=("Where to?",)),),
            failure_mode="none",
        )


async def test_what_is_asked_of_the_server_is_what_the_rules_would_do():
    """Prompt, segments and severity go there and back through real requests unchanged."""
    async with ChatServer(HandlerModel(handler_of(Finds(), Removes()))) as server:
        found = await extracted(caller_of(server.url, MemoryRecording()))
        made = await rewritten(caller_of(server.url, MemoryRecording(), "rewriter"), segments=found.segments)
    assert found == Extraction(segments=(OUT,))
    removal = Removal(segments=found.segments, severity="delete")
    assert made == await Removes().rewrite(source_of(PROMPT), removal, None)
