"""Where the real rows and the installed servers are, and a reason to skip where they are not."""

from pathlib import Path

import pytest

from lhaw_record.runners.environments.benchmarks.mcp_atlas import open_mcp_atlas
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import servers_directory
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.support.needs import require

REAL = Path(__file__).resolve().parents[6] / "shared" / "real" / "mcpatlas"
ROWS_FILES = ("rows_v1_format.csv", "rows_v2_format.csv", "offline_prompts.jsonl")
LIVE_TASKS = (
    "6888e207a34beb25cfedda3b",
    "6896416f7b30e5d8ccd7c8c6",
    "6897a6002b64a8c831efa2fb",
)


@pytest.fixture(scope="session")
def real_rows():
    """The folder of published rows."""
    require("published")
    return REAL


@pytest.fixture(scope="session")
def core_servers():
    """The folder of installed servers."""
    require("bubblewrap", "servers")
    return servers_directory()


@pytest.fixture
def real_benchmark(real_rows):
    """The benchmark on every published row that is here."""
    options = {"rows": list(ROWS_FILES), "data": "data"}
    return open_mcp_atlas(options, real_rows, GraderSpec())


@pytest.fixture
def settings():
    """Environment settings; the servers of this benchmark make no use of the agent's sandbox."""
    return EnvironmentSettings(sandbox=None, limits=SandboxLimits(command_seconds=30.0))
