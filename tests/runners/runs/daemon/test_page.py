"""The web page in a real browser: live without a reload, orders from the keyboard, dark, at 10,000 trials."""

import socket
import threading
from collections import Counter
from contextlib import AsyncExitStack

import anyio
import pytest
import uvicorn

from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.runners.agents.programs.leases import open_leases
from lhaw_record.runners.models.gateway.relay import OPEN, StreamRelay
from lhaw_record.runners.runs.daemon.app import COOKIE, application
from lhaw_record.runners.runs.daemon.live import TrialCounts
from lhaw_record.runners.runs.daemon.pages import Reports, page_routes
from lhaw_record.runners.runs.daemon.serve import bound, opened_daemon
from tests.analytics.report.conftest import chromium, view  # noqa: F401 - fixtures
from tests.analytics.report.test_in_a_browser import CONTRASTS
from tests.runners.agents.programs.rigs import described, scripted
from tests.runners.runs.daemon.running import PATIENCE_S, read_attempt, submission

TOKEN = "a-long-and-random-token"
TEXT = "(document.querySelector('{}')?.textContent ?? '')"


class Served:
    """A daemon behind a real server in a thread of its own."""

    def __init__(self, root, token=None, extend=None):
        self.url = ""
        self.daemon = None
        self._root, self._token, self._extend = root, token, extend
        self._ready = threading.Event()
        self._server = None
        self._thread = threading.Thread(target=lambda: anyio.run(self._serve))

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(self, *exc_info):
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()

    async def _serve(self):
        import asyncio

        self._loop = asyncio.get_running_loop()
        with bound("127.0.0.1", 0) as listener:
            async with AsyncExitStack() as stack:
                gateway = socket.create_server(("127.0.0.1", 0))
                leases = await stack.enter_async_context(open_leases(gateway, "http://gateway"))
                self.daemon = daemon = await stack.enter_async_context(
                    opened_daemon(create_store(self._root), 1, leases)
                )
                extension = await stack.enter_async_context(self._extend(daemon)) if self._extend else None
                reports = Reports(daemon.store, lambda *_: b"<!doctype html><title>the report</title>")
                pages = page_routes(daemon, reports, read_attempt, has_token=self._token is not None)
                app = application(daemon, self._token, pages, extension)
                config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
                self._server = uvicorn.Server(config)
                self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._server.serve, [listener])
                    self._ready.set()
                    await daemon.supervise()
                    daemon.hub.close()
                    self._server.should_exit = True

    def _stop(self):
        self.daemon.stop()
        self.daemon.cancel()


@pytest.fixture
def served(tmp_path):
    """A daemon with one slot and no token."""
    with Served(tmp_path / "store") as running:
        yield running


def submit(view, served, body):  # noqa: F811
    """Submit from the page's own origin."""
    view.open(served.url)
    sent = view.value(
        "(async () => (await fetch('/api/experiments', {method: 'POST', "
        f"headers: {{'content-type': 'application/json'}}, body: JSON.stringify({body!r})}})).status)()"
    )
    assert sent == 200


def held(folder):
    """The body of a submission of two trials that wait for a file, so that the page is in time, and that file."""
    may_go_on = folder / "may go on"
    source = f"while not os.path.exists({str(may_go_on)!r}): time.sleep(0.05)\nwork(1)\n"
    path = folder / "small.toml"
    path.write_text(described(scripted(folder, source), name="small", conditions=("full", "underspecified")))
    return {"config_toml": path.read_text(), "path": str(path), "by": "a test"}, may_go_on


def test_it_follows_a_run_and_takes_orders(view, served, tmp_path):  # noqa: F811
    """Without a reload the page shows live trials, pauses and resumes from the keyboard, and sees the end."""
    body, may_go_on = held(tmp_path)
    submit(view, served, body)
    view.wait(f"{TEXT.format('#experiments')}.includes('small')")
    view.open(f"{served.url}/experiments/small")
    view.wait(f"{TEXT.format('#live')}.includes('log-triage')")
    view.value("[...document.querySelectorAll('button')].find((each) => each.textContent === 'Pause').focus()")
    view.press("Enter")
    view.wait(f"{TEXT.format('.state')} === 'pausing'")
    may_go_on.touch()
    view.wait(f"{TEXT.format('.state')} === 'paused'")
    assert served.daemon.overview("small").submitted_by == "a test"
    view.wait(f"{TEXT.format('#live')}.includes('None')")
    view.value("[...document.querySelectorAll('button')].find((each) => each.textContent === 'Resume').focus()")
    view.press("Enter")
    view.wait(f"{TEXT.format('.state')} === 'finished'")
    assert "2 of 2" in view.value(TEXT.format("#standing"))
    assert view.value("document.getElementById('connection').textContent") == "live"
    assert {address.split("/")[2] for address in view.requests()} == {served.url.split("/")[2]}
    assert view.complaints() == []


