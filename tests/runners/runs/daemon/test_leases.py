"""Leased trials over HTTP, by clients that share no code with us: urllib, the openai SDK and a small program."""

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import anyio
import openai
import pytest
from starlette.applications import Starlette

from lhaw_record.recorder.events import (
    ActionStarted,
    CheckpointScored,
    ClarificationInjected,
    QuestionAnswered,
    QuestionAsked,
    TrialFailed,
    TrialFinished,
    TrialStarted,
)
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.agents.programs.leases import Closing, Lease, LeasedTrial, Leases, Offer
from lhaw_record.runners.agents.programs.workspace import WorkspaceError, replace
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.errors import LeaseReturned, RunnerError, SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.protocol import CommandResult
from lhaw_record.runners.runs.daemon.attaching import opened
from lhaw_record.runners.runs.daemon.client import Client, read_address
from lhaw_record.runners.runs.daemon.messages import DaemonRefusal, LeaseReply, LeaseRequest
from tests.cli.experiments import ALL_KINDS, PLAIN_PROCESS, write_experiment
from tests.cli.program import PROGRAM, called, count_events, end, environment, lhaw_record, query, verify, wait_until
from tests.runners.runs.daemon.running import PATIENCE_S, daemon_at, submission
from tests.support.tiny_agent import TOOLS, Hands, tool

TINY = Path(__file__).parents[3] / "support" / "tiny_agent.py"
LEASED = {"name": "mine", "model": "scripted/balanced", "program": "leased"}
CALL = (
    "import os, shutil, sys, urllib.request as u\n"
    "r = u.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', "
    'b\'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}\', '
    "{'content-type': 'application/json', 'authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']})\n"
    "u.urlopen(r)\n"
)
TRIAL = LeasedTrial(experiment="e", agent="a", trial_id="t", attempt=1)
OFFER = Offer(prompt="Do it.", model="m", key="k", token="t", has_tools=False)


class Nowhere:
    """A sandbox of which only the work directory is asked for."""

    def __init__(self, work_dir):
        self.work_dir = work_dir


class Here:
    """A sandbox without walls: a folder, and a shell with its own ``mv`` of which one call fails after its work."""

    def __init__(self, folder, failing_call):
        self.work_dir, self._path = str(folder / "work"), folder / "bin"
        self._path.mkdir()
        mv = self._path / "mv"
        mv.write_text(
            f'#!/bin/sh\necho >> {folder}/calls\n{shutil.which("mv")} "$@"\n'
            f"test $(wc -l < {folder}/calls) -ne {failing_call}\n"
        )
        mv.chmod(0o755)

    async def run_bash(self, script):
        """Run a script, as somebody whose umask takes rights away."""
        env = {"PATH": f"{self._path}:{os.environ['PATH']}"}
        done = await anyio.run_process(["bash", "-c", f"umask 077; {script}"], env=env, check=False)
        return CommandResult(output=(done.stdout + done.stderr).decode(), exit_code=done.returncode)

    async def write_file(self, path, content):
        """Write a file, with its folder."""
        await anyio.Path(path).parent.mkdir(parents=True, exist_ok=True)
        await anyio.Path(path).write_bytes(content)


