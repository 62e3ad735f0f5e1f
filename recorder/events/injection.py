"""Injections: the missing information put into the conversation as a user turn."""

from typing import Literal

from recorder.events._base import Event


class ClarificationInjected(Event, frozen=True, tag="clarification_injected"):
    """The message was inserted after ``after_action``, the first clean turn boundary at or after
    ``target_action``; or ``skipped`` with the reason when the trial ended first. Source: Ask Early, section 4.
    """

    status: Literal["injected", "skipped"]
    inject_percent: int
    target_action: int
    message: str
    segment_ids: tuple[str, ...]
    after_action: int | None = None
    reason: str | None = None