@pytest.mark.thorough
def test_a_file_is_submitted_on_the_page(view, served, tmp_path):  # noqa: F811
    """A pasted file is refused in the words of the command, runs when it is right; a live trial grows to its end."""
    body, may_go_on = held(tmp_path)
    view.open(f"{served.url}/submit")
    fill = "Object.entries({}).forEach(([id, text]) => {{ document.getElementById(id).value = text; }})"
    view.value(fill.format({"text": body["config_toml"] + "\nmistake = 1\n", "path": body["path"], "by": "anna"}))
    view.value("document.querySelector('#submit button').click()")
    view.wait("!document.getElementById('problem').hidden")
    assert "mistake" in view.value(TEXT.format("#problem"))
    view.value(fill.format({"text": body["config_toml"]}))
    view.value("document.querySelector('#submit button').click()")
    view.wait("location.pathname === '/experiments/small' && document.querySelector('#live')")
    view.wait("document.querySelector('#live a')")
    view.value("document.querySelector('#live a').click()")
    view.wait("location.pathname.includes('/attempts/')")
    view.wait(f"{TEXT.format('#live')}.includes('Running')")
    trial_id = view.value("location.pathname.split('/').pop()").partition("-")[0]
    OPEN[trial_id, "a call"] = relay = StreamRelay(None, None, "", lambda _: True)
    relay.written = "I will"
    view.wait(f"{TEXT.format('#writing')} === 'I will'")
    relay.written += " look."
    view.wait(f"{TEXT.format('#writing')} === 'I will look.'")
    del OPEN[trial_id, "a call"]
    may_go_on.touch()
    view.wait(f"{TEXT.format('#live')}.includes('Ended.')")
    assert "submitted" in view.value(TEXT.format("#timeline .facts"))
    assert view.value("document.querySelectorAll('#timeline .outline a').length") > 0
    assert "JSONATIF" in view.value(TEXT.format("#timeline .switches"))
    view.open(f"{served.url}/experiments/small")
    view.wait(f"{TEXT.format('.state')} === 'finished'")
    assert served.daemon.overview("small").submitted_by == "anna"
    assert all("422" in each for each in view.complaints())  # the browser's own note of the refusal


@pytest.mark.thorough
def test_refused_orders_are_said(view, served, tmp_path):  # noqa: F811
    """What the daemon refuses stands on the page in its own words, and nothing is executed that a name contains."""
    submit(view, served, submission(tmp_path))
    view.open(f"{served.url}/experiments/small")
    view.value("send('/api/experiments/<img src=x onerror=alert(1)>/pause', {})")
    view.wait("!document.getElementById('problem').hidden")
    assert "<img" not in view.value("document.getElementById('problem').innerHTML")


def test_people_sign_in_with_the_token(view, tmp_path):  # noqa: F811
    """With a token the page asks for it once; scripts of the page cannot read what it leaves."""
    with Served(tmp_path / "store", TOKEN) as running:
        view.open(running.url)
        assert view.value("location.pathname") == "/sign-in"
        view.value(f"document.getElementById('token').value = {TOKEN!r}; document.getElementById('token').focus()")
        view.press("Enter")
        view.wait("location.pathname === '/' && document.querySelector('h2')")
        assert view.value("document.cookie") == ""
        assert COOKIE not in view.value("document.documentElement.outerHTML")


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_at_ten_thousand_trials(view, served, tmp_path, scheme):  # noqa: F811
    """In both colour schemes every text has contrast, and the page stays small whatever the number of trials."""
    submit(view, served, submission(tmp_path))
    view.wait(f"{TEXT.format('#experiments')}.includes('finished')")
    counts = TrialCounts((), {})
    counts.planned = Counter({(f"agent {a}", f"inject_{p}"): 400 for a in range(5) for p in (10, 30, 50, 70, 90)})
    counts.finished = Counter(dict.fromkeys(counts.planned, 123))
    counts.successes = Counter(dict.fromkeys(counts.planned, 41))
    served.daemon._counts["small"] = counts
    served.daemon.queue.tally("small").failures.update({"model": 1200, "sandbox": 7})
    view.scheme(scheme)
    view.open(f"{served.url}/experiments/small")
    assert "3,075 of 10,000" in view.value(TEXT.format("#standing"))
    assert "33 % succeeded" in view.value(TEXT.format("#cells"))
    assert "1,200" in view.value(TEXT.format("#failures"))
    assert view.value("document.documentElement.outerHTML.length") < 20_000
    assert min(view.value(CONTRASTS).values()) >= 4.5
