"""An agent's prompt is marked for Anthropic's cache where that pays, and what is marked is recorded."""

from types import SimpleNamespace

import pytest

from lhaw_record.recorder.events import ModelCalled, ModelResponded
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.agents.agent_loop import NativeAgent
from lhaw_record.runners.agents.services import Services
from lhaw_record.runners.base.conversation.messages import Message, Toolbox, ToolCall, ToolDefinition, ToolResult
from lhaw_record.runners.experiment.tables import AgentSpec, BenchmarkSpec, Experiment
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.chat_messages import agent_marks
from lhaw_record.runners.models.costs import cost_usd
from lhaw_record.runners.models.litellm_library import litellm_library
from lhaw_record.runners.models.litellm_model import LitellmModel
from tests.support.caching_mimic import CachingMimic
from tests.support.canned_model import MemoryRecording
from tests.support.provider_mimics import MimicServer

pytestmark = pytest.mark.usefixtures("closed_clients")

ECHO = ToolDefinition(name="echo", description="Run a command. " * 40, input_schema={"type": "object"})


SONNET = Price(  # in Anthropic's price list
    input_usd_per_million_tokens=3.0,
    output_usd_per_million_tokens=15.0,
    cached_input_usd_per_million_tokens=0.3,
    cache_write_usd_per_million_tokens=3.75,
)


class Shell(Toolbox):
    """A tool whose results are as long as a typical command's: 2,000 bytes."""

    tools = (ECHO,)

    async def call(self, name, arguments, call_id):
        """Return a text."""
        return ToolResult(text=f"{arguments.get('text')} " + "line of output\n" * 133)


async def run_trial(mimic, *, is_marked, parameters=None):
    """Run the native agent against a mimic, with a prompt of 1,900 tokens, and return what was recorded."""
    recording = MemoryRecording()
    with MimicServer(mimic) as url:
        name = "anthropic/claude-sonnet-4-6"
        model = LitellmModel(name, api_base=url, api_key="k", price=SONNET, is_prompt_marked=is_marked)
        caller = ModelCaller(
            model=model,
            recording=recording,
            role="agent",
            thread_id="main",
            parameters=parameters or {},
        )
        system, task = "Work with care. " * 250, "Do the task. " * 300
        agent = NativeAgent(
            caller=caller,
            toolbox=Shell(),
            recording=recording,
            opening=(Message(role="system", content=system), Message(role="user", content=task)),
            ends_on_text=False,
            nudge="Go on.",
            max_turns=mimic.turns + 5,
        )
        ending = await agent.run()
    assert ending.ended_by == "submitted"
    assert mimic.lost == []
    return recording


def usage_of(recording, kind):
    """Return one kind of tokens of all replies."""
    replies = [event for event in recording.events if isinstance(event, ModelResponded)]
    return [reply.usage.cached_input_tokens if kind == "read" else reply.usage.cache_write_tokens for reply in replies]


async def test_marks_are_sent_as_recorded_and_are_valid():
    """Each request has the recorded marks and no other; litellm's own reader of Anthropic's rule accepts them."""
    litellm_library()
    from litellm.llms.anthropic.prompt_cache_prediction import PromptCachePlan, parse_cache_plan

    mimic = CachingMimic(turns=2)  # the third reply has redacted thinking, which that reader does not know
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    recording = await run_trial(mimic, is_marked=True, parameters=thinking)
    called = [event for event in recording.events if isinstance(event, ModelCalled)]
    assert [call.cache_marks for call in called[:3]] == [(0, 1), (0, 1, 3), (0, 3, 5)]
    for call, body in zip(called, mimic.requests, strict=True):
        plan = parse_cache_plan(body)
        assert isinstance(plan, PromptCachePlan)
        assert len(plan.breakpoints) == len(call.cache_marks)
        assert "cache_control" in body["system"][-1]
        assert "cache_control" in body["messages"][-1]["content"][-1]
    reads, writes = usage_of(recording, "read"), usage_of(recording, "written")
    assert reads[0] == 0
    assert all(later == read + written for later, read, written in zip(reads[1:], reads, writes, strict=False))


