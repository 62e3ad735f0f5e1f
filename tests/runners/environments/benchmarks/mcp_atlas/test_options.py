"""The [benchmark] table, the rows that can run, and the variants cut out of somebody's rows: no server is started."""

import hashlib
import json
import shutil

import pytest

from lhaw_record.recorder.events.values import Task
from lhaw_record.runners.base.errors import ExperimentError, ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas import open_mcp_atlas
from lhaw_record.runners.environments.benchmarks.mcp_atlas.claims import MATCHER
from lhaw_record.runners.environments.benchmarks.mcp_atlas.install import install_servers, main
from lhaw_record.runners.environments.benchmarks.mcp_atlas.playbook import cutter, playbooks
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import (
    SERVERS_VARIABLE,
    catalog,
    command_of,
    installed_version,
)
from lhaw_record.runners.experiment.tables import GraderSpec, ModelSpec
from tests.runners.environments.benchmarks.mcp_atlas.conftest import LIVE_TASKS


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A folder with rows, data and an installed file server that nobody starts."""
    servers = tmp_path / "servers"
    spec = catalog().servers["filesystem"]
    package = servers / "npm" / "node_modules" / spec.package
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"version": spec.version, "bin": {spec.program: "index.js"}}))
    monkeypatch.setenv(SERVERS_VARIABLE, str(servers))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("a")
    return tmp_path


def write_rows(folder, **changes):
    """Write one row and return the options for it."""
    call = {"function": {"name": "filesystem_read_file", "arguments": '{"path": "/data/a.txt"}'}, "id": "1"}
    row = {
        "task": "t1",
        "prompt": "What does a.txt say?",
        "claims": ["It says a."],
        "enabled_tools": ["filesystem_read_file", "fetch_fetch"],
        "trajectory": [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "a"},
        ],
    }
    (folder / "rows.jsonl").write_text(json.dumps({**row, **changes}))
    return {"rows": "rows.jsonl", "data": "data"}


def test_a_task_from_a_row(world):
    """Claims become checkpoints c1 …; the data, the enabled tools and the servers are in the environment's digest."""
    benchmark = open_mcp_atlas(write_rows(world), world, GraderSpec())
    (task,) = benchmark.tasks()
    assert [(c.checkpoint_id, c.label, c.total) for c in task.checkpoints] == [("c1", "It says a.", 1.0)]
    assert benchmark.grader == MATCHER
    assert benchmark.system_prompt() == ""
    assert benchmark.ends_on_text
    (world / "data" / "a.txt").write_text("b")
    (other,) = open_mcp_atlas(write_rows(world), world, GraderSpec()).tasks()
    assert other.environment_digest != task.environment_digest
    assert benchmark.reference("t1").origin == "published"
    assert benchmark.reference("t2") is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"claims": []}, "no claims"),
        ({"required_servers": ["filesystem", "fetch"]}, "server fetch needs the network"),
        ({"required_servers": ["filesystem", "git"]}, "server git is not installed; run `python -m"),
        ({"required_servers": ["mcp-code-executor"]}, "server mcp-code-executor is in no package registry"),
        ({"trajectory": None}, "server fetch needs the network"),
        ({"required_servers": ["filesystem"], "data_file": 1}, None),
    ],
)
async def test_rows_that_cannot_run_say_why(world, settings, changes, reason):
    """They are not among the tasks, ``why_not`` answers for them, and opening one fails at ``tool`` without a retry."""
    write_rows(world)
    good = json.loads((world / "rows.jsonl").read_text())
    lines = [json.dumps(good), json.dumps({**good, "task": "t2", **changes})]
    (world / "rows.jsonl").write_text("\n".join(lines))
    benchmark = open_mcp_atlas({"rows": ["rows.jsonl"], "data": "data"}, world, GraderSpec())
    if reason is None:
        assert [task.task_id for task in benchmark.tasks()] == ["t1", "t2"]
        assert benchmark.why_not("t2") is None
        return
    assert [task.task_id for task in benchmark.tasks()] == ["t1"]
    assert benchmark.left_out() == ["t2"]
    assert reason in benchmark.why_not("t2")
    task = Task(
        benchmark="mcp_atlas", benchmark_version="1", task_id="t2", prompt="", checkpoints=(), environment_digest=""
    )
    with pytest.raises(ToolBoundaryError, match="cannot run here") as caught:
        async with benchmark.open(task, settings):
            pytest.fail("it opened")
    assert not caught.value.is_retry_owed


