"""Replies of earlier runs: what is remembered, for whom, and that it is neither paid nor recorded again."""

import pytest

from lhaw_record.recorder.events import ModelCalled, ModelResponded
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.protocol import ModelError
from lhaw_record.runners.models.recorded_replies import load_recorded_replies
from tests.support.canned_model import CannedModel, MemoryRecording, snapshot_of, text_reply

USER = Message(role="user", content="Which segments?")
OTHER = Message(role="user", content="And now?")


def caller_of(model, recording, recorded=None, **changes):
    """A caller of a thread."""
    settings = {"role": "extractor", "thread_id": "extract-t", "parameters": {"temperature": 0}, **changes}
    return ModelCaller(model=model, recording=recording, recorded=recorded, **settings)


def seen(*recordings, **filters):
    """What a store remembers that holds some streams in journals, in this order."""
    return load_recorded_replies(snapshot_of(*recordings), **filters)


async def asked(*messages, answers=("one",), recorded=None, **changes):
    """Ask something in turn; the model, its recording, the caller and the texts of the replies."""
    model = CannedModel([text_reply(answer) if isinstance(answer, str) else answer for answer in answers])
    recording = MemoryRecording()
    caller = caller_of(model, recording, recorded, **changes)
    texts = [(await caller.call([message])).message.content for message in messages]
    return model, recording, caller, texts


async def test_the_same_request_of_the_same_thread_is_answered_from_the_record():
    """No request, no event, no cost in this run; what the work took is told all the same."""
    _, first, before, _ = await asked(USER)
    model, again, caller, texts = await asked(USER, answers=["two"], recorded=seen(first))
    assert texts == ["one"]
    assert (model.requests, again.events) == ([], [])
    assert caller.total_usage.cost_usd == 0.0
    assert caller.usage_with_recalled == before.total_usage


@pytest.mark.parametrize(
    "changes",
    [
        {"thread_id": "extract-u"},
        {"role": "rewriter"},
        {"parameters": {"temperature": 1}},
        {"message": OTHER},
        {"name": "another"},
    ],
)
async def test_any_other_request_is_asked(changes):
    """Another thread, role, parameter, message or model is another request."""
    _, first, _, _ = await asked(USER)
    message, name = changes.pop("message", USER), changes.pop("name", "canned")
    model = CannedModel([text_reply("two")], name)
    reply = await caller_of(model, MemoryRecording(), seen(first), **changes).call([message])
    assert (reply.message.content, len(model.requests)) == ("two", 1)


async def test_a_thread_that_asks_again_gets_the_next_reply():
    """A repeated request (after an empty reply, say) is remembered in its turn, also when runs share the thread."""
    _, first, _, _ = await asked(USER, answers=[""])
    _, second, _, texts = await asked(USER, USER, answers=["good"], recorded=seen(first))
    assert texts == ["", "good"]
    assert len([event for event in second.events if isinstance(event, ModelResponded)]) == 1
    model, _, _, texts = await asked(USER, USER, USER, answers=["third"], recorded=seen(first, second))
    assert (texts, len(model.requests)) == (["", "good", "third"], 1)


async def test_threads_with_equal_requests_do_not_take_each_others_replies():
    """Two jobs about equal prompts that ran at once are remembered apart."""
    _, empty, _, _ = await asked(USER, USER, answers=["", "good"], thread_id="a")
    _, other, _, _ = await asked(USER, answers=["fine"], thread_id="b")
    remembered = seen(other, empty)
    assert (await asked(USER, USER, recorded=remembered, thread_id="a"))[3] == ["", "good"]
    assert (await asked(USER, recorded=remembered, thread_id="b"))[3] == ["fine"]


async def test_a_lone_or_failed_request_is_asked_again():
    """What brought no reply is owed; a retry that brought one is remembered as the reply to the request."""
    broken = ModelError("broken", kind="server_error", is_retryable=True)

    async def no_sleep(seconds):
        """Wait not at all."""

    _, first, _, _ = await asked(USER, answers=[broken, "one"], sleep=no_sleep)
    assert len(seen(first)) == 1
    assert (await asked(USER, recorded=seen(first)))[3] == ["one"]
    lone = MemoryRecording()
    lone.batches = first.batches[:3]
    model, _, _, _ = await asked(USER, recorded=seen(lone))
    assert len(model.requests) == 1


async def test_what_follows_a_remembered_reply_is_recorded_in_full():
    """The next request stands in a stream without the remembered one, and is no delta against it."""
    _, first, _, _ = await asked(USER)
    model, recording = CannedModel([text_reply("two")]), MemoryRecording()
    caller = caller_of(model, recording, seen(first))
    reply = await caller.call([USER])
    await caller.call([USER, reply.message, OTHER])
    (called, _) = recording.events
    assert (called.parent_call_id, called.shared_count, called.message_count) == (None, 0, 3)
    assert rebuild_requests(recording.events) == {called.call_id: [USER, reply.message, OTHER]}


async def test_only_wanted_roles_and_experiments_are_remembered():
    """An agent's trials are never answered from the record."""
    _, agent, _, _ = await asked(USER, role="agent")
    _, extractor, _, _ = await asked(USER)
    assert len(seen(agent, extractor)) == 1
    assert len(seen(agent, extractor, experiment_id="f")) == 0
    assert len(seen(agent, extractor, roles=["judge"])) == 0


async def test_segments_and_journals_are_read_alike(tmp_path):
    """A reply is remembered while its journal is open and after it was sealed, with tokens and price."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "e") as recorder:
        stream = recorder.stream("run")
        await caller_of(CannedModel([text_reply("one")]), stream).call([USER])
        await caller_of(CannedModel([text_reply("x")]), stream, role="agent", thread_id="main").call([USER])
        journal = load_recorded_replies(read_snapshot(store.root), "e")
    segment = load_recorded_replies(read_snapshot(store.root), "e")
    for remembered in (journal, segment):
        model, recording, caller, texts = await asked(USER, recorded=remembered)
        assert (texts, len(remembered), model.requests) == (["one"], 1, [])
        assert (caller.usage_with_recalled.input_tokens, caller.usage_with_recalled.cost_usd) == (10, 0.5)
        assert not any(isinstance(event, ModelCalled) for event in recording.events)
