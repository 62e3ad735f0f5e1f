"""Claims graded again on stored final answers: by the matcher, by a judge over real HTTP; nothing is asked twice."""

import json
import re

import anyio
import msgspec
import pytest

from lhaw_record.analytics.views import store as stores
from lhaw_record.recorder.events import (
    CheckpointScored,
    ModelCalled,
    ModelFailed,
    RunFinished,
    RunStarted,
    TrialFinished,
)
from lhaw_record.recorder.events.values import Checkpoint, Task
from lhaw_record.recorder.reading.reader import read_envelopes, read_snapshot
from lhaw_record.recorder.writing.redaction import Redactor
from lhaw_record.runners.environments.benchmarks.mcp_atlas.claims import MATCHER
from lhaw_record.runners.environments.benchmarks.mcp_atlas.judge import ClaimJudge
from lhaw_record.runners.judging.judge_run import JudgeSettings
from lhaw_record.runners.judging.regrading import Regrading
from lhaw_record.runners.judging.stored_claims import JudgedRegrading
from lhaw_record.runners.models.call_outcomes import RetryPolicy
from lhaw_record.runners.models.litellm_model import LitellmModel
from tests.analytics.imported import as_imported
from tests.analytics.make_store import Store as Written
from tests.runners.judging.stores import PRICE, Judge, asking, events_of, on_disk
from tests.support.canned_model import text_reply
from tests.support.chat_server import ChatServer

MODEL = "local-judge"
CLAIMS = ("The shop has 3 chairs.", "The shop opens at 9:30 on 2024-05-06.")
RIGHT = "The shop has 3 chairs. The shop opens at 9:30 on 2024-05-06."
HALF = "The shop has 3 chairs."
LABELS = {1.0: "fulfilled", 0.5: "partially_fulfilled", 0.0: "not_fulfilled"}


@pytest.fixture(autouse=True)
async def _closed(anyio_backend):
    """Close litellm's connections before the loop ends."""
    yield
    from lhaw_record.runners.models.litellm_library import close_clients

    await close_clients()


def verdict(score):
    """Return a judge's reply."""
    return json.dumps({"label": LABELS[score], "reason": "It says so.", "confidence": 0.9})


YES, PARTLY, NO = verdict(1.0), verdict(0.5), verdict(0.0)


class Strict:
    """A judge that fulfils a claim if its words stand in the answer, and keeps what it was asked."""

    name = MODEL

    def __init__(self):
        self.asked = []

    async def respond(self, request):
        """Reply to one claim."""
        claim, answer = re.fullmatch(
            r"Statement:\n(.*)\n\nAnswer:\n(.*)", request.messages[1].content, re.DOTALL
        ).groups()
        self.asked.append((claim, answer))
        return text_reply(YES if claim in answer else NO)


class Hanging(Strict):
    """A judge whose second reply never comes, the first time."""

    def __init__(self):
        super().__init__()
        self.hangs = anyio.Event()

    async def respond(self, request):
        """Reply to one claim."""
        if len(self.asked) == 1 and not self.hangs.is_set():
            self.hangs.set()
            await anyio.sleep_forever()
        return await super().respond(request)


def answered(*answers, grader=MATCHER, scores=(0.0, 0.0), experiment="e"):
    """Return trials of one task with two claims; one for each final answer."""
    written = Written(benchmark="mcp_atlas", trials=len(answers), experiment=experiment)
    task = Task(
        benchmark="mcp_atlas",
        benchmark_version="1",
        task_id="t",
        prompt="What about the shop?",
        checkpoints=tuple(Checkpoint(checkpoint_id=f"c{n}", label=claim) for n, claim in enumerate(CLAIMS, 1)),
        environment_digest="",
    )
    written.register(task)
    for index, answer in enumerate(answers):
        written.trial("t", "full", index, scores=scores, is_success=sum(scores) / 2 >= 0.75, grader=grader)
        for place, envelope in enumerate(written.envelopes):
            event = envelope.event
            if envelope.stream_id != written.streams["t", "full", index, "a"]:
                continue
            if isinstance(event, TrialFinished):
                event = msgspec.structs.replace(event, final_answer=answer)
            elif isinstance(event, CheckpointScored):
                event = msgspec.structs.replace(event, grader=grader)
            written.envelopes[place] = msgspec.structs.replace(envelope, event=event)
    return written


async def judged(store, url, **changes):
    """Let a judge score the claims of a store, as the command does."""
    parameters = changes.pop("parameters", {"temperature": 0})
    on_change = changes.pop("on_change", lambda done, total: None)
    values = {
        "model": LitellmModel(MODEL, api_base=url, price=PRICE),
        "parameters": parameters,
        "kind": "grade",
        "config": {},
        "redactor": Redactor(),
        "retry": RetryPolicy(max_attempts=3, first_delay_s=0.01),
        "request_timeout_s": 300.0,
        **changes,
    }
    regrading = JudgedRegrading(store, ClaimJudge(None, MODEL, parameters), JudgeSettings(**values), on_change)
    await regrading.run()
    return regrading


