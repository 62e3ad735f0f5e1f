"""Servers of one's own in a file: one made with the protocol's own library answers; what is wrong is said before."""

import json
import sys

import pytest

from lhaw_record.generators.sources.mcp_atlas import McpAtlasSource
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.mcp_atlas import open_mcp_atlas
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import has_bubblewrap
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.cli.program import called

KEY = "nobody-may-see-3f8"
SERVER = """
import os
from mcp.server.mcpserver import MCPServer
server = MCPServer("notes", version="7")
@server.tool()
def search(word: str) -> str:
    return f"{word} in {os.listdir('.')}, key {len(os.environ['NOTES_KEY'])}, rows {os.path.exists('ROWS')}"
server.run()
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A row whose tool no published server has, the server's program and file, and data."""
    monkeypatch.setenv("NOTES_KEY", KEY)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("a")
    row = {"task": "t1", "prompt": "Find it.", "claims": ["It is a."], "enabled_tools": ["notes_search"]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    (tmp_path / "notes.py").write_text(SERVER.replace("ROWS", str(tmp_path / "rows.jsonl")))
    write(tmp_path)
    return tmp_path


def write(world, command=sys.executable, **more):
    """Write the file of servers."""
    keys = {"command": command, "args": ["notes.py"], **more}
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
    (world / "servers.toml").write_text(f"[servers.notes]\n{lines}\nenv = {{ NOTES_KEY = '${{NOTES_KEY}}' }}\n")


def opened(world, **options):
    """The benchmark on that row."""
    options = {"rows": "rows.jsonl", "data": "data", "own_servers": "servers.toml", **options}
    return open_mcp_atlas(options, world, GraderSpec())


@pytest.mark.thorough
async def test_its_tools_are_a_trials_tools(world):
    """It works on the data, has its key, and sees no answers; the file it runs is part of the task."""
    is_confined = has_bubblewrap()
    benchmark = opened(world, allow_unconfined=not is_confined)
    (task,) = benchmark.tasks()
    settings = EnvironmentSettings(sandbox=None, limits=SandboxLimits(command_seconds=600.0))
    async with benchmark.open(task, settings) as environment:
        assert [tool.name for tool in environment.tools] == ["notes_search"]
        answer = await environment.call("notes_search", {"word": "a"})
        assert answer.text == f"a in ['a.txt'], key {len(KEY)}, rows {not is_confined}"
        (recorded,) = json.loads(environment.facts[0].content)
    assert (recorded["server"], recorded["says"]["version"]) == ("notes", "7")
    assert KEY in benchmark.secrets()
    assert KEY not in str(recorded)
    (world / "notes.py").write_text(SERVER + "\n")
    assert opened(world, allow_unconfined=not is_confined).tasks()[0].task_digest != task.task_digest


@pytest.mark.thorough
def test_variants_are_made_of_the_very_task_that_runs(world):
    """The generator's task has the digest of the benchmark's, and it is not said that its server is unknown."""
    source = McpAtlasSource([world / "rows.jsonl"], data=world / "data", own_servers=world / "servers.toml")
    report = source.read()
    assert [each.message for each in report.findings if "cannot run here" in each.message] == []
    (made,) = report.tasks
    assert made.task.task_digest == opened(world, allow_unconfined=not has_bubblewrap()).tasks()[0].task_digest


@pytest.mark.thorough
def test_the_preflight_starts_it(world):
    """It says what the server says of itself, and that the row can run."""
    rows, data, own = (str(world / name) for name in ("rows.jsonl", "data", "servers.toml"))
    done = called("mcp-atlas", rows, "--data", data, "--own-servers", own, "--format", "json")
    row, server = json.loads(done.stdout)
    assert (row["is_runnable"], row["tools"]) == (True, "1/1")
    assert "says notes 7" in server["details"]


@pytest.mark.thorough
@pytest.mark.parametrize("way", [["--dry-run"], []])
def test_a_tool_that_its_server_lacks_is_told_before_the_first_trial(world, way):
    """For every task that needs one, by the run and the dry run alike; tools of another row are not missed."""
    row = json.loads((world / "rows.jsonl").read_text())
    rows = [
        row,
        {**row, "task": "t2", "enabled_tools": ["notes_search", "notes_gone"]},
        {**row, "task": "t3", "enabled_tools": ["notes_lost"]},
    ]
    (world / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    confined = "" if has_bubblewrap() else "allow_unconfined = true\n"
    (world / "x.toml").write_text(
        'name = "x"\nconditions = ["full"]\n[benchmark]\nname = "mcp_atlas"\nrows = "rows.jsonl"\n'
        f'data = "data"\nown_servers = "servers.toml"\n{confined}[[agents]]\nname = "a"\nmodel = "scripted/balanced"\n'
    )
    done = called("run", str(world / "x.toml"), "--store", str(world / "s"), *way)
    assert done.returncode == 2
    assert "t2 needs 1 tools that its environment lacks, such as notes_gone" in done.stderr
    assert "t3 needs 1 tools that its environment lacks, such as notes_lost" in done.stderr
    assert "t1 needs" not in done.stderr
    assert not (world / "s").exists()


def test_what_is_wrong_is_said_before_a_run(world, monkeypatch):
    """A program that is not there or could not be read, a key, a folder with the answers, and words in the file."""

    def refused(**options):
        with pytest.raises(ExperimentError) as caught:
            opened(world, **options)
        return str(caught.value)

    assert "unknown server of tool notes_search; describe it in own_servers" in refused(own_servers="")
    assert "none.toml cannot be read" in refused(own_servers="none.toml")
    write(world, "no-such-program")
    assert "no-such-program is neither a program on PATH nor a file in" in refused()
    (world / "bin").mkdir()
    (world / "bin" / "tool").write_text("#!/bin/sh\n")
    (world / "bin" / "tool").chmod(0o755)
    write(world, str(world / "bin" / "tool"))
    assert "add the folder of its installation to 'readable'" in refused()
    write(world, str(world / "bin" / "tool"), readable=["bin"])
    assert opened(world).tasks()
    write(world, readable=["."])
    assert "and with it the answers in" in refused()
    write(world, readable=["gone"])
    assert "key 'servers.notes.readable'" in refused()
    write(world, comand="x")
    assert "unknown key 'servers.notes.comand'; did you mean 'command'?; known: command, args, env" in refused()
    write(world, needs_network=True)
    assert "server notes needs the network; allow_network = true" in refused()
    write(world)
    monkeypatch.delenv("NOTES_KEY")
    assert "set NOTES_KEY" in refused()
    monkeypatch.setenv("NOTES_KEY", KEY)
    assert "this key is for installed servers" in refused(data="", container={"address": "http://x"})


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["name", "environment", "argument", "link"])
def test_a_server_that_could_show_the_rows_is_refused(world, way):
    """By the name of its program, a virtual environment around the rows, or the rows as a file of its command."""
    for folder in ("bin", "tools"):
        (world / folder).mkdir()
        (world / folder / "node_search").write_text("#!/bin/sh\n")
        (world / folder / "node_search").chmod(0o755)
    if way == "name":  # no language, so that its folder's parent stays hidden
        for command in ("tools/node_search", "bin/node_search"):
            write(world, command, args=[])
            assert opened(world).tasks()
        write(world, str(world / "tools" / "node_search"), args=[])
        with pytest.raises(ExperimentError, match="add the folder of its installation"):
            opened(world)
        return
    if way == "environment":
        (world / "pyvenv.cfg").write_text("home = /usr/bin\n")
        write(world, "bin/node_search")
    elif way == "argument":
        write(world, args=["notes.py", "rows.jsonl"])
    else:
        (world / "more.txt").symlink_to("rows.jsonl")
        write(world, args=["notes.py", "more.txt"])
    with pytest.raises(ExperimentError, match="and with it the answers in"):
        opened(world)


@pytest.mark.thorough
@pytest.mark.parametrize("position", ["command", "args"])
def test_a_file_by_its_absolute_path_is_part_of_the_task(world, position):
    """An edited program is another one wherever it lies; without bubblewrap, it may lie anywhere."""
    (world / "far").mkdir()
    program = world / "far" / "server.sh"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    chosen = {"command": str(program), "args": []} if position == "command" else {"args": [str(program)]}
    write(world, **chosen)
    before = opened(world, allow_unconfined=True).tasks()[0].task_digest
    program.write_text("#!/bin/sh\nexit\n")
    assert opened(world, allow_unconfined=True).tasks()[0].task_digest != before
