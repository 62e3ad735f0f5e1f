"""Replies that were cut for want of room: asked for again with more, and never taken as whole."""

import argparse
import json

import msgspec
import pytest

from lhaw_record.recorder.events import ModelCalled, ModelFailed, ModelResponded
from lhaw_record.runners.agents.services import asking as asking_of_a_trial
from lhaw_record.runners.base.errors import GraderError, NothingUsable
from lhaw_record.runners.cli.model_options import model_parameters
from lhaw_record.runners.experiment.tables import ModelSpec
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.llm_jobs.question import ask
from lhaw_record.runners.models.protocol import HostedModel
from tests.support.canned_model import CannedModel, MemoryRecording, text_reply

WHOLE, SHORT = json.dumps({"segments": ["a", "b", "c"]}), json.dumps({"segments": ["a"]})


class Wording:
    """What the model is told; repairs are spoken."""

    system = "Be brief."

    def repair(self, problem):
        """The request for a better reply."""
        return f"Again: {problem}"


def cut(text):
    """A reply that ended at the limit; its JSON may be whole all the same."""
    return msgspec.structs.replace(text_reply(text), finish_reason="length")


def asking(*replies, parameters=None, model_class=CannedModel):
    """A caller over prepared replies, what it records, and the model."""
    model, recording = model_class(replies), MemoryRecording()
    parameters = {"temperature": 0, "max_tokens": 4096} if parameters is None else parameters
    caller = ModelCaller(model=model, recording=recording, role="judge", thread_id="x", parameters=parameters)
    return caller, recording, model


async def test_a_cut_reply_is_asked_for_again_with_more_room():
    """The same question, twice the room, recorded as it was sent; afterwards the room is as before."""
    caller, recording, model = asking(cut(SHORT), text_reply(WHOLE))
    assert await ask(caller, Wording(), "Which?", json.loads, wanted="segments") == json.loads(WHOLE)
    first, second = model.requests
    assert first.messages == second.messages
    assert [each.parameters["max_tokens"] for each in model.requests] == [4096, 8192]
    called = [json.loads(each.parameters_json) for each in recording.events if isinstance(each, ModelCalled)]
    assert [each["max_tokens"] for each in called] == [4096, 8192]
    assert [each.finish_reason for each in recording.events if isinstance(each, ModelResponded)] == ["length", "stop"]
    await caller.call(first.messages)
    assert model.requests[-1].parameters["max_tokens"] == 4096


@pytest.mark.thorough
async def test_a_long_reply_is_given_four_times_the_room():
    """Thirty segments need more than twice 4096 tokens where a model thinks first."""
    caller, _, model = asking(cut(SHORT), cut(SHORT), text_reply(WHOLE))
    assert await ask(caller, Wording(), "Which?", json.loads, wanted="segments") == json.loads(WHOLE)
    assert [each.parameters["max_tokens"] for each in model.requests] == [4096, 8192, 16384]


@pytest.mark.parametrize("parameters", [{"max_tokens": 4096}, {"max_completion_tokens": 10}, {}])
async def test_a_reply_that_is_always_cut_is_an_error(parameters):
    """Nothing is taken from any, and the failure says what to raise."""
    replies = [cut(SHORT), cut(SHORT), cut(WHOLE)] if parameters else [cut(SHORT), cut(WHOLE)]
    caller, recording, _ = asking(*replies, parameters=parameters)
    with pytest.raises(NothingUsable, match=r"the reply was cut at .*allow more in the model's parameters"):
        await ask(caller, Wording(), "Which?", json.loads, wanted="segments")
    assert isinstance(recording.events[-1], ModelFailed)


@pytest.mark.parametrize("role", ["command", "trial"])
def test_a_hosted_model_has_its_own_limit_in_every_role(role):
    """4096 tokens of hidden reasoning would leave no verdict; a server of one's own would generate without end."""

    def parameters(api_base, given=()):
        if role == "command":
            return model_parameters(argparse.Namespace(api_base=api_base, parameter=list(given)), "m")
        decoded = {name: json.loads(value) for name, _, value in (word.partition("=") for word in given)}
        return ModelSpec(model="m", api_base=api_base, parameters=decoded).generation_parameters

    assert parameters(None) == {"temperature": 0}
    assert parameters("http://localhost:1/v1") == {"temperature": 0, "max_tokens": 4096}
    assert parameters(None, ["max_tokens=9"]) == {"temperature": 0, "max_tokens": 9}


async def test_the_limit_of_a_model_is_not_raised():
    """A limit that the model itself adds, as Claude's own, stays: twice as much would be refused."""

    class Limited(CannedModel, HostedModel):
        async def completed_parameters(self, parameters):
            return {"max_tokens": 64_000, **parameters}

    caller, _, model = asking(cut(SHORT), text_reply(WHOLE), parameters={}, model_class=Limited)
    await ask(caller, Wording(), "Which?", json.loads, wanted="segments")
    assert [each.parameters["max_tokens"] for each in model.requests] == [64_000, 64_000]


async def test_a_judge_and_a_simulated_user_say_no_half_sentences():
    """Inside a trial too: twice cut is missing data, which no other attempt would mend."""
    caller, _, model = asking(cut("Take the second fi"), text_reply("Take the second file."))
    assert await asking_of_a_trial(caller, GraderError)("Be brief.", "Which?") == "Take the second file."
    assert len(model.requests) == 2
    caller, _, _ = asking(cut("Take the"))
    with pytest.raises(GraderError, match="was cut at max_tokens = 8192") as caught:
        await asking_of_a_trial(caller, GraderError)("Be brief.", "Which?")
    assert (caught.value.kind, caught.value.is_retry_owed) == ("cut_reply", False)