class Api:
    """A daemon, as urllib sees it."""

    def __init__(self, store):
        self.url = read_address(store).url

    def post(self, path, **body):
        """Send JSON; the status and what came back."""
        return asked(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def take(self, **wanted):
        """Take the next trial, once there is one."""
        found = []

        def is_taken():
            found[:] = self.post("/api/leases", **wanted)
            assert found[0] == 200 or found[1]["error"]["kind"] == "nothing_now", found
            return found[0] == 200

        wait_until(is_taken, "a trial was leased")
        return found[1]

    def state(self, lease):
        """How a lease stands, without a word about its end."""
        return self.post(f"/api/leases/{lease['lease_id']}")[1]


def asked(url, data=None, headers=None, method=None):
    """One request; its status and its JSON, or its bytes."""
    request = urllib.request.Request(url, data, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=600) as reply:
            content = reply.read()
            return reply.status, json.loads(content) if "json" in reply.headers.get("content-type", "") else content
    except urllib.error.HTTPError as error:
        content = error.read()
        return error.code, json.loads(content) if content.startswith(b"{") else content


def files(lease, data=None, token=None):
    """Fetch the files of a trial, or send them."""
    headers = {"Authorization": f"Bearer {token or lease['token']}", "Content-Type": "application/gzip"}
    return asked(lease["workspace_url"], data, headers, "GET" if data is None else "PUT")


def unpacked(lease, folder):
    """Fetch the files into a folder."""
    status, content = files(lease)
    assert status == 200, content
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Debian's Python 3.11.2 has none
        archive.extractall(folder, **safely)


def packed(folder):
    """The files of a folder, as an archive."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        archive.add(folder, arcname=".")
    return content.getvalue()


def said(lease, *messages):
    """One call of the model."""
    body = {"model": "m", "messages": [{"role": "user", "content": lease["prompt"]}, *messages]}
    body["tools"] = [{"type": "function", "function": tool(name, fields)} for name, fields in TOOLS.items()]
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {lease['token']}"}
    return asked(f"{lease['gateway_url']}/v1/chat/completions", json.dumps(body).encode(), headers)


def work(lease, folder):
    """Be the agent of a lease: the tiny agent, in a folder of this machine, then its files go back."""
    folder.mkdir()
    unpacked(lease, folder)
    command = [sys.executable, str(TINY), "--wire", "chat", "--base-url", lease["gateway_url"]]
    command += ["--token", lease["token"]]
    if lease.get("mcp_url"):
        config = folder.parent / f"{folder.name}.json"
        headers = {"Authorization": f"Bearer {lease['token']}"}
        config.write_text(json.dumps({"mcpServers": {"user": {"url": lease["mcp_url"], "headers": headers}}}))
        command += ["--mcp-config", str(config)]
    done = subprocess.run(
        command, cwd=folder, input=lease["prompt"], text=True, capture_output=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert files(lease, packed(folder)) == (204, b"")
    return done.stdout.strip()


def finish(api, lease, folder):
    """Be the agent, and close; the result."""
    answer = work(lease, folder)
    status, result = api.post(f"/api/leases/{lease['lease_id']}/close", answer=answer)
    assert (status, result["state"]) == (200, "graded"), result
    return result


def submitted(folder, store, **changes):
    """Submit a small experiment with a leased agent."""
    settings = {"agents": [LEASED], "conditions": ["full"], "sandbox": PLAIN_PROCESS, **changes}
    path = write_experiment(folder / "leased.toml", **settings)
    done = called("submit", path, "--store", store)
    assert done.returncode == 0, done.stderr
    return Api(store)


def trials(store):
    """The events of each attempt."""
    streams = {}
    for envelope in read_envelopes(store):
        streams.setdefault(envelope.stream_id, []).append(envelope.event)
    return [events for events in streams.values() if isinstance(events[0], TrialStarted)]


def facts(events):
    """What is compared of a trial: its actions, questions, injection, grades and end."""

    def of(kind, *names):
        return [tuple(getattr(event, name) for name in names) for event in events if isinstance(event, kind)]

    return {
        "actions": of(ActionStarted, "action_index", "name"),
        "asked": of(QuestionAsked, "question", "action_index"),
        "answered": of(QuestionAnswered, "answer"),
        "injected": of(ClarificationInjected, "status", "after_action", "target_action", "message"),
        "scores": of(CheckpointScored, "checkpoint_id", "score"),
        "end": of(TrialFinished, "ended_by", "is_success", "final_answer", "action_count"),
    }


async def test_a_lease_ends_once_and_by_the_first_word():
    """Closed, released or silent: what came first decides, what comes later changes nothing."""

    async def ended(act, idle_s=600.0):
        lease = Lease("x", idle_s, TRIAL)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(act, lease)
            return await lease.held(OFFER, Nowhere("/work"), TrialClock())

    async def close_twice(lease):
        await lease.settled.wait()
        lease.close(Closing(exit_code=3))
        lease.close(Closing(exit_code=4))
        lease.release()

    async def release(lease):
        await lease.settled.wait()
        lease.release()
        lease.close(Closing())

    async def nothing(lease):
        await lease.settled.wait()

    assert await ended(close_twice) == Closing(exit_code=3)
    for act, idle_s, kind in ((release, 600.0, "lease_released"), (nothing, 0.01, "lease_expired")):
        with pytest.raises(ExceptionGroup) as caught:
            await ended(act, idle_s)
        (error,) = caught.value.exceptions
        assert isinstance(error, LeaseReturned)
        assert error.kind == kind


@pytest.mark.thorough
async def test_a_transfer_takes_none_of_the_agents_time():
    """An upload of ten seconds in a trial of eight: the answer that follows is in time."""
    now, clock, lease, leases = (
        [0.0],
        TrialClock(8.0, now_s=lambda: now[0]),
        Lease("x", 600.0, TRIAL),
        Leases("http://x"),
    )

    async def slow(*_):
        now[0] += 10.0

    async def agent():
        await lease.settled.wait()
        with leases.reachable(lease, "k"):
            await leases.watched(slow)({"path": "/t/k/workspace", "method": "PUT"}, None, None)
        lease.close(Closing(answer="42"))
        return "in time"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lease.held, OFFER, Nowhere("/work"), clock)
        assert await clock.bound(agent) == "in time"
    assert (clock.charged_s, clock.waited_s) == (0.0, 10.0)


@pytest.mark.thorough
async def test_a_client_that_is_gone_holds_no_clock(monkeypatch):
    """A transfer that waits for its client ends, so that the lease can expire and the agent's time goes on."""
    monkeypatch.setattr("lhaw_record.runners.agents.programs.leases.STALL_S", 0.01)
    clock, lease, leases, replies = TrialClock(8.0), Lease("x", 600.0, TRIAL), Leases("http://x"), []

    async def send(message):
        replies.append(message)

    async def download():
        return b"files"

    lease.download = download

    async def stalled():
        await lease.settled.wait()
        with leases.reachable(lease, "k"):
            app = leases.watched(Starlette(routes=leases.routes))
            headers = [(b"authorization", b"Bearer t")]
            path = "/t/k/workspace"
            for method, tell in (("PUT", send), ("GET", lambda _: anyio.sleep_forever())):
                scope = {"type": "http", "path": path, "method": method, "headers": headers, "query_string": b""}
                await app(scope, anyio.sleep_forever, tell)
        lease.close(Closing())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lease.held, OFFER, Nowhere("/work"), clock)
        tasks.start_soon(stalled)
    assert replies[0]["status"] == 408
    assert lease.state == "grading"


