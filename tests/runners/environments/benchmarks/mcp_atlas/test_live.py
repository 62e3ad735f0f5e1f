"""Published rows on real, installed, confined MCP servers: every call in these tests goes to one of them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import anyio
import pytest

from lhaw_record.recorder.events.values import CONDITIONS
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.errors import ToolBoundaryError
from lhaw_record.runners.base.host.scratch import sweep_scratch_folders
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import confined
from lhaw_record.runners.environments.benchmarks.mcp_atlas.preflight import preflight
from lhaw_record.runners.environments.benchmarks.mcp_atlas.server import RunningServer, ServerPlan, running_servers
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import (
    catalog,
    command_of,
    installed_version,
    runtime_roots,
    servers_directory,
)
from lhaw_record.runners.models.protocol import ModelRequest
from lhaw_record.runners.models.replay import MaskedReplayModel
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.preparation import prepare
from lhaw_record.runners.runs.run import run_experiment
from tests.runners.environments.benchmarks.mcp_atlas.conftest import LIVE_TASKS, ROWS_FILES
from tests.runners.environments.benchmarks.mcp_atlas.test_servers_with_faults import is_running


async def play(benchmark, task_id, settings, variant=None):
    """Replay a task; returns the tool results by call, and the grade."""
    (task,) = [task for task in benchmark.tasks() if task.task_id == task_id]
    removed = tuple(segment.value for segment in variant.segments) if variant else ()
    model = MaskedReplayModel("scripted/replay_masked", 0, benchmark.reference(task_id), removed)
    messages = [Message(role="user", content=variant.prompt if variant else task.prompt)]
    results = []
    async with benchmark.open(task, settings) as environment:
        for _ in range(40):
            reply = (await model.respond(ModelRequest(messages=tuple(messages), tools=environment.tools))).message
            messages.append(reply)
            if not reply.tool_calls:
                return results, await environment.grade(reply.content, None)
            (call,) = reply.tool_calls
            result = await environment.call(call.name, json.loads(call.arguments_json))
            results.append((call.name, result))
            messages.append(Message(role="tool", content=result.text, tool_call_id=call.call_id))
    pytest.fail("the model never ended")


@pytest.mark.parametrize("task_id", LIVE_TASKS)
async def test_every_claim_is_fulfilled_by_a_live_replay(core_servers, real_benchmark, settings, task_id):
    """All calls run on the installed servers, each with its server and process, and the answer covers every claim."""
    results, grade = await play(real_benchmark, task_id, settings)
    assert len(results) == len(real_benchmark.reference(task_id).calls)
    assert not [name for name, result in results if result.is_error]
    assert all(result.server and result.server_pid for _, result in results)
    assert (grade.final_score, grade.is_success) == (1.0, True)


@pytest.mark.parametrize("task_id", LIVE_TASKS)
async def test_no_variant_passes_without_its_values(core_servers, real_benchmark, settings, task_id):
    """The masked replay really lacks them: no underspecified prompt leads to a passing answer."""
    for variant in real_benchmark.variants():
        if variant.task_id == task_id:
            _, grade = await play(real_benchmark, task_id, settings, variant)
            assert not grade.is_success, variant.variant_id


async def test_results_that_differ_from_the_reference_are_marked(core_servers, real_benchmark, settings):
    """Four of five calls are byte-identical; the one about host settings differs, and that is no error."""
    results, _ = await play(real_benchmark, "6888e207a34beb25cfedda3b", settings)
    assert [result.is_same_as_reference for _, result in results] == [False, True, True, True, True]
    assert all(len(result.reference_result_sha256) == 64 for _, result in results)


async def test_only_enabled_tools_that_exist_are_offered(core_servers, real_benchmark, settings):
    """Neither a server's other tools nor the row's tools of absent servers are there; an unknown name is a result."""
    (task,) = [task for task in real_benchmark.tasks() if task.task_id == "6896416f7b30e5d8ccd7c8c6"]
    async with real_benchmark.open(task, settings) as environment:
        names = [tool.name for tool in environment.tools]
        assert "filesystem_read_text_file" in names
        assert "filesystem_write_file" not in names
        assert "ddg-search_search" not in names
        assert (await environment.call("filesystem_write_file", {})).is_error
        wrong = await environment.call("filesystem_read_text_file", {"path": "/data/absent.csv"})
        assert wrong.is_error
        assert "absent.csv" in wrong.text


async def test_killing_a_real_server_fails_the_trial_at_tool(core_servers, real_benchmark, settings):
    """The process id of a result is the one to kill; the next call raises at the boundary ``tool``."""
    (task,) = [task for task in real_benchmark.tasks() if task.task_id == "6896416f7b30e5d8ccd7c8c6"]
    async with real_benchmark.open(task, settings) as environment:
        first = await environment.call("filesystem_list_directory", {"path": "/data"})
        os.kill(first.server_pid, signal.SIGKILL)
        with pytest.raises(ToolBoundaryError) as caught:
            await _list_until_it_fails(environment)
    assert caught.value.kind == "server_gone"


async def _list_until_it_fails(environment):
    """Call again and again: the kernel ends the confined server a moment after its parent."""
    for _ in range(100):
        await environment.call("filesystem_list_directory", {"path": "/data"})
        await anyio.sleep(0.02)


async def test_a_server_that_really_prints_noise(core_servers, tmp_path):
    """The published code runner writes plain lines into its protocol stream; calls work all the same."""
    (tmp_path / "data").mkdir()
    async with running_servers([plan("mcp-server-code-runner", tmp_path / "data")]) as (server,):
        answer = await server.call("run-code", {"code": "console.log(6 * 7)", "languageId": "javascript"})
        assert answer.text.strip() == "42"
        assert server.noise_lines > 0


def plan(name, copy):
    """Return the plan of an installed server on a copy of the data."""
    spec, folder = catalog().servers[name], servers_directory()
    process = confined(command_of(spec, folder), spec.variables, copy, runtime_roots(spec, folder), 64)
    return ServerPlan(name=spec.name, process=process)


async def test_preflight_of_the_published_rows(core_servers, real_rows):
    """Three of the 21 tasks run here with what the core installs; every other one has its reason."""
    report = await preflight([real_rows / name for name in ROWS_FILES], real_rows / "data")
    rows = [line for line in report if line["kind"] == "row"]
    assert len(rows) == 21
    runnable = {line["name"]: line for line in rows if line["is_runnable"]}
    assert set(LIVE_TASKS) <= set(runnable)
    assert runnable["6897a6002b64a8c831efa2fb"]["reference"] == "own"
    assert all(line["details"] for line in rows)
    servers = {line["name"]: line for line in report if line["kind"] == "server"}
    assert "says secure-filesystem-server 0.2.0" in servers["filesystem"]["details"]
    assert servers["desktop-commander"]["tools"] == "21"


async def test_the_listed_tools_are_those_that_were_measured(core_servers, real_rows, tmp_path):
    """Every installed server of the catalog lists the tools of the published list, with the same schemas."""
    (tmp_path / "data").mkdir()
    listed = {}
    for path in sorted((real_rows / "tools_list").glob("*.json")):
        answer = json.loads(path.read_text())
        listed[answer["server"].replace("/", "_"), answer["version"]] = answer["tools"]
    compared = 0
    for (name, version), tools in listed.items():
        spec = catalog().servers[name]
        if installed_version(spec, servers_directory()) != version:
            continue
        async with running_servers([plan(name, tmp_path / "data")]) as (server,):
            server.check()
            measured = {tool["name"]: without_descriptions(tool["inputSchema"]) for tool in tools}
            assert {tool.name: without_descriptions(tool.input_schema) for tool in server.tools} == measured, name
        compared += 1
    assert compared >= 5


def without_descriptions(schema):
    """Descriptions hold facts of the host, such as its time zone."""
    if isinstance(schema, dict):
        return {key: without_descriptions(value) for key, value in schema.items() if key != "description"}
    return [without_descriptions(item) for item in schema] if isinstance(schema, list) else schema


def experiment_file(folder, rows, conditions):
    """Write an experiment on one published row, one trial for each cell."""
    file = folder / "one.toml"
    file.write_text(
        f"""
        name = "one"
        conditions = {json.dumps(conditions)}
        trials = 1
        agents = [{{name = "replay", model = "scripted/replay_masked"}}]
        [benchmark]
        name = "mcp_atlas"
        rows = ["{rows}/rows_v1_format.csv"]
        data = "{rows}/data"
        tasks = ["6888e207a34beb25cfedda3b"]
        """
    )
    return file


def recorded(prepared, store):
    """Run an experiment; returns its summary and every event by its class's name."""
    summary = anyio.run(run_experiment, prepared, store, Reporter())
    events = defaultdict(list)
    for envelope in read_envelopes(store):
        events[type(envelope.event).__name__].append(envelope.event)
    return summary, events


