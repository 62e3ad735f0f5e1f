"""Orders over HTTP, with trials that really run: submitted, watched, paused, resumed, cancelled, tuned, requeued."""

import msgspec
import pytest

from lhaw_record.recorder.events import CONTROL, RunFinished, TrialFailed
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes, read_snapshot
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.agents.scripted import ScriptedModel
from lhaw_record.runners.runs.daemon import orders
from lhaw_record.runners.runs.daemon.messages import ExperimentOrder, Submission
from lhaw_record.runners.runs.daemon.queue import stored_queue
from lhaw_record.runners.runs.daemon.serve import opened_daemon
from tests.analytics.make_store import Store as Records
from tests.analytics.make_store import write_events
from tests.cli.experiments import ALL_KINDS, PLAIN_PROCESS
from tests.runners.runs.daemon.running import daemon_at, submission, until
from tests.support.chat_server import chat_server
from tests.support.faults import Fault

SLOW = {"name": "slow", "model": "local-model"}


def model(seed):
    """The policy behind the chat server."""
    return ScriptedModel("scripted/balanced", seed)


def slow_server():
    """A chat server that takes ten minutes for each reply."""
    return chat_server(model, faults=[Fault(kind="slow", times=None, seconds=600.0)])


async def order(client, verb, name="small", **body):
    """Give an order and return status and body."""
    reply = await client.post(f"/api/experiments/{name}/{verb}", json={"by": "a test", **body})
    return reply.status_code, reply.json()


async def test_a_submitted_experiment_is_run_and_shown(tmp_path):
    """From the file to the last trial: cells, cost and state are told, and the store has what the daemon said."""
    store = tmp_path / "store"
    async with daemon_at(store) as (daemon, client):
        body = submission(tmp_path, conditions=ALL_KINDS)
        assert (await client.post("/api/experiments", json=body)).status_code == 200
        told = await until(daemon, "small", lambda each: each.state == "finished")
        assert (told.finished, told.planned, told.running, told.given_up) == (4, 4, 0, 0)
        assert told.spent_usd > 0
        detail = (await client.get("/api/experiments/small")).json()
        assert [(cell["condition"], cell["finished"]) for cell in detail["cells"]] == [
            (condition, 1) for condition in ("full", "underspecified", "ask_user", "inject_50")
        ]
        assert (await client.post("/api/experiments", json=body)).status_code == 200  # a second look runs nothing
        await until(daemon, "small", lambda each: each.state == "finished")
        live = daemon.queue
    folded = stored_queue(read_snapshot(store))
    assert {name: entry.state for name, entry in folded.entries.items()} == {"small": "finished"}
    assert folded.tallies["small"].spent_usd == pytest.approx(live.tallies["small"].spent_usd)
    assert verify(store).findings == ()
    control = [each for each in read_envelopes(store) if isinstance(each.event, CONTROL)]
    assert {each.experiment_id for each in control} == {"daemon"}
    assert [each.event.by for each in control] == ["a test"] * 2


@pytest.mark.thorough
async def test_a_pause_lets_running_trials_end(tmp_path):
    """After a pause nothing starts, what runs is finished, and a restarted daemon is still paused until it resumes."""
    store = tmp_path / "store"
    async with daemon_at(store, max_trials=1) as (daemon, client):
        await client.post("/api/experiments", json=submission(tmp_path, trials=3))
        await until(daemon, "small", lambda each: each.running == 1)
        assert (await order(client, "pause"))[0] == 200
        told = await until(daemon, "small", lambda each: each.state == "paused")
        assert (told.finished, told.failures) == (1, {})
    async with daemon_at(store) as (daemon, client):
        told = await until(daemon, "small", lambda each: each.planned is not None)
        assert (told.state, told.finished, told.planned) == ("paused", 1, 6)
        assert (await order(client, "resume"))[0] == 200
        told = await until(daemon, "small", lambda each: each.state == "finished")
        assert (told.finished, told.failures) == (6, {})
    assert verify(store).findings == ()


