"""The published container as a trial's world, against a stand-in of its interface, running already or one each."""

import hashlib
import io
import json
import socket
import subprocess
import sys
import tarfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from lhaw_record.runners.base.errors import ExperimentError, SandboxBoundaryError, ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas import open_mcp_atlas
from lhaw_record.runners.environments.benchmarks.mcp_atlas.container import memory_mb
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import catalog
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.cli.program import called
from tests.runners.environments.benchmarks.tac.images import make_image
from tests.runners.environments.sandboxes.docker_fixtures import engine, make_provider, needs_engine, own_names  # noqa: F401
from tests.support.docker import docker
from tests.support.image_registry import image_registry

PROGRAM = Path(__file__).with_name("published_container.py")
TRUE = Path("/bin/true").read_bytes()
SETTINGS = EnvironmentSettings(sandbox=None, limits=SandboxLimits(command_seconds=30.0))
TOOLS = (
    "calculator_calculate",
    "filesystem_read_file",
    "filesystem_write_file",
    "memory_die",
    "memory_slow",
    "memory_eat",
    "memory_empty",
    "memory_two",
    "memory_picture",
    "memory_no_such_tool",
)


def opened(folder, container, settings=SETTINGS, tools=TOOLS, needs=("calculator",), **options):
    """Open a trial of one row, whose file is written here."""
    row = {"task": "t1", "prompt": "p", "claims": ["c"], "enabled_tools": tools, "required_servers": needs}
    (folder / "rows.jsonl").write_text(json.dumps(row))
    options = {"rows": "rows.jsonl", "container": container, **options}
    benchmark = open_mcp_atlas(options, folder, GraderSpec())
    (task,) = benchmark.tasks()
    return benchmark.open(task, settings)


