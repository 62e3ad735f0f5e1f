"""Usage is read and summed, and models are priced, by the user's price or litellm's list."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.tables import AgentSpec, BudgetSpec, GraderSpec, ModelSpec
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models.costs import cost_usd, listed_cost_usd, price_of
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.gateway.wires import CHAT, GEMINI, MESSAGES, RESPONSES
from lhaw_record.runners.models.litellm_library import litellm_library
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelRequest
from lhaw_record.runners.runs.preflight import check_prices
from tests.runners.models.gateway.rigs import Rig
from tests.support.toy_plan import experiment

TEXT = {"role": "assistant", "content": "hi"}
CHAT_REPLY = {"choices": [{"index": 0, "message": TEXT, "finish_reason": "stop"}]}
MESSAGES_REPLY = {"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}
RESPONSES_REPLY = {
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}]
}
GEMINI_REPLY = {"candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}


@pytest.mark.parametrize(
    ("wire", "reply", "usage", "wanted"),
    [
        (CHAT, CHAT_REPLY, {"prompt_tokens": 9, "completion_tokens": 2}, (9, 2, None, None, None, None)),
        (
            CHAT,
            CHAT_REPLY,
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "cost": 0.25,
                "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 3},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            (9, 2, 0, 3, 1, 0.25),
        ),
        (
            CHAT,
            CHAT_REPLY,
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4},
            (9, 2, 4, None, None, None),
        ),
        (MESSAGES, MESSAGES_REPLY, {"input_tokens": 9, "output_tokens": 2}, (9, 2, None, None, None, None)),
        (
            MESSAGES,
            MESSAGES_REPLY,
            {"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 5},
            (14, 2, 0, 5, None, None),
        ),
        (
            RESPONSES,
            RESPONSES_REPLY,
            {
                "input_tokens": 9,
                "output_tokens": 2,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens_details": {"reasoning_tokens": 1},
            },
            (9, 2, 4, None, 1, None),
        ),
        (
            GEMINI,
            GEMINI_REPLY,
            {"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 3},
            (9, 5, None, None, 3, None),
        ),
        (CHAT, CHAT_REPLY, None, (None, None, None, None, None, None)),
    ],
)
def test_usage_is_as_reported(wire, reply, usage, wanted):
    """Reads, writes, reasoning and the provider's own cost by the names of each wire; missing is None and 0 is 0."""
    body = {**reply, "usageMetadata" if wire is GEMINI else "usage": usage}
    read = wire.replies.read(body)
    assert read.message == Message(role="assistant", content="hi")
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens")
    assert read.usage == Usage(**dict(zip((*names, "provider_cost_usd"), wanted, strict=True)))


PLACEHOLDERS = ("anthropic/claude-opus-4-1", "claude-sonnet-4-20250514", "gemini/gemini-3-pro-preview")
INVENTED = ("openai/gpt-of-nobody", "anthropic/claude-of-nobody", "gemini/gemini-of-nobody", "mistral/of-nobody")
FREE_IN_THE_TABLE = ("ollama/llama3", "gemini/gemini-exp-1206", "dashscope/qwen3-max")
# openai.com/api/pricing, claude.com/pricing, ai.google.dev/gemini-api/docs/pricing, api-docs.deepseek.com
PUBLISHED = {
    "openai/gpt-4o": (2.5, 10.0),
    "openai/gpt-4o-mini": (0.15, 0.6),
    "openai/responses/gpt-5": (1.25, 10.0),
    "anthropic/claude-sonnet-4-6": (3.0, 15.0),
    "gemini/gemini-2.5-pro": (1.25, 10.0),
    "deepseek/deepseek-chat": (0.28, 0.42),
}
PRICE = Price(input_usd_per_million_tokens=2, output_usd_per_million_tokens=10)
BARE = {"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4o"}
TURN = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}


@pytest.mark.parametrize("name", [*PLACEHOLDERS, *INVENTED, *FREE_IN_THE_TABLE])
def test_a_price_of_nothing_is_no_price(name):
    """Litellm answers with zeros for names that it does not have, and for some that it has: the price is unknown."""
    assert price_of(name) is None


@pytest.mark.parametrize("name", PUBLISHED)
def test_known_prices_are_the_published_ones(name):
    """Where a price is known, it is the provider's list price for a million input and output tokens."""
    assert price_of(name) == PUBLISHED[name]


