"""Events of injections. An injection inserts the missing information into the conversation as a user turn."""

from typing import Literal

from lhaw_record.recorder.events.values import Event


class ClarificationInjected(Event, frozen=True, tag="clarification_injected"):
    """The clarification was inserted into the conversation, or skipped.

    It is inserted after action ``after_action``, at the first clean turn boundary from ``target_action`` on. Status
    ``skipped`` means that the trial ended first, and ``reason`` says why. The target, the message and the segments are
    None if the source of an imported trial lacks them. Source: Ask Early, section 4.
    """

    status: Literal["injected", "skipped"]
    inject_percent: int
    target_action: int | None
    message: str | None
    segment_ids: tuple[str, ...] | None
    after_action: int | None = None
    reason: str | None = None


class AnchorLost(Event, frozen=True, tag="anchor_lost"):
    """A request on the main thread no longer contains the reply that the injected message followed, its anchor.

    This happens only behind a gateway: the agent restarted its conversation, with a summary or from the beginning.
    ``model_call_id`` is the first call whose request lacks the reply to ``anchor_call_id``. ``reason`` says how that
    request was recognised as one of the main thread.
    """

    model_call_id: str
    thread_id: str
    anchor_call_id: str
    reason: str


class InjectionReapplied(Event, frozen=True, tag="injection_reapplied"):
    """The gateway inserts the injected message at another place from this call on, because its anchor was lost.

    Until then, the gateway inserts the message at its first place in every request, because the agent's own history
    does not contain it. These insertions are not recorded one by one.
    """

    model_call_id: str
    thread_id: str
    place: Literal["top"]
