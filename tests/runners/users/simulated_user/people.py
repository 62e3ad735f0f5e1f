"""A user's knowledge, a stream in memory and a model that answers what it is told, for the tests of this folder."""

import json

from lhaw_record.recorder.events.values import Segment, Variant
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge

NAME = Segment(
    segment_id="S1",
    dimension="goal",
    subdimension="target",
    value="overview.xlsx",
    text="Save the result as overview.xlsx",
)
BOUND = Segment(
    segment_id="S2",
    dimension="constraint",
    subdimension="numeric_bound",
    value="1,000 EUR",
    text="Skip payments below 1,000 EUR",
)
FULL_PROMPT = "Sum the payments. Skip payments below 1,000 EUR. Save the result as overview.xlsx."
SENT_PROMPT = "Sum the payments. Save the result."
VARIANT = Variant(
    benchmark="test",
    task_id="payments",
    variant_id="payments-1",
    prompt=SENT_PROMPT,
    segments=(NAME, BOUND),
    origin="hand_written",
)
NAME_QUESTION = "What should I name the output file?"
BOUND_QUESTION = "Below what amount should payments be skipped?"
OTHER_QUESTION = "Which column holds the dates?"


def knowing(*removed):
    """Return what the user of the payments task knows when these segments were removed."""
    return UserKnowledge(full_prompt=FULL_PROMPT, sent_prompt=SENT_PROMPT, removed=removed)


class MemoryStream:
    """Keeps the events of one trial in a list; ``before_append`` may look at them or fail."""

    def __init__(self, before_append=lambda events: None):
        self.events = []
        self._before_append = before_append

    async def append(self, *events):
        """Keep the events."""
        self._before_append(events)
        self.events.extend(events)


def said(reply, asks_for=(), gives=()):
    """Return a model's structured reply; ids are in one text, as in ``"S1 S2"``."""
    asked, given = (each.split() if isinstance(each, str) else list(each) for each in (asks_for, gives))
    return json.dumps({"asks_for": asked, "reply": reply, "gives": given})


class ToldModel:
    """Gives the replies it was told, in order, and remembers the prompts."""

    def __init__(self, *replies):
        self.prompts = []
        self._replies = list(replies)

    async def __call__(self, system, user, form):
        """Return the next reply, or raise it."""
        self.prompts.append((system, user))
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply
