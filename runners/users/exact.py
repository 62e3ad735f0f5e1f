"""The exact simulator: what a question asks for is decided without a model; the answer gives that and nothing else."""

from recorder.events import RevealedSegment
from runners.users.expected import asked_segments
from runners.users.protocol import Answer, UserKnowledge
from runners.users.replies import answer_with


class ExactSimulator:
    """A deterministic user without a model."""

    name = "exact"

    async def answer(self, question: str, context: str, knowledge: UserKnowledge) -> Answer:
        """Give the values of the segments that the question is about, or defer to the agent's judgment.

        A chained segment is kept back until its parent is known: what it specifies was never spoken of.
        """
        asked = asked_segments(question, context, knowledge)
        given = [
            segment
            for segment in knowledge.removed
            if segment.segment_id in asked and knowledge.is_open(segment, asked)
        ]
        return Answer(
            text=answer_with(given),
            revealed=tuple(RevealedSegment(segment_id=each.segment_id, is_requested=True) for each in given),
        )
