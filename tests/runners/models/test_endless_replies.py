"""Replies to native agents that never end: an ending of the agent, told from a server that hangs."""

import contextlib
import json

import pytest

from lhaw_record.recorder.events import ModelFailed, ModelResponded
from lhaw_record.runners.agents.agent_loop import NativeAgent
from lhaw_record.runners.base.conversation.messages import Message, Toolbox
from lhaw_record.runners.base.errors import ModelBoundaryError
from lhaw_record.runners.models.call_outcomes import RetryPolicy
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.failures import endless_reply
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelError, ModelRequest
from tests.support.canned_model import CannedModel, MemoryRecording, text_reply
from tests.support.chat_server import chat_server
from tests.support.endless_server import EndlessServer

pytestmark = pytest.mark.usefixtures("closed_clients")

TIMEOUT_S = 1.0  # a request may take this long; any repetition may be the one that gets far enough
OPENING = (Message(role="user", content="Do it."),)


class NoTools(Toolbox):
    """A toolbox for a model that only talks."""

    tools = ()


def caller_of(url, **retry):
    """Return a caller of a model at an address, without pauses."""
    return ModelCaller(
        model=LitellmModel("own", api_base=url),
        recording=MemoryRecording(),
        role="agent",
        thread_id="main",
        parameters={},
        request_timeout_s=TIMEOUT_S,
        retry=RetryPolicy(first_delay_s=0.0, **retry),
    )


async def test_an_endless_reply_ends_the_trial_as_the_agent_did():
    """The repetition of a request that got no answer in time is a stream, which shows that the model still writes."""
    async with EndlessServer([{"role": "assistant", "content": "Go "}], ends=False).serving() as url:
        caller = caller_of(url, max_attempts=100)
        agent = NativeAgent(
            caller=caller,
            toolbox=NoTools(),
            recording=caller.recording,
            opening=OPENING,
            ends_on_text=True,
            nudge="",
            max_turns=3,
        )
        ending = await agent.run()
    assert ending.ended_by == "output_limit"
    kinds = [event.error_kind for event in caller.recording.events if isinstance(event, ModelFailed)]
    assert (kinds[0], kinds[-1], {*kinds}) == ("timeout", "endless_reply", {"timeout", "endless_reply"})


async def test_a_whole_reply_that_is_too_long_is_not_read_to_its_end(monkeypatch):
    """It would fill this process's memory; what is said is what is said of a stream."""
    monkeypatch.setattr("lhaw_record.runners.models.exchanges.MOST_REPLY_BYTES", 1000)
    async with chat_server(CannedModel([text_reply("Go " * 1000)])) as url:
        with pytest.raises(ModelError, match="the reply does not end: it is longer than") as caught:
            await LitellmModel("own", api_base=url).respond(ModelRequest(messages=OPENING))
    assert caught.value.kind == "endless_reply"
    assert len(caught.value.exchange.received) < 5000


@pytest.mark.parametrize("role", ["judge", "user_simulator", "extractor", "rewriter", "agent"])
async def test_only_what_is_measured_is_said_to_write_without_an_end(role):
    """A judge that thinks for longer than a request may take is asked again, as after any other timeout."""
    caller = ModelCaller(
        model=CannedModel([endless_reply("it took longer than 1 s", model="m"), text_reply("Yes.")]),
        recording=MemoryRecording(),
        role=role,
        thread_id="main",
        parameters={},
        retry=RetryPolicy(first_delay_s=0.0),
    )
    with pytest.raises(ModelBoundaryError) if role == "agent" else contextlib.nullcontext():
        assert (await caller.call(OPENING)).message.content == "Yes."
    kinds = [
        (event.error_kind, event.is_retried) for event in caller.recording.events if isinstance(event, ModelFailed)
    ]
    assert kinds == [("endless_reply", False) if role == "agent" else ("timeout", True)]


@pytest.mark.thorough
async def test_a_server_that_hangs_is_infrastructure_as_before():
    """A stream without a token is a provider's failure; a retry is owed."""
    async with EndlessServer([], ends=False, word="").serving() as url:
        with pytest.raises(ModelBoundaryError) as caught:
            await caller_of(url, max_attempts=2).call(OPENING)
    assert (caught.value.kind, caught.value.is_retry_owed) == ("timeout", True)


@pytest.mark.thorough
@pytest.mark.parametrize("answers", ["stream", "whole", "refuses"])
async def test_a_server_may_answer_the_repetition_as_it_can(answers):
    """A server may stream the reply, send it whole, or refuse the stream; then it is asked for a whole reply again."""
    server = EndlessServer([{"role": "assistant", "content": "Hi."}], ends=True, answers=answers)
    async with server.serving() as url:
        caller = caller_of(url, max_attempts=100)
        reply = await caller.call(OPENING)
    assert (reply.message.content, reply.usage.input_tokens, reply.finish_reason) == ("Hi.", 10, "stop")
    (responded,) = [event for event in caller.recording.events if isinstance(event, ModelResponded)]
    asked = [json.loads(raw).get("stream", False) for raw in server.raw]
    assert (asked[0], asked[1]) == (False, True)
    assert ("stream" in (responded.wire.changes_json or "")) == (answers != "refuses")