@contextmanager
def running(*how):
    """Run the stand-in on loopback and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    with subprocess.Popen([sys.executable, PROGRAM, str(port), *how]) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


async def test_a_container_that_runs_already(tmp_path):
    """Tools, results and errors are those that the published client shows an agent; who has died is missing data."""
    with running() as address:
        async with opened(tmp_path, {"address": address}) as environment:
            assert [tool.name for tool in environment.tools] == [name for name in TOOLS if "no_such" not in name]
            got = {
                name: await environment.call(name, arguments)
                for name, arguments in (
                    ("calculator_calculate", {"expression": "6*7"}),
                    ("memory_two", {}),
                    ("memory_empty", {}),
                    ("memory_picture", {}),
                )
            }
            shown = [(result.text, result.is_error, result.server) for result in got.values()]
            success = ("success", False, "memory")
            assert shown == [("42", False, "calculator"), ("a\nb", False, "memory"), success, success]
            wrong = await environment.call("calculator_calculate", {"expression": "1/0"})
            said = "Failed to call tool 'calculator_calculate': Error executing tool calculate: division by zero"
            assert (json.loads(wrong.text), wrong.is_error) == ({"detail": said}, True)
            (facts,) = environment.facts
            calculator, *_ = json.loads(facts.content)
            assert (calculator["output_schemas"], calculator["is_shared"]) == ({"calculate": {"type": "string"}}, True)
            with pytest.raises(ToolBoundaryError, match=r"memory of the container at .* is gone during die") as caught:
                await environment.call("memory_die", {})
            assert caught.value.kind == "server_gone"
        with pytest.raises(ToolBoundaryError, match=r"memory of .* is gone at the start: ERROR_NOT_ONLINE"):
            async with opened(tmp_path, {"address": address}, needs=("memory",)):
                pass


async def test_an_address_where_nothing_of_the_kind_answers(tmp_path, monkeypatch):
    """Nothing at all, and another server, are told apart; the address is named. The limit ends no question."""
    monkeypatch.setattr("lhaw_record.runners.environments.benchmarks.mcp_atlas.container._LOOK_S", 600.0)
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"http://127.0.0.1:{found.getsockname()[1]}"
    with pytest.raises(SandboxBoundaryError, match=f"{address} was not healthy within 1e-09 s .*refused.*; check that"):
        async with opened(tmp_path, {"address": address, "start_seconds": 1e-9}):
            pass
    with image_registry() as other, pytest.raises(SandboxBoundaryError, match=r"status 404: .*manifest unknown"):
        async with opened(tmp_path, {"address": f"http://{other}", "start_seconds": 1e-9}):
            pass


@pytest.mark.thorough
@pytest.mark.parametrize("is_other", [False, True])
def test_a_world_that_is_not_there_stops_a_run_before_its_first_trial(tmp_path, is_other):
    """Nothing at the address, or another server: the run names it and leaves no store."""
    (tmp_path / "rows.jsonl").write_text('{"task": "t", "prompt": "p", "claims": ["c"], "enabled_tools": ["git_log"]}')
    with ExitStack() as stack:
        if is_other:
            address = stack.enter_context(image_registry())
        else:
            with socket.create_server(("127.0.0.1", 0)) as found:
                address = f"127.0.0.1:{found.getsockname()[1]}"
        container = f'{{ address = "http://{address}", start_seconds = 0.001 }}'
        (tmp_path / "x.toml").write_text(
            f'name = "x"\nconditions = ["full"]\n[benchmark]\nname = "mcp_atlas"\nrows = "rows.jsonl"\n'
            f"container = {container}\n"
            '[[agents]]\nname = "a"\nmodel = "scripted/balanced"\n'
        )
        done = called("run", str(tmp_path / "x.toml"), "--store", str(tmp_path / "s"))
    assert done.returncode == 2
    assert f"the container at http://{address} was not healthy within" in done.stderr
    assert "check that benchmark.container.address is the address of a running container" in done.stderr
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"container": {}, "data": "."}, "'benchmark.data': this key is for installed servers"),
        ({"container": {}, "allow_unconfined": True}, "'benchmark.allow_unconfined': this key is for installed"),
        (
            {"container": {"adress": "x"}},
            "unknown key 'benchmark.container.adress'; did you mean 'address'?; known: image, address",
        ),
        ({"container": {"address": "localhost:1984"}}, "'benchmark.container.address': \"localhost:1984\""),
        ({}, "'benchmark.data' is missing; name the folder for /data, or use a container"),
    ],
)
def test_keys_that_do_not_fit(tmp_path, options, message):
    """The error names the key."""
    (tmp_path / "rows.jsonl").write_text('{"task": "t", "prompt": "p", "claims": ["c"], "enabled_tools": []}')
    with pytest.raises(ExperimentError) as caught:
        open_mcp_atlas({"rows": "rows.jsonl", **options}, tmp_path, GraderSpec())
    assert message in str(caught.value)


def test_rows_that_a_container_cannot_run_say_why(tmp_path, monkeypatch):
    """A server without its key, without the network, or that the image does not have."""
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    rows = [
        {"task": name, "prompt": "p", "claims": ["c"], "enabled_tools": [f"{name}_x"], "required_servers": [name]}
        for name in ("github", "weather", "sqlite", "memory")
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    options = {"rows": "rows.json", "container": {"address": "http://x"}}
    benchmark = open_mcp_atlas(options, tmp_path, GraderSpec())
    assert [task.task_id for task in benchmark.tasks()] == ["memory"]
    assert benchmark.why_not("github") == (
        "server github needs the network; allow_network = true gives it to the container; "
        "server github needs credentials in the environment: set GITHUB_TOKEN"
    )
    assert benchmark.why_not("sqlite") == "server sqlite is not in the container"
    with_network = open_mcp_atlas({**options, "allow_network": True}, tmp_path, GraderSpec())
    assert [task.task_id for task in with_network.tasks()] == ["weather", "memory"]
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_0123456789")
    assert "ghp_0123456789" in benchmark.secrets()
    assert len(catalog().container.servers) == 36
    assert with_network.tasks()[1].environment_digest != benchmark.tasks()[0].environment_digest


@pytest.fixture(scope="session")
def image():
    """The name of an image of the stand-in by how it starts."""
    source = PROGRAM.read_bytes()
    version = hashlib.sha256(source).hexdigest()[:12]

    def make(*how):
        name = f"lhaw-record/mcp-atlas-{'-'.join(how) or 'well'}:{version}"
        make_image(name, {"srv/world.py": source}, ["python3", "/srv/world.py", "1984", *how])
        return name

    return make


def own(image, **options):
    """Return a container table and settings for containers of one trial each."""
    limits = SandboxLimits(command_seconds=options.pop("command_seconds", 60.0))
    return {"image": image, "memory_mb": 256, **options}, EnvironmentSettings(sandbox=make_provider(), limits=limits)


@needs_engine
@pytest.mark.thorough
async def test_trials_at_once_have_a_container_each(tmp_path, image):
    """What one writes, no other reads; a container has its servers and nothing of a network, and leaves nothing."""
    seen = {}

    async def play(name):
        container, settings = own(image())
        async with opened(tmp_path, container, settings) as environment:
            path = "/data/note.txt"
            await environment.call("filesystem_write_file", {"path": path, "content": name})
            routes = await environment.call("filesystem_read_file", {"path": "/proc/net/route"})
            seen[name] = (await environment.call("filesystem_read_file", {"path": path})).text
            assert len(routes.text.splitlines()) == 1
            (facts,) = environment.facts
            assert json.loads(facts.content)[0]["image_id"].startswith("sha256:")

    async with anyio.create_task_group() as group:
        for name in ("one", "two"):
            group.start_soon(play, name)
    assert seen == {"one": "one", "two": "two"}
    assert own_names() == []


@needs_engine
@pytest.mark.thorough
async def test_a_lone_server_keeps_its_name(tmp_path, image, monkeypatch):
    """The published server lists a lone server's tools without its name, so a second one starts beside it."""
    monkeypatch.setenv("BRAVE_API_KEY", "brave-0123456789")
    container, settings = own(image())
    async with opened(tmp_path, container, settings, tools=("git_git_log",), needs=("git",)) as environment:
        assert [tool.name for tool in environment.tools] == ["git_git_log"]
        assert (await environment.call("git_git_log", {})).text == "Commit 1"


