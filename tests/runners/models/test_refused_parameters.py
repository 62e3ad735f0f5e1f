"""A server that refuses what we add to a request gets it without; what the user or the program set stays an error."""

import contextlib
import json

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from lhaw_record.recorder.events import ModelCalled, ModelFailed, ModelResponded
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.errors import ModelBoundaryError
from lhaw_record.runners.experiment.tables import ModelSpec
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.litellm_model import LitellmModel
from tests.runners.models.gateway.rigs import Rig
from tests.runners.models.gateway.serving import serving
from tests.support.canned_model import MemoryRecording

pytestmark = pytest.mark.usefixtures("closed_clients")

TURN = {"role": "assistant", "content": "Done."}
USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
BARE = {"id": "1", "created": 1, "model": "m"}
ASK = [Message(role="user", content="Go on.")]
# How servers say that they refuse a parameter: OpenAI twice, Moonshot, FastAPI, vLLM, and two without a form.
REFUSALS = {
    "code": lambda name: (400, {"error": {"message": f"Unsupported parameter: '{name}'", "param": name}}),
    "value": lambda name: (
        400,
        {"error": {"message": f"Unsupported value: '{name}' does not support 0", "param": None}},
    ),
    "only": lambda name: (400, {"error": {"message": f"invalid {name}: only 1 is allowed for this model"}}),
    "fastapi": lambda name: (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra"}]}),
    "object": lambda name: (400, {"object": "error", "message": f"[{{'loc': ('body', '{name}')}}]", "code": 400}),
    "text": lambda name: (400, {"error": f"Unrecognized request argument supplied: {name}"}),
    "detail": lambda name: (400, {"detail": f"unknown field `{name}`"}),
}
RENAMED = {"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}


class Strict:
    """A server of chat completions that refuses some fields, one at a time, and keeps what it was sent."""

    def __init__(self, **refusals):
        self.refusals = refusals
        self.bodies = []
        self.app = Starlette(routes=[Route("/v1/chat/completions", self._answer, methods=["POST"])])

    async def _answer(self, request):
        body = await request.json()
        self.bodies.append({name: body[name] for name in body if name not in ("model", "messages")})
        for name, (status, error) in self.refusals.items():
            if name in body:
                return JSONResponse(error, status)
        if body.get("stream"):
            chunk = {**BARE, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": TURN}]}
            end = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            lines = "".join(f"data: {json.dumps(each)}\n\n" for each in (chunk, end)) + "data: [DONE]\n\n"
            return StreamingResponse(iter([lines]), media_type="text/event-stream")
        choice = {"index": 0, "message": TURN, "finish_reason": "stop"}
        return JSONResponse({**BARE, "object": "chat.completion", "choices": [choice], "usage": USAGE})


@contextlib.asynccontextmanager
async def native(server, name="m", **given):
    """A caller of the native agent with an experiment's parameters, and its recording."""
    async with serving(server.app) as url:
        spec = ModelSpec(model=name, api_base=f"{url}/v1", parameters=given)
        model = LitellmModel(name, spec.api_base, "k", given=given)
        recording, parameters = MemoryRecording(), {"seed": 3, **spec.generation_parameters}
        yield (
            ModelCaller(model=model, recording=recording, role="agent", thread_id="main", parameters=parameters),
            recording,
        )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", REFUSALS)
@pytest.mark.parametrize("name", ["seed", "temperature", "max_tokens"])
async def test_what_we_add_is_left_out_where_it_is_refused(name, form):
    """Within one attempt, however the server says it; the record says what went out, and it is not tried again."""
    server = Strict(**{name: REFUSALS[form](name)})
    async with native(server) as (caller, recording):
        for _ in range(2):
            assert (await caller.call(ASK)).message.content == "Done."
    assert [name in body for body in server.bodies] == [True, False, False]
    assert not [event for event in recording.events if isinstance(event, ModelFailed)]
    assert [
        json.loads(event.wire.changes_json)[name] for event in recording.events if isinstance(event, ModelResponded)
    ] == [None, None]


async def test_several_refusals_are_heard_one_after_another():
    """And an old name gives way to the new one, with the same limit."""
    server = Strict(
        seed=REFUSALS["code"]("seed"), temperature=REFUSALS["only"]("temperature"), max_tokens=(400, RENAMED)
    )
    async with native(server) as (caller, _):
        await caller.call(ASK)
    assert server.bodies[-1] == {"max_completion_tokens": 4096}
    assert len(server.bodies) == 4


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "no such tool", "failed_generation": "seed"}},
        {"detail": [{"loc": ["body", "messages"], "msg": "Field required", "input": {"seed": 3}}]},
        {"error": {"message": "reseeding failed; the seed-bank is closed"}},
        "not even an object",
    ],
)
async def test_a_refusal_of_something_else_stays_one(error):
    """What an error repeats of the request or the reply names no parameter."""
    server = Strict(seed=(400, error))
    async with native(server) as (caller, _):
        with pytest.raises(ModelBoundaryError, match="request refused"):
            await caller.call(ASK)
    assert len(server.bodies) == 1