def test_missing_data_is_named(world):
    """Paths in a trajectory are looked for in the data folder."""
    (world / "data" / "a.txt").unlink()
    with pytest.raises(ExperimentError, match=r"none of 1 rows can run here; t1: data missing: a\.txt"):
        open_mcp_atlas(write_rows(world), world, GraderSpec())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": "data"}, r"key 'benchmark\.rows' is missing; add it .docs/benchmarks/mcp-atlas"),
        (
            {"rows": "rows.jsonl", "data": "data", "row": 1},
            r"unknown key 'benchmark\.row'; did you mean 'rows'.*; known: rows, data",
        ),
        ({"rows": "rows.jsonl", "data": "nowhere"}, r"key 'benchmark\.data': .*nowhere is not a folder"),
        ({"rows": "no.csv", "data": "data"}, "key 'benchmark.rows': cannot read .*no.csv"),
        ({"rows": "rows.jsonl", "data": 3}, r"key 'benchmark\.data': 3, where a text is expected"),
        ({"rows": ["rows.jsonl", 3], "data": "data"}, r"key 'benchmark\.rows\[1\]': 3, where a text is expected"),
        ({"rows": [], "data": "data"}, r"key 'benchmark\.rows': \[\], where a list of length >= 1"),
    ],
)
def test_options_are_checked(world, options, message):
    """Every mistake names its key or file."""
    write_rows(world)
    with pytest.raises(ExperimentError, match=message):
        open_mcp_atlas(options, world, GraderSpec())


def test_the_grader_is_chosen_by_the_experiment(world):
    """A judge changes the recorded grader's name; so does another wording of it."""
    spec = GraderSpec(kind="judge", judge=ModelSpec(model="openai/x"))
    bundled = open_mcp_atlas(write_rows(world), world, spec).grader
    (world / "judge.md").write_text("Mine.\n---\n{claim}{answer}")
    own = open_mcp_atlas({**write_rows(world), "claim_judge": "judge.md"}, world, spec).grader
    assert len({MATCHER, bundled, own}) == 3
    assert bundled.startswith("mcp_atlas/judge-2-")


def test_cutting_a_prompt():
    """A template takes passages out of a prompt by their positions."""
    assert cutter("a red and a blue box")("{0:2}{6:12}coloured{16:}") == "a and a coloured box"


def test_a_prompt_with_other_bytes_gets_no_variants():
    """Positions belong to one exact text."""
    for book in playbooks().values():
        assert not book.fits("Another prompt.")


def test_live_tasks_have_variants_of_two_dimensions_or_more(real_rows, core_servers):
    """Every live task has variants whose prompts lack their values; questions find their segments."""
    options = {
        "rows": ["rows_v1_format.csv", "offline_prompts.jsonl"],
        "data": "data",
    }
    benchmark = open_mcp_atlas(options, real_rows, GraderSpec())
    prompts = {task.task_id: task.prompt for task in benchmark.tasks()}
    variants = benchmark.variants()
    assert {variant.task_id for variant in variants} == set(LIVE_TASKS) == set(prompts)
    assert {segment.dimension for variant in variants for segment in variant.segments} >= {
        "goal",
        "constraint",
        "input",
    }
    for variant in variants:
        assert (
            hashlib.sha256(prompts[variant.task_id].encode()).hexdigest() == playbooks()[variant.task_id].prompt_sha256
        )
        for segment in variant.segments:
            assert segment.value in prompts[variant.task_id]
            assert segment.value not in variant.prompt
    origins = {task_id: benchmark.reference(task_id).origin for task_id in prompts}
    assert sorted(origins.values()) == ["own", "own", "published"]


def test_no_text_of_the_published_rows_is_kept(real_rows):
    """Our files hold no run of six words of any published prompt or claim."""
    from lhaw_record.recorder.resources import data_path
    from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import read_rows

    ours = " ".join(
        path.read_text(encoding="utf-8").lower() for path in data_path("mcp_atlas").rglob("*") if path.is_file()
    )
    for row in read_rows(
        [real_rows / name for name in ("rows_v1_format.csv", "rows_v2_format.csv", "offline_prompts.jsonl")]
    ):
        for text in (row.prompt, *row.claims):
            words = text.lower().split()
            for start in range(max(1, len(words) - 5)):
                run = " ".join(words[start : start + 6])
                assert len(words) < 6 or run not in ours, run