@pytest.mark.thorough
async def test_a_lease_whose_trial_is_being_opened_says_where_to_ask(tmp_path, monkeypatch):
    """Nobody waits for an image: 202, and an address that gives the rest later. It can be given back before."""
    monkeypatch.setattr("lhaw_record.runners.runs.daemon.leasing.OPENING_WAIT_S", 0.0)
    async with daemon_at(tmp_path / "store") as (_, client):
        settings = {"agents": [LEASED], "conditions": ["full"], "sandbox": PLAIN_PROCESS}
        assert (await client.post("/api/experiments", json=submission(tmp_path, **settings))).status_code == 200

        async def taken():
            while True:
                reply = await client.post("/api/leases", json={})
                if reply.status_code != 503:
                    return reply
                await anyio.sleep(0.02)

        with anyio.fail_after(PATIENCE_S):
            first = await taken()
            lease = first.json()
            address = f"/api/leases/{lease['lease_id']}"
            assert (first.status_code, first.headers["location"], lease["state"]) == (202, address, "opening")
            assert lease["prompt"] is None
            assert (await client.post(f"{address}/close", json={})).status_code == 409
            released = (await client.post(f"{address}/release", json={})).json()
            assert released["state"] == "returned"
            assert (await client.post(f"{address}/close", json={})).status_code == 409

            again = (await taken()).json()
            assert (again["trial_id"], again["attempt"]) == (lease["trial_id"], 2)
            while (reply := await client.post(f"/api/leases/{again['lease_id']}", json={})).status_code == 202:
                await anyio.lowlevel.checkpoint()
            assert (reply.json()["state"], reply.json()["prompt"] is None) == ("open", False)
    assert [each[-1].error_kind for each in trials(tmp_path / "store")][:1] == ["lease_released"]


@pytest.mark.thorough
@pytest.mark.parametrize(("last", "is_open"), [("open", True), ("failed", False)])
def test_attach_waits_for_an_image_and_says_so_now_and_then(monkeypatch, last, is_open):
    """Until the trial is open, or cannot be: then with the reason."""
    monkeypatch.setattr("lhaw_record.runners.runs.daemon.attaching.time.sleep", lambda _: None)
    trial = {"experiment": "e", "agent": "a", "trial_id": "t", "attempt": 1, "idle_s": 600.0}
    states = [LeaseReply(lease_id="x", state="opening", message=f"being opened, {n}", **trial) for n in range(40)]
    states.append(LeaseReply(lease_id="x", state=last, message="no space", **trial))
    said = []

    class Asked:
        """A client that is told one state after another."""

        def beat(self, lease_id):
            """Tell the next."""
            assert lease_id == "x"
            return states.pop(0)

    if is_open:
        assert opened(Asked(), states.pop(0), said.append).state == "open"
    else:
        with pytest.raises(RunnerError, match="cannot be opened: no space"):
            opened(Asked(), states.pop(0), said.append)
    assert said == ["being opened, 0", "being opened, 15", "being opened, 30"]


