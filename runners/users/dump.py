"""The dump simulator: it gives everything that was left out, whatever is asked, as the user of Ask Early does."""

from recorder.events import RevealedSegment
from runners.users.expected import asked_segments
from runners.users.protocol import Answer, UserKnowledge
from runners.users.replies import answer_with


class DumpSimulator:
    """A deterministic user that answers everything at once.

    Source: Ask Early, appendix A.11.2. What the matcher says was asked for is
    requested, the rest volunteered.
    """

    name = "dump"

    async def answer(self, question: str, context: str, knowledge: UserKnowledge) -> Answer:
        """Give the values of all removed segments, or defer if nothing was removed."""
        asked = asked_segments(question, context, knowledge)
        return Answer(
            text=answer_with(knowledge.removed),
            revealed=tuple(
                RevealedSegment(segment_id=each.segment_id, is_requested=each.segment_id in asked)
                for each in knowledge.removed
            ),
        )
