"""Servers that need keys and the network: what stands against them is said first, and no key is ever shown."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.mcp_atlas import open_mcp_atlas
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import confined, unconfined
from lhaw_record.runners.environments.benchmarks.mcp_atlas.environment import server_plan
from lhaw_record.runners.environments.benchmarks.mcp_atlas.install import main
from lhaw_record.runners.environments.benchmarks.mcp_atlas.preflight import preflight
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import (
    SERVERS_VARIABLE,
    catalog,
    credentials_of,
    missing_credentials,
)
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.environments.benchmarks.mcp_atlas.confined_program import said_by
from tests.support.needs import needs

KEY = "a-key-that-nobody-may-see"
NAMES = [name for name, spec in catalog().servers.items() if credentials_of(spec)]


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A row that needs the server ``brave-search``, data, and an empty folder of servers; no keys."""
    for spec in catalog().servers.values():
        for name in credentials_of(spec):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(SERVERS_VARIABLE, str(tmp_path / "servers"))
    (tmp_path / "data").mkdir()
    row = {
        "task": "t1",
        "prompt": "What is new?",
        "claims": ["Nothing."],
        "enabled_tools": ["brave-search_brave_web_search"],
        "required_servers": ["brave-search"],
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    return tmp_path


def install(world, name):
    """Put a package there that looks installed; nobody starts it."""
    spec = catalog().servers[name]
    package = world / "servers" / "npm" / "node_modules" / spec.package
    package.mkdir(parents=True)
    (package / "package.json").write_text(
        json.dumps({"version": spec.version, "bin": {spec.program or "own-name": "index.js"}})
    )
    return spec


def opened(world, **options):
    """The benchmark on that row."""
    return open_mcp_atlas({"rows": "rows.jsonl", "data": "data", **options}, world, GraderSpec())


def test_everything_that_stands_against_a_row_is_said_at_once(world):
    """Network, package and key, each with its remedy; with all three the row is a task."""
    with pytest.raises(ExperimentError) as caught:
        opened(world)
    for part in ("allow_network = true", "server brave-search is not installed; run `python -m", "set BRAVE_API_KEY"):
        assert part in str(caught.value)
    install(world, "brave-search")
    with pytest.raises(ExperimentError, match="needs credentials in the environment: set BRAVE_API_KEY") as caught:
        opened(world, allow_network=True)
    assert "allow_network" not in str(caught.value)


def test_a_key_makes_a_task_and_is_not_part_of_it(world, monkeypatch):
    """Another key gives the same task; an empty one is none."""
    install(world, "brave-search")
    monkeypatch.setenv("BRAVE_API_KEY", "")
    with pytest.raises(ExperimentError, match="set BRAVE_API_KEY"):
        opened(world, allow_network=True)
    digests = set()
    for key in (KEY, "another-key-of-somebody"):
        monkeypatch.setenv("BRAVE_API_KEY", key)
        benchmark = opened(world, allow_network=True)
        (task,) = benchmark.tasks()
        digests.add(task.task_digest)
        assert benchmark.secrets() == {key}
    assert len(digests) == 1


@needs("bubblewrap", "node")
def test_a_key_is_in_the_environment_of_its_server_only(world, monkeypatch):
    """Not on the command line, which every user of the machine can read, and not with servers that do not need it."""
    monkeypatch.setenv("BRAVE_API_KEY", KEY)
    plans = {
        name: server_plan(
            install(world, name), world / "servers", world / "data", SandboxLimits(file_mb=1, command_seconds=1.0)
        )
        for name in ("brave-search", "filesystem")
    }
    assert plans["brave-search"].process.environment["BRAVE_API_KEY"] == KEY
    assert KEY not in " ".join(plans["brave-search"].process.command)
    assert KEY not in str(plans["filesystem"].process)
    has_network = {name: "--share-net" in plan.process.command for name, plan in plans.items()}
    assert has_network == {"brave-search": True, "filesystem": False}


def test_a_variable_inside_a_value(monkeypatch):
    """A value may be text around variables, and an argument may be one."""
    servers = catalog().servers
    assert credentials_of(servers["notion"]) == ("NOTION_TOKEN",)
    assert credentials_of(servers["twelvedata"]) == ("TWELVE_DATA_API_KEY",)
    assert credentials_of(servers["filesystem"]) == ()
    monkeypatch.delenv("SLACK_MCP_XOXC_TOKEN", raising=False)
    monkeypatch.setenv("SLACK_MCP_XOXD_TOKEN", "x")
    assert missing_credentials(servers["slack"]) == ("SLACK_MCP_XOXC_TOKEN",)


@pytest.mark.parametrize("name", NAMES)
def test_every_server_with_a_key_needs_the_network(name):
    """A key is for a service; a server without the network cannot use one."""
    assert catalog().servers[name].needs_network


async def test_the_preflight_names_the_keys_that_are_missing(world, monkeypatch):
    """For rows and servers; a server that cannot be started is not."""
    install(world, "brave-search")
    row, server = await preflight([world / "rows.jsonl"], world / "data", has_network=True)
    assert not row["is_runnable"]
    assert row["details"] == "server brave-search needs credentials in the environment: set BRAVE_API_KEY"
    assert server["details"].endswith("0.6.2: needs credentials in the environment: set BRAVE_API_KEY")
    monkeypatch.setenv("BRAVE_API_KEY", KEY)
    row, server = await preflight([world / "rows.jsonl"], world / "data")
    assert "needs the network" in row["details"]
    assert KEY not in str((row, server))


def test_only_named_servers_are_installed_that_need_the_network(world, monkeypatch):
    """``--all`` is about those that can run anywhere."""
    asked = []
    monkeypatch.setattr(
        "lhaw_record.runners.environments.benchmarks.mcp_atlas.install.install_servers",
        lambda names, *_: asked.append(set(names)) or {},
    )
    for arguments in (["--all"], ["--all", "fetch"], ["fetch"], []):
        assert main([*arguments, "--directory", str(world)]) == 0
    offline = {name for name, spec in catalog().servers.items() if not spec.needs_network}
    assert asked[:3] == [offline, {*offline, "fetch"}, {"fetch"}]
    assert asked[3] < offline


@needs("bubblewrap")
@pytest.mark.parametrize("has_network", [False, True])
def test_the_network_is_there_only_where_it_was_given(tmp_path, has_network):
    """A confined process reaches a listener of this machine with it, and without it nothing."""
    python = Path(sys.executable).resolve()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        probe = f"""
import json, os, socket
try:
    socket.create_connection(("127.0.0.1", {listener.getsockname()[1]}), 5).close()
    reached = True
except OSError:
    reached = False
print(json.dumps({{"reached": reached, "variables": sorted(os.environ)}}))
"""
        roots = [python.parent.parent]
        plan = confined([str(python), "-c", probe], {"OWN": "1"}, tmp_path, roots, 1, has_network=has_network)
        said = json.loads(said_by(plan))
    assert said["reached"] == has_network
    assert set(said["variables"]) - {"PWD", "LC_CTYPE"} == {"PATH", "HOME", "LANG", "TMPDIR", "OWN"}


def test_a_plain_process_gets_its_variables_too(tmp_path):
    """Where servers are not confined."""
    plan = unconfined([sys.executable, "-c", "import os; print(os.environ['OWN'])"], {"OWN": "/data/x"}, tmp_path)
    done = subprocess.run(plan.command, env=plan.environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{tmp_path}/x"
    assert os.environ.get("OWN") is None
