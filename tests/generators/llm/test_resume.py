"""A generation that is killed and begun again pays for no reply that was recorded, wherever it died."""

import re
import sys
from collections import Counter

import anyio
import pytest

from lhaw_record.recorder.events import ModelCalled, ModelResponded, SegmentsExtracted, VariantGenerated
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.base.conversation.messages import conversation_digest, from_wire
from lhaw_record.runners.models.recorded_replies import load_recorded_replies
from tests.generators.llm.generation_setup import PROMPTS
from tests.generators.llm.question_setup import caller_of, extracted, segments_reply
from tests.support.canned_model import MemoryRecording, snapshot_of
from tests.support.chat_server import ChatServer
from tests.support.generation_model import HandlerModel, asked_of, rewriting_reply


def answer(body):
    """Names of files as segments, rewritten away; the first reply about one of the tasks is prose."""
    asked = asked_of(body)
    is_first = len(body["messages"]) == 2
    if asked.is_extraction:
        if is_first and asked.task == PROMPTS["b"]:
            return "Let me think about that."
        return segments_reply(*re.findall(r"\w+\.(?:csv|md|txt)", asked.task))
    (segment,) = asked.segments
    changed = asked.task.replace(segment["value"], "it")
    return rewriting_reply(changed, [{"segment_id": segment["segment_id"], "questions": ["Which?"]}])


async def run_child(root, url, appends):
    """Run the generation in a process of its own; its exit status."""
    command = [sys.executable, "-m", "tests.generators.llm.generation_setup", str(root), url, str(appends)]
    done = await anyio.run_process(command, check=False)
    assert done.returncode == (-9 if appends else 0), done.stderr.decode()


def requests_of(model):
    """How often each request was sent, by its digest."""
    digests = (conversation_digest([from_wire(message) for message in body["messages"]]) for body in model.bodies)
    return Counter(digests)


def replied(root):
    """The digests of the requests that have a recorded reply, each as often as it is recorded."""
    envelopes = read_envelopes(root)
    called = {
        (each.stream_id, each.event.call_id): each.event.request_digest
        for each in envelopes
        if isinstance(each.event, ModelCalled)
    }
    return Counter(
        called[each.stream_id, each.event.call_id] for each in envelopes if isinstance(each.event, ModelResponded)
    )


class Dying(MemoryRecording):
    """Keeps what is appended until it is its turn to die: before or after an append."""

    def __init__(self, appends, *, is_kept):
        super().__init__()
        self._left = appends
        self._is_kept = is_kept

    async def append(self, *events):
        """Append, or die."""
        self._left -= 1
        if self._left > 0 or self._is_kept:
            await super().append(*events)
        if self._left == 0:
            raise Death


class Death(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("appends", [1, 2, 3, 4])
async def test_an_extraction_that_died_anywhere_goes_on(appends, is_kept):
    """Four appends make one with a repair round: what they made durable is not asked again, and the result is equal."""
    whole, first, again = MemoryRecording(), Dying(appends, is_kept=is_kept), MemoryRecording()
    wanted = await extracted(memory_caller(HandlerModel(answer), whole), PROMPTS["b"])
    with pytest.raises(Death):
        await extracted(memory_caller(HandlerModel(answer), first), PROMPTS["b"])
    model, recorded = HandlerModel(answer), load_recorded_replies(snapshot_of(first))
    caller = memory_caller(model, again, recorded)
    assert await extracted(caller, PROMPTS["b"]) == wanted
    assert len(model.bodies) == 2 - len(recorded)
    replies = [event for event in first.events + again.events if isinstance(event, ModelResponded)]
    assert len(replies) == 2
    assert caller.usage_with_recalled.input_tokens == sum(event.usage.input_tokens for event in replies)


def memory_caller(model, recording, recorded=None):
    """A caller without a server."""
    return caller_of("", recording, "extractor", "extract-b", model=model, recorded=recorded)


@pytest.mark.thorough
@pytest.mark.slow
async def test_no_recorded_reply_is_paid_again(tmp_path):
    """Killed by SIGKILL in phases 1 and 2, the last run sends only what has no recorded reply, and nothing is lost."""
    root, model = tmp_path / "store", HandlerModel(answer)
    async with ChatServer(model) as server:
        for appends in (4, 9, 0):
            paid_before, sent_before = replied(root) if root.exists() else Counter(), requests_of(model)
            await run_child(root, server.url, appends)
            sent = requests_of(model) - sent_before
            assert not set(sent) & set(paid_before)
        await run_child(root, server.url, 0)
        assert requests_of(model) == sent_before + sent
    events = [each.event for each in read_envelopes(root)]
    assert set(replied(root).values()) == {1}
    assert sorted(event.task_id for event in events if isinstance(event, SegmentsExtracted)) == ["a", "b", "c"]
    made = {event.variant.variant_id: event.variant.prompt for event in events if isinstance(event, VariantGenerated)}
    assert made == {
        "a-S1": "Read it and write the totals to out.csv.\n",
        "a-S2": "Read sales.csv and write the totals to it.\n",
        "b-S1": "Send it to Ann before 9:30.\n",
        "c-S1": "Count the rows of it in 2024.\n",
    }
    paid = sum(
        event.usage.cost_usd for event in events if isinstance(event, ModelResponded) and event.role == "extractor"
    )
    told = sum(event.usage.cost_usd for event in events if isinstance(event, SegmentsExtracted))
    assert told == pytest.approx(paid)
