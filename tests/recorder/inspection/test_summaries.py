"""The words for an event."""

import pytest

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    ClarificationInjected,
    QuestionAnswered,
    QuestionAsked,
)
from lhaw_record.recorder.inspection.tail import Tail
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.workload import InProcess
from tests.recorder.stores import started

SAID = {
    ActionStarted(
        action_index=1, kind="tool", name="bash", arguments_json='{"command":"ls\\n-l"}', model_call_id=None
    ): "1: bash ls -l",
    ActionStarted(
        action_index=2, kind="tool", name="mail", arguments_json='{"cc":null,"to":"Zoë"}', model_call_id=None
    ): "2: mail cc=null, to=Zoë",
    ActionStarted(
        action_index=3, kind="malformed", name="bash", arguments_json="{ls", model_call_id=None
    ): "3: bash {ls",
    ActionStarted(action_index=4, kind="tool", name="x", arguments_json="[1]", model_call_id=None): "4: x [1]",
    ActionStarted(
        action_index=5, kind="text", name="", arguments_json="{}", model_call_id=None
    ): "5: a reply without a tool call",
    ActionFinished(action_index=1, is_error=True, result="no such file", duration_ms=1.0): "1: error: no such file",
    ActionFinished(action_index=2, is_error=None, result=None, duration_ms=None): "2: (no result)",
    ActionFinished(action_index=3, is_error=False, result="", duration_ms=1.0): "3: (empty)",
    QuestionAsked(question_id="q1", question="Which\nmonth?"): "Which month?",
    QuestionAnswered(question_id="q1", answer=None, simulator="exact", latency_ms=None): "(no text)",
    QuestionAnswered(
        question_id="q1", answer=None, simulator="exact", latency_ms=None, response_state="declined"
    ): "(declined)",
    ClarificationInjected(
        status="injected", inject_percent=10, target_action=2, message="It is May.", segment_ids=("s",), after_action=2
    ): "after action 2: It is May.",
    ClarificationInjected(
        status="skipped", inject_percent=90, target_action=9, message="x", segment_ids=("s",), reason="the trial ended"
    ): "skipped: the trial ended",
}


@pytest.mark.thorough
async def test_events_are_told_in_words(tmp_path):
    """The same words from an open journal and from a segment; what is long is cut."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp", start_sealing=InProcess) as recorder:
        stream = recorder.stream("s", trial_id="s", attempt=1)
        for event in (started(0), *SAID, QuestionAsked(question_id="q2", question="a " * 200)):
            await stream.append(event)
        in_journal = [line.summary for line in Tail(store.root).last(50)]
    in_segment = [line.summary for line in Tail(store.root).last(50)]
    assert not store.journals()
    assert in_segment[:-1] == in_journal  # then the recorder closed the stream
    assert in_journal[1:-1] == list(SAID.values())
    assert len(in_journal[-1]) == 100
    assert in_journal[-1].endswith("…")
