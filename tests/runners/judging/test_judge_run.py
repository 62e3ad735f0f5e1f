"""A judge over a store, through real HTTP: what is asked, recorded, repeated, limited and resumed."""

import os
import signal

import anyio
import pytest

from lhaw_record.analytics.views import store as stores
from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events import (
    ModelCalled,
    ModelFailed,
    ModelResponded,
    QuestionJudged,
    RunFinished,
    RunStarted,
)
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.writing.redaction import Redactor
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.judging.failure_modes import JUDGED, FailureModes
from lhaw_record.runners.models.litellm_model import LitellmModel
from tests.runners.judging.stores import FLAGS, JUDGE, PRICE, Judge, asking, events_of, judged, on_disk
from tests.support.chat_server import ChatServer, chat_server
from tests.support.faults import Fault


@pytest.fixture(autouse=True)
async def _closed(anyio_backend):
    """Close litellm's connections before the loop ends."""
    yield
    from lhaw_record.runners.models.litellm_library import close_clients

    await close_clients()


async def test_every_trial_with_questions_is_judged_once(tmp_path):
    """One verdict per asking trial, one run stream from start to end, all under role judge; the tables use it."""
    written = asking(3)
    store = await on_disk(tmp_path / "store", written)
    async with chat_server(Judge(FLAGS)) as url:
        driver = await judged(store, url, concurrency=2)
    verdicts = events_of(store, QuestionJudged)
    asked = {stream for (_, condition, _, _), stream in written.streams.items() if condition == "ask_user"}
    assert {verdict.judged_stream_id for verdict in verdicts} == asked
    assert {verdict.judge for verdict in verdicts} == {JUDGE}
    assert [flag.flag for flag in verdicts[0].flags] == list(JUDGED)
    assert driver.tally.left == 0
    assert driver.work.spent_usd == pytest.approx(3 * 0.0012)
    run = events_of(store, RunStarted)[-1]
    stream = [each.event for each in read_envelopes(store.root, run.run_id)]
    assert isinstance(stream[0], RunStarted)
    assert isinstance(stream[-1], RunFinished)
    assert (stream[-1].outcome, stream[-1].message) == ("completed", "3 done, 0 failed, 0 left")
    assert {event.role for event in stream if isinstance(event, ModelCalled)} == {"judge"}
    connection = stores.open(store.root, only={"failure_modes", "trials"})
    try:
        query = "select value, n_units, n_dropped from failure_modes where measure = 'vague_questions'"
        assert connection.execute(query).fetchall() == [(0.0, 3, 0)]
        assert connection.execute("select distinct trials_per_cell from trials").fetchall() == [(3,)]
    finally:
        connection.close()


@pytest.mark.thorough
async def test_what_it_took_stands_with_the_trials(tmp_path):
    """The calls about an attempt are the cost of judging it, the one that brought no verdict too."""
    written = asking(2)
    store = await on_disk(tmp_path / "store", written)
    async with chat_server(Judge("I cannot say.", FLAGS, FLAGS)) as url:
        driver = await judged(store, url, concurrency=1)
    connection = stores.open(store.root, only={"costs", "trial_counts_and_cost"})
    try:
        query = "select stream_id, n_calls, cost_usd from costs where purpose = 'judging' and n_calls > 0"
        rows = connection.execute(query).fetchall()
        query = """select n_calls, cost_usd from trial_counts_and_cost
            where purpose = 'judging' and condition = 'ask_user'"""
        assert connection.execute(query).fetchall() == [(3, pytest.approx(driver.work.spent_usd))]
    finally:
        connection.close()
    asked = {stream for (_, condition, _, _), stream in written.streams.items() if condition == "ask_user"}
    assert {stream for stream, _, _ in rows} == asked
    assert sorted(calls for _, calls, _ in rows) == [1, 2]
    assert sum(cost for _, _, cost in rows) == pytest.approx(driver.work.spent_usd)


@pytest.mark.thorough
async def test_what_is_judged_is_not_judged_again(tmp_path):
    """The same judge with the same prompt asks nothing; another prompt or another judge does."""
    store = await on_disk(tmp_path / "store", asking(2))
    async with ChatServer(Judge(FLAGS)) as server:
        await judged(store, server.url)
        again = await judged(store, server.url)
        assert (len(server.requests), again.tally.rows()[0]["judged_before"]) == (2, 2)
        await judged(store, server.url, FailureModes(JUDGE, {"temperature": 1}))
        await judged(store, server.url, FailureModes("another", {"temperature": 0}))
    assert len(server.requests) == 6


async def test_only_the_attempt_that_counts_is_judged(tmp_path):
    """Of two valid attempts the higher-numbered one, whichever was recorded first; a failed one never."""
    written = asking(1)
    attempts = {}
    for number, ends in ((3, "finished"), (2, "finished"), (4, "failed")):
        written.trial("v", "ask_user", 0, actions=["ask_user S1", "submit"], attempt=number, ends=ends, model="m")
        attempts[number] = written.streams["v", "ask_user", 0, "a"]
    store = await on_disk(tmp_path / "store", written)
    async with chat_server(Judge(FLAGS)) as url:
        await judged(store, url)
    assert [event.judged_stream_id for event in events_of(store, QuestionJudged)] == [attempts[3]]