@pytest.mark.thorough
async def test_cancelling_ends_running_trials_at_once(tmp_path):
    """Trials that would go on for minutes end as interrupted, nothing starts again, and submitting again runs them."""
    store = tmp_path / "store"
    async with slow_server() as url, daemon_at(store) as (daemon, client):
        body = submission(tmp_path, agents=[{**SLOW, "api_base": url}], sandbox=PLAIN_PROCESS)
        await client.post("/api/experiments", json=body)
        await until(daemon, "small", lambda each: each.running == 2)
        assert (await order(client, "cancel"))[0] == 200
        told = await until(daemon, "small", lambda each: each.state == "cancelled")
        assert (told.running, told.failures) == (0, {})
        assert (await order(client, "resume"))[0] == 409
    ends = [each.event.outcome for each in read_envelopes(store) if isinstance(each.event, RunFinished)]
    assert sorted(ends) == ["completed", "interrupted"]
    async with chat_server(model) as url, daemon_at(store) as (daemon, client):
        assert daemon.overview("small").state == "cancelled"
        body = submission(tmp_path, agents=[{**SLOW, "api_base": url}], sandbox=PLAIN_PROCESS)
        await client.post("/api/experiments", json=body)
        assert (await until(daemon, "small", lambda each: each.state == "finished")).finished == 2


@pytest.mark.thorough
async def test_failed_trials_are_tried_again_when_asked_and_only_they(tmp_path):
    """What was given up is shown with its boundary, stays given up over a restart, and is run when it is requeued."""
    store = tmp_path / "store"
    retry = "[retry]\nmax_attempts = 1\nrequest_attempts = 1\n"
    faults = [Fault(kind="bad_request", times=1)]
    async with chat_server(model, faults=faults) as url:
        async with daemon_at(store) as (daemon, client):
            body = submission(tmp_path, agents=[{**SLOW, "api_base": url}], sandbox=PLAIN_PROCESS, more=retry)
            await client.post("/api/experiments", json=body)
            told = await until(daemon, "small", lambda each: each.state == "failed")
            assert (told.finished, told.given_up, told.failures) == (1, 1, {"model": 1})
        async with daemon_at(store) as (daemon, client):
            told = await until(daemon, "small", lambda each: each.planned is not None)
            assert (told.state, told.given_up) == ("failed", 1)
            assert (await order(client, "resume"))[1]["error"]["message"].endswith("tries its failed trials again")
            status, requeued = await order(client, "requeue")
            assert (status, len(requeued["trial_ids"])) == (200, 1)
            told = await until(daemon, "small", lambda each: each.state == "finished")
            assert (told.finished, told.failures) == (2, {"model": 1})
            assert (await order(client, "requeue"))[0] == 409
    assert len([each for each in read_envelopes(store) if each.sequence == 0 and each.trial_id]) == 3


async def test_a_failed_run_that_gave_nothing_up_can_be_asked_for_again(tmp_path):
    """It has failed trials with attempts left: requeue runs them."""
    body = submission(tmp_path)
    async with opened_daemon(create_store(tmp_path / "store"), 1) as daemon:
        await orders.submit(daemon, "", Submission(**body))
        failed = TrialFailed(boundary="sandbox", error_kind="x", message="broken", is_retry_owed=True)
        daemon.queue.apply("small", failed, trial_id="t1")
        summary = {"trials_finished": 0, "trials_failed": 0, "trials_blocked": 0, "trials_left": 4}
        daemon.queue.apply("small", RunFinished(run_id="", outcome="failed", **summary))
        assert (daemon.overview("small").state, daemon.overview("small").given_up) == ("failed", 0)
        assert (await orders.requeue(daemon, "small", ExperimentOrder(by="a test"))).trial_ids == ("t1",)
        assert daemon.overview("small").state == "waiting"


async def test_concurrency_changes_at_once(tmp_path):
    """One trial at a time becomes four while they run, the limit over all experiments stays, and a restart knows it."""
    store = tmp_path / "store"
    async with slow_server() as url, daemon_at(store, max_trials=3) as (daemon, client):
        body = submission(tmp_path, agents=[{**SLOW, "api_base": url}], sandbox=PLAIN_PROCESS, trials=3, concurrency=1)
        await client.post("/api/experiments", json=body)
        await until(daemon, "small", lambda each: each.running == 1)
        status, told = await order(client, "concurrency", concurrency=4)
        assert (status, told["overview"]["concurrency"]) == (200, 4)
        await until(daemon, "small", lambda each: each.running == 3)
        assert (await order(client, "concurrency", concurrency=0))[0] == 422
    create_store(store)
    recover(Store(store))
    assert stored_queue(read_snapshot(store)).entries["small"].concurrency == 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("changes", "kind", "word"),
    [
        ({"config_toml": "name = "}, "bad_experiment", "not valid TOML"),
        ({"config_toml": 'name = "x"'}, "bad_experiment", "key 'benchmark' is missing"),
        ({"path": "small.toml"}, "bad_path", "absolute path"),
        ({"strange": 1}, "bad_request", "strange"),
        ({"config_toml": 7}, "bad_request", "config_toml"),
    ],
)
async def test_a_bad_submission_says_what_is_wrong(tmp_path, changes, kind, word):
    """Refused with file, key and remedy; nothing is recorded and nothing is queued."""
    async with daemon_at(tmp_path / "store") as (daemon, client):
        reply = await client.post("/api/experiments", json={**submission(tmp_path), **changes})
        error = reply.json()["error"]
        assert (reply.status_code, error["kind"]) == (422, kind)
        assert word in error["message"]
        assert daemon.queue.entries == {}
    assert not [each for each in read_envelopes(tmp_path / "store") if isinstance(each.event, CONTROL)]