@pytest.mark.thorough
async def test_a_container_without_a_work_directory_is_not_leased():
    """Its files would be the whole container, which an upload would replace."""
    for root in ("/", "//", "/.", "/app/.."):
        lease = Lease("x", 600.0, TRIAL)
        with pytest.raises(SandboxBoundaryError, match="WORKDIR") as caught:
            await lease.held(OFFER, Nowhere(root), TrialClock())
        assert (lease.offer, caught.value.is_retry_owed) == (None, False)


@pytest.mark.thorough
@pytest.mark.parametrize("failing_call", [0, 1, 2])
async def test_an_upload_that_fails_in_the_middle_leaves_the_files_as_they_were(tmp_path, failing_call):
    """Whichever move fails, the old files are there, with their modes; if none does, the new ones."""
    for name, files_of in {"work": ["kept", ".hidden", "both"], "new": ["both", "fresh"]}.items():
        (tmp_path / name / "sub").mkdir(parents=True)
        for each in files_of:
            (tmp_path / name / "sub" / each).write_text(name)
            (tmp_path / name / each).write_text(name)
            (tmp_path / name / each).chmod(0o666)
    work, new = tmp_path / "work", tmp_path / "new"

    def state(folder):
        return {
            str(path.relative_to(folder)): (path.stat().st_mode, path.is_file() and path.read_text())
            for path in folder.rglob("*")
        }

    before = state(work)
    if failing_call == 0:
        await replace(Here(tmp_path, failing_call), packed(new))
        assert state(work) == state(new)
        return
    with pytest.raises(WorkspaceError):
        await replace(Here(tmp_path, failing_call), packed(new))
    assert state(work) == before


@pytest.mark.slow
@pytest.mark.thorough
def test_a_trial_that_was_begun_cannot_be_given_back_for_ever(tmp_path, serving):
    """A release after a reply of the model is an attempt."""
    store = tmp_path / "store"
    _, client = serving(store)
    api = submitted(tmp_path, store, more="\n[retry]\nmax_attempts = 2\n")
    for _ in range(2):
        lease = api.take()
        assert said(lease)[0] == 200
        reply = api.post(f"/api/leases/{lease['lease_id']}/release")[1]
        assert (reply["state"], "counts as an attempt" in reply["message"]) == ("returned", True)
    wait_until(lambda: client.status("small").overview.state == "failed", "the trial was given up")
    assert api.post("/api/leases")[1]["error"]["kind"] == "nothing_left"
    assert [each[-1].error_kind for each in trials(store)] == [LeaseReturned.COUNTED] * 2


@pytest.mark.slow
@pytest.mark.thorough
def test_a_command_of_attach_can_neither_give_its_trial_back_nor_call_past_the_gateway(tmp_path, serving):
    """Exit code 130, and a folder that cannot be sent, are graded as given up; keys of providers are taken away."""
    store = tmp_path / "store"
    serving(store)
    submitted(tmp_path, store, trials=2)
    program = tmp_path / "program.py"
    check = (
        "names = {n for n in os.environ if n.startswith('MY_')}\n"
        "assert names == {'MY_KEPT_API_KEY', 'MY_NAME'}, names\n"
    )
    given = {"MY_API_KEY": "k", "MY_AUTH_TOKEN": "k", "MY_API_BASE": "u", "MY_BASE_URL": "u"}
    given |= {"MY_KEPT_API_KEY": "k", "MY_NAME": "n"}
    for ending in ("sys.exit(130)\n", "shutil.rmtree(os.getcwd())\n"):
        program.write_text(CALL + check + ending)
        done = subprocess.run(
            [PROGRAM, "attach", "--store", store, "--env", "MY_KEPT_API_KEY", "--", sys.executable, program],
            env={**environment(), **given},
            text=True,
            capture_output=True,
            timeout=600,
            check=False,
        )
        assert (done.returncode, "graded: gave_up, no success" in done.stderr) == (0, True), done.stderr
        assert "MY_API_BASE, MY_API_KEY, MY_AUTH_TOKEN, MY_BASE_URL, which" in done.stderr
    assert "cannot be packed" in done.stderr
    assert count_events(store, "trial_failed") == 0


