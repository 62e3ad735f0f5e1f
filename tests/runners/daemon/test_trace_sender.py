"""Traces go to a collector, and a run does not depend on it."""

import socket

import anyio
import pytest
from aiohttp import web

from runners.daemon.serve import sent_to
from tests.runners.daemon.running import PATIENCE_S, daemon_at, submission, until

pytestmark = pytest.mark.thorough


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
