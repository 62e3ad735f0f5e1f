"""Injections: the missing information put into the conversation as a user turn."""

from typing import Literal

from recorder.events._base import Event


class ClarificationInjected(Event, frozen=True, tag="clarification_injected"):
    """The message was inserted after ``after_action``, the first clean turn boundary at or after
    ``target_action``; or ``skipped`` with the reason when the trial ended first. Source: Ask Early, section 4.

    None where a source states neither a target nor what it would follow from, or does not show the message, or where
    the segments of the variant are unknown.
    """

    status: Literal["injected", "skipped"]
    inject_percent: int
    target_action: int | None
    message: str | None
    segment_ids: tuple[str, ...] | None
    after_action: int | None = None
    reason: str | None = None


class AnchorLost(Event, frozen=True, tag="anchor_lost"):
    """Behind a gateway: a request of the main thread no longer contains the reply after which the message stood.

    The agent began its conversation anew, with a summary or from the start; ``reason`` is how its request was known as
    the main thread's. ``model_call_id`` is the first call without the reply of ``anchor_call_id``.
    """

    model_call_id: str
    thread_id: str
    anchor_call_id: str
    reason: str


class InjectionReapplied(Event, frozen=True, tag="injection_reapplied"):
    """Behind a gateway: the message stands at another place from this call on, because its anchor is lost.

    That it stands at its own place in every request before is no event: the agent's history does not hold it.
    """

    model_call_id: str
    thread_id: str
    place: Literal["top"]