def test_every_known_price_stands_in_the_table():
    """For every chat model of litellm's own table: the price is the table's, or it is unknown, and it is never 0."""
    table = {name: entry for name, entry in litellm_library().model_cost.items() if entry.get("mode") == "chat"}
    looked_at = {name: table[name] for name in sorted(table)[::25]}
    known = {name: price for name in looked_at if (price := price_of(name)) is not None}
    assert len(known) > 50
    assert all(min(price) > 0 for price in known.values())
    for name, price in known.items():
        entry = looked_at[name]
        assert price == pytest.approx((entry["input_cost_per_token"] * 1e6, entry["output_cost_per_token"] * 1e6))


def test_a_server_of_ones_own_has_no_list_price():
    """A model behind an address is priced by whoever runs it, whatever it is called."""
    assert price_of("gpt-4o", "http://127.0.0.1:8000/v1") is None


@pytest.mark.parametrize("name", [PLACEHOLDERS[0], INVENTED[0], FREE_IN_THE_TABLE[0]])
@pytest.mark.parametrize("limit", ["max_cost_usd", "max_cost_usd_per_trial"])
def test_a_budget_needs_a_price(name, limit):
    """A run with either limit stops before it starts, and names the model and the key that sets its price."""
    budget = BudgetSpec(**{limit: 1.0})
    agent = AgentSpec(name="a", model=name)
    with pytest.raises(ExperimentError) as caught:
        check_prices(experiment(agents=(agent,), budget=budget))
    for part in (limit, name, "agents.a.price", "price = {"):
        assert part in str(caught.value)
    check_prices(experiment(agents=(agent,)))
    free = Price(input_usd_per_million_tokens=0, output_usd_per_million_tokens=0)
    check_prices(experiment(agents=(msgspec.structs.replace(agent, price=free),), budget=budget))


def test_a_budget_needs_the_price_of_a_judge_too():
    """What a judge costs is part of the run: without its price the limit cannot be kept either."""
    graded = experiment(
        budget=BudgetSpec(max_cost_usd=1.0), grader=GraderSpec(kind="judge", judge=ModelSpec(model=INVENTED[1]))
    )
    with pytest.raises(ExperimentError, match=r"grader\.judge\.price"):
        check_prices(graded)


def test_tokens_that_nobody_reported_have_no_price():
    """A price without tokens is no cost; tokens at a price of 0 cost 0."""
    assert cost_usd(PRICE, Usage(input_tokens=None, output_tokens=3)) is None
    free = Price(input_usd_per_million_tokens=0, output_usd_per_million_tokens=0)
    assert cost_usd(free, Usage(input_tokens=3, output_tokens=3)) == 0.0


class Served:
    """A server of chat completions in a thread; its replies have this usage and this model name."""

    def __init__(self, usage, model="gpt-4o"):
        body = json.dumps({**BARE, "model": model, "choices": [TURN], **usage}).encode()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


