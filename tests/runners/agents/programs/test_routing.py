"""A program that asks for several models by name gets each from where its routing table says, at its own price."""

import json

import pytest

from lhaw_record.recorder.events import ModelCalled, ModelResponded, TrialFinished, TrialStarted
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.decoding import read_experiment
from lhaw_record.runners.models.litellm_library import close_clients
from lhaw_record.runners.runs.endpoint_check import check_models
from lhaw_record.runners.runs.planning.plan import agent_digest
from lhaw_record.runners.runs.preflight import check_prices, unpriced_models
from tests.runners.agents.programs.rigs import described, of, recorded, scripted
from tests.support.provider_mimics import MimicServer

PROGRAM = """
for name in ("big-1", "claude-haiku-4-5", "claude-haiku-3", "unheard-of"):
    ask({"role": "user", "content": name}, model=name)
"""


class Named:
    """A server of chat completions that keeps the names of the models that it was asked for."""

    def __init__(self):
        self.names = []
        self.sent_sha256, self.received_sha256 = [], []

    def answer(self, path, body):
        """Return a text, of 1,000 tokens for 10,000."""
        self.names.append(body["model"])
        call = {"id": "c", "type": "function", "function": {"name": "ready", "arguments": '{"answer": "yes"}'}}
        is_check = any(tool["function"]["name"] == "ready" for tool in body.get("tools", ()))
        message = {"role": "assistant", "content": "Hm.", **({"tool_calls": [call]} if is_check else {})}
        usage = {"prompt_tokens": 10_000, "completion_tokens": 1_000, "total_tokens": 11_000}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"]}
        return 200, {**reply, "choices": [choice], "usage": usage}


def price(read, written):
    """A price per million tokens."""
    return {"input_usd_per_million_tokens": read, "output_usd_per_million_tokens": written}


def routed(big_url, small_url):
    """The keys of an agent whose program has a big model and a small one."""
    small = {"model": "small", "api_base": f"{small_url}/v1", "price": price(1.0, 5.0)}
    table = {"claude-haiku-4-*": small, "claude-haiku-*": "scripted/never"}
    return {"model": "big", "api_base": f"{big_url}/v1", "price": price(3.0, 15.0), "models": table}


async def test_each_name_goes_to_its_model_at_its_price(tmp_path):
    """The first pattern that matches decides, other names go to the agent's model, and the events say all of it."""
    big, small = Named(), Named()
    with MimicServer(big) as big_url, MimicServer(small) as small_url:
        text = described(scripted(tmp_path, PROGRAM), agent=routed(big_url, small_url))
        _, (events,) = await recorded(tmp_path, text)
    assert (big.names, small.names) == (["big", "big"], ["small"])
    called = [(json.loads(event.parameters_json)["requested_model"], event.model) for event in of(events, ModelCalled)]
    assert called == [
        ("big-1", "big"),
        ("claude-haiku-4-5", "small"),
        ("claude-haiku-3", "scripted/never"),
        ("unheard-of", "big"),
    ]
    costs = [event.usage.cost_usd for event in of(events, ModelResponded)]
    assert [costs[0], costs[1], costs[3]] == pytest.approx([0.045, 0.015, 0.045])
    assert of(events, TrialStarted)[0].model == "big"
    assert of(events, TrialFinished)[0].cost_usd == pytest.approx(sum(costs))


@pytest.mark.thorough
async def test_the_check_asks_each_routed_model(tmp_path):
    """The check before a run asks every model of the table, and a limit needs the price of each."""
    big, small = Named(), Named()
    with MimicServer(big) as big_url, MimicServer(small) as small_url:
        text = described(scripted(tmp_path, PROGRAM), agent=routed(big_url, small_url))
        experiment = read_experiment(text, tmp_path / "e.toml")
        report = await check_models(experiment)
        await close_clients()
    keys = {finding.key for finding in report.findings}
    assert keys == {"agents.program", "agents.program.models.'claude-haiku-4-*'"}
    assert set(small.names) == {"small"}
    assert unpriced_models(experiment) == []
    limited = text.replace("[sandbox]", "[budget]\nmax_cost_usd = 1.0\n\n[sandbox]", 1)
    unpriced = read_experiment(limited.replace('"scripted/never"', '"openai/nobody-knows-it"'), tmp_path / "e.toml")
    with pytest.raises(ExperimentError, match=r"openai/nobody-knows-it is unknown; set 'agents.program.models."):
        check_prices(unpriced)


def test_the_table_is_part_of_what_is_measured(tmp_path):
    """Other routes are another agent; an agent without a table keeps its identity."""
    text = described(scripted(tmp_path, PROGRAM), agent={"model": "m", "api_base": "http://a/v1"})
    more = described(
        scripted(tmp_path, PROGRAM), agent={"model": "m", "api_base": "http://a/v1", "models": {"x": "openai/y"}}
    )
    (plain,), (table,) = (read_experiment(each, tmp_path / "e.toml").agents for each in (text, more))
    assert table.routed["x"].model == "openai/y"
    assert (table.routed["x"].api_base, table.routed["x"].price) == (None, None)
    assert agent_digest(plain) != agent_digest(table)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"*": "openai/a", "b": "openai/b"}, r"agents\[0\].models': 'b' is never reached, because '\*' comes first"),
        ({"a": ""}, r"agents\[0\].models': 'a' = ''; write NAME = MODEL"),
        ({"a": {"api_base": "http://x"}}, r"agents\[0\].models"),
        (
            {"a": {"model": "m", "thinking_tokens": 0}},
            r"agents.program.models.'a'.thinking_tokens': must be at least 1",
        ),
        (
            {"a": {"model": "m", "parameters": {"effort": "high"}}},
            r"parameters.effort': .*; write effort next to 'model'",
        ),
    ],
)
def test_a_mistake_in_the_table_is_named(tmp_path, table, words):
    """The message has the key and what to do."""
    text = described(scripted(tmp_path, PROGRAM), agent={"models": table})
    with pytest.raises(ExperimentError, match=words):
        read_experiment(text, tmp_path / "e.toml")


def test_only_a_program_has_a_table(tmp_path):
    """The native agent asks for no model by name."""
    text = described([{"name": "native", "models": {"a": "openai/a"}}])
    with pytest.raises(ExperimentError, match="only a program asks for models by name"):
        read_experiment(text, tmp_path / "e.toml")