def later(store):
    """The results of later gradings: (stream, claim) -> score."""
    found = events_of(store, CheckpointScored)
    return {(event.graded_stream_id, event.checkpoint_id): event.score for event in found if not event.is_primary}


@pytest.mark.thorough
async def test_the_matcher_grades_stored_answers_beside_the_judge(tmp_path):
    """Answers and claims are enough, no rows file is read; results that the matcher gave first are not graded again."""
    store = await on_disk(tmp_path / "store", answered(RIGHT, HALF, "", grader="mcp_atlas/judge-1-x:y"))
    regrading = Regrading(store)
    await regrading.run()
    (row,) = regrading.ledger.rows()
    assert (row["found"], row["graded"], row["graded_before"], row["left"]) == (3, 3, 0, 0)
    assert (row["differing_trials"], row["differing_results"], row["changed_successes"]) == (2, 3, 1)
    assert sorted(later(store).values()) == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    assert {event.grader for event in events_of(store, CheckpointScored) if not event.is_primary} == {MATCHER}
    again = Regrading(store)
    await again.run()
    assert (again.ledger.total["graded"], again.ledger.total["graded_before"]) == (0, 3)
    own = Regrading(await on_disk(tmp_path / "own", answered(RIGHT)))
    own.look()
    assert own.ledger.total["graded_before"] == 1


async def test_imported_answers_can_be_graded_too(tmp_path):
    """What the grader needs is known of trials of any origin; one without its answer is refused, with the reason."""
    written = answered(RIGHT, "", grader="mcp_atlas/upstream_judge")
    first, second = written.streams.values()
    for stream in (first, second):
        as_imported(written, stream, "actions")
    ends = [place for place, each in enumerate(written.envelopes) if isinstance(each.event, TrialFinished)]
    with_answer = msgspec.structs.replace(written.envelopes[ends[0]].event, final_answer=RIGHT)
    written.envelopes[ends[0]] = msgspec.structs.replace(written.envelopes[ends[0]], event=with_answer)
    regrading = Regrading(await on_disk(tmp_path / "store", written))
    regrading.look()
    (row,) = regrading.ledger.rows()
    assert (row["graded"], row["not_gradable"], row["reason"]) == (1, 1, "its final answer is unknown")
    assert not regrading.ledger.has_refused, "no import ever told it"


async def test_the_judge_is_asked_once_for_each_claim(tmp_path):
    """One call for each claim, which sees claim and answer only; every score is durable, in a run of its own."""
    store = await on_disk(tmp_path / "store", answered(RIGHT, HALF))
    judge = Strict()
    async with ChatServer(judge) as server:
        regrading = await judged(store, server.url, concurrency=2)
    assert sorted(judge.asked) == sorted((claim, answer) for claim in CLAIMS for answer in (RIGHT, HALF))
    assert all("What about the shop?" not in str(body) for body in server.requests)
    assert sorted(later(store).values()) == [0.0, 1.0, 1.0, 1.0]
    (row,) = regrading.ledger.rows()
    assert (row["graded"], row["left"], row["differing_results"], row["changed_successes"]) == (2, 0, 3, 1)
    assert row["cost_usd"] == pytest.approx(4 * 0.0012)
    assert (regrading.work.spent_usd, regrading.claims_left) == (pytest.approx(4 * 0.0012), 0)
    run = events_of(store, RunStarted)[-1]
    stream = [each.event for each in read_envelopes(store.root, run.run_id)]
    assert run.run_kind == run.kind == "grade"
    assert (stream[-1].outcome, stream[-1].message) == ("completed", "2 done, 0 failed, 0 left")
    calls = [event for event in stream if isinstance(event, ModelCalled)]
    assert {event.role for event in calls} == {"judge"}
    assert len({event.call_id for event in calls}) == 4
    graders = {event.grader for event in stream if isinstance(event, CheckpointScored)}
    assert graders == {ClaimJudge(None, MODEL, {"temperature": 0}).name}


@pytest.mark.thorough
async def test_what_it_took_stands_with_the_trials(tmp_path):
    """The calls about an attempt are the cost of judging it; no number of the trial itself changes."""
    written = answered(RIGHT, HALF)
    store = await on_disk(tmp_path / "store", written)
    async with ChatServer(Strict()) as server:
        await judged(store, server.url)
    connection = stores.open(store.root, only={"costs", "trials"})
    try:
        query = "select stream_id, n_calls, cost_usd from costs where purpose = 'judging' order by all"
        rows = connection.execute(query).fetchall()
        assert connection.execute("select distinct scores, is_success from trials").fetchall() == [([0.0, 0.0], False)]
    finally:
        connection.close()
    assert rows == [(stream, 2, pytest.approx(0.0024)) for stream in sorted(written.streams.values())]