NONE = {}
ZEROS = {"usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}
HALF = {"usage": {"prompt_tokens": 1000}}
WHOLE = {"usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}}


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("closed_clients")
@pytest.mark.parametrize(
    ("name", "price", "usage", "expected"),
    [
        ("own", PRICE, NONE, (None, None, None)),
        ("own", PRICE, ZEROS, (None, None, None)),
        ("own", PRICE, HALF, (1000, None, None)),
        ("own", PRICE, WHOLE, (1000, 100, 0.003)),
        ("openai/gpt-4o", None, NONE, (None, None, None)),
        ("openai/gpt-4o", None, WHOLE, (1000, 100, 0.0035)),
        ("openai/gpt-of-nobody", None, WHOLE, (1000, 100, None)),
    ],
)
async def test_usage_that_a_server_does_not_report_is_unknown(name, price, usage, expected):
    """Without usage there are no tokens and no cost, never 0; an unknown name is not priced as the one served."""
    with Served(usage) as server:
        request = ModelRequest(messages=(Message(role="user", content="hello"),))
        reply = await LitellmModel(name, server.url, "k", price).respond(request)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == expected[:2]
    assert reply.usage.cost_usd == (None if expected[2] is None else pytest.approx(expected[2]))


# A model that litellm lists, what its provider says it served, and whether the requested model's price holds for it.
SERVED = [
    ("openai/gpt-5.1", "gpt-5.1-2027-01-31", True),
    ("openai/responses/gpt-5.1", "gpt-5.1-2027-01-31", True),
    ("openai/gpt-4o", None, True),
    ("gpt-4o", "gpt-4o-2027-01-31", True),
    ("gpt-5.1-2027-01-31", "gpt-5.1-2027-01-31", True),
    ("anthropic/claude-sonnet-4-6", "claude-sonnet-4-6-20270131", True),
    ("anthropic/claude-sonnet-4-6", "claude-sonnet-4-6@20270131", True),
    ("gemini/gemini-2.5-flash", "models/gemini-2.5-flash-preview-01-2027", True),
    ("mistral/mistral-large-latest", "mistral-large-2712", True),
    ("deepseek/deepseek-chat", "DeepSeek-Chat", True),
    ("bedrock_mantle/openai.gpt-5.4", "gpt-5.4-2026-03-05", True),
    ("databricks/databricks-gpt-5-4", "gpt-5.4-2026-03-05", True),
    ("databricks/databricks-gpt-5", "gpt-5.4-2026-03-05", False),
    ("databricks/databricks-claude-sonnet-4-6", "us.anthropic.claude-sonnet-4-6-20270131-v1:0", True),
    ("bedrock/us.openai.gpt-5.4", "gpt-5.4-2027-01-31", True),
    ("bedrock/us.openai.gpt-5.4", "openai.gpt-5.4", True),
    ("bedrock/us.openai.gpt-5.4", "us.xai.gpt-5.4-codex", False),
    ("openai/gpt-5.1", "gpt-5.1-giant", False),
    ("openai/gpt-5.1", "gpt-5.19", False),
    ("anthropic/claude-sonnet-4-6", "claude-sonnet-4-6-5", False),
    ("openai/gpt-4o", "another-model", False),
]


@pytest.mark.parametrize(("name", "served", "holds"), SERVED)
def test_the_price_of_a_model_holds_for_its_snapshots(name, served, holds):
    """A snapshot that is younger than the table costs what was asked for; what else answers has no known price."""
    usage = Usage(input_tokens=1_000_000, output_tokens=0)
    asked = listed_cost_usd(usage, name, None, name, {})
    assert asked > 0
    assert listed_cost_usd(usage, name, None, served, {}) == (asked if holds else None)


def test_a_served_model_with_a_price_of_its_own_costs_that():
    """Where a name stands for another one, what answers is paid for."""
    usage = Usage(input_tokens=1000, output_tokens=100)
    assert listed_cost_usd(usage, "openai/gpt-4o", None, "gpt-4o-2024-05-13", {}) == pytest.approx(0.0065)
    assert listed_cost_usd(usage, "gpt-4o", None, "gpt-4o-mini-2027-01-31", {}) == pytest.approx(0.00021)


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("closed_clients")
@pytest.mark.parametrize("is_native", [True, False], ids=["native", "gateway"])
@pytest.mark.parametrize(
    ("name", "served", "said", "expected"),
    [
        ("openai/gpt-4o", "gpt-4o-2027-01-31", {}, 0.0035),
        ("openai/gpt-4o", "other", {}, None),
        ("mistral/mistral-large-latest", "mistral-large-2712", {}, 0.00065),
        ("openrouter/z-ai/of-nobody", "z-ai/of-nobody", {"cost": 0.25}, 0.25),
        ("openrouter/z-ai/of-nobody", "z-ai/of-nobody", {"cost": 0}, None),
        ("openrouter/z-ai/of-nobody", "z-ai/of-nobody", {}, None),
        (
            "openrouter/z-ai/of-nobody",
            "z-ai/of-nobody",
            {"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}},
            0.21,
        ),
        ("own", "own", {"cost": 0.25}, None),
    ],
)
async def test_a_reply_costs_the_same_on_both_paths(name, served, said, expected, is_native):
    """At the price of what was asked for, or as OpenRouter reports it; a reported cost of 0 is not believed."""
    with Served({"usage": {**WHOLE["usage"], **said}}, served) as server:
        model = LitellmModel(name, server.url, "k")
        if is_native:
            request = ModelRequest(messages=(Message(role="user", content="hello"),))
            cost = (await model.respond(request)).usage.cost_usd
        else:
            rig = Rig(LitellmUpstream(model))
            async with rig.client() as client:
                asked = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
                assert (await client.post("v1/chat/completions", json=asked)).status_code == 200
            cost = rig.session.total_usage.cost_usd
    assert cost == (None if expected is None else pytest.approx(expected))


def test_a_limit_needs_no_price_where_replies_report_their_cost():
    """OpenRouter's models are in no table, and each reply says what it cost."""
    agent = AgentSpec(name="a", model="openrouter/z-ai/of-nobody")
    check_prices(experiment(agents=(agent,), budget=BudgetSpec(max_cost_usd=1.0)))
