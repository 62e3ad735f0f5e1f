"""``agents test``: one trial of an entry with all that was seen of it, of the script as it is now."""

import pytest

from lhaw_record.runners.agents.programs.installation import AGENTS_VARIABLE
from tests.cli.program import called
from tests.runners.agents.programs.rigs import ASKS, tiny, toml

pytestmark = pytest.mark.thorough
ENTRY = """
command = ["{bin}/python", "{bin}/mine.py", "{base_url}", "{token}"]
wire = "chat"
[install]
script = "mine.py"
"""
EXPERIMENT = """
name = "other"
conditions = ["full", "ask_user"]
agents = [{name = "native", model = "scripted/balanced"}]
benchmark = {name = "desk", tasks = ["log-triage"]}
sandbox = {kind = "process", allow_unisolated = true}
"""


def test_an_entry_is_tested_as_it_is_now(tmp_path, monkeypatch):
    """Broken: the whole traceback and the failure, exit code 1. Mended: its calls, actions and grade, exit code 0."""
    monkeypatch.setenv(AGENTS_VARIABLE, str(tmp_path / "agents"))
    entry, script, file = tmp_path / "mine.toml", tmp_path / "mine.py", tmp_path / "x.toml"
    entry.write_text(ENTRY)
    file.write_text(EXPERIMENT)
    script.write_text("import nothing_of_this_name\n")
    broken = called("agents", "test", str(entry), "--experiment", str(file))
    assert broken.returncode == 1
    assert "--- stderr.txt\nTraceback" in broken.stdout
    assert "No module named 'nothing_of_this_name'" in broken.stdout
    assert "failed at sandbox (program_no_call)" in broken.stdout
    run = tmp_path / "run.toml"
    program = '{name = "mine", model = "scripted/balanced", program = "mine.toml"}'
    text = EXPERIMENT.replace('{name = "native", model = "scripted/balanced"}', program)
    run.write_text(text.replace('"full", "ask_user"', '"full"') + "retry = {max_attempts = 1}\n")
    told = called("run", run, "--store", tmp_path / "agents" / "store").stderr
    assert "Traceback (most recent call last): … ModuleNotFoundError: No module named 'nothing_of_this_name'" in told
    script.write_text(f"{ASKS}\nwork(2)\nprint('said', file=sys.stderr)\n")
    mended = called("agents", "test", str(entry), "--experiment", str(file))
    assert mended.returncode == 0
    assert "the first conversation that offers tools" in mended.stdout
    assert "--- stderr.txt\nsaid\n" in mended.stdout
    assert "ended by submitted" in mended.stdout
    assert "asked: no" in mended.stdout
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["agents"]


def test_asking_is_tested_by_default(tmp_path):
    """An entry that says it can ask is tried under ask_user: whether it asked, and that it was never offered a way."""
    asks = called("agents", "test", _tiny(tmp_path, 'asking = {command = ["--mcp-config", "{mcp_config}"]}'))
    assert asks.returncode == 0, asks.stdout
    assert "under ask_user" in asks.stdout
    assert "\nasked: yes, " in asks.stdout
    mute = called("agents", "test", _tiny(tmp_path, ""))
    assert mute.returncode == 1
    assert "\nasked: no\n" in mute.stdout
    assert "failed at sandbox (asking_not_offered)" in mute.stdout
    assert "under full" in called("agents", "test", _tiny(tmp_path, ""), "--condition", "full").stdout


def _tiny(folder, more):
    program = tiny("chat")
    command = [word for word in program["command"] if word not in ("--mcp-config", "{mcp_config}")]
    lines = {**program, "command": command}
    path = folder / "tiny.toml"
    path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in lines.items()) + more)
    return str(path)
