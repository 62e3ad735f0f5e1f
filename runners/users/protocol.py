"""What a user simulator is: it answers one question, knowing what was removed from the prompt."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from recorder.events import RevealedSegment
from recorder.values import Segment

AskModel = Callable[[str, str], Awaitable[str]]
"""Send (system prompt, user prompt) to the simulator's model, recorded, and return its text.

Raises UserSimulatorError when the model cannot be reached.
"""


class UserKnowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What the user had in mind, what they wrote, and the segments they left out (none under ``full_ask_user``)."""

    full_prompt: str
    sent_prompt: str
    removed: tuple[Segment, ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A reply and the removed segments that it gave away."""

    text: str
    revealed: tuple[RevealedSegment, ...] = ()


class UserSimulator(Protocol):
    """A simulated user."""

    name: str

    async def answer(self, question: str, context: str, knowledge: UserKnowledge) -> Answer:
        """Answer one question.

        Raises:
            UserSimulatorError: No answer can be given; the trial fails, an answer is never invented.
        """
        ...
