"""Real programs that compact their own history in the middle of a trial, driven through the gateway.

``make test-agents`` runs this, too. A scripted model reads twelve files whose texts exceed the context that the program
is configured for, and writes a summary when it is asked for one without tools.
"""

import asyncio
import json
import os
from pathlib import Path

import pytest

from lhaw_record.recorder.events import AnchorLost, InjectionReapplied, ModelCalled, TrialFlagged
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.agents.programs.entries import load_entry
from lhaw_record.runners.agents.programs.installation import bin_folder, is_installed
from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.models.protocol import ModelReply
from tests.agents.conftest import ASKED_FOR
from tests.runners.models.gateway.rigs import KEY, Capturing, Rig, injection_after
from tests.runners.models.gateway.serving import serving
from tests.support.needs import needs

pytestmark = pytest.mark.thorough
STEPS, TARGET, FILE_CHARACTERS, RUN_S = 12, 3, 6000, 600
TASK = "Count the boats in part1.txt to part12.txt and write report.md about it."
MESSAGE = "By the way: only the blue boats count."
SUMMARY = "## Goal\n- Count all boats\n\n## Done\n- The first parts, with cat\n\n## Next\n- The others, then the report"
TITLE_LIMIT = 4000
"""A request without tools that is shorter asks for a title."""


class Reader:
    """A model that reads one file after the other with the program's shell tool."""

    name = "reader"

    def __init__(self, tool, argument, tokens_per_character):
        self._tool, self._argument, self.steps = tool, argument, 0
        self._tokens_per_character = tokens_per_character

    async def respond(self, request):
        """Summarise where it is asked to, read with the tool, and end."""
        size = sum(len(message.content) for message in request.messages)
        usage = Usage(
            input_tokens=int(size * self._tokens_per_character), output_tokens=20, cached_input_tokens=0, cost_usd=0.0
        )
        reply = Message(role="assistant", content="All boats are counted.")
        if not request.tools or "summary of the conversation" in request.messages[-1].content:
            reply = Message(role="assistant", content="Boats" if size < TITLE_LIMIT else SUMMARY)
        elif self.steps < STEPS:
            self.steps += 1
            arguments = json.dumps({self._argument: f"cat part{self.steps}.txt", "description": "read"})
            call = ToolCall(call_id=f"call_{self.steps:03}", name=self._tool, arguments_json=arguments)
            reply = Message(role="assistant", content="", tool_calls=(call,))
        return ModelReply(message=reply, finish_reason="stop", usage=usage)


def opencode(base):
    """Its files below HOME, environment and arguments, with a small context."""
    models = {"reader": {"name": "reader", "limit": {"context": 10_000, "output": 2_000}}}
    options = {"baseURL": f"{base}/v1", "apiKey": "x"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}
    config = {"share": "disabled", "autoupdate": False, "permission": "allow", "provider": {"gateway": provider}}
    environment = {f"OPENCODE_DISABLE_{name}": "1" for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")}
    files = {".config/opencode/opencode.json": json.dumps(config)}
    return files, environment, ["opencode", "run", "--auto", "--model", "gateway/reader", TASK]


def codex(base):
    """The same of Codex."""
    config = f"""
model_provider = "gateway"
check_for_update_on_startup = false
model_context_window = 14000
model_auto_compact_token_limit = 11200
[analytics]
enabled = false
[model_providers.gateway]
name = "gateway"
base_url = "{base}/v1"
env_key = "GATEWAY_TOKEN"
wire_api = "responses"
supports_websockets = false
"""
    flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--model", "reader"]
    return {".codex/config.toml": config}, {"GATEWAY_TOKEN": "x"}, ["codex", "exec", *flags, TASK]


def claude_code(base):
    """The same of Claude Code, whose smallest window is 100,000 tokens."""
    environment = {"ANTHROPIC_BASE_URL": base, "ANTHROPIC_AUTH_TOKEN": "x", "IS_SANDBOX": "1"}
    environment |= {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000", "ENABLE_TOOL_SEARCH": "false"}
    environment |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    return {}, environment, ["claude", "--print", "--dangerously-skip-permissions", "--model", "reader", TASK]


PROGRAMS = {
    "opencode": (opencode, "bash", "command", 0.25),
    "codex": (codex, "exec_command", "cmd", 0.25),
    "claude-code": (claude_code, "Bash", "command", 0.9),
}
"""How each is started, its shell tool and the argument of it, and the tokens that the model reports for a character."""


def _wanted():
    asked_for = os.environ.get(ASKED_FOR)
    installed = [name for name in PROGRAMS if is_installed(load_entry(name, Path()))]
    chosen = PROGRAMS if asked_for in (None, "all") else asked_for.split(",")
    return [name for name in installed if name in chosen] or [pytest.param("none", marks=needs("agents"))]


@pytest.mark.parametrize("name", _wanted())
async def test_a_real_compaction_is_followed(name, tmp_path):
    """Every file that was read is an action of the main thread, and the message is in each request after its action."""
    arguments, *of_model = PROGRAMS[name]
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    for number in range(1, STEPS + 1):
        (work / f"part{number}.txt").write_text((f"part {number}: a blue boat, a red boat. " * 400)[:FILE_CHARACTERS])
    model = Reader(*of_model)
    rig = Rig(Capturing(model), prompt=TASK, injection=injection_after(TARGET, MESSAGE))
    async with serving(rig.gateway.app()) as address:
        files, environment, command = arguments(f"{address}/t/{KEY}")
        for path, text in files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
        program = Path(bin_folder(load_entry(name, Path()))) / command[0]
        process = await asyncio.create_subprocess_exec(
            program,
            *command[1:],
            cwd=work,
            env={"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **environment},
            stdin=asyncio.subprocess.DEVNULL,
        )
        assert await asyncio.wait_for(process.wait(), RUN_S) == 0
    await rig.session.close("submitted")
    rig.check_conversations()
    called = rig.of(ModelCalled)
    main = next(event.thread_id for event in called if event.call_kind == "main")
    assert model.steps == STEPS
    assert [each for each, _, _ in rig.actions()].count("tool") == STEPS
    assert [event.thread_change for event in called if event.thread_id == main].count("compacted") >= 1
    assert {event.call_kind for event in called} <= {"main", "side"}
    assert len(rig.of(AnchorLost)) == len(rig.of(InjectionReapplied)) == 1
    assert rig.of(TrialFlagged) == []
    bodies = dict(zip((event.call_id for event in called), rig.session.upstream.bodies, strict=True))
    held = [json.dumps(bodies[event.call_id]).count(MESSAGE) for event in called if event.thread_id == main]
    assert held == [0] * TARGET + [1] * (len(held) - TARGET)
