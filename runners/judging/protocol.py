"""The interface between a kind of judging and the driver: what to judge, how to ask, read the reply and record it."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from lhaw_record.recorder.events import AnyEvent
from lhaw_record.runners.judging.stored_trials import StoredTrial, StoredTrials, StreamReader
from lhaw_record.runners.models.llm_jobs.prompt_template import PromptTemplate
from lhaw_record.runners.models.reply_forms import ReplyForm


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to judge: some valid trials of one agent, recorded in the experiment of the last trial."""

    trials: tuple[StoredTrial, ...]
    is_judged: bool

    @property
    def last(self) -> StoredTrial:
        """The trial that identifies the subject."""
        return self.trials[-1]


class Judging(Protocol):
    """A kind of judging.

    ``kind`` is its name on the command line. ``prompt_digest`` covers everything that decides what the judge sees and
    how it answers. ``form`` is the form of its reply.
    """

    kind: str
    prompt_digest: str
    template: PromptTemplate
    form: ReplyForm

    def subjects(self, stored: StoredTrials) -> Sequence[Subject]:
        """Return all subjects, including those that this judge has already judged with this prompt."""
        ...

    def question(self, subject: Subject, stored: StoredTrials, reader: StreamReader) -> str:
        """Return the user prompt. Blocks: it reads the store."""
        ...

    def read(self, reply: str) -> Any:
        """Return the verdict in a reply.

        Raises:
            UnusableReply: The reply does not contain a verdict.
        """
        ...

    def event(self, subject: Subject, verdict: Any) -> AnyEvent:
        """Return the event that records a verdict."""
        ...
