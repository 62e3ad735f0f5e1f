"""How the agent's part of a trial ended, including model limits: full context, truncated reply or refusal."""

import msgspec

from lhaw_record.recorder.events.trial import EndedBy

CONTEXT_WINDOW, CONTENT_FILTER, ENDLESS_REPLY = "context_window", "content_filter", "endless_reply"
"""Kinds of failed calls. An endless reply was still being generated when the request timed out."""
UNKNOWN_ENDING = "unknown_ending"
"""Kind of a failed call whose reply ended for a reason that is not listed, or that the provider does not report."""

CUT = "length"
"""Finish reason of a reply truncated at its length limit."""
REFUSAL, FILTERED, WINDOW_FULL = "refusal", "content_filter", "model_context_window_exceeded"
"""Finish reasons: the model refused, a content filter stopped the reply, or the context window was full."""

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

    ``abuse`` says how the agent destroyed its sandbox, which then cannot be graded. It is None if the sandbox survived.
    """

    ended_by: EndedBy
    final_answer: str
    abuse: str | None = None


def ended_by_failure(kind: str) -> EndedBy | None:
    """Return how a trial ends if a model call failed with this kind, or None if infrastructure failed."""
    return _ENDED_BY_FAILURE.get(kind)


def ended_by_reply(finish_reason: str) -> EndedBy | None:
    """Return how a trial ends after a last reply with this finish reason and no usable turn, or None."""
    return _ENDED_BY_REPLY.get(finish_reason)
