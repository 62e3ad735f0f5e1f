"""Requests for embeddings: timed, held, paid for, refused and ended as any other call, though they are no turn.

The servers answer as platform.openai.com/docs/api-reference/embeddings and ai.google.dev/api/embeddings document it.
"""

import asyncio
import contextlib
import json

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.events import ModelCalled, ModelFailed, ModelResponded
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.errors import EndpointDown
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models.endpoints.door import door_states
from lhaw_record.runners.models.gateway.calls import CLIENT_GONE, SessionLimits
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.gateway.upstream import RoutingTable
from lhaw_record.runners.models.litellm_model import LitellmModel
from tests.runners.models.gateway.rigs import KEY, Rig, canned, until
from tests.runners.models.gateway.serving import serving
from tests.runners.models.gateway.shapes import TASK, chat, user
from tests.support.canned_model import text_reply

pytestmark = pytest.mark.usefixtures("closed_clients")

CHAT, PATH = "v1/chat/completions", "v1/embeddings"
PRICE = Price(input_usd_per_million_tokens=2.0, output_usd_per_million_tokens=10.0)
VECTOR = {"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}
EMBEDDED = {"object": "list", "data": [VECTOR], "model": "e-1", "usage": {"prompt_tokens": 3, "total_tokens": 3}}
SAID = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]}
SAID = {**SAID, "id": "c", "object": "chat.completion", "created": 1, "model": "real"}
SAID["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def asks(text, **more):
    """A request for the embedding of a text."""
    return {"model": "text-embedding-3-small", "input": text, **more}


def of_gemini(*texts):
    """The body that google-genai 3.4 sends for some texts, and the method that it calls."""
    contents = [{"parts": [{"text": text}], "role": "user"} for text in texts]
    return {"requests": [{"content": each, "model": "models/gemini-embedding-001"} for each in contents]}


class GeminiServer:
    """Embeds as Google documents it, and counts tokens only if told to."""

    def __init__(self, usage=None):
        self.requests = []

        async def embed(request):
            body = json.loads(await request.body())
            self.requests.append((request.url.path, request.headers.get("x-goog-api-key"), body))
            vector = {"values": [0.1, 0.2]}
            is_batch = "requests" in body
            answer = {"embeddings": [vector] * len(body["requests"])} if is_batch else {"embedding": vector}
            return JSONResponse({**answer, **({"usageMetadata": usage} if usage else {})})

        self.app = Starlette(routes=[Route("/{rest:path}", embed, methods=["POST"])])


class Server:
    """Chats, and answers requests for embeddings with a status, or only once it is let go."""

    def __init__(self, status=200, *, waits=False):
        self.requests = []
        self.is_asked, self.is_free = asyncio.Event(), asyncio.Event()

        async def embed(request):
            self.requests.append(json.loads(await request.body()))
            self.is_asked.set()
            if waits:
                await self.is_free.wait()
            if status == 200:
                return JSONResponse(EMBEDDED)
            error = {"message": "not here", "type": "invalid_request_error", "param": None, "code": None}
            return JSONResponse({"error": error}, status)

        async def answer(request):
            return JSONResponse(SAID)

        routes = [Route("/v1/embeddings", embed, methods=["POST"]), Route("/v1/{rest:path}", answer, methods=["POST"])]
        self.app = Starlette(routes=routes)


@contextlib.asynccontextmanager
async def before(server, *, timeout_s=600.0, price=PRICE, **options):
    """A rig before a server, and a client at its address; everything over real connections."""
    async with serving(server.app) as url:
        rig = Rig(LitellmUpstream(LitellmModel("own", f"{url}/v1", "key", price), timeout_s=timeout_s), **options)
        async with (
            serving(rig.gateway.app()) as address,
            httpx.AsyncClient(base_url=f"{address}/t/{KEY}/", timeout=None) as client,
        ):
            yield rig, client
            server.is_free.set()


async def test_the_end_of_a_trial_ends_its_embeddings():
    """A request that waits is cancelled and has its end before the session is closed; its client gets an answer."""
    server = Server(waits=True)
    async with before(server) as (rig, client):
        asking = asyncio.create_task(client.post(PATH, json=asks("a")))
        await asyncio.wait_for(server.is_asked.wait(), 120)
        await rig.session.close("time_limit")
        before_the_end = [type(event) for event in rig.events]
        server.is_free.set()
        response = await asking
        after = await client.post(PATH, json=asks("b"))
    assert (response.status_code, after.status_code) == (404, 404)
    assert before_the_end == [ModelCalled, ModelFailed]
    assert len(rig.events) == 2


async def test_a_client_that_leaves_ends_its_request():
    """The call ends with it: the clock of a trial is not stopped by requests that nobody waits for."""
    server = Server(waits=True)
    async with before(server) as (rig, client):
        asking = asyncio.create_task(client.post(PATH, json=asks("a")))
        await asyncio.wait_for(server.is_asked.wait(), 120)
        asking.cancel()
        await until(lambda: rig.of(ModelFailed))
    assert [event.error_kind for event in rig.of(ModelFailed)] == [CLIENT_GONE]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("model", ["own", "another"])
@pytest.mark.parametrize("is_left", [True, False])
async def test_what_fails_at_a_free_model_is_free(model, is_left):
    """A client that leaves and a server that gives up: the cost is known, if the free model was the one asked for."""
    free = Price(input_usd_per_million_tokens=0.0, output_usd_per_million_tokens=0.0)
    server = Server(200 if is_left else 204, waits=is_left)
    async with before(server, price=free) as (rig, client):
        asking = asyncio.create_task(client.post(PATH, json=asks("a", model=model)))
        await asyncio.wait_for(server.is_asked.wait(), 120)
        if is_left:
            asking.cancel()
        await until(lambda: rig.of(ModelFailed))
        await asyncio.wait([asking])
    (failed,) = rig.of(ModelFailed)
    assert failed.error_kind == (CLIENT_GONE if is_left else "malformed_reply")
    assert (failed.usage.cost_usd if failed.usage else None) == (0.0 if model == "own" else None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("is_answered", "charged_s", "waited_s"), [(True, 100.0, 0.0), (False, 0.0, 100.0)])
async def test_a_trial_waits_for_a_server_that_gives_no_embeddings(is_answered, charged_s, waited_s):
    """A request of 100 seconds is the agent's own time if it was answered, and waiting if it was not."""
    now = [0.0]
    server, clock = Server(waits=True), TrialClock(now_s=lambda: now[0])
    async with before(server, timeout_s=600.0 if is_answered else 2.0, trial_clock=clock) as (rig, client):

        async def work():
            asking = asyncio.create_task(client.post(PATH, json=asks("a")))
            await asyncio.wait_for(server.is_asked.wait(), 120)
            now[0] = 100.0
            if is_answered:
                server.is_free.set()
            return (await asking).status_code

        status = await clock.bound(work)
    assert status == (200 if is_answered else 504)
    assert (clock.charged_s, clock.waited_s) == pytest.approx((charged_s, waited_s), abs=1)  # the door's clock is real
    assert [event.error_kind for event in rig.of(ModelFailed)] == ([] if is_answered else ["timeout"])


async def test_an_account_that_is_empty_ends_the_trial():
    """As for any other call, the trial has a failure of ours, and no agent is blamed."""
    over = []
    server = Server(402)
    async with before(server, on_over=lambda: over.append(True)) as (rig, client):
        assert (await client.post(PATH, json=asks("a"))).status_code == 402
        assert (await client.post(PATH, json=asks("b"))).status_code == 503
    assert isinstance(rig.session.failure, EndpointDown)
    assert (over[0], len(server.requests)) == (True, 1)
    assert len(rig.of(ModelCalled)) == len(rig.of(ModelFailed)) == 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("status", [401, 403, 404, 405, 501])
async def test_a_server_without_embeddings_is_no_endpoint_that_is_down(status):
    """An agent may ask for a model that does not exist as often as it likes: the model that is measured still answers.

    These are the answers of OpenAI (401 to a restricted key), vLLM, a proxy and llama.cpp.
    """
    server = Server(status)
    async with before(server) as (rig, client):
        statuses = [(await client.post(PATH, json=asks(str(number)))).status_code for number in range(8)]
        assert (await client.post(CHAT, json=chat(user(TASK)))).status_code == 200
    assert statuses == [status] * 8
    assert (rig.session.failure, rig.session.last_failure) == (None, None)


async def test_embeddings_have_a_door():
    """Progress shows what went through it."""
    async with before(Server()) as (_, client):
        before_it = {state.name for state in door_states()}
        assert (await client.post(PATH, json=asks("a"))).status_code == 200
        new = [state for state in door_states() if state.name not in before_it]
    assert [(state.name.partition(" at ")[0], state.answered) for state in new] == [("embeddings beside own", 1)]


async def test_embeddings_count_towards_the_cost_limit():
    """Three tokens cost more than the trial may: the next request is refused for good, and no server is asked."""
    server = Server()
    async with before(server, limits=SessionLimits(max_cost_usd=5e-6)) as (rig, client):
        statuses = [(await client.post(PATH, json=asks(text, model="own"))).status_code for text in "ab"]
    assert (statuses, rig.session.limit_reached, len(server.requests)) == ([200, 403], "cost_limit", 1)
    assert len(rig.of(ModelCalled)) == 1


@pytest.mark.parametrize(
    ("model", "price", "cost_usd"),
    [("own", PRICE, 6e-6), ("text-embedding-3-small", PRICE, None), ("text-embedding-3-small", None, None)],
)
async def test_embeddings_are_not_sold_at_the_price_of_the_chat_model(model, price, cost_usd):
    """The entry's price is that of its own model; the list price of another is not that of the user's server."""
    async with before(Server(), price=price) as (rig, client):
        assert (await client.post(PATH, json=asks("a", model=model))).status_code == 200
    assert rig.session.total_usage.cost_usd == cost_usd


@pytest.mark.parametrize(
    ("model", "tokens", "cost_usd"),
    [
        ("text-embedding-3-small", 1_000_000, 0.02),
        ("text-embedding-3-small", None, None),
        ("doubao-embedding", 1_000_000, None),
        ("of-nobody", 1_000_000, None),
    ],
)
def test_a_hosted_embedding_has_its_list_price_or_none(model, tokens, cost_usd):
    """OpenAI's page sells a million tokens at 0.02 USD; no usage and no price are unknown, not free."""
    upstream = LitellmUpstream(LitellmModel("openai/gpt-4o", None, "key"))
    found = upstream._embeddings_cost_usd(Usage(input_tokens=tokens), model)
    assert found == (None if cost_usd is None else pytest.approx(cost_usd))


async def test_the_last_action_may_need_embeddings():
    """They are no turn: after the last one they are answered, until the agent asks for another."""
    async with before(Server(), limits=SessionLimits(max_turns=1)) as (rig, client):
        paths = [
            (CHAT, chat(user(TASK))),
            (PATH, asks("a")),
            (CHAT, chat(user(TASK), user("More."))),
            (PATH, asks("b")),
        ]
        statuses = [(await client.post(path, json=body)).status_code for path, body in paths]
    assert (statuses, rig.session.limit_reached) == ([200, 200, 403, 403], "turn_limit")


def test_a_hosted_embedding_has_the_price_of_its_own_provider():
    """OpenAI's price is not what Gemini takes for a model of this name."""
    usage = Usage(input_tokens=1_000_000)
    gemini = LitellmUpstream(LitellmModel("gemini/gemini-2.5-pro", None, "key"))
    assert gemini._embeddings_cost_usd(usage, "text-embedding-3-small") is None
    assert gemini._embeddings_cost_usd(usage, "gemini-embedding-001") == pytest.approx(0.15)
    mistral = LitellmUpstream(LitellmModel("mistral/mistral-large-latest", None, "key"))
    assert mistral._embeddings_cost_usd(usage, "mistral-embed") == pytest.approx(0.1)


async def test_a_failed_recorder_fails_the_trial():
    """The error is kept for whoever runs the trial, and nothing is served that is not recorded."""
    async with before(Server()) as (rig, client):

        async def append(*events):
            if any(isinstance(event, ModelResponded) for event in events):
                raise RecordingFailed("disk full at /a/secret/place")

        rig.recording.append = append
        response = await client.post(PATH, json=asks("a"))
    assert (response.status_code, "secret" in response.text, "0.1" in response.text) == (500, False, False)
    assert isinstance(rig.session.failure, RecordingFailed)


async def test_routed_embeddings_go_out_under_the_name_of_the_routed_model():
    """The agent's name is no model of that server; the price is that of the model that was asked."""
    server = Server()
    async with serving(server.app) as url:
        other = LitellmUpstream(LitellmModel("big-embedder", f"{url}/v1", "key", PRICE))
        own = LitellmUpstream(LitellmModel("own", f"{url}/v1", "key", None))
        rig = Rig(own, routing=RoutingTable(own, [("text-embedding-*", other)]))
        async with rig.client() as client:
            reply = (await client.post(PATH, json=asks("a"))).json()
    (called,), (responded,) = rig.of(ModelCalled), rig.of(ModelResponded)
    assert [body["model"] for body in server.requests] == ["big-embedder"]
    assert reply["model"] == "text-embedding-3-small"
    assert called.model == "big-embedder"
    assert json.loads(called.parameters_json) == {"requested_model": "text-embedding-3-small"}
    assert responded.usage.cost_usd == 6e-6


@pytest.mark.parametrize(
    ("method", "body", "shown"),
    [
        ("batchEmbedContents", of_gemini("a", "b"), {"embeddings": [{"values": [0.1, 0.2]}] * 2}),
        ("embedContent", {"content": {"parts": [{"text": "a"}]}, "outputDimensionality": 2}, None),
    ],
)
async def test_embeddings_in_geminis_dialect(method, body, shown):
    """The body goes out as it came, below the address of the model and with the entry's key; the answer comes back."""
    server = GeminiServer()
    async with serving(server.app) as url:
        model = LitellmModel("gemini/gemini-3-flash", url, "key", PRICE)
        rig = Rig(LitellmUpstream(model))
        async with rig.client() as client:
            response = await client.post(f"v1beta/models/gemini-embedding-001:{method}", json=body)
            odd = await client.post(f"v1beta/models/gemini-embedding-001:{method}", json={"content": "a"})
    assert (response.status_code, odd.status_code) == (200, 400)
    assert response.json() == (shown or {"embedding": {"values": [0.1, 0.2]}})
    assert server.requests == [(f"/v1beta/models/gemini-embedding-001:{method}", "key", body)]
    (called,), (responded,) = rig.of(ModelCalled), rig.of(ModelResponded)
    assert (called.call_kind, called.model) == ("side", "gemini-embedding-001")
    assert json.loads(called.parameters_json) == ({} if shown else {"outputDimensionality": 2})
    assert (responded.usage.input_tokens, responded.usage.cost_usd) == (None, None)


@pytest.mark.parametrize("method", ["batchEmbedContents", "embedContent"])
async def test_routed_embeddings_in_geminis_dialect_have_the_name_of_the_routed_model_everywhere(method):
    """In the address and in each request of a batch, where the server demands the same name; with usage, a price."""
    server = GeminiServer({"promptTokenCount": 1_000_000, "totalTokenCount": 1_000_000})
    body = of_gemini("a", "b") if method == "batchEmbedContents" else of_gemini("a")["requests"][0]
    async with serving(server.app) as url:
        own, other = (
            LitellmUpstream(LitellmModel(f"gemini/{name}", url, "key", PRICE)) for name in ("chat", "embed-2")
        )
        rig = Rig(own, routing=RoutingTable(own, [("gemini-embedding-*", other)]))
        async with rig.client() as client:
            response = await client.post(f"v1beta/models/gemini-embedding-001:{method}", json=body)
    assert response.status_code == 200
    ((path, _, sent),) = server.requests
    assert path == f"/v1beta/models/embed-2:{method}"
    assert {each["model"] for each in sent.get("requests", [sent])} == {"models/embed-2"}
    assert rig.of(ModelCalled)[0].model == "gemini/embed-2"
    assert rig.of(ModelResponded)[0].usage.cost_usd == pytest.approx(2.0)


async def test_what_is_no_request_for_embeddings_is_not_recorded():
    """Neither one with fields of a wrong type nor one to a model that has none; the trial goes on."""
    rig, _ = canned(text_reply("Hi."))
    async with rig.client() as client:
        odd = await client.post(PATH, json=asks([{"type": []}]))
        none = await client.post(PATH, json=asks("a"))
        assert (odd.status_code, none.status_code, rig.events) == (400, 404, [])
        assert (await client.post(CHAT, json=chat(user(TASK)))).status_code == 200
    assert rig.session.failure is None