def test_a_row_is_recorded_end_to_end(core_servers, real_rows, tmp_path):
    """Every action has its server, and results that differ from the reference are marked in the events."""
    prepared = prepare(experiment_file(tmp_path, real_rows, ["full", "underspecified", "inject_90"]))
    summary, events = recorded(prepared, tmp_path / "store")
    assert (summary.finished, summary.failed) == (5, 0)
    finished = [event for event in events["ActionFinished"] if event.server]
    assert {event.server for event in finished} == {"cli-mcp-server", "calculator"}
    assert {event.is_same_as_reference for event in finished} == {True, False, None}


def test_a_server_killed_in_a_trial_is_a_failed_attempt_at_tool(core_servers, real_rows, tmp_path, monkeypatch):
    """The attempt ends with trial_failed at ``tool``; the next attempt has new servers and finishes."""
    kills = iter([True])
    call = RunningServer.call

    async def call_after_a_kill(server, tool, arguments):
        if next(kills, False):
            os.kill(server.pid, signal.SIGKILL)
        return await call(server, tool, arguments)

    monkeypatch.setattr(RunningServer, "call", call_after_a_kill)
    summary, events = recorded(prepare(experiment_file(tmp_path, real_rows, ["full"])), tmp_path / "store")
    assert summary.finished == 1
    (failed,) = events["TrialFailed"]
    assert (failed.boundary, failed.error_kind, failed.is_retry_owed) == ("tool", "server_gone", True)
    (finished,) = events["TrialFinished"]
    assert finished.is_success


