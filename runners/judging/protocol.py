"""What a kind of judging is to the driver: which things are to be judged, how to ask, how to read, what to record."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from recorder.events import AnyEvent
from runners.judging.stored import Stored, StoredTrial
from runners.judging.streams import StreamReader
from runners.prompt_template import PromptTemplate


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to judge: some valid trials of one agent, recorded with the experiment of the last of them."""

    trials: tuple[StoredTrial, ...]
    is_judged: bool

    @property
    def last(self) -> StoredTrial:
        """The trial that names the thing."""
        return self.trials[-1]


class Judging(Protocol):
    """A kind of judging.

    ``kind`` is its name on the command line; ``prompt_digest`` covers everything that decides what the judge sees and
    how it answers.
    """

    kind: str
    prompt_digest: str
    template: PromptTemplate

    def subjects(self, stored: Stored) -> Sequence[Subject]:
        """Return everything there is to judge, also what this judge has judged with this prompt."""
        ...

    def question(self, subject: Subject, stored: Stored, reader: StreamReader) -> str:
        """Return the user prompt. Blocking: it reads the store."""
        ...

    def read(self, reply: str) -> Any:
        """Return the verdict of a reply.

        Raises:
            UnusableReply: It holds none.
        """
        ...

    def event(self, subject: Subject, verdict: Any) -> AnyEvent:
        """Return what is recorded."""
        ...
