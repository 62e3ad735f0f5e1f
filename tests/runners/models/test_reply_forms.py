"""Replies of a given form: who is sent a JSON schema, what a refusal changes, and what is recorded of it."""

import json

import pytest

from lhaw_record.recorder.events import ModelCalled, ModelFailed
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.errors import ModelBoundaryError
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.litellm_library import takes_json_schema
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import FormSupport, HostedModel, ModelError
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema, recall_formed, request_formed, whole_reply
from tests.support.canned_model import CannedModel, MemoryRecording, text_reply
from tests.support.chat_server import ChatServer
from tests.support.faults import Fault

ASK = (Message(role="user", content="Is it so?"),)
FORM = ReplyForm("verdict", object_schema({"is_so": {"type": "boolean"}}))
WIRE = {
    "type": "json_schema",
    "json_schema": {
        "name": "verdict",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"is_so": {"type": "boolean"}},
            "required": ["is_so"],
            "additionalProperties": False,
        },
    },
}


class Formed(CannedModel, HostedModel):
    """A canned model of which something is known."""

    def __init__(self, answers, is_listed):
        super().__init__(answers)
        self.support = FormSupport(is_listed)

    async def form_support(self):
        """Return what is known."""
        return self.support


def caller_of(model, parameters=None, recording=None):
    """A judge's caller."""
    return ModelCaller(
        model=model,
        recording=recording or MemoryRecording(),
        role="judge",
        thread_id="judge",
        parameters=parameters or {"max_tokens": 8},
    )


def refusal():
    """What a server says that does not know the parameter."""
    return ModelError("m: unknown parameter", kind="bad_request", is_retryable=False, http_status=400)


@pytest.mark.usefixtures("closed_clients")
async def test_the_schema_reaches_a_server_as_openai_documents_it():
    """An own server is tried; the event has the schema among the parameters and says that it was tried."""
    recording = MemoryRecording()
    async with ChatServer(CannedModel([text_reply('{"is_so": true}')])) as server:
        await request_formed(caller_of(LitellmModel("own", api_base=server.url), recording=recording), ASK, FORM)
    assert server.requests[0]["response_format"] == WIRE
    (called,) = [event for event in recording.events if isinstance(event, ModelCalled)]
    assert json.loads(called.parameters_json)["response_format"] == WIRE
    assert called.form_known_by == "tried"


@pytest.mark.usefixtures("closed_clients")
async def test_a_refusal_is_remembered_by_all_callers_of_the_model():
    """The refused request goes out again without the schema, and no later one has it."""
    recording = MemoryRecording()
    async with ChatServer(CannedModel([text_reply("It is.")]), [Fault(kind="bad_request", times=1)]) as server:
        model = LitellmModel("own", api_base=server.url)
        for _ in range(2):
            reply, responded = await request_formed(caller_of(model, recording=recording), ASK, FORM)
            await recording.append(responded)
            assert reply.message.content == "It is."
    assert ["response_format" in request for request in server.requests] == [True, False, False]
    known_by = [event.form_known_by for event in recording.events if isinstance(event, ModelCalled)]
    assert known_by == ["tried", "refused", "refused"]
    assert sum(isinstance(event, ModelFailed) for event in recording.events) == 1


async def test_a_request_that_is_refused_without_the_schema_too_is_no_refusal_of_it():
    """The error is the model's, and the next request tries the schema again."""
    model = Formed([refusal()], is_listed=None)
    with pytest.raises(ModelBoundaryError):
        await request_formed(caller_of(model), ASK, FORM)
    assert model.support.knowledge == "tried"


@pytest.mark.parametrize(
    ("is_listed", "parameters", "sent", "known_by"),
    [
        (True, {}, WIRE, "listed"),
        (None, {}, WIRE, "tried"),
        (False, {}, None, "unlisted"),
        (True, {"response_format": {"type": "text"}}, {"type": "text"}, "parameter"),
    ],
)
async def test_who_is_sent_a_schema(is_listed, parameters, sent, known_by):
    """Litellm's table decides, else it is tried; the user's own parameter wins."""
    recording, model = MemoryRecording(), Formed([text_reply("{}")], is_listed)
    await request_formed(caller_of(model, parameters, recording), ASK, FORM)
    assert model.requests[0].parameters.get("response_format") == sent
    assert recording.events[0].form_known_by == known_by


async def test_a_cut_reply_is_asked_for_again_with_the_schema():
    """Twice the room, and the form stays."""
    cut = text_reply("{").__class__(message=text_reply("{").message, finish_reason="length", usage=text_reply("").usage)
    model = Formed([cut, text_reply('{"is_so": true}')], is_listed=True)
    assert (await whole_reply(caller_of(model), ASK, FORM)).message.content == '{"is_so": true}'
    assert [each.parameters["max_tokens"] for each in model.requests] == [8, 16]
    assert all(each.parameters["response_format"] == WIRE for each in model.requests)


async def test_models_without_forms_are_asked_as_before():
    """A scripted model gets no parameter that it does not know, and nothing is recalled from an empty store."""
    recording, model = MemoryRecording(), CannedModel([text_reply("Yes.")])
    caller = caller_of(model, recording=recording)
    assert await recall_formed(caller, ASK, FORM) is None
    await request_formed(caller, ASK, FORM)
    assert model.requests[0].parameters == {"max_tokens": 8}
    assert recording.events[0].form_known_by is None


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("openai/gpt-5-mini", True),
        ("anthropic/claude-sonnet-4-6", True),
        ("gemini/gemini-2.5-pro", True),
        ("openai/gpt-4", False),
        ("openai/invented", None),
        ("custom_openai/gpt-5-mini", None),
    ],
)
def test_what_the_table_knows(name, takes):
    """A name that litellm's table lacks is unknown, not without schemas."""
    assert takes_json_schema(name) is takes