async def test_the_prompt_has_what_a_judge_needs(tmp_path):
    """Both prompts, the missing details with their scores, questions with answers and places, the actions, the end."""
    store = await on_disk(tmp_path / "store", asking(1))
    judge = Judge(FLAGS)
    async with chat_server(judge) as url:
        await judged(store, url)
    text = judge.messages(0)[1].content
    for part in (
        "do t\n",
        "do some t\n",
        "- S1: value 1 (goal, any; criticality 1, guessability 0)",
        "question 1, action 2: which?\nanswer: this",
        'action 1: read {"value":"a"}',
        "success, ended by submitted; point 1: 1 of 1",
    ):
        assert part in text


@pytest.mark.thorough
async def test_a_malformed_reply_is_asked_for_once_more(tmp_path):
    """The judge sees its own reply and what is wrong with it; both replies are recorded, one verdict counts."""
    store = await on_disk(tmp_path / "store", asking(1))
    judge = Judge("It looks fine to me.", FLAGS)
    async with chat_server(judge) as url:
        driver = await judged(store, url)
    messages = judge.messages(1)
    assert [message.role for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[2].content == "It looks fine to me."
    assert "it has no JSON object" in messages[3].content
    assert len(events_of(store, ModelResponded)) - before(store) == 2
    assert len(events_of(store, QuestionJudged)) == 1
    assert driver.work.spent_usd == pytest.approx(2 * 0.0012)
    run = events_of(store, RunStarted)[-1]
    assert len(rebuild_requests(each.event for each in read_envelopes(store.root, run.run_id))) == 2


def before(store):
    """How many replies of agents there are."""
    return sum(event.role == "agent" for event in events_of(store, ModelResponded))


@pytest.mark.thorough
async def test_no_verdict_is_ever_made_up(tmp_path):
    """Malformed twice: a failed call with the reply in it, no verdict; others go on, and the next run asks again."""
    store = await on_disk(tmp_path / "store", asking(2))
    async with chat_server(Judge("Hm.", '{"flags": {}}', FLAGS)) as url:
        driver = await judged(store, url, concurrency=1)
        assert (driver.tally.left, len(driver.work.failures)) == (1, 1)
        assert "these flags are missing" in driver.work.failures[0]
        assert len(events_of(store, QuestionJudged)) == 1
        (failed,) = events_of(store, ModelFailed)
        assert (failed.role, failed.error_kind, failed.is_retried) == ("judge", "malformed_verdict", False)
        assert '{"flags": {}}' in failed.message
        assert "10 input and 2 output tokens, price 0.001200 USD" in failed.message
        assert (failed.usage.input_tokens, failed.usage.output_tokens, failed.usage.cost_usd) == (10, 2, 0.0012)
        assert events_of(store, RunFinished)[-1].outcome == "failed"
        again = await judged(store, url)
    assert again.tally.left == 0
    assert len(events_of(store, QuestionJudged)) == 2


@pytest.mark.thorough
async def test_an_empty_reply_is_asked_for_again_as_it_was(tmp_path):
    """No empty assistant turn is sent back: some providers refuse it."""
    store = await on_disk(tmp_path / "store", asking(1))
    judge = Judge("", FLAGS)
    async with chat_server(judge) as url:
        await judged(store, url)
    assert judge.messages(0) == judge.messages(1)
    assert len(events_of(store, QuestionJudged)) == 1


@pytest.mark.thorough
async def test_faults_of_the_server_are_retried_as_in_a_run(tmp_path):
    """A rate limit and a server error are each recorded as retried failures; the verdict comes all the same."""
    store = await on_disk(tmp_path / "store", asking(1))
    async with chat_server(Judge(FLAGS), [Fault(kind="rate_limit"), Fault(kind="server_error")]) as url:
        driver = await judged(store, url)
    assert driver.tally.left == 0
    failures = [(event.role, event.error_kind, event.is_retried) for event in events_of(store, ModelFailed)]
    assert failures == [("judge", "rate_limit", True), ("judge", "server_error", True)]


@pytest.mark.thorough
async def test_a_refused_key_stops_the_run(tmp_path):
    """Every other request would be refused too: none is sent."""
    store = await on_disk(tmp_path / "store", asking(3))
    async with ChatServer(Judge(FLAGS), [Fault(kind="unauthorised", times=None)]) as server:
        driver = await judged(store, server.url, concurrency=1)
    assert (len(server.requests), driver.tally.left, driver.work.stop_reason) == (1, 3, "failed")


@pytest.mark.thorough
async def test_the_cost_limit_is_kept_and_the_rest_goes_on_later(tmp_path):
    """0.003 USD pay for two replies of 0.0012; a further invocation does the third."""
    store = await on_disk(tmp_path / "store", asking(3))
    async with ChatServer(Judge(FLAGS)) as server:
        driver = await judged(store, server.url, concurrency=3, max_cost_usd=0.003)
        assert (len(server.requests), driver.tally.left, driver.work.stop_reason) == (2, 1, "cost_limit")
        assert events_of(store, RunFinished)[-1].outcome == "cost_limit"
        again = await judged(store, server.url, max_cost_usd=0.003)
    assert (len(server.requests), again.tally.left) == (3, 0)


@pytest.mark.thorough
async def test_a_run_that_was_stopped_is_closed_and_resumed(tmp_path):
    """Cancelled in the middle: the run ends as interrupted, what was judged stays, the rest is judged later."""
    store = await on_disk(tmp_path / "store", asking(3))
    async with ChatServer(Judge(FLAGS)) as server:
        with anyio.CancelScope() as scope:
            await judged(store, server.url, on_change=lambda _: scope.cancel(), concurrency=1)
        assert len(events_of(store, QuestionJudged)) in (1, 2)
        assert events_of(store, RunFinished)[-1].outcome == "interrupted"
        first = len(events_of(store, QuestionJudged))
        again = await judged(store, server.url)
    assert again.tally.rows()[0]["judged_before"] == first
    assert len(events_of(store, QuestionJudged)) == 3


class Interrupted(Judge):
    """A judge during whose reply the command is interrupted."""

    def __init__(self, *replies):
        super().__init__(*replies)
        self.has_arrived = anyio.Event()

    async def respond(self, request):
        """Reply once the interrupt has arrived."""
        os.kill(os.getpid(), signal.SIGTERM)
        await self.has_arrived.wait()
        return await super().respond(request)


@pytest.mark.thorough
async def test_after_an_interrupt_a_judgement_that_must_ask_again_is_left(tmp_path):
    """The open request is recorded and not paid for again; nothing was sent after it, and nothing failed."""
    store = await on_disk(tmp_path / "store", asking(1))
    judge = Interrupted("Hm.")
    async with ChatServer(judge) as server:
        driver = await judged(store, server.url, say=lambda _: judge.has_arrived.set())
    assert (len(server.requests), driver.work.failures, driver.work.stop_reason) == (1, [], "interrupted")
    assert (driver.tally.tried, driver.tally.left, driver.work.spent_usd) == (0, 1, pytest.approx(0.0012))
    assert len(events_of(store, ModelResponded)) - before(store) == 1
    assert [(event.error_kind, event.is_retried) for event in events_of(store, ModelFailed)] == [("interrupted", False)]
    assert events_of(store, RunFinished)[-1].message == "0 done, 0 failed, 1 left"
    async with chat_server(Judge(FLAGS)) as url:
        assert (await judged(store, url)).tally.left == 0


async def test_the_lock_of_the_experiment_is_held(tmp_path):
    """While somebody runs the experiment nothing is judged, and no request is sent."""
    store = await on_disk(tmp_path / "store", asking(1))
    async with ChatServer(Judge(FLAGS)) as server:
        with store.hold_experiment("e"), pytest.raises(StoreError, match="is being run by"):
            await judged(store, server.url)
    assert server.requests == []


@pytest.mark.thorough
async def test_only_chosen_experiments_and_agents(tmp_path):
    """Each experiment has a run stream of its own; an unknown name is an error that lists the known ones."""
    store = await on_disk(tmp_path / "store", asking(1), asking(2, experiment="f", model="n"))
    async with ChatServer(Judge(FLAGS)) as server:
        with pytest.raises(ExperimentError, match="has no experiment 'g'; it has e, f"):
            await judged(store, server.url, experiment_id="g")
        with pytest.raises(ExperimentError, match="agent 'b' has nothing to judge; these have: a"):
            await judged(store, server.url, agents=("b",))
        await judged(store, server.url, experiment_id="f")
        assert len(server.requests) == 2
        driver = await judged(store, server.url)
    assert [row["experiment_id"] for row in driver.tally.rows()] == ["e", "f"]
    judging = [each for each in read_envelopes(store.root) if isinstance(each.event, QuestionJudged)]
    assert sorted(each.experiment_id for each in judging) == ["e", "f", "f"]


async def test_the_key_is_never_recorded(tmp_path):
    """A key that a reply repeats is redacted like in any run."""
    store = await on_disk(tmp_path / "store", asking(1))
    secret = "local-4f1c9b7a2e"
    async with ChatServer(Judge(FLAGS.replace("seen nothing", f"seen {secret}"))) as server:
        model = LitellmModel(JUDGE, api_base=server.url, api_key=secret, price=PRICE)
        await judged(store, server.url, model=model, redactor=Redactor([secret]))
    assert server.headers[0]["authorization"] == f"Bearer {secret}"
    assert events_of(store, QuestionJudged)[0].flags[0].reason == "seen [redacted]"
    assert not any(secret in str(each) for each in read_envelopes(store.root))
