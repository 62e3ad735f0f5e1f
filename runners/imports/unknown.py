"""What stands in an event where a source lacks a value that the event must have. docs/imports.md lists them.

None of these is a measurement. Everything else that a source lacks is null.
"""

from recorder.events.trial import EndedBy

TEXT = "unknown"
"""Strategy, persona, ask notice, sandbox, simulator of an answer, version of a benchmark."""

SEED = -1
"""No run has a negative seed, so it is never taken for one."""

MILLISECONDS = 0.0
"""Durations of trials and actions, latencies of replies and answers."""

TOKENS = 0
"""Tokens of a reply of which the source has the text only."""

ENDED_BY: EndedBy = "submitted"
"""How a trial ended that has a result."""

TARGET_ACTION = 0
"""The target of an injection without a budget; real ones begin at 1."""

REMARK = (
    "what the format lacks is null; where an event must have a value: "
    f"seed {SEED}, times {MILLISECONDS:g}, ended_by {ENDED_BY}, names {TEXT!r} (docs/imports.md)"
)
