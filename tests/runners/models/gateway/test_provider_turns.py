"""Forty turns with reasoning and tools through the gateway: a program loses nothing, and all of it is recorded.

The mimics judge what comes back by each provider's documented rule, and keep the digests of all bodies. The programs
are the tiny agents, which share no code with the gateway.
"""

import msgspec
import pytest

from lhaw_record.recorder.events import AnchorLost, ClarificationInjected, ModelCalled, ModelResponded
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.litellm_model import LitellmModel
from tests.runners.models.gateway.rigs import Rig, injection_after, tool
from tests.runners.models.gateway.shapes import TASK
from tests.runners.models.gateway.tiny_agents import AGENTS
from tests.support.provider_mimics import AnthropicMimic, ChatMimic, GeminiMimic, MimicServer, ResponsesMimic

pytestmark = pytest.mark.usefixtures("closed_clients")

ENCRYPTED = {"include": ["reasoning.encrypted_content"]}
WIRES = {
    "messages": (
        "anthropic/claude-sonnet-4-6",
        AnthropicMimic,
        "",
        {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 8000},
    ),
    "responses": ("openai/gpt-5", ResponsesMimic, "/v1", {**ENCRYPTED, "store": False}),
    "memory": ("openai/gpt-5", ResponsesMimic, "/v1", ENCRYPTED),
    "gemini": ("gemini/gemini-3-pro-preview", GeminiMimic, "", {}),
    "chat": ("openai/deepseek-reasoner", ChatMimic, "/v1", {}),
}
MESSAGE = "By the way: blue."


async def check_turns(wire, turns, *, is_streamed, was_silent=False, provider=None):
    """Let a program work behind the gateway, and check what came back to the mimic and what was recorded."""
    name, mimic_class, path, fields = WIRES[provider or wire]
    fields = fields if provider is None else {}
    mimic = mimic_class(turns=turns)

    async def run(name, arguments):
        return f"done: {arguments['text']}"

    with MimicServer(mimic) as url:
        model = LitellmModel(name, url + path, "key")
        if was_silent:  # streams are asked for also where the program waits for whole replies
            model.was_silent = lambda _: True
        rig = Rig(LitellmUpstream(model), prompt=TASK, injection=injection_after(turns // 2, MESSAGE))
        async with rig.client() as client:
            tools = (tool("echo"), tool("submit"))
            agent = AGENTS[wire](client, tools, run, TASK, system="Be brief.", is_streamed=is_streamed, fields=fields)
            assert await agent.work(turns + 1) == f"{turns}.1"
            await rig.session.close("submitted")
    if wire == "memory":  # the provider itself keeps its items
        mimic.lost = [each for each in mimic.lost if each != "the request does not ask for encrypted reasoning"]
    assert (len(mimic.requests), mimic.lost) == (turns + 1, [])
    replies = rig.of(ModelResponded)
    assert [reply.wire.sent_sha256 for reply in replies] == mimic.sent_sha256
    assert [reply.wire.received_sha256 for reply in replies] == mimic.received_sha256
    readable = [(turn, reply.reasoning) for turn, reply in enumerate(replies) if turn % 6 != 2]  # others are redacted
    assert all(reasoning.text.startswith(f"I think {turn}.0.") for turn, reasoning in readable)
    assert {event.call_kind for event in rig.of(ModelCalled)} == {"main"}
    assert rig.session.action_count == sum(len(reply.tool_calls) for reply in replies)
    (placed,) = rig.of(ClarificationInjected)
    assert (placed.status, rig.of(AnchorLost)) == ("injected", [])
    seen = [MESSAGE in msgspec.json.encode(body).decode() for body in mimic.requests]
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (False, True)
    rig.check_conversations()
    return rig


@pytest.mark.parametrize("wire", WIRES)
async def test_reasoning_comes_back_through_the_gateway(wire):
    """Every shape of reply reaches the program and comes back as the provider issued it, with the message inserted."""
    await check_turns(wire, 6, is_streamed=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("wire", "provider"),
    [
        ("chat", "messages"),  # this agent drops the fields that its dialect lacks
        ("chat", "gemini"),
        ("messages", "gemini"),
        ("gemini", "messages"),
        ("gemini", "chat"),
        ("responses", "messages"),
    ],
)
async def test_reasoning_comes_back_to_a_provider_of_another_dialect(wire, provider):
    """The agent cannot carry it: what the provider demands back is what it sent."""
    await check_turns(wire, 6, is_streamed=True, provider=provider)


@pytest.mark.thorough
@pytest.mark.parametrize("wire", WIRES)
async def test_forty_turns_lose_nothing(wire):
    """The same over forty turns: whole, streamed, and whole where the gateway itself asked for a stream."""
    await check_turns(wire, 40, is_streamed=False)
    await check_turns(wire, 40, is_streamed=True)
    await check_turns(wire, 40, is_streamed=False, was_silent=True)
