"""How the agent's part of a trial ended."""

import msgspec

from lhaw_record.recorder.events.trial import EndedBy


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How the agent's part of a trial ended.

    ``abuse`` says how the agent lost its sandbox, which then cannot be graded. It is None if the agent kept its
    sandbox.
    """

    ended_by: EndedBy
    final_answer: str
    abuse: str | None = None
