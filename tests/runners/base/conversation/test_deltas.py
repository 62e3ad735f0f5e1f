"""Laws of recorded conversations: every request can be rebuilt from deltas, and deltas stay small."""

import functools
import io

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.recorder.events import ActionFinished, ModelCalled
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.redaction import Redactor
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.base.conversation.deltas import History, rebuild_requests
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, conversation_digest
from lhaw_record.runners.cli.attempt_text import print_attempt
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.protocol import ModelError
from tests.support.canned_model import CannedModel, MemoryRecording, tool_reply

BROKEN = ModelError("m: server error", kind="server_error", is_retryable=True)

texts = st.text(max_size=8)
tool_calls = st.builds(ToolCall, call_id=texts, name=texts, arguments_json=texts)
messages = st.one_of(
    st.builds(Message, role=st.sampled_from(["system", "user"]), content=texts),
    st.builds(
        Message, role=st.just("assistant"), content=texts, tool_calls=st.lists(tool_calls, max_size=2).map(tuple)
    ),
    st.builds(Message, role=st.just("tool"), content=texts, tool_call_id=texts),
)
# What happens to a conversation between two calls; "forked" goes back into the past and takes another way.
steps = st.lists(
    st.tuples(
        st.sampled_from(["appended", "rewritten", "compacted", "forked"]),
        st.lists(messages, min_size=1, max_size=3),
        st.integers(min_value=0, max_value=50),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def next_conversation(kind, conversation, added, position):
    """Return the conversation of the next call."""
    cut = position % (len(conversation) + 1)
    if kind == "rewritten":
        return [*conversation[:cut], *added, *conversation[cut + 1 :]]
    if kind == "compacted":
        return [*added, *conversation[cut:]]
    if kind == "forked":
        return [*conversation[:cut], *added]
    return [*conversation, *added]


async def no_sleep(seconds):
    """Wait not at all."""


async def record(conversations_of_steps):
    """Call a model once for each step, some calls failing first, and return the requests and the events."""
    reply = tool_reply(("id", "bash", "{}"), text="ok")
    recording = MemoryRecording()
    caller = ModelCaller(
        model=CannedModel(
            [answer for *_, has_failure in conversations_of_steps for answer in [BROKEN] * has_failure + [reply]]
        ),
        recording=recording,
        role="agent",
        thread_id="t",
        parameters={},
        sleep=no_sleep,
    )
    conversation, sent = [], []
    for kind, added, position, has_failure in conversations_of_steps:
        conversation = next_conversation(kind, conversation, added, position)
        sent.extend([list(conversation)] * (1 + has_failure))
        await caller.call(conversation)
        conversation = [*conversation, reply.message]
    return sent, recording.events


@given(steps)
def test_every_request_is_rebuilt_from_its_deltas(conversations_of_steps):
    """Appended, rewritten, compacted and forked histories, with failed calls between, rebuild to what was sent."""
    sent, events = anyio.run(record, conversations_of_steps)
    assert list(rebuild_requests(events).values()) == sent


@given(st.lists(st.lists(messages, max_size=3), max_size=5))
def test_running_digest_equals_the_digest_of_the_whole(parts):
    """Hashing a conversation piece by piece gives the digest of its canonical JSON."""
    history = functools.reduce(History.extended, parts, History())
    whole = [message for part in parts for message in part]
    assert history.messages == tuple(whole)
    assert history.digest == conversation_digest(whole)


async def test_recorded_bytes_grow_linearly():
    """Twice as many turns of equal size take twice as many bytes, failed calls included: nothing is repeated."""

    async def byte_count(turn_count):
        turn = ("appended", [Message(role="user", content="x" * 200)], 0, True)
        _, events = await record([turn] * turn_count)
        return sum(len(msgspec.json.encode(event)) for event in events)

    once, twice, thrice = [await byte_count(count) for count in (20, 40, 60)]
    assert thrice - twice == pytest.approx(twice - once, rel=0.02)


async def test_damage_is_found():
    """A delta that was changed, or a parent that is missing, is an error that names the call."""
    _, events = await record([("appended", [Message(role="user", content="a")], 0, False)] * 2)
    called = [event for event in events if isinstance(event, ModelCalled)]
    changed = msgspec.structs.replace(called[0], new_messages_json='[{"role":"user","content":"b"}]')
    with pytest.raises(ValueError, match=r"t\.1 .* digest"):
        rebuild_requests([changed])
    with pytest.raises(ValueError, match=r"t\.2 continues call t\.1"):
        rebuild_requests(called[1:])


async def test_the_result_of_an_action_is_recorded_once():
    """A request names the action in place of its result's text; rebuilding puts the recorded result back."""
    recording = MemoryRecording()
    caller = ModelCaller(
        model=CannedModel([tool_reply(("a", "bash", "{}"), text="ok")] * 2),
        recording=recording,
        role="agent",
        thread_id="main",
        parameters={},
    )
    asked = [Message(role="user", content="begin")]
    reply = await caller.call(asked)
    await recording.append(ActionFinished(action_index=1, is_error=False, result="a long text", duration_ms=1.0))
    result = Message(role="tool", content="a long text", tool_call_id="a", result_of_action=1)
    await caller.call([*asked, reply.message, result])
    called = [event for event in recording.events if isinstance(event, ModelCalled)]
    assert "a long text" not in called[1].new_messages_json
    assert rebuild_requests(recording.events)[called[1].call_id] == [*asked, reply.message, result]
    without = [event for event in recording.events if not isinstance(event, ActionFinished)]
    with pytest.raises(ValueError, match="result of action 1"):
        rebuild_requests(without)


@pytest.mark.parametrize("is_redacted", [True, False])
async def test_a_conversation_without_its_digest_is_shown(tmp_path, is_redacted):
    """A redacted secret changes the messages after their digest was made: show prints them and says why they differ."""
    store = create_store(tmp_path / "store")
    secret = "orange piano forty"
    redactor = Redactor([secret] if is_redacted else [])
    said = Message(role="user", content=f"the key is {secret}")
    _, (called, *others) = await record([("appended", [said], 0, False)])
    if not is_redacted:
        called = msgspec.structs.replace(called, new_messages_json=called.new_messages_json.replace("the key", "a key"))
    async with StoreRecorder(store, "e", redactor=redactor) as recorder:
        await recorder.stream("t-1", trial_id="t", attempt=1).append(called, *others)
    out = io.StringIO()
    assert print_attempt(store.root, "t-1", out) == (0 if is_redacted else 1)
    if is_redacted:
        assert "the key is [redacted]" in out.getvalue()
        assert "a secret was replaced by [redacted] in 1 requests" in out.getvalue()
    else:
        assert "a key is orange piano" in out.getvalue()
        assert "do not have its recorded digest" in out.getvalue()