def test_the_bundled_experiment_plans_every_condition(core_servers, real_rows, monkeypatch):
    """Three live tasks with their variants, under all nine conditions, three trials each."""
    monkeypatch.setenv("LHAW_RECORD_MCP_ATLAS", str(real_rows))
    plan = prepare(Path(__file__).parents[5] / "experiments" / "mcp-atlas-real.toml").plan
    assert {trial.task.task_id for trial in plan.trials} == set(LIVE_TASKS)
    of_variants = {name for name in CONDITIONS if not name.startswith(("control", "faulty"))}
    assert {trial.condition for trial in plan.trials} == of_variants
    assert {trial.trial_index for trial in plan.trials} == {0, 1, 2}


def test_servers_die_with_a_killed_process(core_servers, real_rows):
    """SIGKILL to the program leaves no server behind, and the next run removes what it left."""
    program = f"""
import anyio
from pathlib import Path
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import private_copy
from tests.runners.environments.benchmarks.mcp_atlas.test_live import plan, running_servers

async def main():
    async with private_copy(Path({str(real_rows / "data")!r})) as copy:
        async with running_servers([plan("calculator", copy)]) as (server,):
            print(server.pid, copy, flush=True)
            await anyio.sleep_forever()

anyio.run(main)
"""
    checkout = Path(__file__).parents[5]
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=checkout) as process:
        pid, copy = process.stdout.readline().split(maxsplit=1)
        assert Path(copy.strip()).is_dir()
        process.kill()
    for _ in range(500):
        if not is_running(pid):
            break
        time.sleep(0.01)
    assert not is_running(pid)
    sweep_scratch_folders(now_s=time.time() + 3600)
    assert not Path(copy.strip()).exists()