@pytest.mark.slow
@pytest.mark.thorough
def test_leased_trials_are_those_of_the_same_program_in_the_sandbox(tmp_path, serving):
    """Paired conditions, MCP and an injection at 50 %: the same actions, questions, injection, answer and grades."""
    program = tmp_path / "tiny.toml"
    program.write_text(
        f'command = ["python3", "{TINY}", "--wire", "chat", "--base-url", "{{base_url}}", "--token", "{{token}}", '
        f'"--mcp-config", "{{mcp_config}}"]\nmounts = ["{TINY}"]\nwire = "chat"\nanswer = "stdout"\nasks_by = "mcp"\n'
    )
    agents = [{**LEASED, "program": str(program)}]
    there = write_experiment(tmp_path / "there.toml", agents=agents, conditions=ALL_KINDS, sandbox=PLAIN_PROCESS)
    done = called("run", there, "--store", tmp_path / "there")
    assert done.returncode == 0, done.stderr

    store = tmp_path / "store"
    process, _ = serving(store)
    api = submitted(tmp_path, store, conditions=ALL_KINDS)
    results = [finish(api, api.take(agent="mine"), tmp_path / f"work-{number}") for number in range(4)]
    assert api.post("/api/leases")[1]["error"]["kind"] == "nothing_left"
    process.send_signal(signal.SIGTERM)
    assert end(process).returncode == 0

    expected, found = ({each[0].condition: facts(each) for each in trials(at)} for at in (tmp_path / "there", store))
    assert set(found) == set(ALL_KINDS)
    for condition in ALL_KINDS:
        assert found[condition] == expected[condition], condition
    assert found["ask_user"]["asked"]
    assert [status for status, *_ in found["inject_50"]["injected"]] == ["injected"]
    assert {each[0].sandbox for each in trials(store)} == {"leased"}
    scored = sorted(sum(score for _, score in each["scores"]) for each in expected.values())
    assert sorted(result["score"] for result in results) == scored
    verify(store)


@pytest.mark.slow
@pytest.mark.thorough
def test_killed_in_the_middle_the_trial_is_owed_again_and_its_cost_is_kept(tmp_path, serving):
    """After SIGKILL the old lease is unknown, its calls stay paid, and the next is another attempt."""
    store = tmp_path / "store"
    process, _ = serving(store)
    api = submitted(tmp_path, store)
    first = api.take()
    assert said(first)[0] == 200
    process.kill()
    end(process)
    process, client = serving(store)
    api = Api(store)
    refusal = api.post(f"/api/leases/{first['lease_id']}/close")
    assert (refusal[0], refusal[1]["error"]["kind"]) == (404, "unknown")
    second = api.take()
    assert (second["trial_id"], second["attempt"]) == (first["trial_id"], 2)
    assert client.status("small").overview.unpriced == 1
    assert finish(api, second, tmp_path / "work")["is_success"]
    wait_until(lambda: client.status("small").overview.state == "finished", "it is finished")
    process.send_signal(signal.SIGTERM)
    assert end(process).returncode == 0
    lost = next(each for each in trials(store) if isinstance(each[-1], TrialFailed))
    assert (lost[-1].boundary, lost[-1].is_retry_owed) == ("recorder", True)
    ((calls, cost_usd),) = query(store, "select count(*), sum(cost_usd) from model_calls where attempt = 1")
    assert calls == 1
    assert cost_usd > 0
    verify(store)


@pytest.mark.slow
@pytest.mark.thorough
def test_silent_released_and_unused_leases_are_owed_however_often(tmp_path, serving):
    """None of them counts as an attempt that failed; a close that comes too late says so."""
    store = tmp_path / "store"
    process, client = serving(store)
    api = submitted(tmp_path, store, more="\n[retry]\nmax_attempts = 1\n")
    silent = api.take(idle_s=1)
    wait_until(lambda: count_events(store, "trial_failed") == 1, "the silent lease expired")
    status, late = api.post(f"/api/leases/{silent['lease_id']}/close")
    assert (status, late["error"]["kind"]) == (409, "returned")
    assert "no request for 1 s" in late["error"]["message"]
    assert said(silent)[0] == 404
    released = api.take()
    for _ in range(2):
        assert api.post(f"/api/leases/{released['lease_id']}/release")[1]["state"] == "returned"
    unused = api.take()
    assert "before its agent got a reply" in api.post(f"/api/leases/{unused['lease_id']}/close")[1]["error"]["message"]
    last = api.take()
    assert (last["attempt"], last["trial_id"]) == (4, silent["trial_id"])
    assert finish(api, last, tmp_path / "work")["is_success"]
    wait_until(lambda: client.status("small").overview.state == "finished", "it is finished")
    process.send_signal(signal.SIGTERM)
    assert end(process).returncode == 0
    kinds = [each[-1].error_kind for each in trials(store) if isinstance(each[-1], TrialFailed)]
    assert sorted(kinds) == sorted(LeaseReturned.KINDS)


