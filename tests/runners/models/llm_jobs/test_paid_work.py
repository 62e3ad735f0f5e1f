"""A pool of paid jobs: how many at a time, what they may cost, and what stops them."""

import os
import signal

import anyio
import anyio.lowlevel
import pytest

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.runners.base.errors import ModelBoundaryError
from lhaw_record.runners.models.endpoints.door import door_of
from lhaw_record.runners.models.llm_jobs.paid_work import PaidWork
from lhaw_record.runners.models.protocol import ModelError
from tests.support.canned_model import text_reply


class Jobs:
    """Jobs of given prices that write down when they begin and end; they give way once in between."""

    def __init__(self, *prices):
        self.prices = prices
        self.log = []
        self.most_at_once = 0

    def __iter__(self):
        for number, price in enumerate(self.prices):
            yield self.job(number, price)

    def job(self, number, price):
        """One job."""

        async def work():
            self.log.append(("begins", number))
            running = sum(1 if what == "begins" else -1 for what, _ in self.log)
            self.most_at_once = max(self.most_at_once, running)
            await anyio.lowlevel.checkpoint()
            self.log.append(("ends", number))
            return price

        return work

    @property
    def begun(self):
        """The jobs that began, in their order."""
        return [number for what, number in self.log if what == "begins"]


class Watched(PaidWork):
    """A pool that says when it was stopped."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.has_stopped = anyio.Event()

    def stop(self, reason):
        """Stop, and say so."""
        self.has_stopped.set()
        super().stop(reason)


async def test_several_jobs_at_a_time_in_their_order():
    """Without a limit so many run at once as was said; all are done, and their known prices are added up."""
    jobs, changes = Jobs(0.5, None, 0.25, 0.0, 1.0), []
    work = PaidWork(concurrency=2, on_change=lambda pool: changes.append((pool.done, pool.running)))
    assert await work.run(jobs) == 0
    assert jobs.begun == [0, 1, 2, 3, 4]
    assert jobs.most_at_once == 2
    assert (work.done, work.spent_usd, work.running, work.stop_reason) == (5, 1.75, 0, None)
    assert [done for done, _ in changes] == [1, 2, 3, 4, 5]


async def test_with_a_limit_the_first_price_is_learnt_alone():
    """What costs nothing (a remembered reply) tells no price: jobs go one by one until one has cost something."""
    jobs = Jobs(0.0, 0.0, 1.0, 1.0, 1.0)
    work = PaidWork(concurrency=5, max_cost_usd=10.0)
    await work.run(jobs)
    assert jobs.log[:6] == [(what, number) for number in (0, 1, 2) for what in ("begins", "ends")]
    assert jobs.most_at_once == 2


async def test_no_job_begins_that_the_money_does_not_reach_for():
    """Those running are reserved for at the highest price so far; what is left is told, and the reason."""
    jobs = Jobs(1.0, 1.0, 1.0, 1.0)
    work = PaidWork(concurrency=4, max_cost_usd=3.5)
    assert await work.run(jobs) == 1
    assert (jobs.begun, work.spent_usd, work.stop_reason) == ([0, 1, 2], 3.0, "cost_limit")


async def test_kinds_of_jobs_have_their_own_prices_and_one_purse():
    """Cheap jobs of one kind tell nothing about another kind, but what they spent is spent."""
    cheap, dear = Jobs(0.1, 0.1), Jobs(2.0, 2.0)
    work = PaidWork(concurrency=4, max_cost_usd=3.0)
    assert await work.run(cheap, "cheap") == 0
    assert await work.run(dear, "dear") == 1
    assert (dear.begun, work.stop_reason) == ([0], "cost_limit")
    assert await work.run(Jobs(0.1), "cheap") == 1


async def test_a_refused_key_stops_what_has_not_begun():
    """Every other job would fail in the same way; another failure is only noted."""
    work = PaidWork(concurrency=1)
    failures = [ModelBoundaryError("overloaded", kind="server_error"), ModelBoundaryError("no", kind="authentication")]

    async def fail():
        work.note_failure(failures.pop(0), "task t")
        return 0.0

    assert await work.run([fail, fail, fail]) == 1
    assert work.failures == ["task t: overloaded", "task t: no"]
    assert work.stop_reason == "failed"


async def test_what_a_job_raises_ends_all():
    """A recorder that failed cancels the other jobs and comes out as itself, not in a group."""
    ended = []

    async def broken():
        raise RecordingFailed("the disk is full")

    async def long():
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    with pytest.raises(RecordingFailed, match="the disk is full"):
        await PaidWork(concurrency=2).run([long, broken])
    assert ended == ["cancelled"]


async def test_the_first_interrupt_lets_running_jobs_end():
    """After a signal nothing begins; what runs ends by itself and is counted. A second signal cancels it."""
    work, again = Watched(concurrency=1), Watched(concurrency=1)
    ended = []

    async def interrupted():
        os.kill(os.getpid(), signal.SIGINT)
        await work.has_stopped.wait()
        ended.append("first")
        return 1.0

    async def interrupted_twice():
        os.kill(os.getpid(), signal.SIGINT)
        await again.has_stopped.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await anyio.sleep_forever()

    assert await work.run([interrupted, interrupted]) == 1
    assert (ended, work.stop_reason, work.spent_usd) == (["first"], "interrupted", 1.0)
    assert await again.run([interrupted_twice, interrupted]) == 1
    assert (again.done, again.running, again.stop_reason) == (0, 0, "interrupted")


async def test_after_an_interrupt_nothing_more_is_asked():
    """Open requests end and are paid; those that wait at the door, and any further one, are not sent, and no failures.

    Afterwards the doors are open again.
    """
    said, door = [], door_of("m", "http://server", "of this test")
    work = Watched(concurrency=9, say=said.append)
    sent, left = [], []

    async def asks_twice():
        try:
            for _ in range(2):
                async with door.passage(lambda: "r") as passage:
                    sent.append(passage)
                    if len(sent) == door.state().under_way == 4:  # as many as a door lets out at first
                        os.kill(os.getpid(), signal.SIGTERM)
                    await work.has_stopped.wait()
                    passage.answered(text_reply("done"))
        except ModelError as error:
            left.append(work.note_failure(ModelBoundaryError(str(error), kind=error.kind), "task t"))
        return 1.0

    assert await work.run([asks_twice] * 20) == 11
    assert (len(sent), left, work.failures) == (4, [False] * 9, [])
    assert (work.done, work.spent_usd, work.stop_reason) == (9, 9.0, "interrupted")
    assert said == ["stopping: 9 jobs wait for their open requests; Ctrl-C again ends them now"]
    async with door.passage(lambda: "r") as passage:
        passage.answered(text_reply("done"))


async def test_a_limit_stops_the_pool_at_the_first_unknown_price():
    """With a limit, no job begins after one of unknown price; without one they all do, and are counted."""
    jobs = Jobs(1.0, None, 1.0)
    work = PaidWork(concurrency=1, max_cost_usd=5.0)
    assert await work.run(jobs) == 1
    assert (jobs.begun, work.stop_reason, work.unpriced) == ([0, 1], "cost_unknown", 1)
    work = PaidWork(concurrency=1)
    assert await work.run(Jobs(1.0, None, 1.0)) == 0
    assert work.spent == "2.0000 USD, and unknown costs of 1 more"
    work.unknown_cost_calls = 2
    assert work.spent == "2.0000 USD, and unknown costs of 3 more"
