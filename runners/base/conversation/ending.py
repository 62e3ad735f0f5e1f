"""How the agent's part of a trial ended, also by a limit of its model: a full context, a cut or a refused reply."""

import msgspec

from lhaw_record.recorder.events.trial import EndedBy

CONTEXT_WINDOW, CONTENT_FILTER, ENDLESS_REPLY = "context_window", "content_filter", "endless_reply"
"""Kinds of failed calls. An endless reply was still being generated when the request's time was used up."""

CUT = "length"
"""The finish reason of a reply that reached its length limit, so that its text is incomplete."""
REFUSAL, FILTERED, WINDOW_FULL = "refusal", "content_filter", "model_context_window_exceeded"
"""The finish reasons of replies that the model refused, that a filter stopped, or that filled the context window."""

_ENDED_BY_FAILURE: dict[str, EndedBy] = {
    CONTEXT_WINDOW: "context_limit",
    CONTENT_FILTER: "refused",
    ENDLESS_REPLY: "output_limit",
}
_ENDED_BY_REPLY: dict[str, EndedBy] = {
    CUT: "output_limit",
    REFUSAL: "refused",
    FILTERED: "refused",
    WINDOW_FULL: "context_limit",
}


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How the agent's part of a trial ended.

    ``abuse`` says how the agent lost its sandbox, which then cannot be graded. It is None if the agent kept its
    sandbox.
    """

    ended_by: EndedBy
    final_answer: str
    abuse: str | None = None


def ended_by_failure(kind: str) -> EndedBy | None:
    """Return how a trial ends whose model call failed in this way, or None if infrastructure failed."""
    return _ENDED_BY_FAILURE.get(kind)


def ended_by_reply(finish_reason: str) -> EndedBy | None:
    """Return how a trial ends whose last reply ended for this reason and has no usable turn, or None for no limit."""
    return _ENDED_BY_REPLY.get(finish_reason)
