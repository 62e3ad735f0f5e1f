"""ModelCaller: what is recorded before, after and instead of a reply, and when a call is repeated."""

import json

import anyio
import pytest

from lhaw_record.recorder.events import ModelCalled, ModelFailed, ModelResponded
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition, conversation_digest
from lhaw_record.runners.base.errors import ModelBoundaryError
from lhaw_record.runners.models.call_outcomes import RetryPolicy, delay_before_retry_s
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.endpoints.door import Door
from lhaw_record.runners.models.protocol import HostedModel, ModelError
from tests.support.canned_model import CannedModel, MemoryRecording, text_reply, tool_reply
from tests.support.doors import Unhurried

USER = Message(role="user", content="List the files.")
BASH = ToolDefinition(name="bash", description="Run a command.", input_schema={"type": "object"})
RATE_LIMIT = ModelError("m: rate limit", kind="rate_limit", is_retryable=True, http_status=429, retry_after_s=7.0)
SERVER_ERROR = ModelError("m: server error", kind="server_error", is_retryable=True, http_status=500)


class Time:
    """A clock that moves only by sleeping."""

    def __init__(self):
        self.now_s = 0.0
        self.slept_s = []

    async def sleep(self, seconds):
        """Let the time pass at once."""
        self.slept_s.append(seconds)
        self.now_s += seconds


def caller_of(model, recording, **options):
    """Return a caller whose clock stands still and whose jitter is the largest."""
    time = options.pop("time", Time())
    return ModelCaller(
        model=model,
        recording=recording,
        role="agent",
        thread_id="main",
        parameters={"temperature": 0, "seed": 1},
        clock=lambda: time.now_s,
        sleep=time.sleep,
        random_unit=lambda: 1.0,
        **options,
    )


async def test_request_is_durable_before_the_model_sees_it():
    """When the model is asked, model_called has been appended, and nothing else."""
    recording = MemoryRecording()
    seen = []

    class Watching(CannedModel):
        async def respond(self, request):
            seen.extend(recording.events)
            return await super().respond(request)

    await caller_of(Watching([text_reply("done")]), recording).call([USER], [BASH])
    assert [type(event) for event in seen] == [ModelCalled]
    assert [type(event) for event in recording.events] == [ModelCalled, ModelResponded]


async def test_first_call_holds_everything_and_the_next_only_what_is_new():
    """The second call names its parent, shares its request and reply, and repeats neither messages nor tools."""
    recording = MemoryRecording()
    model = CannedModel([tool_reply(("a", "bash", "{}")), text_reply("done")])
    caller = caller_of(model, recording)
    first = await caller.call([USER], [BASH])
    result = Message(role="tool", content="a.txt", tool_call_id="a")
    await caller.call([USER, first.message, result], [BASH])
    one, _, two, _ = recording.events
    assert (one.call_id, one.parent_call_id, one.shared_count, one.call_kind) == ("main.1", None, 0, "main")
    assert json.loads(one.tools_json)[0]["function"]["name"] == "bash"
    assert json.loads(one.parameters_json) == {"seed": 1, "temperature": 0}
    assert (two.call_id, two.parent_call_id, two.shared_count, two.message_count) == ("main.2", "main.1", 2, 3)
    assert json.loads(two.new_messages_json) == [{"role": "tool", "content": "a.txt", "tool_call_id": "a"}]
    assert two.tools_json is None
    assert two.request_digest == conversation_digest([USER, first.message, result])


async def test_changed_tools_are_recorded_again():
    """A call with other tools than the one before it carries them, even if they are none."""
    recording = MemoryRecording()
    caller = caller_of(CannedModel([text_reply("done")]), recording)
    for tools in ([BASH], [BASH], [], []):
        await caller.call([USER], tools)
    called = [event for event in recording.events if isinstance(event, ModelCalled)]
    assert [event.tools_json is not None for event in called] == [True, False, True, False]
    assert called[2].tools_json == "[]"


