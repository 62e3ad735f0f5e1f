"""Bad days of the real program: killed, served twice, port taken, disk full, readers that vanish."""

import signal
import socket
import urllib.request

import anyio
import msgspec
import pytest

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.events import CONTROL
from lhaw_record.recorder.files.disk import Disk
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.runners.agents.scripted import ScriptedModel
from lhaw_record.runners.base.errors import ungrouped
from lhaw_record.runners.models.litellm_library import close_clients
from lhaw_record.runners.runs.daemon.client import Address, read_address, write_address
from lhaw_record.runners.runs.daemon.messages import Submission
from lhaw_record.runners.runs.endpoint_check import check_models
from tests.cli.experiments import ALL_KINDS, BALANCED, OVER_CLARIFIER, PLAIN_PROCESS, write_experiment
from tests.cli.program import (
    all_tables,
    assert_same_tables,
    called,
    count_events,
    descendants,
    end,
    is_alive,
    lhaw_record,
    query,
    verify,
    wait_until,
)
from tests.runners.runs.daemon.running import PATIENCE_S, daemon_at, submission
from tests.support.chat_server import ChatServer


def stopped(process):
    """End a daemon in order and return how it ended."""
    process.send_signal(signal.SIGTERM)
    return end(process)


@pytest.mark.slow
@pytest.mark.thorough
async def test_an_outage_never_ends_the_retries(tmp_path, monkeypatch):
    """A dead address is tried again and again, with a preflight each time; the server comes, and the trials run."""
    monkeypatch.setattr("lhaw_record.runners.runs.daemon.daemon.RETRY_S", 0.05)
    checks, problems = [], []

    async def counted(experiment, agents):
        checks.append(await check_models(experiment, agents))
        return checks[-1]

    monkeypatch.setattr("lhaw_record.runners.runs.endpoint_check.check_models", counted)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    agent = {"name": "served", "model": "local-model", "api_base": f"http://127.0.0.1:{port}/v1"}
    body = submission(tmp_path, agents=[agent], conditions=["full"], sandbox=PLAIN_PROCESS, has_preflight=True)

    async def until(is_true):
        with anyio.fail_after(PATIENCE_S):
            while not is_true():  # noqa: ASYNC110  what is waited for has no event
                await anyio.sleep(0.02)

    async with daemon_at(tmp_path / "store") as (daemon, client):
        assert (await client.post("/api/experiments", json=body)).is_success
        await until(lambda: len(checks) >= 3)
        await until(lambda: problems.append(daemon.overview("small").problem) or problems[-1])
        assert f"nothing answers at {agent['api_base']}" in problems[-1]
        assert "tried again in" in problems[-1]
        async with ChatServer(lambda seed: ScriptedModel("scripted/balanced", seed), port=port):
            await until(lambda: daemon.overview("small").state == "finished")
    await close_clients()


async def test_the_wait_for_an_outage_doubles_up_to_half_an_hour(tmp_path):
    """What nobody mends is not asked for ever at the same pace; a new order begins with the first wait again."""
    async with daemon_at(tmp_path / "store") as (daemon, _):
        waits = []
        for _ in range(9):
            daemon._try_again_later("e", "gone")
            waits.append(daemon.problems["e"].partition("again in ")[2])
        daemon.settle("e")
        daemon._try_again_later("e", "gone")
    seconds = [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]
    assert waits == [f"{wait} s)" for wait in seconds]
    assert "again in 30 s" in daemon.problems["e"]


@pytest.mark.slow
@pytest.mark.thorough
def test_killed_in_mid_run_it_goes_on_where_it_was(tmp_path, serving):
    """SIGKILL twice while trials run: each new daemon goes on by itself, and every table is as of one quiet run."""
    settings = {"conditions": ALL_KINDS, "trials": 3, "agents": (BALANCED, OVER_CLARIFIER), "concurrency": 4}
    experiment = write_experiment(tmp_path / "e.toml", **settings)
    whole, store = tmp_path / "whole", tmp_path / "store"
    assert called("run", experiment, "--store", whole).returncode == 0

    process, _ = serving(store)
    assert lhaw_record("submit", experiment, "--store", store).returncode == 0
    for finished in (2, 8):
        wait_until(lambda least=finished: count_events(store, "trial_finished") >= least, "some trials are finished")
        children = descendants(process.pid)
        process.kill()
        end(process)
        wait_until(lambda left=children: not any(map(is_alive, left)), "the killed daemon's children ended")
        assert "no daemon answers" in called("status", "--store", store).stderr
        process, client = serving(store)
    wait_until(lambda: client.status("small").overview.state == "finished", "all of it is finished")
    done = stopped(process)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert_same_tables(all_tables(store), all_tables(whole))
    assert set(query(store, "select distinct boundary, error_kind from stg_trials_failed")) <= {
        ("recorder", "interrupted")
    }
    assert query(store, "select experiment, requested_by is not null from stg_experiments_submitted") == [
        ("small", True)
    ]
    verify(store)


