"""The preflight: each wrong thing is found by a tiny request, with its key and the next step."""

import json

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from lhaw_record.recorder.events import ModelFailed
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.errors import ExperimentError, ModelsOutOfReach
from lhaw_record.runners.experiment.tables import AgentSpec, BudgetSpec, RoutedSpec
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models.endpoints.door import try_doors_now
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.litellm_library import close_clients
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelError, ModelRequest
from lhaw_record.runners.runs.endpoint_check import check_models, refuse_problems
from lhaw_record.runners.runs.preflight import missing_keys
from tests.runners.models.gateway.rigs import Rig
from tests.runners.models.gateway.serving import serving
from tests.support.canned_model import CannedModel, text_reply, tool_reply
from tests.support.chat_server import ChatServer
from tests.support.faults import Fault
from tests.support.toy_plan import experiment

READY = tool_reply(("c1", "ready", '{"answer": "yes"}'))
TALK = text_reply("Yes, I am ready to answer.")
AS_TEXT = text_reply('<tool_call>{"name": "ready", "arguments": {"answer": "yes"}}</tool_call>')
FREE = Price(input_usd_per_million_tokens=0.0, output_usd_per_million_tokens=0.0)


@pytest.fixture(autouse=True)
async def closed_clients(anyio_backend):
    """Close litellm's clients before the event loop of the test ends."""
    yield
    await close_clients()


class Deaf(CannedModel):
    """A server whose template drops the tools: the prompt is as long with them as without."""


class Counting(CannedModel):
    """A server whose prompt grows with the tools, and whose model does not care for them."""

    async def respond(self, request):
        """Answer, with the length of the prompt."""
        reply = await super().respond(request)
        usage = msgspec.structs.replace(reply.usage, input_tokens=20 + 50 * len(request.tools))
        return msgspec.structs.replace(reply, usage=usage)


def described(url, *, price=FREE, **changes):
    """An experiment with one agent behind a server."""
    return experiment(agents=(AgentSpec(name="a", model="local-model", api_base=url, price=price),), **changes)


UNKNOWN = {"error": {"message": "The model `local-model` does not exist", "code": "model_not_found"}}
DAYS = {
    "well": (CannedModel([READY]), None, "ok", "calls tools"),
    "tools dropped": (Deaf([TALK]), None, "problem", "drops the tools"),
    "calls as text": (CannedModel([AS_TEXT]), None, "problem", "come back as text"),
    "no call": (Counting([TALK]), None, "warning", "did not call a tool"),
    "key": (CannedModel([READY]), Fault(kind="unauthorised"), "problem", "key is refused"),
    "model": (
        CannedModel([READY]),
        Fault(kind="answer", status=404, body=UNKNOWN),
        "problem",
        "no such model",
    ),
    "not a model server": (CannedModel([READY]), Fault(kind="not_json"), "problem", "not a model server"),
    "empty account": (CannedModel([READY]), Fault(kind="out_of_credit"), "problem", "account has no credit"),
    "a parameter": (CannedModel([READY]), Fault(kind="bad_request"), "problem", "request is refused"),
    "busy": (CannedModel([READY]), Fault(kind="server_error"), "warning", "does not answer yet"),
}


@pytest.mark.parametrize(("status", "level"), [(200, "ok"), (404, "problem")])
async def test_a_routed_model_for_embeddings_is_asked_for_one(status, level):
    """It has no chat: it would refuse a question."""
    asked = []

    async def answer(request):
        asked.append((request.url.path, json.loads(await request.body())))
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return JSONResponse({"object": "list", "data": [], "model": "e", "usage": usage}, status)

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])
    async with serving(app) as url, ChatServer(CannedModel([READY])) as server:
        routed = {"text-embedding-*": RoutedSpec(model="nomic-embed-text", api_base=f"{url}/v1", price=FREE)}
        agent = AgentSpec(name="a", model="local-model", api_base=server.url, price=FREE, models=routed)
        report = await check_models(experiment(agents=(agent,)))
    assert asked == [("/v1/embeddings", {"model": "nomic-embed-text", "input": "ready"})]
    assert [each.level for each in report.findings if "embedding" in each.key] == [level]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("day", DAYS.values(), ids=DAYS.keys())
