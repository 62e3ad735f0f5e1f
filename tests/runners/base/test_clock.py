"""Whose time it was: the agent's own seconds and those waited, by a clock that stands where the test puts it."""

import asyncio
import time
from contextlib import suppress
from functools import partial

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.runners.base.clock import TrialClock, held
from lhaw_record.runners.base.errors import BoundaryError


class Hands:
    """A clock that moves when it is told."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        """The time."""
        return self.now_s


@pytest.fixture
def hands():
    """The hands of a clock."""
    return Hands()


async def played(hands, story, **bounds):
    """Run a story on a clock and return its own and its waited seconds."""
    clock = TrialClock(now_s=hands, **bounds)

    async def work():
        story(clock)

    await clock.bound(work)
    return clock.charged_s, clock.waited_s


async def test_work_and_answered_requests_are_the_agents_own(hands):
    """Five seconds of work, seven of a request that was answered."""

    def story(clock):
        hands.now_s += 5
        request = clock.asked()
        hands.now_s += 7
        assert (clock.charged_s, clock.waited_s) == (5, 0)  # nobody knows yet whose time it is
        clock.answered(request)
        assert (clock.charged_s, clock.waited_s) == (12, 0)

    assert await played(hands, story) == (12, 0)


async def test_failed_requests_and_the_time_until_the_next_one_are_waited(hands):
    """Three seconds until it fails, twenty until it is asked again, and one second of an answer at last."""

    def story(clock):
        request = clock.asked()
        hands.now_s += 3
        clock.failed(request, "server_error", "broken")
        hands.now_s += 20
        request = clock.asked()
        hands.now_s += 1
        clock.answered(request)
        hands.now_s += 2

    assert await played(hands, story) == (3, 23)


async def test_a_failure_that_holds_nobody_up_is_waited_alone(hands):
    """A side request fails: what the agent does afterwards is its own."""

    def story(clock):
        request = clock.asked()
        hands.now_s += 3
        clock.failed(request, "server_error", "broken", holds_up=False)
        hands.now_s += 20

    assert await played(hands, story) == (20, 3)


async def test_what_overlaps_is_waited_once(hands):
    """Two questions at once, and a request that fails in the middle of them."""

    def story(clock):
        with clock.waiting("user_simulator", "an answer"):
            hands.now_s += 2
            request = clock.asked()
            with clock.waiting("tool", "a tool"):
                hands.now_s += 3
            clock.failed(request, "timeout", "late", holds_up=False)
            hands.now_s += 1
        hands.now_s += 4

    assert await played(hands, story) == (4, 6)


async def test_a_turn_at_a_door_is_waited_and_uses_no_patience(hands):
    """Whoever asks: the agent's model, its simulated user, or a request that is given up at the door."""
    clock = TrialClock(patience_s=60, now_s=hands)

    def turn(seconds):
        with held():
            hands.now_s += seconds
            assert clock.patience_left_s == before

    async def work():
        nonlocal before
        request = clock.asked()
        turn(1000)
        hands.now_s += 7
        clock.answered(request)
        with clock.waiting("user_simulator", "an answer"):
            turn(1000)
            hands.now_s += 10
        before = 50
        gone = clock.asked()
        with clock.current(gone):
            turn(1000)
        clock.failed(gone, "client_gone", "gone", holds_up=False)
        assert gone.held_s == 1000

    before = 60
    await clock.bound(work)
    assert (clock.charged_s, clock.waited_s, clock.patience_left_s) == (7, 3010, 50)


async def test_turns_that_overlap_are_exempt_once(hands):
    """Two threads of a program at one door for ten seconds: patience then covers every second of what follows."""
    clock = TrialClock(patience_s=30, now_s=hands)

    async def work():
        first, second = clock.asked(), clock.asked()
        with clock.holding(first), clock.holding(second):
            hands.now_s += 10
        clock.answered(first)
        clock.answered(second)
        with clock.waiting("tool", "a tool"):
            hands.now_s += 12

    await clock.bound(work)
    assert (clock.waited_s, clock.patience_left_s) == (22, 18)


async def test_no_trial_ends_at_a_door():
    """Patience that would end during a hold goes on after it."""
    clock = TrialClock(patience_s=0.05)
    ended = []

    async def work():
        with clock.waiting("user_simulator", "an answer"):
            with held():
                await anyio.sleep(0.2)
                ended.append("held")
            await anyio.sleep_forever()

    with pytest.raises(BoundaryError, match="most recently for an answer"):
        await clock.bound(work)
    assert ended == ["held"]


