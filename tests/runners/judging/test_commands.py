"""``judge`` and ``grade`` as a person meets them: the real program, its output, its exit codes, its addresses."""

import asyncio
import json
import time

import pytest

from lhaw_record.recorder.events import QuestionJudged, RunFinished, RunStarted
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.sharing.address import open_address, store_address
from tests.cli.program import called, end, interrupt, start, verify, wait_until
from tests.runners.judging.stores import CONFIRMED, FLAGS, JUDGE, Judge, asking, events_of, on_disk
from tests.support.chat_server import server_beside
from tests.support.faults import Fault

FAILURE_MODES = ("--kind", "failure-modes", "--model", JUDGE)


def written_to(place, written):
    """A store on the disk."""
    return asyncio.run(on_disk(place, written))


@pytest.mark.thorough
def test_judging_from_the_command_line(tmp_path):
    """A dry run asks and writes nothing; a run judges all and exits 0; a second one finds nothing left to do."""
    store = written_to(tmp_path / "store", asking(2))
    before = read_snapshot(store.root).segments
    with server_beside(Judge(FLAGS)) as server:
        arguments = ("judge", store.root, *FAILURE_MODES, "--api-base", server.url, "--format", "json")
        dry = called(*arguments, "--dry-run")
        assert (dry.returncode, server.requests) == (0, []), dry.stderr
        assert json.loads(dry.stdout) == [
            {
                "experiment_id": "e",
                "agent": "a",
                "condition": "ask_user",
                "found": 2,
                "judged_before": 0,
                "judged": 0,
                "failed": 0,
                "left": 2,
                "cost_usd": 0.0,
            }
        ]
        assert read_snapshot(store.root).segments == before
        done = called(*arguments)
        assert (done.returncode, len(server.requests)) == (0, 2), done.stderr
        assert json.loads(done.stdout)[0]["judged"] == 2
        assert "2 tried, 0 left" in done.stderr
        again = called(*arguments)
    assert (again.returncode, len(server.requests)) == (0, 2)
    assert server.requests[0]["temperature"] == 0
    run = events_of(store, RunStarted)[-1]
    config = json.loads(run.config_json)
    assert (run.kind, config["kind"], config["model"]) == ("judge", "failure-modes", JUDGE)
    verify(store.root)


@pytest.mark.thorough
def test_a_judge_without_a_verdict_exits_1(tmp_path):
    """What is left is said, with the reason; the same command continues."""
    store = written_to(tmp_path / "store", asking(1))
    with server_beside(Judge("no")) as server:
        done = called("judge", store.root, *FAILURE_MODES, "--api-base", server.url)
    assert done.returncode == 1
    assert "the judge gave no verdict in 2 replies: it has no JSON object" in done.stderr
    assert "run the same command again" in done.stderr
    verify(store.root)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--model", "scripted/balanced"), "scripted models can only be agents"),
        (("--model", "x", "--api-base", "http://127.0.0.1:1/v1", "--max-cost-usd", "1"), "add --price IN OUT"),
        (("--model", "x", "--api-base", "http://127.0.0.1:1/v1", "--api-key-env", "NO_SUCH"), "NO_SUCH is not set"),
        (("--model", "anthropic/claude-sonnet-4-6"), "needs the environment variable ANTHROPIC_API_KEY"),
        (("--model", "x", "--parameter", "seed"), "write NAME=VALUE"),
        (("--model", "x", "--prompt", "no_such.md"), "no_such.md: the prompt cannot be read"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_paid(tmp_path, arguments, problem):
    """A model, price, key, parameter or prompt that is not there: exit 2, and the store is untouched."""
    store = written_to(tmp_path / "store", asking(1))
    done = called("judge", store.root, "--kind", "failure-modes", *arguments)
    assert done.returncode == 2, done.stderr
    assert problem in done.stderr
    assert len(events_of(store, RunStarted)) == 1


def test_a_mistyped_store_is_not_made(tmp_path):
    """Neither command makes a store."""
    for command in (("judge", tmp_path / "no", *FAILURE_MODES), ("grade", tmp_path / "no")):
        done = called(*command)
        assert done.returncode == 1
        assert "is not a store" in done.stderr
    assert not (tmp_path / "no").exists()


@pytest.mark.thorough
def test_an_interrupt_leaves_a_whole_store(tmp_path):
    """The first waits for the running judgement, the second stops it: exit 130, and the rest is judged later."""
    store = written_to(tmp_path / "store", asking(2))
    with server_beside(Judge(FLAGS), [Fault(kind="hang")]) as server:
        arguments = ("judge", store.root, *FAILURE_MODES, "--api-base", server.url, "--concurrency", 1)
        process = start(*arguments)
        wait_until(server.has_received.is_set, "the judge was asked")
        while events_of(store, RunFinished)[-1].outcome != "interrupted":
            interrupt(process)
            time.sleep(1.0)  # two that come at once are one
        done = end(process)
        assert done.returncode == 130, done.stderr
        assert events_of(store, RunFinished)[-1].outcome == "interrupted"
        verify(store.root)
        again = called(*arguments)
    assert again.returncode == 0, again.stderr
    assert len(events_of(store, QuestionJudged)) == 2


@pytest.mark.thorough
def test_a_shared_store_is_judged_by_its_address(tmp_path, monkeypatch):
    """Verdicts are published: another host, with a working copy of its own, sees them."""
    monkeypatch.setenv("LHAW_RECORD_HOME", str(tmp_path / "here"))
    address = f"shared:{tmp_path / 'place'}"
    (tmp_path / "place").mkdir()
    written_to(open_address(store_address(address)), asking(2))
    with server_beside(Judge(FLAGS)) as server:
        done = called("judge", address, *FAILURE_MODES, "--api-base", server.url)
    assert done.returncode == 0, done.stderr
    there = {"LHAW_RECORD_HOME": str(tmp_path / "there")}
    query = "select count(*) from stg_questions_judged"
    seen = called("sql", address, "-c", query, "--format", "csv", extra=there)
    assert seen.stdout.splitlines()[-1] == "2", seen.stderr


@pytest.mark.thorough
def test_new_tasks_and_grading_from_the_command_line(tmp_path):
    """``judge --kind new-task`` and ``grade`` say what they did; what cannot be graded again is named."""
    written = asking(1)
    written.trial("v", "underspecified", 0, agent="c", role="classifier", scores=(0,))
    store = written_to(tmp_path / "store", written)
    with server_beside(Judge(CONFIRMED)) as server:
        done = called("judge", store.root, "--kind", "new-task", "--model", JUDGE, "--api-base", server.url)
    assert done.returncode == 0, done.stderr
    graded = called("grade", store.root, "--format", "json")
    assert graded.returncode == 1
    assert json.loads(graded.stdout)[0]["reason"] == "its task has changed since"
    assert "3 trials cannot be graded: its task has changed since" in graded.stderr
    verify(store.root)