@pytest.mark.thorough
def test_one_daemon_for_a_store_and_one_for_a_port(tmp_path, serving):
    """A second daemon of a store, and one on a port in use, say so and end with 1; the first one does not notice."""
    store = tmp_path / "store"
    process, client = serving(store)
    second = lhaw_record("serve", "--store", store, "--port", "0")
    assert second.returncode == 1
    assert f"another daemon serves this store: experiment 'daemon' in {store}" in second.stderr
    assert f"process {process.pid}" in second.stderr
    port = read_address(store).url.rpartition(":")[2]
    third = lhaw_record("serve", "--store", tmp_path / "other", "--port", port)
    assert third.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in third.stderr
    assert "--port" in third.stderr
    assert not (tmp_path / "other").exists()
    assert client.list().experiments == ()
    assert stopped(process).returncode == 0
    assert read_address(store) is None


@pytest.mark.thorough
def test_the_commands_of_the_client(tmp_path, serving):
    """Bad files exit 2 as for ``run``; unknown names, other states and absent daemons exit 1; each with a remedy."""
    store = tmp_path / "store"
    experiment = write_experiment(tmp_path / "e.toml", agents=[{**BALANCED, "strange": "x"}])
    assert "no daemon serves" in called("status", "--store", store).stderr
    assert called("status").returncode == 2
    process, _ = serving(store)
    bad = called("submit", experiment, "--store", store)
    assert bad.returncode == 2, bad.stderr
    assert f"{experiment}: unknown key 'agents[0].strange'" in bad.stderr
    write_experiment(experiment, trials=3, concurrency=1)
    assert called("submit", experiment, "--store", store).returncode == 0
    assert lhaw_record("retune", "small", "1", "--store", store).returncode == 0
    assert called("pause", "nothing", "--store", store).returncode == 1
    for verb, state in (("pause", "paused"), ("resume", "finished")):
        assert called(verb, "small", "--store", store).returncode == 0

        def is_so(wanted=state):
            told = msgspec.json.decode(called("status", "small", "--store", store, "--format", "json").stdout)
            return told["overview"]["state"] == wanted

        wait_until(is_so, f"it is {state}")
    assert called("requeue", "small", "--store", store).returncode == 1
    (row,) = msgspec.json.decode(called("status", "--store", store, "--format", "json").stdout)
    assert (row["name"], row["state"], row["finished"]) == ("small", "finished", 6)
    assert stopped(process).returncode == 0


@pytest.mark.thorough
def test_a_stale_address_is_tolerated(tmp_path, serving):
    """What a daemon left that lost power stops neither clients, which say so, nor the next daemon."""
    store = create_store(tmp_path / "store")
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    write_address(store, Address(url=f"http://127.0.0.1:{port}", process=1, host="gone", daemon_id="daemon-gone"))
    told = called("status", "--store", store.root)
    assert (told.returncode, "no daemon answers" in told.stderr) == (1, True)
    process, client = serving(store.root)
    assert client.list().experiments == ()
    stopped(process)


class FullDisk(Disk):
    """A disk on which nothing more can be written once it is full."""

    is_full = False

    def write(self, descriptor, data):
        """Write, while there is room."""
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().write(descriptor, data)


async def test_a_full_disk_refuses_the_order_and_ends_the_daemon(tmp_path):
    """An order that cannot be recorded is not obeyed: 507, the daemon ends with the reason, and the store is whole."""
    disk = FullDisk()
    root = tmp_path / "store"

    async def fill_and_submit():
        async with daemon_at(root, store=create_store(root, disk)) as (daemon, client):
            disk.is_full = True
            reply = await client.post("/api/experiments", json=submission(tmp_path))
            assert (reply.status_code, reply.json()["error"]["kind"]) == (507, "not_recorded")
            assert "No space left on device" in reply.json()["error"]["message"]
            assert daemon.queue.entries == {}
            assert daemon.is_stopping

    with pytest.raises(RecordingFailed, match="No space left on device"), ungrouped():
        await fill_and_submit()
    disk.is_full = False
    async with daemon_at(root) as (daemon, _):
        assert daemon.queue.entries == {}
    assert not [each for each in read_envelopes(root) if isinstance(each.event, CONTROL)]


@pytest.mark.thorough
async def test_readers_that_sleep_or_vanish_cost_nothing(tmp_path, serving):
    """Connections that never read and ones that are cut are let go; the daemon answers others, and ends in order."""
    store = tmp_path / "store"
    process, client = await anyio.to_thread.run_sync(serving, store)
    host, _, port = read_address(store).url.removeprefix("http://").partition(":")
    request = f"GET /api/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    sleepers = [socket.create_connection((host, int(port))) for _ in range(20)]
    for each in sleepers:
        each.sendall(request)
    for each in sleepers[:10]:
        each.close()
    client.submit(msgspec.convert(submission(tmp_path), type=Submission))
    await anyio.to_thread.run_sync(
        wait_until, lambda: client.status("small").overview.state == "finished", "it is finished"
    )
    done = await anyio.to_thread.run_sync(stopped, process)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    for each in sleepers[10:]:
        each.close()


@pytest.mark.thorough
def test_live_events_arrive(tmp_path, serving):
    """A reader sees trials begin and end, after a snapshot."""
    store = tmp_path / "store"
    process, client = serving(store)
    url = read_address(store).url
    with urllib.request.urlopen(f"{url}/api/events", timeout=600) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        client.submit(msgspec.convert(submission(tmp_path), type=Submission))
        names = []
        while names.count("trial") < 4:
            line = stream.readline().decode().strip()
            if line.startswith("event: "):
                names.append(line[7:])
    assert names[0] == "snapshot"
    assert stopped(process).returncode == 0