async def test_nothing_is_marked_unless_the_experiment_asks():
    """Without the option no request has a mark, and nothing is recorded of one."""
    mimic = CachingMimic(turns=2)
    recording = await run_trial(mimic, is_marked=False)
    assert not any("cache_control" in str(body) for body in mimic.requests)
    assert not any(event.cache_marks for event in recording.events if isinstance(event, ModelCalled))
    assert set(usage_of(recording, "read")) == {0}


@pytest.mark.parametrize("name", ["openai/gpt-5", "gemini/gemini-3-pro-preview", "Qwen/Qwen3-8B"])
def test_only_anthropic_is_marked(name):
    """OpenAI, Gemini and servers of one's own cache by themselves, or not at all."""
    api_base = "http://localhost:1/v1" if name.startswith("Qwen") else None
    model = LitellmModel(name, api_base=api_base, is_prompt_marked=True)
    assert model.cache_marks((Message(role="user", content="hi"),), (ECHO,)) == ()


def test_single_questions_are_not_marked():
    """A judge asks once, so writing its prompt to a cache would only cost more."""
    assert agent_marks((Message(role="system", content="s"), Message(role="user", content="hi")), ()) == ()


def test_a_long_batch_of_calls_keeps_its_entry_in_reach():
    """The end of the previous request is marked too: 30 results in one turn are more than the 20 blocks of a look."""
    calls = tuple(ToolCall(call_id=f"c{n}", name="echo", arguments_json="{}") for n in range(30))
    results = tuple(Message(role="tool", content="x", tool_call_id=call.call_id) for call in calls)
    turn = Message(role="assistant", content="", tool_calls=calls)
    opening = (Message(role="system", content="s"), Message(role="user", content="hi"))
    assert agent_marks((*opening, turn, *results), (ECHO,)) == (0, 1, 32)


def test_a_given_price_has_its_own_rates_for_caches():
    """100 tokens sent at 10, of which 40 were read at 1 and 20 written at 12; one received at 50."""
    usage = Usage(input_tokens=100, output_tokens=1, cached_input_tokens=40, cache_write_tokens=20)
    rates = {"input_usd_per_million_tokens": 10.0, "output_usd_per_million_tokens": 50.0}
    own = {"cached_input_usd_per_million_tokens": 1.0, "cache_write_usd_per_million_tokens": 12.0}
    assert cost_usd(Price(**rates, **own), usage) == pytest.approx((400 + 40 + 240 + 50) / 1e6)
    assert cost_usd(Price(**rates), usage) == pytest.approx(1050 / 1e6)


@pytest.mark.thorough
@pytest.mark.parametrize(("seconds_per_turn", "low", "high"), [(20, 0.15, 0.25), (400, 1.2, 1.25)])
async def test_forty_turns_cost_a_fraction(seconds_per_turn, low, high):
    """What Anthropic charges for a trial with and without marks, and what is recorded as its cost, agree.

    Where each turn takes longer than an entry lives, marks cost more than they save.
    """
    charged = {}
    for is_marked in (True, False):
        mimic = CachingMimic(turns=40, seconds_per_turn=seconds_per_turn)
        recording = await run_trial(mimic, is_marked=is_marked)
        charged[is_marked] = mimic.charged_usd
        costs = [event.usage.cost_usd for event in recording.events if isinstance(event, ModelResponded)]
        assert sum(costs) == pytest.approx(mimic.charged_usd)
    assert low < charged[True] / charged[False] < high, charged


@pytest.mark.parametrize("is_on", [True, False])
def test_one_key_of_the_experiment_turns_it_off(is_on):
    """``prompt_caching`` decides for native agents; an experiment without the key has it on."""
    agent = AgentSpec(name="a", model="anthropic/claude-sonnet-4-6")
    given = {} if is_on else {"prompt_caching": False}
    experiment = Experiment(
        name="e", benchmark=BenchmarkSpec(name="desk"), agents=(agent,), conditions=("full",), **given
    )
    trial = SimpleNamespace(agent=agent, seed=0)
    caller = Services(experiment, None, None).agent_caller(trial, MemoryRecording())
    assert caller.model.cache_marks((Message(role="user", content="hi"),), (ECHO,)) == ((0,) if is_on else ())
