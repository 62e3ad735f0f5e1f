"""The law of asking: no arm of a ready-made entry offers a way to ask that nobody answers.

What each program brings of its own, and what turns it off, is written down here once, as it was tried. That a program
obeys is seen by ``make test-agents``, which reads the tools that its model was offered.
"""

import json
import tomllib
from pathlib import Path

import msgspec
import pytest

from lhaw_record.runners.agents.programs.entries import entry_paths, load_entry
from lhaw_record.runners.experiment.program import filled
from lhaw_record.runners.experiment.validation import medium_problems

VALUES = dict.fromkeys(
    ("prompt", "prompt_file", "base_url", "base_url_v1", "token", "model", "mcp_config", "mcp_url", "mcp_bridge"), "x"
) | {"workdir": "/w", "home": "/h", "bin": "/b", "mcp_url": "http://our-user"}
MEDIA = ("mcp", "built_in", "prose", "none")


def _codex(config):
    return not config.get("tools", {}).get("experimental_request_user_input", {}).get("enabled", True)


def _kimi(config):
    return "AskUserQuestion" in config["tools"]["disabled"]


def _qwen(config):
    return "ask_user_question" in config.get("permissions", {}).get("deny", ())


IS_OFF = {
    "claude-code": lambda start: "--print" in start.argv and "--permission-prompt-tool" not in start.argv,
    "claude-code-acp": lambda _: True,  # it has its tool only where the host says that it shows forms
    "codex": lambda start: _codex(tomllib.loads(start.files[".codex/config.toml"])),
    "codex-acp": lambda start: _codex(json.loads(start.environment["CODEX_CONFIG"])),
    "gemini-cli": lambda start: "--prompt" in start.argv,
    "kimi-code": lambda start: _kimi(tomllib.loads(start.files[".kimi-code/config.toml"])),
    "kimi-code-acp": lambda start: _kimi(tomllib.loads(start.files[".kimi-code/config.toml"])),
    "opencode": lambda start: start.argv[1] == "run" and not any("QUESTION" in name for name in start.environment),
    "opencode-acp": lambda start: not any("QUESTION" in name for name in start.environment),
    "qwen-code-acp": lambda start: _qwen(json.loads(start.files[".qwen/settings.json"])),
    "qwen-code": lambda start: "--prompt" in start.argv and "--acp" not in start.argv,
}
"""Programs with a tool of their own to ask, and whether it is off."""
WITHOUT = frozenset(
    [
        "goose",
        "leased",
        "mini-swe-agent",
        "mini-swe-agent-text",
        "openai-agents",
        "openhands",
        "pydantic-ai",
        "smolagents",
    ]
)
"""Programs that have none."""


def _arms():
    for name in entry_paths():
        spec = load_entry(name, Path())
        for medium in MEDIA:
            arm = msgspec.structs.replace(spec, asks_by=medium)
            if next(medium_problems(arm), None) is None:
                yield pytest.param(name, arm, id=f"{name}-{medium}")


def test_each_entry_says_what_it_brings():
    """A new entry has to say here whether its program has a tool to ask, and how that is off."""
    assert set(entry_paths()) == IS_OFF.keys() | WITHOUT
    assert not IS_OFF.keys() & WITHOUT


@pytest.mark.parametrize("is_asking", [True, False])
@pytest.mark.parametrize(("name", "arm"), list(_arms()))
def test_a_way_to_ask_is_answered_or_off(name, arm, is_asking):
    """The program's own tool is on only where the trial's user answers it, and our tool only where it is ``mcp``."""
    is_own = is_asking and arm.asks_by == "built_in"
    is_ours = is_asking and arm.asks_by == "mcp"
    for spec in (arm, arm.resumed) if arm.resume else (arm,):
        start = filled(spec, VALUES, has_tools=is_ours, has_built_in=is_own)
        if name in IS_OFF and not is_own:
            assert IS_OFF[name](start)
        if not is_ours:
            assert "http://our-user" not in json.dumps([start.argv, start.environment, start.files])
    if is_own:
        assert arm.built_in.tool
        assert arm.host == "acp"