async def test_nothing_is_counted_after_the_end(hands):
    """A request that is closed when the agent's part is over was waited until then."""
    clock = TrialClock(now_s=hands)
    requests = []

    async def work():
        requests.append(clock.asked())
        hands.now_s += 2

    await clock.bound(work)
    hands.now_s += 50
    clock.failed(requests[0], "client_gone", "gone")
    assert (clock.charged_s, clock.waited_s) == (0, 2)


async def test_the_agents_own_time_ends_its_part():
    """What runs when it is used up is cancelled, and that is no failure."""
    clock = TrialClock(max_seconds=0.02, patience_s=60)
    assert await clock.bound(anyio.sleep_forever) is None
    assert clock.is_used_up


async def test_a_wait_outlasts_the_agents_own_time_and_an_answer_charges_it():
    """A request under way is never cut off by the agent's limit; its answer is charged, and then the time is over."""
    clock = TrialClock(max_seconds=0.02, patience_s=60)
    answers = []

    async def work():
        request = clock.asked()
        await anyio.sleep(0.05)
        clock.answered(request)
        answers.append(clock.is_used_up)
        await anyio.sleep_forever()

    assert await clock.bound(work) is None
    assert answers == [True]


@pytest.mark.parametrize("boundary", ["model", "tool", "sandbox", "user_simulator", "grader"])
async def test_patience_ends_at_the_boundary_that_was_waited_for(hands, boundary):
    """However little the agent may take, a wait without end is a failure of what it waits for, with a retry owed."""
    clock = TrialClock(max_seconds=0.001, patience_s=0.02, now_s=hands)

    async def work():
        with clock.waiting(boundary, "something"):
            hands.now_s += 1
            await anyio.sleep_forever()

    with pytest.raises(BoundaryError, match=r"most recently for something") as caught:
        await clock.bound(work)
    assert (caught.value.boundary, caught.value.kind, caught.value.is_retry_owed) == (boundary, "timeout", True)


async def test_patience_is_one_for_all_that_is_waited(hands):
    """Waits add up, and a failure that nobody follows up ends where the model failed."""
    clock = TrialClock(max_seconds=60, patience_s=30, now_s=hands)

    async def work():
        with clock.waiting("tool", "a tool"):
            hands.now_s += 20
        assert clock.patience_left_s == 10
        request = clock.asked()
        hands.now_s += 11
        clock.failed(request, "rate_limit", "too many requests")
        await anyio.sleep_forever()

    with pytest.raises(BoundaryError, match=r"31 s in total.*too many requests") as caught:
        await clock.bound(work)
    assert (caught.value.boundary, caught.value.kind) == ("model", "rate_limit")


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("open"), st.booleans()),
            st.tuples(st.just("close"), st.booleans()),
            st.tuples(st.just("pass"), st.integers(1, 9)),
            st.tuples(st.just("sample"), st.integers(0, 12)),
        ),
        max_size=40,
    )
)
def test_work_is_the_agents_time_whatever_it_waits_for(steps):
    """Second by second: a second is the agent's if nothing was waited for, the wait was answered, or it worked."""
    hands = Hands()
    clock = TrialClock(now_s=hands)

    async def work():
        is_waited, opened, last, worked = [], [], 0, set()
        clock._metered_s = hands.now_s
        for kind, value in steps:
            if kind == "open":
                opened.append((clock.asked(), len(is_waited)))
            elif kind == "close" and opened:
                request, begun = opened.pop()
                if value:
                    clock.answered(request)
                else:
                    clock.failed(request, "connection", "gone", holds_up=False)
                    is_waited[begun:] = [True] * (len(is_waited) - begun)
            elif kind == "pass":
                hands.now_s += value
                is_waited += [False] * value
            elif kind == "sample":
                now = len(is_waited)
                clock.used(value)
                worked |= set(range(max(last, now - value), now))
                last = now
        for request, _ in opened:
            clock.answered(request)
        own = sum(not waited or second in worked for second, waited in enumerate(is_waited))
        assert (clock.charged_s, clock.waited_s) == (own, len(is_waited) - own)

    asyncio.run(clock.bound(work))


async def test_an_idle_client_waits(hands):
    """What a client uses that only waits is not charged."""
    clock = TrialClock(now_s=hands)

    async def work():
        clock._metered_s = hands.now_s
        with clock.waiting("user_simulator", "an answer"):
            hands.now_s += 100
            clock.used(4.0)
        assert (clock.charged_s, clock.waited_s) == (0, 100)

    await clock.bound(work)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("work", "asked", "answered", "failed", "tool", "recorder", "grader", "held", "used")),
        st.floats(0.0, 3.0).map(lambda seconds: round(seconds, 2)),
    ),
    max_size=30,
)