async def test_reply_event_can_be_appended_with_the_action_that_follows():
    """After request() the reply is counted but not appended: it belongs into the caller's next batch."""
    recording = MemoryRecording()
    caller = caller_of(CannedModel([text_reply("done")]), recording)
    reply, responded = await caller.request([USER])
    assert [type(event) for event in recording.events] == [ModelCalled]
    assert (responded.call_id, responded.text) == ("main.1", reply.message.content)


async def test_failed_call_is_repeated_with_nothing_written_twice():
    """A repetition is a call of kind retry that shares the whole request of the failed one."""
    recording = MemoryRecording()
    time = Time()
    caller = caller_of(CannedModel([RATE_LIMIT, SERVER_ERROR, text_reply("done")]), recording, time=time)
    await caller.call([USER], [BASH])
    kinds = [type(event) for event in recording.events]
    assert kinds == [ModelCalled, ModelFailed, ModelCalled, ModelFailed, ModelCalled, ModelResponded]
    first, failed, second, _, _, _ = recording.events
    assert (failed.error_kind, failed.is_retried, failed.http_status, failed.retry_after_s) == (
        "rate_limit",
        True,
        429,
        7.0,
    )
    assert (second.call_kind, second.parent_call_id, second.shared_count) == ("retry", "main.1", 1)
    assert (second.new_messages_json, second.tools_json) == ("[]", None)
    assert second.request_digest == first.request_digest
    assert time.slept_s == pytest.approx([7.1, 2.0])
    assert set(rebuild_requests(recording.events)) == {"main.1", "main.2", "main.3"}


async def test_final_failure_is_not_repeated_and_owes_nothing():
    """A refused key ends the call at once; a new attempt of the trial is not owed."""
    refused = ModelError("m: not authorised", kind="authentication", is_retryable=False, http_status=401)
    recording = MemoryRecording()
    model = CannedModel([refused])
    with pytest.raises(ModelBoundaryError, match="not authorised") as caught:
        await caller_of(model, recording).call([USER])
    assert (caught.value.kind, caught.value.is_retry_owed) == ("authentication", False)
    assert len(model.requests) == 1
    assert recording.events[-1].is_retried is False


async def test_attempts_are_bounded():
    """After the last attempt the failure is recorded as not retried, and a new attempt of the trial is owed."""
    recording = MemoryRecording()
    model = CannedModel([SERVER_ERROR])
    with pytest.raises(ModelBoundaryError, match="3 attempts") as caught:
        await caller_of(model, recording, retry=RetryPolicy(max_attempts=3)).call([USER])
    assert (caught.value.kind, caught.value.is_retry_owed) == ("server_error", True)
    failures = [event for event in recording.events if isinstance(event, ModelFailed)]
    assert [event.is_retried for event in failures] == [True, True, False]


async def test_a_request_that_is_refused_while_others_are_answered_is_given_up():
    """Too large for a limit on tokens, it meets the same 429 for ever; alone it waits, beside others it ends."""
    door = Door("m", pace=Unhurried())

    class TooLarge(CannedModel):
        """A provider that refuses one request and answers everything else."""

        others = True

        async def respond(self, request):
            self.requests.append(request)
            assert len(self.requests) < 200, "repeated without bound"
            if self.others:
                async with door.passage(lambda: "another") as passage:
                    passage.answered(text_reply("fine"))
            async with door.passage(lambda: "too large"):
                raise ModelError("Request too large", kind="rate_limit", is_retryable=True, http_status=429)

    model, time = TooLarge([]), Time()
    with pytest.raises(ModelBoundaryError, match=r"too large.*refused 20 times while others were answered") as caught:
        await caller_of(model, MemoryRecording(), time=time).call([USER])
    assert (caught.value.kind, caught.value.is_retry_owed) == ("rate_limit", True)
    assert len(model.requests) == 21
    model.others = False
    with pytest.raises(AssertionError, match="without bound"):
        await caller_of(model, MemoryRecording(), time=time).call([USER])


