"""Real programs in the container of a Harbor task, held against the native agent with the same scripted model."""

import os
from pathlib import Path

import pytest

from lhaw_record.runners.agents.programs.entries import load_entry
from lhaw_record.runners.agents.programs.installation import is_installed
from tests.runners.environments.benchmarks.harbor.runs import check_alike, recorded
from tests.runners.environments.sandboxes.docker_fixtures import engine, needs_engine  # noqa: F401  a fixture
from tests.support.needs import needs

NAMES = [name for name in ("codex", "claude-code", "opencode") if is_installed(load_entry(name, Path()))]
pytestmark = [needs_engine, pytest.mark.thorough, *([] if NAMES else [needs("agents")])]


def test_real_programs_do_what_the_native_agent_does(tmp_path, monkeypatch):
    """One experiment: the same actions, question, injection and grade, in an image that lacks the programs."""
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "cache"))
    conditions = ("full", "ask_user", "inject_50")
    mind = {"model": "scripted/replay_masked"}
    agents = [{"name": "native", **mind}, *({"name": name, **mind, "program": name} for name in NAMES)]
    trials = recorded(tmp_path, agents, conditions, memory_mb=1024)
    for name in NAMES:
        check_alike(trials, name, conditions)
