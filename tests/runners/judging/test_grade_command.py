"""``grade`` as a person meets it: which grader, what is said, exit codes, and the options of a judge."""

import asyncio
import json

import pytest

from lhaw_record.recorder.events import RunStarted
from tests.cli.program import called, verify
from tests.runners.judging.stores import Judge, asking, events_of, on_disk
from tests.runners.judging.test_grading_claims import HALF, MODEL, RIGHT, Strict, answered, later
from tests.support.chat_server import server_beside

JUDGE = ("--grader", "judge", "--judge-model", MODEL)


def written_to(place, written):
    """A store on the disk."""
    return asyncio.run(on_disk(place, written))


@pytest.mark.thorough
def test_both_graders_from_the_command_line(tmp_path):
    """A dry run asks and writes nothing; each grader records once; a second call finds nothing to do."""
    store = written_to(tmp_path / "store", answered(RIGHT, HALF, grader="mcp_atlas/judge-1-x:y"))
    with server_beside(Strict()) as server:
        judge = ("grade", store.root, *JUDGE, "--api-base", server.url, "--format", "json")
        dry = called(*judge, "--dry-run")
        assert (dry.returncode, server.requests, later(store)) == (0, [], {}), dry.stderr
        assert json.loads(dry.stdout)[0]["left"] == 2
        done = called(*judge)
        assert (done.returncode, len(server.requests)) == (0, 4), done.stderr
        assert "0 trials left, with 0 claims" in done.stderr
        assert json.loads(done.stdout)[0]["cost_usd"] is None, "the price is unknown"
        again = called(*judge)
        assert (again.returncode, len(server.requests)) == (0, 4)
    matched = called("grade", store.root, "--format", "json")
    assert (matched.returncode, json.loads(matched.stdout)[0]["graded"]) == (0, 2), matched.stderr
    assert len(later(store)) == 4
    assert "2 trials graded by" in matched.stderr
    query = "select count(distinct grader), count(*) from gradings"
    counted = called("sql", store.root, "-c", query, "--format", "csv")
    assert counted.stdout.splitlines()[-1] == "2,8"
    verify(store.root)


@pytest.mark.thorough
def test_a_claim_without_a_verdict_exits_1(tmp_path):
    """What is left is said, with the reason; the same command continues."""
    store = written_to(tmp_path / "store", answered(RIGHT))
    with server_beside(Judge("no")) as server:
        done = called("grade", store.root, *JUDGE, "--api-base", server.url)
    assert done.returncode == 1
    assert "1 trials left, with 2 claims" in done.stderr
    assert "the judge gave no verdict in 2 replies" in done.stderr
    assert "run the same command again" in done.stderr
    verify(store.root)


def test_a_grader_that_a_benchmark_does_not_have(tmp_path):
    """Its trials are counted with the reason and left alone; that is no failure."""
    store = written_to(tmp_path / "store", asking(1))
    done = called("grade", store.root, "--grader", "matcher", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert {row["reason"] for row in json.loads(done.stdout)} == {"desk has no matcher, its graders are: checks"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--grader", "judge"), "--grader judge and --judge-model MODEL belong together"),
        (("--judge-model", MODEL), "--grader judge and --judge-model MODEL belong together"),
        (("--grader", "judge", "--judge-model", "scripted/balanced"), "scripted models can only be agents"),
        ((*JUDGE, "--api-base", "http://127.0.0.1:1/v1", "--max-cost-usd", "1"), "add --price IN OUT"),
        ((*JUDGE, "--claim-judge", "no_such.md"), "no_such.md: the claim judge's template cannot be read"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_paid(tmp_path, arguments, problem):
    """A model, price or wording that is not there: exit 2, and the store is untouched."""
    store = written_to(tmp_path / "store", answered(RIGHT))
    done = called("grade", store.root, *arguments)
    assert done.returncode == 2, done.stderr
    assert problem in done.stderr
    assert len(events_of(store, RunStarted)) == 1
