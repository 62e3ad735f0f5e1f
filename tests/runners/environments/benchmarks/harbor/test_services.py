"""Tasks with services beside the agent's container, on a real engine."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.harbor import open_harbor
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.sandboxes.docker.containers import reap
from lhaw_record.runners.environments.sandboxes.docker.engine import connected
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.environments.benchmarks.harbor.folders import CONFIG, write_task
from tests.runners.environments.sandboxes.docker_fixtures import engine, make_provider, needs_engine, own_names  # noqa: F401
from tests.support.docker import BASE_IMAGE, docker

pytestmark = [needs_engine, pytest.mark.thorough]
# Like a published task: a built service with a health check that fails at first, data of the dataset, a shared volume.
COMPOSE = """
services:
  main:
    depends_on:
      shop: {condition: service_healthy}
      job: {condition: service_completed_successfully}
    environment:
      - COLOUR=main
      - SIZE=big
    volumes:
      - ${CONTEXT_DIR:-.}/../../shared/data:/data:ro
      - left:/left
  shop:
    build: {context: ./shop, args: {WORD: built}}
    volumes:
      - ../../shared/data:/data:ro
      - left:/left
    environment:
      COLOUR: ${COLOUR}
      OTHER: ${NONE:-default}
    expose: ["8000"]
    healthcheck:
      test: ["CMD", "test", "-e", "/tmp/up"]
      interval: 200ms
      retries: 600
  job:
    image: ${MAIN_IMAGE_NAME}
    command: sh -c 'sleep 1; echo filled > /left/job'
    volumes: ["left:/left"]
volumes:
  left:
"""
SHOP = f"""FROM {BASE_IMAGE}
ARG WORD
RUN echo $WORD > /word
CMD cat /data/price > /left/price; echo "$COLOUR $OTHER" > /left/variables; cp /word /left; \\
  (sleep 1; touch /tmp/up) & cd /left && exec python3 -m http.server 8000
"""
ENVIRONMENT = f'{CONFIG}[environment.env]\nCOLOUR = "toml"\n'
GET = "python3 -c \"import urllib.request as u; print(u.urlopen('http://shop:8000/%s').read().decode(), end=str())\""
TEST = f"{GET % 'price'} | grep -qx 7; echo $(( $? == 0 )) > /logs/verifier/reward.txt\n"


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Return how to open a task with services; parts of its folder may be other ones."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tasks" / "shared" / "data").mkdir(parents=True)
    (tmp_path / "tasks" / "shared" / "data" / "price").write_text("7\n")

    def open_task(options=None, **parts):
        given = {"config": ENVIRONMENT, "test": TEST, "environment__docker-compose.yaml": COMPOSE, **parts}
        write_task(tmp_path / "tasks" / "hello", environment__shop__Dockerfile=SHOP, **given)
        chosen = {"folder": "tasks", "network": "none", "build_network": "none", "gate": False, **(options or {})}
        benchmark = open_harbor(chosen, tmp_path, GraderSpec())
        limits = SandboxLimits(memory_mb=256, command_seconds=30.0, output_bytes=2000)
        return benchmark, benchmark.tasks()[0], EnvironmentSettings(sandbox=make_provider(), limits=limits)

    return open_task


async def bash(environment, command):
    """Run a command as the agent and return its output."""
    return (await environment.call("bash", {"command": command})).text


def left_here():
    """Return what this process left on the engine: containers, networks and volumes."""
    mine = f"label=lhaw-record.pid={os.getpid()}"
    networks, volumes = (docker(what, "ls", "--quiet", "--filter", mine).stdout for what in ("network", "volume"))
    return own_names(), networks, volumes


async def test_an_agent_meets_the_services_of_its_task(opened):
    """By name, once they are healthy, with their variables, data and volumes; all is gone at the end."""
    benchmark, task, settings = opened()
    assert benchmark.memory_mb("hello", 256) == 3 * 256
    async with benchmark.open(task, settings) as environment:
        assert await bash(environment, GET % "price") == "7\n"
        assert await bash(environment, "cat /left/job /left/variables /left/word") == "filled\ntoml default\nbuilt\n"
        assert await bash(environment, "cat /data/price; echo $COLOUR $SIZE") == "7\ntoml big\n"
        assert "Read-only file system" in await bash(environment, "echo 8 > /data/price")
        await bash(environment, "echo mine > /left/mine")
        assert await bash(environment, GET % "mine") == "mine\n"
        images = json.loads(environment.facts[0].content)["services"]
        assert set(images) == {"shop", "job"}
        grade = await environment.grade("", None)
    assert grade.is_success
    assert left_here() == ([], "", "")


async def test_a_network_that_leads_outside_is_that_of_all(opened):
    """With a network of the engine, services and agent are in it as well as in their own."""
    docker("network", "create", "lhaw-record-outside")
    try:
        benchmark, task, settings = opened(
            {"network": "lhaw-record-outside"}, config=ENVIRONMENT.replace("no-network", "public")
        )
        async with benchmark.open(task, settings) as environment:
            inside = docker("network", "inspect", "lhaw-record-outside", "--format", "{{len .Containers}}").stdout
            assert inside.strip() == "2"  # the job has ended
            assert await bash(environment, GET % "price") == "7\n"
            assert "default" in await bash(environment, "cut -f 2 /proc/net/route | grep -q ^00000000 && echo default")
    finally:
        docker("network", "rm", "lhaw-record-outside")


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (("/tmp/up", "/tmp/never"), "service_unhealthy", "shop did not become healthy"),
        (("retries: 600", "retries: 600\n    command: sh -c 'echo no money; exit 3'"), "service_died", "no money"),
    ],
    ids=["unhealthy", "ended"],
)
async def test_a_service_that_does_not_come_is_missing_data(opened, change, kind, words):
    """The trial fails at its sandbox, with the service's name and its last words; nothing is left."""
    compose = COMPOSE.replace(*change).replace("retries: 600", "retries: 3")
    benchmark, task, settings = opened(**{"environment__docker-compose.yaml": compose})
    with pytest.raises(SandboxBoundaryError, match=words) as raised:
        async with benchmark.open(task, settings):
            raise AssertionError("it opened")
    assert raised.value.kind == kind
    assert left_here() == ([], "", "")