async def test_each_wrong_thing_is_found_and_named(day):
    """The finding says what is wrong, where in the file, and what to do; few requests are sent."""
    model, fault, level, words = day
    async with ChatServer(model, [fault] if fault else []) as server:
        report = await check_models(described(server.url))
    (finding,) = report.findings
    assert (finding.level, finding.key) == (level, "agents.a")
    assert words in finding.finding
    assert bool(finding.next_step) == (level != "ok")
    assert report.requests == len(server.requests) <= 2


@pytest.mark.parametrize("model", [Deaf([TALK]), CannedModel([AS_TEXT])])
async def test_a_further_model_of_a_program_may_lack_tools(model):
    """It may write titles and summaries only, so that is a warning; the program's own model needs its tools."""
    async with ChatServer(CannedModel([READY])) as own, ChatServer(model) as side:
        further = {"small-*": RoutedSpec(model="local-model", api_base=side.url, price=FREE)}
        agent = AgentSpec(name="a", model="local-model", api_base=own.url, price=FREE, models=further)
        report = await check_models(experiment(agents=(agent,)))
    assert [(each.key, each.level) for each in report.findings] == [
        ("agents.a", "ok"),
        ("agents.a.models.'small-*'", "warning"),
    ]
    refuse_problems(report)


async def test_a_dead_address_is_named_and_stops_the_run():
    """The message has the address, the key and the way out."""
    report = await check_models(described("http://127.0.0.1:9/v1"))
    with pytest.raises(ExperimentError, match=r"agents\.a.*127\.0\.0\.1:9.*api_base(.|\n)*--no-preflight"):
        refuse_problems(report)


async def test_a_door_that_is_down_is_named_in_its_own_words():
    """Two models at one address that has been given up: one tries, the other waits for it; no parameter is blamed."""
    agents = tuple(
        AgentSpec(name=name, model="local-model", api_base="http://127.0.0.1:9/v1", parameters={"seed": seed})
        for name, seed in (("a", 1), ("b", 2))
    )
    for _ in range(4):  # failures in a row
        await check_models(experiment(agents=agents))
    try_doors_now()
    report = await check_models(experiment(agents=agents))
    tried, waited = sorted(each.finding for each in report.findings)[::-1]
    assert "nothing answers at http://127.0.0.1:9/v1" in tried
    assert "local-model at http://127.0.0.1:9/v1 cannot be reached" in waited
    assert not [each for each in report.findings if "parameters" in each.next_step]
    with pytest.raises(ModelsOutOfReach):
        refuse_problems(report)


async def test_a_mistake_in_the_file_is_no_outage():
    """What only a change of the file mends is not tried again, even beside an address that is dead."""
    async with ChatServer(CannedModel([READY]), [Fault(kind="bad_request", times=None)]) as server:
        agents = tuple(
            AgentSpec(name=name, model="local-model", api_base=url)
            for name, url in (("a", server.url), ("b", "http://127.0.0.1:9/v1"))
        )
        report = await check_models(experiment(agents=agents))
    with pytest.raises(ExperimentError) as caught:
        refuse_problems(report)
    assert not isinstance(caught.value, ModelsOutOfReach)


async def test_an_unknown_price_warns_and_stops_only_a_limited_run():
    """Without a limit it is a warning; with one it is a problem."""
    async with ChatServer(CannedModel([READY])) as server:
        (free,) = (await check_models(described(server.url, price=None))).findings
        budget = BudgetSpec(max_cost_usd=1.0)
        (limited,) = (await check_models(described(server.url, price=None, budget=budget))).findings
    assert (free.level, limited.level) == ("warning", "problem")
    assert "price" in free.finding


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, {"temperature": 0, "max_tokens": 256, "seed": 0}),
        ({"effort": "low"}, {"temperature": 0, "reasoning_effort": "low", "seed": 0}),
        ({"parameters": {"max_tokens": 20, "seed": 7}}, {"temperature": 0, "max_tokens": 20, "seed": 7}),
        ({"parameters": {"max_completion_tokens": 900}}, {"temperature": 0, "max_completion_tokens": 256, "seed": 0}),
        ({"model": "kimi-k2.6"}, {"temperature": 1, "max_tokens": 256, "seed": 0}),
    ],
)
async def test_the_check_sends_what_trials_send(given, sent):
    """Effort and the default temperature included; only a limit of the reply is lower."""
    async with ChatServer(CannedModel([READY])) as server:
        agent = AgentSpec(**{"name": "a", "model": "local-model", "api_base": server.url, "price": FREE, **given})
        await check_models(experiment(agents=(agent,)))
        body = server.requests[0]
    assert {name: value for name, value in body.items() if name not in ("model", "messages", "tools")} == sent