@pytest.mark.slow
@pytest.mark.thorough
def test_two_closes_are_one(tmp_path, serving):
    """At once or one after the other they get the same result, and a release afterwards is refused."""
    store = tmp_path / "store"
    serving(store)
    api = submitted(tmp_path, store)
    lease = api.take()
    work(lease, tmp_path / "work")
    path = f"/api/leases/{lease['lease_id']}"
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda code: api.post(f"{path}/close", exit_code=code), (0, 0)))
    assert both[0] == both[1] == api.post(f"{path}/close", exit_code=5)
    assert (both[0][0], both[0][1]["ended_by"]) == (200, "submitted")
    assert api.post(f"{path}/release")[0] == 409
    assert api.post("/api/leases/nothing/close")[0] == 404
    assert count_events(store, "trial_finished") == 1


@pytest.mark.slow
@pytest.mark.thorough
def test_clients_at_once_never_get_the_same_trial(tmp_path, serving):
    """Eight ask at once for one of six trials, of which three may run; the others are told to come again."""
    store = tmp_path / "store"
    serving(store)
    api = submitted(tmp_path, store, trials=6, concurrency=3)
    api.post(f"/api/leases/{api.take()['lease_id']}/release")
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: api.post("/api/leases"), range(8)))
    taken = [reply["trial_id"] for status, reply in replies if status == 200]
    assert (len(taken), len(set(taken))) == (3, 3)
    assert {reply["error"]["kind"] for status, reply in replies if status != 200} == {"nothing_now"}


@pytest.mark.slow
@pytest.mark.thorough
def test_limits_of_a_trial_and_of_the_run_end_a_lease(tmp_path, serving):
    """Turns used up: the gateway refuses, the files count, the ending is the limit. Money used up: none is left."""
    store = tmp_path / "store"
    _, client = serving(store)
    api = submitted(tmp_path, store, name="turns", more="\n[limits]\nmax_turns = 1\n")
    lease = api.take(experiment="turns")
    status, reply = said(lease)
    message = reply["choices"][0]["message"]
    assert status == 200
    refusal = said(lease, message, {"role": "user", "content": "go on"})
    assert (refusal[0], "1 replies" in str(refusal[1])) == (403, True)
    assert api.state(lease)["limit"] == "turn_limit"
    folder = tmp_path / "last"
    folder.mkdir()
    unpacked(lease, folder)
    assert files(lease, packed(folder))[0] == 204
    assert api.post(f"/api/leases/{lease['lease_id']}/close")[1]["ended_by"] == "turn_limit"

    submitted(tmp_path, store, name="money", trials=3, more="\n[budget]\nmax_cost_usd = 0.0000001\n")
    lease = api.take(experiment="money")
    said(lease)
    said(lease, message, {"role": "user", "content": "go on"})
    wait_until(lambda: client.status("money").overview.state == "cost_limit", "the money is spent")
    status, none = api.post("/api/leases", experiment="money")
    assert (status, none["error"]["kind"]) == (404, "nothing_left")
    assert "money is cost limit" in none["error"]["message"]
    assert api.post(f"/api/leases/{lease['lease_id']}/close")[1]["state"] == "failed"