@pytest.mark.parametrize("name", ["m", "openai/m", "mistral/m"])
async def test_what_the_user_sets_is_never_left_out(name):
    """Its refusal is the user's to mend, and it goes out under its own name alone."""
    server = Strict(temperature=REFUSALS["code"]("temperature"))
    async with native(server, name, temperature=1) as (caller, _):
        with pytest.raises(ModelBoundaryError, match="temperature"):
            await caller.call(ASK)
    server = Strict(max_tokens=(400, RENAMED))
    if name != "mistral/m":  # litellm says it in Mistral's own word
        async with native(server, name, max_completion_tokens=900) as (caller, _):
            await caller.call(ASK)
        assert [body["max_completion_tokens"] for body in server.bodies] == [900]


def rig_of(url, name="m", given=(), **parameters):
    """A gateway in front of the server; ``seed`` is ours unless it is given."""
    model = LitellmModel(name, f"{url}/v1", "k", given=given)
    return Rig(LitellmUpstream(model, {"seed": 3, **parameters}))


async def post(rig, **fields):
    """Send a program's request."""
    async with rig.client() as client:
        asked = {"model": "m", "messages": [{"role": "user", "content": "Go on."}], **fields}
        return await client.post("v1/chat/completions", json=asked)


@pytest.mark.parametrize("form", REFUSALS)
async def test_a_program_works_without_what_we_add_to_its_stream(form):
    """Usage is asked for only where the server takes that; else the stream arrives, and its cost is unknown."""
    server = Strict(stream_options=REFUSALS[form]("stream_options"), seed=REFUSALS[form]("seed"))
    async with serving(server.app) as url:
        rig = rig_of(url)
        for _ in range(2):
            reply = await post(rig, stream=True)
            assert (reply.status_code, "Done." in reply.text) == (200, True)
    assert server.bodies[-1] == {"stream": True}
    assert len(server.bodies) == 4
    first, second = (json.loads(event.parameters_json) for event in rig.of(ModelCalled))
    assert ("stream_options" in first["added_parameters"], second.get("added_parameters")) == (True, None)
    assert [json.loads(each.wire.changes_json) for each in rig.of(ModelResponded)] == [
        {"seed": None, "stream_options": None},
        {"seed": None},
    ]


@pytest.mark.parametrize("name", ["m", "mistral/m"])
async def test_what_a_program_asks_for_stays_an_error_of_its_own(name):
    """It is told that its own seed is refused; ours is left out, also where litellm sends the request."""
    server = Strict(seed=REFUSALS["code"]("seed"), random_seed=REFUSALS["code"]("random_seed"))
    async with serving(server.app) as url:
        assert (await post(rig_of(url, name), seed=5)).status_code == 400
        assert (await post(rig_of(url, name, given=["seed"]))).status_code == 400
        if name == "m":
            assert (await post(rig_of(url, name))).status_code == 200


async def test_a_limit_of_the_file_replaces_the_one_of_the_program():
    """One request has one limit, whichever of the two names each of them uses."""
    server = Strict()
    async with serving(server.app) as url:
        await post(rig_of(url, given=["max_tokens"], max_tokens=70), max_completion_tokens=50)
        await post(rig_of(url, given=["max_completion_tokens"], max_completion_tokens=70), max_tokens=50)
    assert server.bodies == [{"max_tokens": 70, "seed": 3}, {"max_completion_tokens": 70, "seed": 3}]
