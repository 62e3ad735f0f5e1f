"""Events about the conversations of a trial behind a gateway."""

from typing import Literal

from lhaw_record.recorder.events.values import Event

Flag = Literal["no_main_thread", "actions_uncounted", "injection_lost"]


class TrialFlagged(Event, frozen=True, tag="trial_flagged"):
    """A trial behind a gateway whose numbers may describe the recording instead of the agent.

    ``no_main_thread`` means that no conversation was recognised as the agent's own. ``actions_uncounted`` means that
    the agent went on acting and its actions were not counted. ``injection_lost`` means that the message was due, or had
    been inserted, and the agent worked on without it. ``detail`` says how this was noticed. Each flag is recorded once,
    when the program has ended.
    """

    flag: Flag
    detail: str
