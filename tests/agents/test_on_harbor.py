"""Real programs in the container of a Harbor task, held against the native agent with the same scripted model."""

import os
from pathlib import Path

import pytest

from runners.external_agents.entries import load_entry
from runners.external_agents.installation import is_installed
from tests.runners.benchmarks.harbor.runs import check_alike, recorded
from tests.runners.sandboxes.docker_fixtures import engine, needs_engine  # noqa: F401  a fixture
from tests.support.needs import needs

pytestmark = [needs_engine, pytest.mark.thorough]
NAMES = [name for name in ("codex", "claude-code", "opencode") if is_installed(load_entry(name, Path()))]


@pytest.mark.parametrize("name", NAMES or [pytest.param("none", marks=needs("agents"))])
def test_a_real_program_does_what_the_native_agent_does(tmp_path, monkeypatch, name):
    """The same actions, question, injection and grade, in an image that lacks the program."""
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "cache"))
    conditions = ("full", "ask_user", "inject_50")
    mind = {"model": "scripted/replay_masked"}
    agents = [{"name": "native", **mind}, {"name": name, **mind, "program": name}]
    check_alike(recorded(tmp_path, agents, conditions, memory_mb=1024), name, conditions)
