"""What names mean to litellm: provider, credentials, parameters and prices, all without a network."""

import subprocess
import sys
from pathlib import Path

import pytest

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.tables import AgentSpec, BenchmarkSpec, Experiment, ModelSpec
from lhaw_record.runners.models.costs import price_of
from lhaw_record.runners.models.litellm_library import (
    litellm_library,
    missing_credentials,
    qualified_name,
    split_parameters,
    unsupported_parameters,
)
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.runs.planning.plan_table import model_notes

ROOT = Path(__file__).resolve().parents[3]
SERVER = "http://127.0.0.1:1/v1"
JUDGED = ("openai", "anthropic", "gemini", "moonshot", "minimax")
DEFAULTS = {"temperature": 0, "max_tokens": 4096, "seed": 1}


@pytest.mark.parametrize(
    ("name", "api_base", "qualified"),
    [
        ("gpt-4.1", None, "gpt-4.1"),
        ("anthropic/claude-sonnet-4-6", None, "anthropic/claude-sonnet-4-6"),
        ("llama", SERVER, "custom_openai/llama"),
        ("Qwen/Qwen3-8B", SERVER, "custom_openai/Qwen/Qwen3-8B"),
        ("hosted_vllm/Qwen/Qwen3-8B", SERVER, "hosted_vllm/Qwen/Qwen3-8B"),
    ],
)
def test_server_by_address_is_openai_compatible(name, api_base, qualified):
    """Only with an address, and only where the name has no provider, is the provider an OpenAI-compatible server."""
    assert qualified_name(name, api_base) == qualified


def test_missing_key_is_named_before_anything_runs(monkeypatch):
    """The variable that has to be set is named; set, nothing is missing; a server of one's own needs none."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert missing_credentials("anthropic/claude-sonnet-4-6") == ["ANTHROPIC_API_KEY"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    assert missing_credentials("anthropic/claude-sonnet-4-6") == []
    assert missing_credentials("local-model", api_base=SERVER) == []


def test_key_in_the_experiment_counts(monkeypatch):
    """A key that is given directly is not missing."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert missing_credentials("anthropic/claude-sonnet-4-6", api_key="x") == []


def test_name_without_provider_is_an_error_with_its_remedy():
    """A name that no provider is known for cannot run, and the message says how to write it."""
    with pytest.raises(ExperimentError, match="provider/model"):
        missing_credentials("foo/bar")


@pytest.mark.parametrize(
    ("qualified", "unsupported"),
    [
        ("anthropic/claude-sonnet-4-6", ("seed",)),
        ("openai/gpt-5", ("temperature",)),
        ("openai/gpt-4.1", ()),
        ("custom_openai/anything", ()),
    ],
)
def test_unsupported_parameters_are_known_beforehand(qualified, unsupported):
    """What a provider refuses is found without asking it."""
    assert unsupported_parameters(qualified, DEFAULTS) == unsupported


async def test_model_says_what_it_drops():
    """The model itself tells which parameters it will not send."""
    assert await LitellmModel("anthropic/claude-sonnet-4-6").dropped_parameters(DEFAULTS) == ("seed",)


def test_own_names_of_parameters_go_into_the_body():
    """For a compatible server unknown names go into the body; for a provider litellm translates them."""
    parameters = {"temperature": 0, "top_k": 5}
    assert split_parameters("custom_openai/x", parameters) == ({"temperature": 0}, {"top_k": 5})
    assert split_parameters("anthropic/claude-sonnet-4-6", parameters) == (parameters, {})


def test_prices_are_per_million_tokens_or_unknown():
    """A priced model has both prices; a local one has none, not zero."""
    assert price_of("gpt-4.1") == (2.0, 8.0)
    assert price_of("custom_openai/gpt-4.1") is None
    assert price_of("no-such-model") is None


