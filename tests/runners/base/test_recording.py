"""Observers of a recording: those before may refuse an event, those after see what is recorded, in order."""

from contextlib import contextmanager

import pytest

from lhaw_record.recorder.events import QuestionAsked
from lhaw_record.runners.base.recording import ObservedRecording
from tests.support.canned_model import MemoryRecording

FIRST, SECOND = (QuestionAsked(question_id=each, question="Which?") for each in ("q1", "q2"))


async def test_observers_are_told_before_and_after_the_events_are_durable():
    """All are told before anything is appended, and again once all is; the append has a context of its own."""
    seen = []

    class Recording(MemoryRecording):
        async def append(self, *events):
            await super().append(*events)
            seen.append("durable")

    @contextmanager
    def appending():
        seen.append("begin")
        yield
        seen.append("end")

    recording = ObservedRecording(Recording(), appending)
    recording.before.append(lambda event: seen.append(f"before {event.question_id}"))
    recording.after.append(lambda event: seen.append(f"after {event.question_id}"))
    await recording.append(FIRST, SECOND)
    assert seen == ["before q1", "before q2", "begin", "durable", "end", "after q1", "after q2"]
    seen.clear()
    recording.defer(FIRST)
    await recording.append(SECOND)
    await recording.append()
    once = ["begin", "durable", "end"]
    assert seen == ["before q1", "after q1", "before q2", *once, "after q2", *once]


async def test_an_observer_that_refuses_an_event_keeps_it_out():
    """Nothing of the batch is appended, and nobody is told that it was."""
    memory, seen = MemoryRecording(), []
    recording = ObservedRecording(memory)

    def refuse(event):
        raise ValueError(event.question_id)

    recording.before.append(refuse)
    recording.after.append(seen.append)
    with pytest.raises(ValueError, match="q1"):
        await recording.append(FIRST, SECOND)
    assert (memory.events, seen) == ([], [])
