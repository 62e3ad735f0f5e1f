"""Real programs on MCP servers of MCP-Atlas, held against the native agent with the same scripted model."""

from pathlib import Path

import pytest

from lhaw_record.runners.agents.programs.entries import load_entry
from lhaw_record.runners.agents.programs.installation import is_installed
from tests.runners.environments.benchmarks.mcp_atlas.conftest import core_servers  # noqa: F401  a fixture
from tests.runners.environments.benchmarks.mcp_atlas.test_programs import check_alike, recorded
from tests.support.needs import needs

pytestmark = pytest.mark.thorough
NAMES = [name for name in ("codex", "claude-code", "opencode") if is_installed(load_entry(name, Path()))]


@pytest.mark.parametrize("name", NAMES or [pytest.param("none", marks=needs("agents"))])
async def test_a_real_program_calls_the_servers_as_the_native_agent_does(core_servers, tmp_path, name):  # noqa: F811
    """The row's tools, offered over MCP: the same calls, each executed once, and the same grade."""
    agents = [{"name": "native", "model": "scripted/replay"}]
    agents.append({"name": name, "model": "scripted/replay", "program": name})
    trials = await recorded(tmp_path, agents)
    check_alike(trials[name], trials["native"])
