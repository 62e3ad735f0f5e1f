"""Reports in the daemon: made when somebody looks, kept until the store changes, of the store or of one experiment."""

import json

import pytest

from lhaw_record import command_line
from lhaw_record.analytics.exports import atif_documents
from lhaw_record.analytics.report import build
from lhaw_record.recorder.reading.reader import stream_ids
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.runs.daemon.pages import Reports
from tests.analytics.report.test_build import unpack
from tests.cli.program import called
from tests.recorder.stores import record_streams
from tests.runners.runs.daemon.running import daemon_at, submission, until


async def recorded(store, name):
    """Record a stream in an experiment."""
    async with StoreRecorder(store, name) as recorder:
        await record_streams(recorder, 1, 3, lambda stream: None)


async def test_a_page_is_made_once_until_the_store_changes(tmp_path):
    """Each experiment has a page of its own; a new event makes all of them anew, and only the last ones are kept."""
    store, made = create_store(tmp_path / "store"), []

    def make(root, experiment):
        made.append(experiment)
        return f"{len(made)} {experiment}".encode()

    reports = Reports(store, make)
    await recorded(store, "one")
    assert [await reports.page(), await reports.page("one"), await reports.page(), await reports.page("one")] == [
        b"1 None",
        b"2 one",
        b"1 None",
        b"2 one",
    ]
    await recorded(store, "two")
    assert await reports.page("one") == b"3 one"
    for number in range(9):
        await reports.page(f"other-{number}")
    assert await reports.page("other-8") == b"12 other-8"
    assert await reports.page("one") == b"13 one"


@pytest.mark.thorough
async def test_the_page_of_an_experiment_leads_to_its_report(tmp_path):
    """The link has the experiment's name; one that was not submitted has no report."""
    async with daemon_at(tmp_path / "store") as (daemon, client):
        await client.post("/api/experiments", json=submission(tmp_path))
        await until(daemon, "small", lambda each: each.state == "finished")
        assert '<a href="/report?experiment=small">' in (await client.get("/experiments/small")).text
        assert (await client.get("/report?experiment=small")).status_code == 200
        refused = await client.get("/report?experiment=large")
        assert (refused.status_code, "was not submitted" in refused.text) == (404, True)


@pytest.mark.thorough
async def test_an_attempt_is_shown_as_by_the_command(tmp_path):
    """Its page asks for what ``show --web`` writes into a page, and ``export atif``; an unknown one is not found."""
    store = tmp_path / "store"
    async with daemon_at(store) as (daemon, client):
        await client.post("/api/experiments", json=submission(tmp_path))
        await until(daemon, "small", lambda each: each.state == "finished")
        (stream_id, *_) = (each for each in stream_ids(store) if each.endswith("-1"))
        page = f"/experiments/small/attempts/{stream_id}"
        assert f'data-from="{page}/data"' in (await client.get(page)).text
        data = (await client.get(f"{page}/data")).json()
        assert (data["columns"]["trial_id"], len(data["parts"]["answers"])) == ([stream_id[:-2]], 1)
        assert data["atif"] == json.loads(atif_documents(store).files[f"{stream_id}.trajectory.json"])
        assert called("show", store, stream_id, "--web", tmp_path / "one.html").returncode == 0
        assert unpack((tmp_path / "one.html").read_text(encoding="utf-8"), "data-attempt") == data
        missing = await client.get("/experiments/small/attempts/0-1")
        assert (missing.status_code, "there is no attempt" in missing.text) == (404, True)


@pytest.mark.thorough
async def test_the_report_of_an_experiment_has_only_its_trials(tmp_path):
    """What the program gives to the daemon lists the trials of one of two experiments, or of both."""
    store = tmp_path / "store"
    async with daemon_at(store) as (daemon, client):
        for name in ("small", "second"):
            body = submission(tmp_path, name=name)
            await client.post("/api/experiments", json=body)
            await until(daemon, name, lambda each: each.state == "finished")
    counts = {name: build(store, settings=[f"experiment={name}"]).trial_count for name in ("small", "second")}
    assert 2 * counts["small"] == 2 * counts["second"] == build(store).trial_count > 0
    for name in ("small", None):
        page = build(store, settings=[f"experiment={name}"] if name else []).html
        assert command_line._report(store, name) == page.encode()