async def test_files_that_cannot_be_queued(tmp_path, monkeypatch):
    """The daemon's own name, an unknown task and a secret in the file are refused when they are submitted."""
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789abcdef0123")
    async with daemon_at(tmp_path / "store") as (_, client):
        for changes, word in (
            ({"name": "daemon"}, "reserved for the daemon"),
            ({"variants": ["log-triage/nothing"]}, "log-triage/nothing"),
            ({"agents": [{"name": "a", "model": "scripted/never", "api_base": "sk-0123456789abcdef0123"}]}, "secret"),
        ):
            reply = await client.post("/api/experiments", json=submission(tmp_path, **changes))
            assert reply.status_code == 422, reply.text
            assert word in reply.json()["error"]["message"]


@pytest.mark.thorough
async def test_what_cannot_run_now_says_why_and_is_tried_again_when_asked(tmp_path):
    """An experiment that another process is running waits, says who has it, and goes on when that one has ended."""
    root = tmp_path / "store"
    store = create_store(root)
    with store.hold_experiment("small"):
        async with daemon_at(root) as (daemon, client):
            await client.post("/api/experiments", json=submission(tmp_path))
            told = await until(daemon, "small", lambda each: each.state == "problem")
            assert "is being run by process" in told.problem
    async with daemon_at(root) as (daemon, client):
        await until(daemon, "small", lambda each: each.state == "finished")


@pytest.mark.thorough
async def test_another_file_of_the_same_name_waits_for_its_turn(tmp_path):
    """While an experiment runs, the same file changes nothing and another one is refused; afterwards it is taken."""
    async with slow_server() as url, daemon_at(tmp_path / "store") as (daemon, client):
        body = submission(tmp_path, agents=[{**SLOW, "api_base": url}], sandbox=PLAIN_PROCESS)
        await client.post("/api/experiments", json=body)
        await until(daemon, "small", lambda each: each.running == 2)
        assert (await client.post("/api/experiments", json=body)).status_code == 200
        assert daemon.overview("small").running == 2
        other = submission(tmp_path, agents=[{**SLOW, "api_base": url}], sandbox=PLAIN_PROCESS, trials=2)
        refusal = await client.post("/api/experiments", json=other)
        assert (refusal.status_code, refusal.json()["error"]["kind"]) == (409, "conflict")
        await order(client, "cancel")
        await until(daemon, "small", lambda each: each.state == "cancelled")
        assert (await client.post("/api/experiments", json=other)).status_code == 200
    submitted = [each.event for each in read_envelopes(tmp_path / "store") if isinstance(each.event, CONTROL[0])]
    assert [msgspec.json.decode(each.config_json)["trials"] for each in submitted] == [1, 2]


@pytest.mark.thorough
async def test_a_note_about_any_attempt_is_recorded(tmp_path):
    """It is on the attempt's page at once, also of an experiment that was never submitted; a wrong one is refused."""
    made, store = Records(trials=1), tmp_path / "store"
    made.task("t", (1.0,))
    made.trial("t", "full", 0)
    (stream,) = made.streams.values()
    await write_events(store, made.envelopes)
    async with daemon_at(store) as (_, client):
        page, note = f"/experiments/e/attempts/{stream}", f"/api/attempts/{stream}/note"
        assert "What you saw" in (await client.get(page)).text
        said = {"author": "anna", "note": "<b>odd</b>", "cause": "grader"}
        assert (await client.post(note, json=said)).status_code == 200
        assert (await client.get(f"{page}/data")).json()["parts"]["notes"] == [[1, "anna", "grader", "<b>odd</b>"]]
        assert (await client.post(note, json={**said, "note": ""})).status_code == 422
        assert (await client.post(note, json={**said, "cause": "luck"})).status_code == 422
        assert (await client.post("/api/attempts/nothing-1/note", json=said)).status_code == 404
        assert (await client.post(f"/api/attempts/{made.run_id}/note", json=said)).status_code == 404
    assert verify(store).findings == ()