def _stepped(clock, hands, asked, kind, seconds):
    """Take one step of a story on a clock, as its caller does; ``asked`` are the requests under way."""
    if kind == "asked":
        asked.append(clock.asked())
    if kind in ("work", "asked", "used", "answered", "failed"):
        hands.now_s += seconds
    if kind == "used":
        clock.used(seconds / 2)
    elif kind == "answered" and asked:
        clock.answered(asked.pop())
    elif kind == "failed" and asked:
        clock.failed(asked.pop(), "timeout", "slow")
    elif kind == "held":
        with held():
            hands.now_s += seconds
    elif kind in ("tool", "recorder", "grader"):
        with clock.waiting(kind, kind, is_exempt=kind == "grader"):
            hands.now_s += seconds


LIMITS_S = st.integers(1, 8).map(lambda seconds: seconds + 0.0025)  # no step ends just there


@given(steps=STEPS, max_seconds=LIMITS_S, patience_s=LIMITS_S)
async def test_a_deadline_that_is_read_is_the_one_that_is_set(steps, max_seconds, patience_s):
    """A clock that keeps no deadline while its limits are far ends a trial where one that always does ends it."""
    ends = {}

    async def work(near_s, clock, hands):
        asked = []
        for place, (kind, seconds) in enumerate(steps):
            _stepped(clock, hands, asked, kind, seconds)
            left_s = clock._scope.deadline - anyio.current_time()
            ends[near_s].append((clock.is_used_up, left_s <= 0, round(clock.patience_left_s, 6), place))

    for near_s in (1.0, float("inf")):
        ends[near_s], hands = [], Hands()
        clock = TrialClock(max_seconds=max_seconds, patience_s=patience_s, now_s=hands)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lhaw_record.runners.base.clock._NEAR_S", near_s)
            with suppress(BoundaryError):
                await clock.bound(partial(work, near_s, clock, hands))
    assert ends[1.0] == ends[float("inf")]


@pytest.mark.parametrize("kind", ["recorder", "tool", "work"])
async def test_the_timer_looks_again_until_the_limit_is_there(monkeypatch, kind):
    """A limit that was far when the trial began ends it, of whichever kind its time was."""
    monkeypatch.setattr("lhaw_record.runners.base.clock._NEAR_S", 0.01)
    clock = TrialClock(max_seconds=0.05, patience_s=0.2)

    async def work():
        if kind == "recorder":
            with clock.waiting("recorder", "the disk"):
                await anyio.sleep(0.1)
        elif kind == "tool":
            with clock.waiting("tool", "a tool"):
                await anyio.sleep_forever()
        await anyio.sleep_forever()

    if kind == "tool":
        with pytest.raises(BoundaryError, match="most recently for a tool"):
            await clock.bound(work)
    else:
        assert await clock.bound(work) is None
        assert clock.charged_s >= 0.05


def _nothing(clock):
    """No request is open."""


@pytest.mark.parametrize(
    "before",
    [
        _nothing,
        TrialClock.asked,
        lambda clock: clock.failed(clock.asked(), "timeout", "no answer"),
        lambda clock: clock.waiting("user_simulator", "an answer").__enter__(),
    ],
)
@pytest.mark.parametrize("after", [_nothing, lambda clock: [clock.answered(each) for each in clock._open[:1]]])
async def test_a_late_loop_is_nobodys_time(hands, before, after):
    """Whatever was open meanwhile: no limit comes nearer, and what is recorded as late was waited."""
    clock = TrialClock(max_seconds=50, patience_s=40, now_s=hands)

    async def work():
        before(clock)
        left_s = clock.patience_left_s
        hands.now_s += 30
        clock.loop_was_late(30)
        assert (clock.charged_s, clock.patience_left_s, clock.late_s) == (0, left_s, 30)
        after(clock)
        assert (clock.charged_s, clock.waited_s) == (0, 30)

    await clock.bound(work)


async def test_a_late_loop_ends_no_agent():
    """A limit that was due while the loop stood still has not passed, for the trial that stood still and for others."""
    clocks = [TrialClock(max_seconds=1.4) for _ in range(3)]
    ended = []

    async def work(clock):
        await anyio.sleep(0.2)
        if clock is clocks[0]:
            time.sleep(1.5)  # noqa: ASYNC251  as a large request would
            clock.answered(clock.asked())
        else:
            await anyio.sleep(0.01)
            clock.answered(clock.asked())
        return "submitted"

    async def run(clock):
        ended.append(await clock.bound(lambda: work(clock)))

    async with anyio.create_task_group() as tasks:
        for clock in clocks:
            tasks.start_soon(run, clock)
    assert ended == ["submitted"] * 3
    assert all(clock.late_s > 1 for clock in clocks)