def test_what_is_installed_is_not_installed_again(world, monkeypatch, capsys):
    """A second call starts no installer; an interrupted environment counts as absent; unknown names are refused."""
    monkeypatch.setattr("lhaw_record.runners.base.host.packages.subprocess.run", lambda *_, **__: pytest.fail("it ran"))
    said = []
    install_servers(["filesystem"], world / "servers", said.append)
    assert said == ["filesystem: @modelcontextprotocol/server-filesystem 2026.7.10 is installed"]
    site = (
        world
        / "servers"
        / "python-mcp1"
        / "lib"
        / "python3.11"
        / "site-packages"
        / "mcp_server_git-2026.7.10.dist-info"
    )
    site.mkdir(parents=True)
    (site / "METADATA").touch()
    git = catalog().servers["git"]
    assert installed_version(git, world / "servers") is None
    (world / "servers" / "python-mcp1" / "complete").touch()
    assert installed_version(git, world / "servers") == "2026.7.10"
    assert command_of(git, world / "servers")[-1].endswith("python-mcp1/bin/mcp-server-git")
    assert main(["no-such-server", "--directory", str(world)]) == 1
    assert "unknown MCP server 'no-such-server'" in capsys.readouterr().err


def test_a_missing_installer_is_explained(world, monkeypatch):
    """Without npm every npm server fails for that reason, which says what to install."""
    monkeypatch.setattr("lhaw_record.runners.base.host.packages.shutil.which", lambda _: None)
    failed = install_servers(["memory", "everything"], world / "servers", lambda _: None)
    assert list(failed) == ["memory", "everything"]
    assert all(why.startswith("npm is not on PATH; install Node.js") for why in failed.values())


@pytest.fixture
def installer(monkeypatch):
    """Stand-ins for pip and npm that have every package but some, and take a request as a whole or not at all."""
    lacking = set()

    def refuse(packages):
        if any(name in package for name in lacking for package in packages):
            raise ExperimentError("ended with exit code 1")

    def npm(prefix, packages):
        refuse(packages)
        shutil.rmtree(prefix, ignore_errors=True)  # npm removes what is not named
        for package in packages:
            name, _, version = package.rpartition("@")
            folder = prefix / "node_modules" / name
            folder.mkdir(parents=True)
            (folder / "package.json").write_text(json.dumps({"version": version}))

    def pip(root, requirements, *, is_new):
        refuse(requirements)
        for requirement in requirements:
            name, _, version = requirement.partition("==")
            folder = root / "lib" / "python3.11" / "site-packages" / f"{name.replace('-', '_')}-{version}.dist-info"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "METADATA").touch()

    monkeypatch.setattr("lhaw_record.runners.environments.benchmarks.mcp_atlas.install.install_npm", npm)
    monkeypatch.setattr("lhaw_record.runners.environments.benchmarks.mcp_atlas.install.install_python", pip)
    return lacking


def test_a_package_that_a_registry_lacks_costs_no_other(tmp_path, installer, capsys):
    """What can be had is installed, what cannot is told by name, and the exit code is that of the named servers."""
    installer |= {"whois-mcp", "mcp-server-sqlite"}
    names = ["airtable", "whois", "alchemy", "e2b-server", "git", "sqlite"]
    assert main([*names, "--directory", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert [name for name in names if f"not installed: {name}: ended with exit code 1" in said] == ["whois", "sqlite"]
    there = {name for name in names if installed_version(catalog().servers[name], tmp_path) is not None}
    assert there == {"airtable", "alchemy", "e2b-server", "git"}
    installer.clear()
    assert main([*names, "--directory", str(tmp_path)]) == 0
    assert all(installed_version(catalog().servers[name], tmp_path) for name in names)


def test_only_what_was_asked_for_by_name_fails_an_installation(tmp_path, installer):
    """With --all a server beside the core may be missing; one of the core, or a named one, may not."""
    installer.add("server-everything")
    assert main(["--all", "--directory", str(tmp_path)]) == 0
    assert main(["--all", "everything", "--directory", str(tmp_path)]) == 1
    installer.add("server-filesystem")
    assert main(["--directory", str(tmp_path / "other")]) == 1


def test_wikipedia_is_installed_from_its_package():
    """The benchmark pins wikipedia-mcp, which is in the registry of Python packages."""
    spec = catalog().servers["wikipedia"]
    assert (spec.kind, spec.package, spec.version, spec.needs_network) == ("pip", "wikipedia-mcp", "2.0.1", True)
    assert "wikipedia" not in catalog().unavailable
    assert catalog().split("wikipedia_search_wikipedia") == ("wikipedia", "search_wikipedia")