@pytest.mark.slow
@pytest.mark.thorough
def test_a_bad_archive_loses_nothing_and_a_bad_key_finds_nothing(tmp_path, serving):
    """Garbage, half an archive and one that leads out are refused, the files are as before; so are wrong tokens."""
    store = tmp_path / "store"
    serving(store)
    api = submitted(tmp_path, store)
    lease = api.take()
    before, after = tmp_path / "before", tmp_path / "after"
    unpacked(lease, before)
    leads_out = io.BytesIO()
    with tarfile.open(fileobj=leads_out, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../../escaped"), io.BytesIO())
    whole = packed(before)
    for bad in (b"garbage", b"\x1f\x8bgarbage", whole[:-9], whole[: len(whole) // 2], leads_out.getvalue()):
        status, refusal = files(lease, bad)
        assert (status, refusal["error"]["kind"]) == (422, "bad_workspace")
    unpacked(lease, after)
    listed = [sorted(str(path.relative_to(at)) for path in at.rglob("*")) for at in (before, after)]
    assert listed[0] == listed[1] != []
    assert files(lease, token="wrong")[0] == 404
    assert asked(lease["workspace_url"].replace("/t/", "/t/0"))[0] == 404
    gateway = lease["gateway_url"].partition("/t/")[0]
    assert asked(f"{gateway}/api/leases", b"{}", {"Content-Type": "application/json"})[0] == 404


@pytest.mark.slow
@pytest.mark.thorough
def test_the_openai_sdk_works_on_a_lease(tmp_path, serving, monkeypatch):
    """Its client with the lease's address and token, its own loop, files in a folder of its own: success."""
    store = tmp_path / "store"
    serving(store)
    api = submitted(tmp_path, store)
    lease = api.take()
    folder = tmp_path / "work"
    unpacked(lease, folder)
    monkeypatch.chdir(folder)
    client, hands = openai.OpenAI(base_url=f"{lease['gateway_url']}/v1", api_key=lease["token"]), Hands(None)
    tools = [{"type": "function", "function": tool(name, fields)} for name, fields in TOOLS.items()]
    history, answer = [{"role": "user", "content": lease["prompt"]}], None
    while answer is None:
        message = client.chat.completions.create(model="any", messages=history, tools=tools).choices[0].message
        history.append(message.model_dump(exclude_none=True))
        answer = message.content if not message.tool_calls else None
        for call in message.tool_calls or ():
            arguments = json.loads(call.function.arguments)
            if call.function.name == "submit":
                answer = arguments["answer"]
                break
            text = hands.do(call.function.name, arguments)
            history.append({"role": "tool", "tool_call_id": call.id, "content": text})
    files(lease, packed(folder))
    result = api.post(f"/api/leases/{lease['lease_id']}/close", answer=answer)[1]
    assert (result["is_success"], result["score"]) == (True, result["total"])


@pytest.mark.slow
@pytest.mark.thorough
def test_attach_is_a_lease_from_the_shell(tmp_path, serving):
    """A mistyped command leases nothing; 130 gives back; a command is graded; then none is left; a run refuses."""
    store = tmp_path / "store"
    serving(store)
    submitted(tmp_path, store, conditions=["full", "ask_user"])
    agent = (sys.executable, TINY, "--wire", "chat", "--base-url", "{base_url}", "--token", "{token}")
    agent = (*agent, "--mcp-config", "{mcp_config}")

    def attach(*command):
        return lhaw_record("attach", "--store", store, "--agent", "mine", "--", *command)

    assert "there is no program 'no-such-agent'" in attach("no-such-agent").stderr
    assert "unknown placeholder {promt}" in attach("true", "{promt}").stderr
    assert count_events(store, "trial_started") == 0
    shell = subprocess.run(
        [PROGRAM, "attach", "--store", store],
        input='test -s "$LHAW_RECORD_PROMPT_FILE" && test -n "$OPENAI_BASE_URL" && test -d logs && exit 130\n',
        env={**environment(), "SHELL": "/bin/sh"},
        text=True,
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert (shell.returncode, "given back" in shell.stderr) == (130, True), shell.stderr
    for _ in range(2):
        done = attach(*agent)
        assert (done.returncode, "graded: submitted, success" in done.stderr) == (0, True), done.stderr
    none = attach(*agent)
    assert (none.returncode, "is left" in none.stderr) == (1, True)
    refused = called("run", tmp_path / "leased.toml", "--store", tmp_path / "other")
    assert "agent mine is leased from the daemon" in refused.stderr


@contextmanager
def passed_on(target, faults):
    """A server that passes requests on, but for the first of a method and the end of a path, which meet its faults.

    A number is answered instead, "lost" cuts the connection, and "unheard" does so once the request was passed on.
    """

    class Between(BaseHTTPRequestHandler):
        def log_message(self, *_):
            """Say nothing."""

        def do_any(self):
            """Pass a request on, or do what is planned for it."""
            data = self.rfile.read(int(self.headers.get("content-length", 0))) or None
            planned = faults.get((self.command, self.path.rpartition("/")[2]))
            fault = planned.pop(0) if planned else None
            if fault == "lost":
                self.close_connection = True
                return
            if isinstance(fault, int):
                self.send_response(fault)
                self.end_headers()
                return
            headers = {name: self.headers[name] for name in ("authorization", "content-type") if self.headers[name]}
            request = urllib.request.Request(target() + self.path, data, headers, method=self.command)
            try:
                reply = urllib.request.urlopen(request)
            except urllib.error.HTTPError as error:
                reply = error
            content = reply.read()
            if fault != "unheard":
                self.send_response(reply.status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_any  # noqa: N815 - the library's names

    with ThreadingHTTPServer(("127.0.0.1", 0), Between) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.slow
@pytest.mark.thorough
def test_a_finished_agent_survives_a_bad_connection(tmp_path, serving):
    """Its last files stall, then are lost, and the reply to its close is lost: all are sent again, and it is graded."""
    store = tmp_path / "store"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    faults = {("PUT", "workspace"): [408, "lost"], ("POST", "close"): ["unheard"]}
    with (
        passed_on(lambda: f"http://127.0.0.1:{port}", faults) as gateway,
        passed_on(lambda: read_address(store).url, faults) as daemon,
    ):
        serving(store, "--gateway", f"127.0.0.1:{port}", "--gateway-url", gateway)
        submitted(tmp_path, store)
        program = tmp_path / "agent.py"
        program.write_text(CALL)
        done = lhaw_record("attach", "--url", daemon, "--", sys.executable, program)
    assert (done.returncode, "graded: submitted" in done.stderr) == (0, True), done.stderr
    assert done.stderr.count("sent again in") == 3
    assert count_events(store, "trial_started") == 1
    assert not any(faults.values())


@pytest.mark.slow
@pytest.mark.thorough
def test_who_lost_a_lease_at_a_restart_hears_of_it(tmp_path, serving, monkeypatch):
    """Its own token is unknown then; the client asks again with the one for leases, and is told what to do."""
    monkeypatch.setenv("LHAW_RECORD_TOKEN", "a-long-and-random-token")
    monkeypatch.setenv("LHAW_RECORD_LEASE_TOKEN", "another-long-random-token")
    store = tmp_path / "store"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    daemon, _ = serving(store, "--port", port)
    submitted(tmp_path, store)
    client, found = Client(read_address(store).url, "another-long-random-token"), []

    def is_taken():
        with suppress(DaemonRefusal):
            found.append(client.lease(LeaseRequest()))
        return found

    wait_until(is_taken, "a trial was leased")
    lease_id = found[0].lease_id
    assert opened(client, found[0], print).state == "open"
    daemon.kill()
    end(daemon)
    serving(store, "--port", port)
    for _ in range(2):
        with pytest.raises(DaemonRefusal, match="take another lease") as refusal:
            client.beat(lease_id)
        assert refusal.value.status == 404


@pytest.mark.slow
@pytest.mark.thorough
def test_attach_ends_a_command_whose_time_is_used_up(tmp_path, serving):
    """After one call it sleeps with a child: both are ended, its files go back, and the ending is the time limit."""
    store = tmp_path / "store"
    serving(store)
    submitted(tmp_path, store, more="\n[limits]\nmax_seconds = 15\n")
    sleeper = "import subprocess\nsubprocess.run(['sleep', '100000'])\n"
    program = tmp_path / "sleeper.py"
    program.write_text(CALL + sleeper)
    done = lhaw_record("attach", "--store", store, "--idle", "9", "--", sys.executable, program)
    assert (done.returncode, "graded: time_limit, no success" in done.stderr) == (0, True), done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--gateway", "0.0.0.0"), "no address that other machines can use"),
        (("--gateway", "localhost:x"), "write HOST or HOST:PORT"),
        (("--gateway-url", "here"), "is no URL"),
        (("--gateway", "203.0.113.7"), "is not an address of this machine; give one of its own with --gateway"),
    ],
)
def test_the_gateway_is_open_to_others_only_when_told_how(tmp_path, options, problem):
    """An address that nobody can use, and one that is not this machine's, are refused before anything starts."""
    done = called("serve", "--store", tmp_path / "store", "--port", "0", *options)
    assert (done.returncode != 0, problem in done.stderr) == (True, True), done.stderr
    assert not (tmp_path / "store").exists()
