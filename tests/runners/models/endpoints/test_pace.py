"""The pace: how many requests a limit refuses before it is known, judged by a simulation that shares no code with it.

The server of the simulation is ``tests/support/limits.py``; time is simulated, so nothing here waits.
"""

import heapq
from collections import deque
from itertools import count
from math import inf

import pytest

from lhaw_record.runners.models.endpoints.hints import retry_after_s, retry_headers
from lhaw_record.runners.models.endpoints.pace import Pace
from tests.support.limits import RequestLimit

EPOCH_S = 1_800_000_000.0
"""The wall clock's time when a simulation begins: resets in whole seconds depend on its fraction."""


class Outcome:
    """What a simulated run needed."""

    def __init__(self, sent, refused, seconds, most_under_way):
        self.sent = sent
        self.refused = refused
        self.seconds = seconds
        self.most_under_way = most_under_way


def simulate(limit, now, *, latency_s=0.01, clients=16, calls_each=13, processes=1):
    """Let clients that make one call after the other go to one limited server, through one pace in each process."""
    paces = [Pace() for _ in range(processes)]
    waiting = [deque(range(process, clients, processes)) for process in range(processes)]
    left = [calls_each] * clients
    events, number = [], count()
    sent = most = 0

    def later(at_s, what, client=0, sent_s=0.0, headers=None):
        heapq.heappush(events, (at_s, next(number), what, client, sent_s, headers or {}))

    for process in range(processes):
        later(0.01 * process, "wake", process)
    while events:
        now[0], _, what, client, sent_s, headers = heapq.heappop(events)
        process = client % processes
        pace, queue = paces[process], waiting[process]
        if what == "answered":
            limit.leave()
            pace.answered(now[0], sent_s)
            left[client] -= 1
        elif what == "refused":
            pace.refused(now[0], sent_s, retry_after_s(headers))
        if what != "wake" and left[client]:
            queue.append(client)
        while queue and (delay_s := pace.delay_s(now[0])) <= 1e-9:
            pace.sent(now[0])
            sent += 1
            most = max(most, sum(each.in_flight for each in paces))
            is_in = limit.enter()
            headers = retry_headers(limit.headers(is_refusal=not is_in))
            took_s = latency_s if is_in else 0.005
            later(now[0] + took_s, "answered" if is_in else "refused", queue.popleft(), now[0], headers)
        if queue and delay_s < inf:
            later(now[0] + delay_s, "wake", process)
    assert not any(left)
    return Outcome(sent, limit.refused, now[0], most)


def limited(now, *args, epoch_s=EPOCH_S, **options):
    """A limit on the simulated clock."""
    return RequestLimit(*args, clock=lambda: now[0], wall_clock=lambda: epoch_s + now[0], **options)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dialect", ["bare", "retry-after", "openai", "anthropic"])
@pytest.mark.parametrize("latency_s", [0.01, 2.0])
def test_one_request_a_second_is_learned_from_few_refusals(dialect, latency_s):
    """16 trials of 13 calls at 1 request/s: every call is answered, with fewer than 230 requests, near the limit."""
    now = [0.0]
    outcome = simulate(limited(now, 1.0, 1, dialect), now, latency_s=latency_s)
    assert outcome.sent < 230
    rounding = 1.6 if dialect == "anthropic" else 1.0  # its resets are in whole seconds, and the limit is tiny
    assert outcome.seconds < 1.25 * rounding * 208


@pytest.mark.parametrize(
    ("per_s", "burst", "latency_s", "clients", "most_refused", "slowest"),
    [
        (10.0, 10, 1.0, 16, 12, 1.5),
        (20.0, 20, 2.0, 60, 30, 1.6),
        (0.2, 3, 1.0, 16, 24, 1.2),
        (1.0, 60, 0.5, 16, 32, 1.2),
        (3.0, 3, 4.0, 16, 12, 1.7),
    ],
)
def test_other_limits_are_met_as_well(per_s, burst, latency_s, clients, most_refused, slowest):
    """Nothing is assumed about the rate, the burst or the latency, and the limit is used."""
    now = [0.0]
    outcome = simulate(limited(now, per_s, burst), now, latency_s=latency_s, clients=clients)
    assert outcome.refused <= most_refused
    assert outcome.seconds < slowest * clients * 13 / per_s + 20


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dialect", ["bare", "retry-after", "openai", "anthropic"])
@pytest.mark.parametrize(
    ("per_s", "burst", "latency_s", "processes", "most_refused", "slowest"),
    [
        (1.0, 1, 2.0, 1, 10, 1.6),
        (1.0, 1, 2.0, 2, 110, 6.5),
        (1.0, 1, 2.0, 4, 210, 9.0),
        (10.0, 10, 1.0, 2, 20, 1.7),
        (10.0, 10, 1.0, 4, 40, 3.2),
    ],
)
def test_processes_that_share_a_limit_all_end(per_s, burst, latency_s, processes, most_refused, slowest, dialect):
    """Paces that know nothing of each other: refusals stay bounded, and none is squeezed until it stands still."""
    now = [0.0]
    outcome = simulate(limited(now, per_s, burst, dialect), now, latency_s=latency_s, processes=processes)
    assert outcome.refused <= most_refused
    assert outcome.seconds < slowest * 208 / per_s


def test_a_limit_on_requests_under_way_is_learned():
    """A server that takes 4 requests at a time refuses few, and is kept busy."""
    now = [0.0]
    outcome = simulate(limited(now, 1e6, 10**6, at_once=4), now, latency_s=2.0)
    assert outcome.refused <= 12
    assert outcome.seconds < 2 * 208 * 2.0 / 4


def test_without_a_limit_nothing_is_held_back_for_long():
    """The requests under way double in every round trip, and never exceed what there is to do."""
    now = [0.0]
    outcome = simulate(limited(now, 1e6, 10**6), now, latency_s=2.0, clients=200)
    assert (outcome.refused, outcome.most_under_way) == (0, 200)
    assert outcome.seconds <= 13 * 2.0 + 7 * 2.0


def test_a_refusal_holds_everybody_back():
    """After a refusal nothing goes out before the time that the provider asked for, whoever asks."""
    pace = Pace()
    pace.sent(0.0)
    pace.refused(0.1, 0.0, retry_after_s=30.0)
    assert pace.delay_s(0.1) == pytest.approx(30.0)
    assert pace.delay_s(30.2) == 0.0
