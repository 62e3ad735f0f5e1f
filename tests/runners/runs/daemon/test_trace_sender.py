"""Traces go to a collector, and a run does not depend on it."""

import socket
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import pytest
from aiohttp import web

from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.runners.runs.daemon import serve, trace_sender
from lhaw_record.runners.runs.daemon.messages import LiveTrial, TrialChange
from lhaw_record.runners.runs.daemon.serve import sent_to
from lhaw_record.runners.runs.daemon.trace_sender import TraceSender
from tests.runners.runs.daemon.running import PATIENCE_S, daemon_at, submission, until

pytestmark = pytest.mark.thorough


def ended(name):
    """An attempt that ended."""
    live = LiveTrial(trial_id=name, attempt=1, agent="a", condition="full", task_id="t", variant_id=None, began_at_us=0)
    return TrialChange(experiment="small", state="finished", trial=live)


@asynccontextmanager
async def collector(take):
    """A collector that answers as it is told; its address."""
    application = web.Application()
    application.router.add_post("/v1/traces", take)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    finally:
        await runner.cleanup()


async def test_a_collector_that_never_answers_keeps_nobody_from_saying_what_is_left(tmp_path, monkeypatch):
    """The limit on sending does not end what is said about it."""
    monkeypatch.setattr(TraceSender, "_body", lambda *_: b"{}")
    monkeypatch.setattr(serve, "_SECONDS_FOR_COLLECTOR", 0.5)
    said, asked = [], anyio.Event()

    async def take(_):
        asked.set()
        await anyio.sleep_forever()

    async with collector(take) as url:
        with anyio.fail_after(PATIENCE_S):
            daemon = SimpleNamespace(store=create_store(tmp_path / "store"))
            async with sent_to(daemon, url, said.append):
                daemon.on_trial(ended("t1"))
                daemon.on_trial(ended("t2"))
                await asked.wait()
    assert "2 attempts were not sent" in said[-1]


async def test_what_cannot_be_read_holds_up_nothing_and_is_counted(tmp_path, monkeypatch):
    """An attempt that the store does not have, and a fault of ours: dropped after some tries, the others are sent."""
    monkeypatch.setattr(trace_sender, "FIRST_WAIT_S", 0.01)
    said, got, is_done = [], [], anyio.Event()
    real = TraceSender._body

    def body(sender, change):
        if change.trial.trial_id == "broken":
            raise KeyError("a fault")
        return b"{}" if change.trial.trial_id == "well" else real(sender, change)

    def say(text):
        said.append(text)
        if sum("is not sent" in each for each in said) == 2:
            is_done.set()

    async def take(request):
        got.append(await request.read())
        return web.json_response({})

    monkeypatch.setattr(TraceSender, "_body", body)
    async with collector(take) as url:
        with anyio.fail_after(PATIENCE_S):
            daemon = SimpleNamespace(store=create_store(tmp_path / "store"))
            async with sent_to(daemon, url, say):
                for name in ("absent", "broken", "well"):
                    daemon.on_trial(ended(name))
                await is_done.wait()
    assert len(got) == 1
    assert "2 attempts were not sent" in said[-1]


async def test_a_collector_that_comes_late_gets_everything(tmp_path):
    """The run ends without it; when it answers, it gets each attempt, after a reply that says to come again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    said, got = [], []
    was_away, all_here = anyio.Event(), anyio.Event()

    def say(text):
        said.append(text)
        was_away.set()

    async def take(request):
        body = await request.json()
        got.append(body)
        if len(got) == 1:
            return web.Response(status=503)
        if len(got) == 3:
            all_here.set()
        return web.json_response({})

    async with (
        daemon_at(tmp_path / "store") as (daemon, client),
        sent_to(daemon, f"http://127.0.0.1:{port}", say),
    ):
        body = submission(tmp_path, conditions=("underspecified", "ask_user"))
        assert (await client.post("/api/experiments", json=body)).status_code == 200
        told = await until(daemon, "small", lambda each: each.state == "finished")
        assert told.finished == 2
        with anyio.fail_after(PATIENCE_S):
            await was_away.wait()
        application = web.Application()
        application.router.add_post("/v1/traces", take)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            with anyio.fail_after(PATIENCE_S):
                await all_here.wait()
        finally:
            await runner.cleanup()
    assert "trials go on" in said[0]
    names = [span["name"] for body in got[1:] for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert names.count("invoke_agent balanced") == 2
    assert "execute_tool ask_user" in names


async def test_what_a_collector_never_got_is_said(tmp_path):
    """At the end the number of attempts and the command that writes them."""
    said = []
    async with daemon_at(tmp_path / "store") as (daemon, client):
        async with sent_to(daemon, "http://127.0.0.1:9", said.append):
            await client.post("/api/experiments", json=submission(tmp_path, conditions=("underspecified",)))
            await until(daemon, "small", lambda each: each.state == "finished")
        assert "1 attempts were not sent" in said[-1]
        assert "export otlp" in said[-1]