async def test_a_job_that_does_not_end_is_missing_data(opened):
    """Within the time that the task gives to its image."""
    compose = f"""
services:
  main:
    depends_on: {{job: {{condition: service_completed_successfully}}}}
  job:
    image: {BASE_IMAGE}
    command: sleep 6000
"""
    config = CONFIG.replace("[environment]", "[environment]\nbuild_timeout_sec = 1.5")
    benchmark, task, settings = opened(config=config, **{"environment__docker-compose.yaml": compose})
    with pytest.raises(SandboxBoundaryError, match=r"the service job has not ended within 1\.5 s") as raised:
        async with benchmark.open(task, settings):
            raise AssertionError("it opened")
    assert raised.value.kind == "service_unprepared"
    assert left_here() == ([], "", "")


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("kill {}", "service_died"),
        ("restart --time 0 {}", "service_died"),
        ("exec {} tail /dev/zero", "service_out_of_memory"),
        ("exec {} rm /tmp/up", "service_unhealthy"),
    ],
)
async def test_a_service_that_breaks_during_a_trial_is_missing_data(opened, command, kind):
    """Whatever the tests say: here they pass without it."""
    compose = COMPOSE.replace("retries: 600", "start_interval: 200ms\n      start_period: 600s\n      retries: 3")
    test = "echo 1 > /logs/verifier/reward.txt\n"
    benchmark, task, settings = opened(test=test, **{"environment__docker-compose.yaml": compose})
    async with benchmark.open(task, settings) as environment:
        (shop,) = [name for name in own_names() if "http.server" in docker("top", name).stdout]
        docker(*command.format(shop).split())
        if kind == "service_unhealthy":
            await_failed_check(shop)
        with pytest.raises(SandboxBoundaryError, match="shop, a container of the task") as raised:
            await environment.grade("", None)
    assert raised.value.kind == kind


def await_failed_check(container):
    """Wait for the first failed health check of a container."""
    while docker("inspect", "--format", "{{.State.Health.FailingStreak}}", container).stdout.strip() == "0":
        time.sleep(0.1)


async def test_an_image_that_must_not_be_pulled_is_named(opened):
    """With the next step, before anything runs."""
    compose = COMPOSE.replace(
        "build: {context: ./shop, args: {WORD: built}}", "image: none/such:1\n    pull_policy: never"
    )
    benchmark, task, settings = opened(**{"environment__docker-compose.yaml": compose})
    with pytest.raises(SandboxBoundaryError, match=r"no image none/such:1, and .* docker load") as raised:
        async with benchmark.open(task, settings):
            raise AssertionError("it opened")
    assert (raised.value.kind, raised.value.is_retry_owed) == ("image_missing", False)


async def test_the_gate_runs_the_solution_beside_services(opened):
    """A pass is remembered, and not for other data."""
    benchmark, task, settings = opened({"gate": True}, solution="cat /data/price\n")
    for _ in range(2):
        async with benchmark.open(task, settings):
            pass
    oracle = await benchmark.oracle("hello", settings)
    price = task_data(benchmark)
    price.write_text("8\n")
    other, changed, _ = opened({"gate": True})
    assert changed.task_digest != task.task_digest
    assert (await other.oracle("hello", settings)).key != oracle.key
    with pytest.raises(SandboxBoundaryError, match="does not pass here"):
        async with other.open(changed, settings):
            raise AssertionError("it opened")