@pytest.mark.thorough
async def test_nothing_is_asked_twice(tmp_path):
    """A second run asks nothing, nor of trials that this judge graded first; other parameters are another judge."""
    first = ClaimJudge(None, MODEL, {"temperature": 1}).name
    store = await on_disk(tmp_path / "store", answered(RIGHT), answered(HALF, grader=first, experiment="f"))
    async with ChatServer(Strict()) as server:
        await judged(store, server.url)
        again = await judged(store, server.url)
        assert (len(server.requests), again.ledger.total["graded_before"]) == (4, 2)
        other = await judged(store, server.url, parameters={"temperature": 1})
    assert (len(server.requests), other.ledger.total["graded_before"]) == (6, 1)


@pytest.mark.thorough
async def test_no_score_is_made_up(tmp_path):
    """Malformed twice, asked as before: a failed call and no score; the other claims and the next run go on."""
    store = await on_disk(tmp_path / "store", answered(RIGHT))
    model = Judge("Hm.", "Well.", NO, YES)
    async with ChatServer(model) as server:
        regrading = await judged(store, server.url)
        assert [request.messages for request in model.requests[:2]] == [model.messages(0)] * 2
        (row,) = regrading.ledger.rows()
        assert (row["graded"], row["left"], regrading.claims_left) == (0, 1, 1)
        assert "t, claim c1: the judge gave no verdict in 2 replies" in regrading.work.failures[0]
        assert list(later(store).values()) == [0.0]
        (failed,) = events_of(store, ModelFailed)
        assert (failed.error_kind, "Well." in failed.message) == ("malformed_verdict", True)
        assert events_of(store, RunFinished)[-1].outcome == "failed"
        again = await judged(store, server.url)
    assert (len(model.requests), again.ledger.total["graded"], again.ledger.total["left"]) == (4, 1, 0)
    assert sorted(later(store).values()) == [0.0, 1.0]


async def test_an_empty_answer_is_scored_without_asking(tmp_path):
    """As at the end of a trial: it is the agent's doing, and costs nothing."""
    store = await on_disk(tmp_path / "store", answered("  ", scores=(1.0, 1.0)))
    async with ChatServer(Strict()) as server:
        regrading = await judged(store, server.url)
    assert (server.requests, regrading.ledger.total["graded"]) == ([], 1)
    assert list(later(store).values()) == [0.0, 0.0]


@pytest.mark.thorough
async def test_the_cost_limit_is_kept_and_the_rest_goes_on_later(tmp_path):
    """0.005 USD pay for two trials of two claims at 0.0012 each; a further invocation does the third."""
    store = await on_disk(tmp_path / "store", answered(RIGHT, HALF, "Nothing."))
    async with ChatServer(Strict()) as server:
        regrading = await judged(store, server.url, concurrency=3, max_cost_usd=0.005)
        assert (len(server.requests), regrading.ledger.total["left"], regrading.work.stop_reason) == (
            4,
            1,
            "cost_limit",
        )
        assert regrading.claims_left == 2
        again = await judged(store, server.url, max_cost_usd=0.005)
    assert (len(server.requests), again.ledger.total["left"]) == (6, 0)


@pytest.mark.thorough
async def test_a_run_that_was_cancelled_is_closed_and_resumed(tmp_path):
    """Cancelled while the second claim hangs: the run ends as interrupted, and only that claim is asked for again."""
    store = await on_disk(tmp_path / "store", answered(RIGHT))
    judge = Hanging()
    async with ChatServer(judge) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(judged, store, server.url)
            await judge.hangs.wait()
            tasks.cancel_scope.cancel()
        assert events_of(store, RunFinished)[-1].outcome == "interrupted"
        assert list(later(store).values()) == [1.0]
        again = await judged(store, server.url)
    assert [claim for claim, _ in judge.asked] == [CLAIMS[0], CLAIMS[1]]
    assert (again.ledger.total["graded"], len(later(store))) == (1, 2)


@pytest.mark.thorough
async def test_a_dry_run_of_the_judge_asks_and_records_nothing(tmp_path):
    """It counts what would be asked for; trials of benchmarks without claims are left alone and are no failure."""
    store = await on_disk(tmp_path / "store", answered(RIGHT), asking(1, experiment="desk"))
    before = read_snapshot(store.root).segments
    settings = JudgeSettings(
        model=Strict(),
        parameters={},
        kind="grade",
        config={},
        redactor=Redactor(),
        retry=RetryPolicy(),
        request_timeout_s=300.0,
    )
    regrading = JudgedRegrading(store, ClaimJudge(None, MODEL, {}), settings)
    regrading.look()
    rows = {row["experiment_id"]: row for row in regrading.ledger.rows()}
    assert (rows["e"]["left"], regrading.claims_left) == (1, 2)
    assert rows["desk"]["reason"] == "desk has no judge, its graders are: checks"
    assert not regrading.ledger.has_refused
    assert read_snapshot(store.root).segments == before