@needs_engine
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("how", "error", "kind", "words"),
    [
        ("hangs", SandboxBoundaryError, "service_unhealthy", "not healthy within 8 s"),
        ("ends", ToolBoundaryError, "container_gone", "its last output: no server could be started"),
        ("calculator", ToolBoundaryError, "server_gone", "calculator of a container of .* is gone at the start"),
    ],
)
async def test_a_container_whose_servers_never_answer(tmp_path, image, how, error, kind, words):
    """It is missing data that names the image, and nothing of it is left."""
    container, settings = own(image(how), start_seconds=8 if how == "hangs" else 600)
    with pytest.raises(error, match=words) as caught:
        async with opened(tmp_path, container, settings):
            pass
    assert caught.value.kind == kind
    assert caught.value.is_retry_owed
    assert own_names() == []


@needs_engine
@pytest.mark.thorough
async def test_an_image_for_another_processor_is_named_and_not_tried_again(tmp_path):
    """Its container ends before anything can share its network: the error says why, not that."""
    program = bytearray(TRUE)
    program[18:20] = (0xF7, 0x7F)  # a machine that nobody has
    name = f"lhaw-record/mcp-atlas-foreign:{hashlib.sha256(program).hexdigest()[:12]}"
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        entry = tarfile.TarInfo("bin/python3")
        entry.size, entry.mode = len(program), 0o755
        archive.addfile(entry, io.BytesIO(program))
    assert docker("import", "--change", 'CMD ["/bin/python3"]', "-", name, stdin=made.getvalue()).returncode == 0
    container, settings = own(name)
    with pytest.raises(ToolBoundaryError, match="is not made for this machine's processor; get one that is") as caught:
        async with opened(tmp_path, container, settings):
            pass
    assert (caught.value.kind, caught.value.is_retry_owed) == ("image_unfit", False)
    assert own_names() == []


@needs_engine
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("tool", "seconds", "kind"), [("memory_slow", 2.0, "server_timeout"), ("memory_eat", 60.0, "out_of_memory")]
)
async def test_a_limit_of_the_container_is_missing_data(tmp_path, image, tool, seconds, kind):
    """A call without an answer in time, and memory that runs out, are no fault of the agent."""
    container, settings = own(image(), command_seconds=seconds)
    async with opened(tmp_path, container, settings) as environment:
        with pytest.raises(ToolBoundaryError) as caught:
            await environment.call(tool, {})
    assert caught.value.kind == kind


def test_the_plan_counts_its_memory(tmp_path):
    """A trial needs docker, and the memory of the container and its relay."""
    (tmp_path / "rows.jsonl").write_text('{"task": "t", "prompt": "p", "claims": ["c"], "enabled_tools": []}')
    benchmark = open_mcp_atlas({"rows": "rows.jsonl", "container": {"memory_mb": 1000}}, tmp_path, GraderSpec())
    assert benchmark.needs_sandbox == "docker"
    assert benchmark.memory_mb("t", 7) == 1128
    assert not benchmark.remarks()
    unknown = open_mcp_atlas({"rows": "rows.jsonl", "container": {}}, tmp_path, GraderSpec())
    assert "gets 4096 MB, a guess" in unknown.remarks()[0]
    assert memory_mb(msgspec.structs.replace(benchmark._container, memory_mb=64)) == 192
    shared = {"rows": "rows.jsonl", "container": {"address": "http://x"}}
    assert open_mcp_atlas(shared, tmp_path, GraderSpec()).needs_sandbox is None