def task_data(benchmark):
    """Return the file beside the task that its services read."""
    (folder,) = {each.folder for each in benchmark._folders.values()}
    return folder.parent / "shared" / "data" / "price"


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from lhaw_record.runners.environments.benchmarks.harbor import open_harbor
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.experiment.tables import GraderSpec
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from tests.runners.environments.sandboxes.docker_fixtures import make_provider

async def main():
    options = {"folder": "tasks", "network": "none", "build_network": "none", "gate": False}
    benchmark = open_harbor(options, Path(sys.argv[1]), GraderSpec())
    settings = EnvironmentSettings(sandbox=make_provider(), limits=SandboxLimits(memory_mb=256))
    async with benchmark.open(benchmark.tasks()[0], settings):
        print("open", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_killed_run_leaves_nothing_to_the_next(opened, tmp_path):
    """After kill -9 the warden or the next start removes containers, networks and volumes."""
    opened()
    run = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", _KILLED, tmp_path], stdout=subprocess.PIPE, text=True
    )
    mine = f"label=lhaw-record.pid={run.pid}"
    try:
        assert run.stdout.readline() == "open\n"
        assert len(docker("ps", "--quiet", "--filter", mine).stdout.split()) == 2
        assert len(docker("volume", "ls", "--quiet", "--filter", mine).stdout.split()) == 1
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
        run.stdout.close()
    async with connected() as client:
        await reap(client)
    for what in (["ps", "--all"], ["network", "ls"], ["volume", "ls"]):
        assert docker(*what, "--quiet", "--filter", mine).stdout == ""


# A server of MCP as small as one can be, of the standard library: real ones are in tests/runners/ask_user.
_SERVER = """
import json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
TOOL = {"description": "Double a number.", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}

def answer(method, params):
    if method == "initialize":
        info = {"name": "sums", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": name, **TOOL} for name in ("double", "bash", "wait")]}
    if params["name"] == "wait":
        time.sleep(600)
    return {"content": [{"type": "text", "text": str(2 * params["arguments"]["n"])}]}

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = {"jsonrpc": "2.0", "id": asked.get("id")}
        try:
            said["result"] = answer(asked["method"], asked.get("params"))
        except KeyError as error:
            said["error"] = {"code": -32602, "message": f"no {error}"}
        body = json.dumps(said).encode() if "id" in asked else b""
        self.send_response(200 if body else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""
_SERVERS = f"""{CONFIG}[[environment.mcp_servers]]
name = "my-sums"
transport = "streamable-http"
url = "http://sums:8000/mcp"
"""
_SUMS = f"""
services:
  sums:
    image: {BASE_IMAGE}
    command: [python3, /sums/server.py]
    volumes: ["./sums:/sums:ro"]
    healthcheck:
      test: [CMD, python3, -c, "import socket; socket.create_connection(('localhost', 8000))"]
      interval: 200ms
      retries: 600
"""


async def test_tools_of_a_tasks_mcp_servers_are_the_agents(opened):
    """Under their own names where these are free; errors and silence are results, and a dead server is missing data."""
    parts = {"config": _SERVERS, "environment__docker-compose.yaml": _SUMS, "environment__sums__server.py": _SERVER}
    benchmark, task, settings = opened(**parts)
    assert benchmark.tools_over_mcp == "some"
    assert benchmark.memory_mb("hello", 256) == 2 * 256 + 64
    limits = SandboxLimits(memory_mb=256, command_seconds=3.0)
    settings = EnvironmentSettings(sandbox=settings.sandbox, limits=limits)
    async with benchmark.open(task, settings) as environment:
        names = ["double", "my-sums_bash", "wait"]
        assert [tool.name for tool in environment.program_tools] == names
        assert [tool.name for tool in environment.tools] == ["bash", "read_file", "write_file", *names]
        assert (await environment.call("double", {"n": 21})).text == "42"
        assert (await environment.call("my-sums_bash", {"n": 4})).text == "8"
        refused = await environment.call("double", {})
        assert (refused.is_error, refused.text) == (True, "no 'n'")
        late = await environment.call("wait", {"n": 1})
        assert (late.limit_met, late.text) == ("command_seconds", "[my-sums gave no answer within 3 s]")
        assert (await environment.call("double", {"n": 1})).text == "2"
        (sums,) = [name for name in own_names() if "server.py" in docker("top", name).stdout]
        docker("kill", sums)
        assert (await environment.call("double", {"n": 1})).is_error
        with pytest.raises(SandboxBoundaryError, match="sums, a container of the task, ended"):
            await environment.grade("", None)
    assert left_here() == ([], "", "")