@pytest.mark.parametrize(
    ("error", "elapsed_s", "refusals", "delay_s"),
    [
        (SERVER_ERROR, 1800.0, 19, 0.0),
        (SERVER_ERROR, 1800.1, 0, None),
        (SERVER_ERROR, 0.0, 20, None),
        (ModelError("m", kind="context_window", is_retryable=False, http_status=400), 0.0, 0, None),
    ],
)
def test_a_held_request_is_repeated_within_the_same_bounds(error, elapsed_s, refusals, delay_s):
    """The total time, the refusals while others are answered, and whether the same request may succeed at all."""
    held = ModelError(
        "m", kind=error.kind, is_retryable=error.is_retryable, http_status=error.http_status, outlook="held"
    )
    found = delay_before_retry_s(
        RetryPolicy(), attempt=9, refusals=refusals, elapsed_s=elapsed_s, error=held, random_unit=1.0
    )
    assert found == delay_s


async def test_a_held_request_that_is_given_up_is_not_called_too_large():
    """Only a rate limit can mean that; a server error is told as what it is."""

    class Failing(CannedModel):
        async def respond(self, request):
            self.requests.append(request)
            error = ModelError("m: server error", kind="server_error", is_retryable=True, outlook="held")
            error.answer_count = len(self.requests)
            raise error

    with pytest.raises(ModelBoundaryError, match="failed 20 times while other requests were answered") as caught:
        await caller_of(Failing([]), MemoryRecording()).call([USER])
    assert "large" not in str(caught.value)


async def test_total_time_is_bounded():
    """No repetition begins after the total time: 7.1 s are waited, a further wait would end after 10 s."""
    time = Time()
    with pytest.raises(ModelBoundaryError):
        await caller_of(
            CannedModel([RATE_LIMIT]), MemoryRecording(), time=time, retry=RetryPolicy(max_total_s=10.0)
        ).call([USER])
    assert time.slept_s == pytest.approx([7.1])


def test_delays_double_and_stay_bounded():
    """The delay doubles up to its limit; retry-after is a lower bound which is itself cut."""
    policy = RetryPolicy(max_attempts=10, first_delay_s=1.0, max_delay_s=8.0, max_retry_after_s=30.0)
    slow = ModelError("m", kind="rate_limit", is_retryable=True, retry_after_s=3600.0)

    def delay_s(attempt, error, random_unit):
        return delay_before_retry_s(policy, attempt=attempt, elapsed_s=0.0, error=error, random_unit=random_unit)

    assert [delay_s(attempt, SERVER_ERROR, 1.0) for attempt in (1, 2, 3, 4, 5)] == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert delay_s(3, SERVER_ERROR, 0.0) == 2.0
    assert delay_s(1, slow, 1.0) == pytest.approx(30.1)
    assert delay_s(10, SERVER_ERROR, 1.0) is None


async def test_total_usage_adds_up_and_an_unknown_price_stays_unknown():
    """Tokens of all replies are counted; one reply without a price makes the sum unknown, never zero."""
    caller = caller_of(
        CannedModel([text_reply("a"), text_reply("b"), text_reply("c", cost_usd=None)]), MemoryRecording()
    )
    assert caller.total_usage.cost_usd == 0.0
    await caller.call([USER])
    await caller.call([USER])
    assert (caller.total_usage.input_tokens, caller.total_usage.cost_usd) == (20, 1.0)
    await caller.call([USER])
    assert (caller.total_usage.output_tokens, caller.total_usage.cost_usd) == (6, None)


async def test_cancellation_leaves_a_lone_request():
    """A call that is cancelled while the model thinks records nothing more, like a crash at that moment."""
    recording = MemoryRecording()
    has_been_asked = anyio.Event()

    class Silent(CannedModel):
        async def respond(self, request):
            has_been_asked.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(caller_of(Silent([text_reply("x")]), recording).call, [USER])
        await has_been_asked.wait()
        group.cancel_scope.cancel()
    assert [type(event) for event in recording.events] == [ModelCalled]


async def test_parameters_that_are_not_sent_stand_apart():
    """The record shows what was sent, and under dropped_parameters what the provider does not accept."""
    recording = MemoryRecording()

    class Picky(CannedModel, HostedModel):
        async def dropped_parameters(self, parameters):
            return ("seed",)

    await caller_of(Picky([text_reply("x")]), recording).call([USER])
    assert json.loads(recording.events[0].parameters_json) == {"dropped_parameters": {"seed": 1}, "temperature": 0}