def through(monkeypatch, url):
    """Set the environment's proxies, and no exception."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, url)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_this_machine_is_reached_without_the_proxy(host, monkeypatch):
    """The listing of models, the native agent and the gateway all reach it, whatever HTTP_PROXY says."""
    through(monkeypatch, "http://127.0.0.1:9")
    async with ChatServer(CannedModel([READY, TALK])) as server:
        url = server.url.replace("127.0.0.1", host)
        report = await check_models(described(url))
        rig = Rig(LitellmUpstream(LitellmModel("local-model", url)))
        async with rig.client() as client:
            asked = {"model": "m", "messages": [{"role": "user", "content": "Go on."}]}
            assert (await client.post("v1/chat/completions", json=asked)).status_code == 200
    assert [finding.level for finding in report.findings] == ["ok"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "nothing answers"),
        (403, "key is refused"),
        (407, "refuses its key"),
        (404, "no such model"),
        (502, "yet"),
    ],
)
async def test_a_proxy_that_fails_is_named(status, words, monkeypatch):
    """The finding has the proxy's address, and the remedy is not the server's alone."""
    async with ChatServer(
        CannedModel([READY]), [Fault(kind="answer", status=status or 0, body={}, times=None)]
    ) as server:
        address = server.url.removesuffix("/v1") if status else "http://127.0.0.1:9"
        through(monkeypatch, address)
        (finding,) = (await check_models(described(f"http://models-{status}.example/v1"))).findings
    assert words in finding.finding
    assert f"through the proxy {address.removeprefix('http://')} of HTTP" in finding.finding
    assert "proxy" in finding.next_step.lower() or status == 502


@pytest.mark.parametrize("is_native", [True, False], ids=["native", "gateway"])
async def test_a_key_that_cannot_be_sent_is_not_the_servers_fault(is_native):
    """Nothing is sent, and the failure says so on both paths; it is not repeated."""
    async with ChatServer(CannedModel([READY])) as server:
        model = LitellmModel("local-model", server.url, "sk-1\n")
        if is_native:
            with pytest.raises(ModelError) as caught:
                await model.respond(ModelRequest(messages=(Message(role="user", content="hello"),)))
            failed = caught.value
            said, kind = str(failed), failed.kind
        else:
            rig = Rig(LitellmUpstream(model))
            async with rig.client() as client:
                asked = {"model": "m", "messages": [{"role": "user", "content": "Go on."}]}
                await client.post("v1/chat/completions", json=asked)
            (event,) = rig.of(ModelFailed)
            said, kind = event.message, event.error_kind
    assert (kind, "not sent" in said, server.requests) == ("other", True, [])


@pytest.mark.parametrize("key", ["sk-1\n", " sk-1", "sk\u20111", "sk 1"])
@pytest.mark.parametrize("changes", [{"api_key_env": "MY_KEY"}, {"model": "mistral/m"}])
def test_a_key_with_a_line_break_is_named(key, changes, monkeypatch):
    """The variable is said before anything is asked, for a key of one's own and for the provider's."""
    variable = changes.get("api_key_env", "MISTRAL_API_KEY")
    monkeypatch.setenv(variable, key)
    agent = AgentSpec(**{"name": "a", "model": "local-model", "api_base": "http://127.0.0.1:1/v1", **changes})
    (sentence,) = missing_keys(experiment(agents=(agent,)))
    assert f"{variable} has a line break" in sentence
    monkeypatch.setenv(variable, "sk-1")
    assert missing_keys(experiment(agents=(agent,))) == []


async def test_scripted_models_are_not_asked():
    """They cost nothing, and nothing is sent."""
    report = await check_models(experiment())
    assert (report.findings, report.requests) == ((), 0)