@pytest.mark.thorough
def test_loading_is_late_and_needs_no_network():
    """Our import does not import litellm; using its tables resolves no host and prints nothing."""
    program = (
        "import socket, sys\n"
        "def refuse(*arguments, **options): raise SystemExit(f'network: {arguments}')\n"
        "socket.getaddrinfo = refuse\n"
        "import lhaw_record.runners.models.litellm_model\n"
        "assert 'litellm' not in sys.modules, 'imported early'\n"
        "from lhaw_record.runners.models.costs import price_of\n"
        "assert price_of('gpt-4.1')[0] is not None\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.thorough
def test_calls_in_threads_import_nothing_big():
    """What two first calls would import in two threads at a time, in circles, is loaded before any call."""
    program = (
        "import gc, sys, anyio\n"
        "from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition\n"
        "from lhaw_record.runners.models.litellm_library import close_clients, load_litellm\n"
        "from lhaw_record.runners.models.litellm_model import LitellmModel\n"
        "from lhaw_record.runners.models.protocol import ModelRequest\n"
        "from tests.support.provider_mimics import ChatMimic, MimicServer\n"
        "async def main():\n"
        "    await load_litellm()\n"
        "    before = {*sys.modules}\n"
        "    assert len(gc.get_objects()) < 10_000, 'each full collection walks all of litellm'\n"
        "    tool = ToolDefinition(name='echo', description='', input_schema={'type': 'object'})\n"
        "    request = ModelRequest(messages=(Message(role='user', content='x'),), tools=(tool,))\n"
        "    with MimicServer(ChatMimic()) as url:\n"
        "        await LitellmModel('m', url + '/v1').respond(request)\n"
        "    await close_clients()\n"
        "    big = ('httpx2', 'mcp', 'starlette', 'litellm.responses')\n"
        "    print(sorted(name for name in {*sys.modules} - before if name.startswith(big)))\n"
        "anyio.run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.thorough
def test_duckdb_in_the_same_process_reports_no_leaks():
    """What stays in memory for litellm's sake is let go at the end where duckdb was there: its binding looks for it."""
    program = (
        "import anyio, duckdb.sqltypes, lhaw_record.runners.models.litellm_library as l; anyio.run(l.load_litellm)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


TEMPERATURES = {  # without effort, with effort "low"; the sources stand beside the table
    "openai/gpt-4.1": (0, 0),
    "openai/gpt-5": (None, None),
    "openai/gpt-5-mini-2025-08-07": (None, None),
    "openai/gpt-5-chat-latest": (0, 0),
    "openai/chatgpt-4o-latest": (0, 0),
    "openai/gpt-astra-latest": (None, None),
    "openai/gpt-5.1": (0, None),
    "openai/responses/gpt-5.2": (0, None),
    "azure/gpt-5.4-mini": (0, None),
    "databricks/databricks-gpt-5-4": (0, None),
    "databricks/databricks-gpt-5-3-codex": (None, None),
    "bedrock_mantle/openai.gpt-5.4": (0, None),
    "openai/gpt-5-2025-08-07": (None, None),
    "openrouter/openai/gpt-5.1": (0, None),
    "openai/gpt-5.1-codex-max": (None, None),
    "openai/gpt-5.6": (None, None),
    "openai/o3": (None, None),
    "anthropic/claude-sonnet-4-6": (0, None),
    "openrouter/anthropic/claude-opus-4.8": (None, None),
    "bedrock/us.anthropic.claude-sonnet-5-v1:0": (None, None),
    "moonshot/kimi-k2.6": (1, 1),
    "fireworks_ai/accounts/fireworks/models/kimi-k2p5": (1, 1),
    "moonshotai/Kimi-K3": (1, 1),
    "moonshot/kimi-k2-0905-preview": (0, 0),
    "minimax/MiniMax-M2.5": (1, 1),
    "gemini/gemini-3-flash-preview": (1, 1),
    "gemini/gemini-2.5-pro": (0, 0),
    "Qwen/Qwen3-8B": (None, None),
    "openrouter/qwen/qwen3-235b-a22b-thinking-2507": (None, None),
    "Qwen/Qwen3.5-27B": (None, None),
    "ollama_chat/qwen3:8b": (None, None),
    "Qwen/Qwen3-30B-A3B-Instruct-2507": (0, 0),
    "dashscope/qwen3-coder-plus": (0, 0),
    "Qwen/Qwen2.5-7B-Instruct": (0, 0),
}


@pytest.mark.parametrize("name", TEMPERATURES)
def test_the_temperature_is_one_that_the_model_takes(name):
    """It is 0 where that is accepted, else what the provider requires, with effort and without."""
    sent = [ModelSpec(model=name, effort=effort).generation_parameters.get("temperature") for effort in (None, "low")]
    assert tuple(sent) == TEMPERATURES[name]


def test_a_plan_warns_of_a_temperature_at_which_a_model_loops():
    """Qwen3 while it thinks, as its model card says; what the user sets is sent all the same."""
    agents = [
        AgentSpec(name=str(place), model=model, parameters={"temperature": temperature})
        for place, (model, temperature) in enumerate(
            [("Qwen/Qwen3-8B", 0), ("Qwen/QwQ-32B", 0.6), ("Qwen/Qwen3-4B-Instruct-2507", 0), ("openai/gpt-5.1", 0)]
        )
    ]
    experiment = Experiment(name="e", benchmark=BenchmarkSpec(name="desk"), agents=tuple(agents), conditions=("full",))
    (note,) = model_notes(experiment)
    assert note.startswith("Qwen/Qwen3-8B: according to its model card")
    assert agents[0].generation_parameters["temperature"] == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("effort", [None, "low", "high", "none"])
def test_no_default_is_refused_as_far_as_litellm_knows(effort):
    """For every chat model of five providers in litellm's table: no temperature of ours is among what it refuses."""
    library = litellm_library()
    looked_at = 0
    for name, entry in library.model_cost.items():
        provider = entry.get("litellm_provider")
        is_plain = provider in JUDGED and "/" not in name.removeprefix(f"{provider}/")
        if entry.get("mode") not in ("chat", "responses") or not is_plain:
            continue
        qualified = name if "/" in name else f"{provider}/{name}"
        parameters = ModelSpec(model=qualified, effort=effort).generation_parameters
        assert "temperature" not in unsupported_parameters(qualified, parameters), (qualified, parameters)
        assert "temperature" not in parameters or entry.get("supports_sampling_params") is not False, qualified
        looked_at += 1
    assert looked_at > 150


def test_parameters_are_checked_together():
    """Each of the two is accepted alone; what the user sets gives way as well, and is recorded as dropped."""
    assert unsupported_parameters("openai/gpt-5.1", {"temperature": 0.3}) == ()
    assert unsupported_parameters("openai/gpt-5.1", {"temperature": 0.3, "reasoning_effort": "low"}) == ("temperature",)
    assert unsupported_parameters("openai/gpt-5.1", {"temperature": 0.3, "reasoning_effort": "none"}) == ()
