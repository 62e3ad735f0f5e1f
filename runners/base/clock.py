"""The two clocks of a trial: the agent's own time, and the time spent waiting for infrastructure.

    agent's own time    its commands, the time between calls, and every model request that was answered
    waiting time        failed requests and their retry delays, the simulated user, tool servers, the recorder's disk,
                        and the wait at an endpoint's request gate (runners/models/endpoints)

The trial's patience limits the waiting time. It excludes the disk, because a disk failure could not be recorded, and
the request gate, which decides by itself when to stop waiting.

The gate reports its waits through :func:`held` to the current clock as they happen, even if the request is then
abandoned.

Which clock a request belongs to is known only when it ends. The agent's clock therefore stops while a request is under
way, and the agent is charged afterwards if the request was answered. As a result, no trial ends with ``time_limit``
while it waits, and a slow answer still counts against the model. Overlapping intervals (from multithreaded programs)
count once.

When this process's event loop was late, nobody's time passed: one trial's large request would otherwise use up the time
of all others (:class:`LoopWatch`).

The agent's processes may work while a request is under way, so their CPU time is the agent's own whatever it waits for
(:meth:`TrialClock.meter`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from lhaw_record.recorder.events.trial import Boundary
from lhaw_record.runners.base.errors import (
    BoundaryError,
    GraderError,
    ModelBoundaryError,
    SandboxBoundaryError,
    ToolBoundaryError,
    UserSimulatorError,
)

Result = TypeVar("Result")

_ERRORS: dict[Boundary, type[BoundaryError]] = {
    error.boundary: error
    for error in (ModelBoundaryError, ToolBoundaryError, SandboxBoundaryError, UserSimulatorError, GraderError)
}
_FOREVER = float("inf")
_SAMPLE_S = 1.0
_NEAR_S = 1.0  # within this time of a limit, every change sets the deadline anew
_IDLE_SHARE = 0.05  # a choice: what a client uses that waits, or shows a spinner
_TICK_S = 0.05
_LONG = 1024  # characters; a choice: to redact or to match them takes 5 ms at worst
_LATE_S = 0.05  # a choice: what a busy machine is late by all the time, which is the same for all agents


async def beside_loop(size: int, function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function, in a thread if it reads much: a peer chooses what that costs, and the event loop serves all."""
    if size < _LONG:
        return function(*arguments)
    return await anyio.to_thread.run_sync(function, *arguments)


@dataclass(eq=False)
class Interval:
    """An interval during which a trial waits.

    Args:
        began_s: The start, in monotonic seconds.
        boundary: The boundary that the trial waits for. None for a model request that has not ended yet.
        what: What the trial waits for, for messages.
        kind: The error kind to report if the trial's patience ends during this interval.
        is_exempt: Whether the interval is excluded from patience. Waits for the recorder always are.
        held_s: The seconds that a request has waited at its endpoint's request gate.
    """

    began_s: float
    boundary: Boundary | None
    what: str
    kind: str = "timeout"
    is_exempt: bool = False
    held_s: float = 0.0

    def __post_init__(self) -> None:
        self.is_exempt = self.is_exempt or self.boundary == "recorder"

    @property
    def uses_patience(self) -> bool:
        """Whether this interval counts against the trial's patience."""
        return self.boundary in _ERRORS and not self.is_exempt


class _Cover:
    """The total time covered by past intervals. Overlaps count once."""

    def __init__(self) -> None:
        self._before_s = 0.0
        self._intervals: list[tuple[float, float]] = []  # only those that an open interval can still overlap

    def add(self, began_s: float, now_s: float) -> None:
        """Add an interval that ends now, and merge it with those that it overlaps."""
        while self._intervals and self._intervals[-1][1] >= began_s:
            earlier_s, later_s = self._intervals.pop()
            began_s, now_s = min(began_s, earlier_s), max(now_s, later_s)
        self._intervals.append((began_s, now_s))

    def settle(self) -> None:
        """Collapse the past intervals into their sum; no later interval can begin before now."""
        while self._intervals:
            began_s, ended_s = self._intervals.pop()
            self._before_s += ended_s - began_s

    def total_s(self, open_since_s: list[float], now_s: float) -> float:
        """Return the seconds covered by past intervals and by open ones, given when these began."""
        total = _Cover()
        total._before_s, total._intervals = self._before_s, [*self._intervals]
        if open_since_s:
            total.add(min(open_since_s), now_s)
        total.settle()
        return total._before_s


class LoopWatch:
    """Tells the clocks of running agents how late an event loop is, before any of them can reach a limit by it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due_s = 0.0
        self._tick: asyncio.TimerHandle | None = None
        self._clocks: list[TrialClock] = []

    @contextmanager
    def telling(self, clock: "TrialClock") -> Iterator[None]:
        """Tell a clock of every delay in the block."""
        self._clocks.append(clock)
        if self._tick is None:
            self._go_on()
        try:
            yield
        finally:
            self._clocks.remove(clock)

    def look(self, now_s: float) -> None:
        """Report a delay so far to the clocks, for readers that look before the loop has caught up."""
        late_s = now_s - self._due_s
        if late_s > _LATE_S:
            self._due_s = now_s
            for clock in self._clocks:
                clock.loop_was_late(late_s)

    def _go_on(self) -> None:
        self._due_s = self._loop.time() + _TICK_S
        # A timer, not a task: it runs before those timers of limits that were due during a delay.
        self._tick = self._loop.call_at(self._due_s, self._ticked) if self._clocks else None

    def _ticked(self) -> None:
        self.look(self._loop.time())
        self._go_on()


_WATCH: RunVar[LoopWatch | None] = RunVar("loop_watch")  # of the running loop


class TrialClock:
    """Measures the agent's own time and the waiting time of one trial.

    Args:
        max_seconds: The limit on the agent's own time, in seconds.
        patience_s: The limit on the waiting time, in seconds.
        now_s: Returns the current time in monotonic seconds.
    """

    def __init__(
        self,
        max_seconds: float = _FOREVER,
        patience_s: float = _FOREVER,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_seconds = max_seconds
        self._patience_s = patience_s
        self._read_s = now_s
        self._began_s: float | None = None
        self._ended_s: float | None = None
        self._open: list[Interval] = []
        self._waited = _Cover()
        self._exempt = _Cover()
        self._backing_off: Interval | None = None
        self._last_straw: Interval | None = None
        self._scope: anyio.CancelScope | None = None
        self._safe_until_s = -_FOREVER  # no limit is reached before, whatever happens
        self._timer: asyncio.TimerHandle | None = None
        self._metered_s: float | None = None  # until when the agent's CPU time is known
        self._worked_s = 0.0
        self._watch: LoopWatch | None = None
        self.late_s = 0.0
        """For how long the event loop was late during the agent's part."""

    @property
    def charged_s(self) -> float:
        """The agent's own time so far, in seconds. A request under way counts neither here nor in ``waited_s``."""
        return self._elapsed_s() - self._covered_s(self._open)

    @property
    def waited_s(self) -> float:
        """The waiting time so far, in seconds."""
        return self._covered_s(interval for interval in self._open if interval.boundary is not None)

    @property
    def is_used_up(self) -> bool:
        """Whether the agent has used up its own time."""
        return self.now_s() >= self._safe_until_s and self.charged_s >= self._max_seconds

    @property
    def patience_left_s(self) -> float:
        """The remaining waiting time in seconds, not counting waits for the recorder or request gates."""
        exempt_s = self._exempt.total_s([each.began_s for each in self._open if each.is_exempt], self.now_s())
        return self._patience_s - (self.waited_s - (exempt_s - self._worked_s))

    async def bound(self, work: Callable[[], Awaitable[Result]]) -> Result | None:
        """Run the agent's part of a trial. Return None if the agent's own time ran out first."""
        self._began_s = self.now_s()
        if self._read_s is time.monotonic:  # as event loops
            self._watch = _WATCH.get(None) or LoopWatch()
            _WATCH.set(self._watch)
        watched = self._watch.telling(self) if self._watch is not None else nullcontext()
        try:
            with watched, self.current(), anyio.CancelScope() as self._scope:
                self._reset_deadline(self.now_s())
                return await work()
            self._check_patience()
            return None
        finally:
            self._scope = None
            self._ended_s, self._watch = self.now_s(), None
            self._look_again()

    def loop_was_late(self, late_s: float) -> None:
        """Count the seconds until now as nobody's: neither the agent's time nor a wait that uses patience."""
        now_s = self.now_s()
        began_s = max(now_s - late_s, self._began_s or 0.0)
        for cover in (self._waited, self._exempt):
            cover.add(began_s, now_s)
        self.late_s += now_s - began_s
        self._reset_deadline(now_s)

    async def meter(self, cpu_s: Callable[[], Awaitable[float | None]]) -> None:
        """Charge the agent for CPU time that its processes use while its clock is stopped, until cancelled.

        Args:
            cpu_s: Returns the CPU seconds of all its processes so far, or None while they are unknown.
        """
        before_s = await cpu_s()
        self._metered_s = self.now_s()
        while True:
            await anyio.sleep(_SAMPLE_S)
            now_s = await cpu_s()
            known_s = before_s if now_s is None else now_s
            self.used((known_s or 0.0) - (before_s or 0.0))
            before_s = known_s

    def used(self, cpu_s: float) -> None:
        """Count CPU seconds since the last call as the agent's own time, up to the time that has passed."""
        now_s = self.now_s()
        passed_s = now_s - (self._metered_s or 0.0)
        if cpu_s > _IDLE_SHARE * passed_s:
            worked_s = min(cpu_s, passed_s)
            for cover in (self._waited, self._exempt):  # covered, then taken off the cover: so it counts as not waited
                cover.add(now_s - worked_s, now_s)
            self._worked_s += worked_s
        self._metered_s = now_s
        self._settle()
        self._look_again()

    @contextmanager
    def current(self, request: Interval | None = None) -> Iterator[None]:
        """Route waits at request gates to this clock during the block."""
        token = _CURRENT.set((self, request))
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def waiting(self, boundary: Boundary, what: str, *, is_exempt: bool = False) -> "_Waiting":
        """Count the block as waiting time. If ``is_exempt`` is true, it does not count against patience."""
        return _Waiting(self, boundary, what, is_exempt)

    @contextmanager
    def holding(self, request: Interval | None) -> Iterator[None]:
        """Count the block as a request's wait at the request gate, which does not count against patience."""
        interval = self.began(Interval(self.now_s(), "model", "its turn at an endpoint", is_exempt=True))
        try:
            yield
        finally:
            if request is not None:
                request.held_s += self.now_s() - interval.began_s
            self.ended(interval, is_own=False)

    def asked(self) -> Interval:
        """Register a request to the agent's model. A call of ``answered`` or ``failed`` must follow."""
        self._end_of_backing_off()
        return self.began(Interval(self.now_s(), None, "its model"))

    def answered(self, request: Interval) -> None:
        """Charge the agent for the duration of an answered request, excluding the wait at the request gate."""
        self.ended(request, is_own=True)

    def failed(self, request: Interval, kind: str, message: str, *, holds_up: bool = True) -> None:
        """Count a failed request as waiting time.

        If ``holds_up`` is true, the time until the next request also counts as waiting time.
        """
        self.ended(request, is_own=False)
        if holds_up:
            self._end_of_backing_off()
            self._backing_off = self.began(Interval(self.now_s(), "model", message, kind))

    def began(self, interval: Interval) -> Interval:
        """Count time from now on as an interval's, until :meth:`ended`."""
        self._open.append(interval)
        self._reset_deadline(interval.began_s)
        return interval

    def _end_of_backing_off(self) -> None:
        interval, self._backing_off = self._backing_off, None
        if interval is not None:
            self.ended(interval, is_own=False)

    def ended(self, interval: Interval, *, is_own: bool) -> None:
        """End an interval, which was the agent's own time or waiting time."""
        now_s = self.now_s()
        is_near = now_s >= self._safe_until_s
        if is_near and interval.uses_patience and self.patience_left_s <= 0 and self._last_straw is None:
            self._last_straw = interval
        self._open.remove(interval)
        if interval.is_exempt:
            self._exempt.add(interval.began_s, now_s)
        if not is_own:
            self._waited.add(interval.began_s, now_s)
        if self._metered_s is None:
            self._settle()
        self._reset_deadline(now_s)

    def _settle(self) -> None:
        if not self._open:
            self._waited.settle()
            self._exempt.settle()

    def now_s(self) -> float:
        """Return the current time, or the time at which the agent's part ended if it has ended."""
        if self._ended_s is not None:
            return self._ended_s
        now_s = self._read_s()
        if self._watch is not None:
            self._watch.look(now_s)
        return now_s

    def _elapsed_s(self) -> float:
        return 0.0 if self._began_s is None else self.now_s() - self._began_s

    def _covered_s(self, intervals: Iterable[Interval]) -> float:
        """Return the seconds covered by past waiting or by the given open intervals, without those of work."""
        return self._waited.total_s([each.began_s for each in intervals], self.now_s()) - self._worked_s

    def _reset_deadline(self, now_s: float) -> None:
        """Set the scope's deadline to the moment when the running clock will reach its limit.

        There is none while both limits are far: a timer looks again at the earliest moment at which one could be
        reached, so that hardly any of a trial's thousands of changes moves a deadline.
        """
        if self._scope is None or now_s < self._safe_until_s:
            return
        own_left_s = self._max_seconds - (self._elapsed_s() - self._covered_s(()))  # if all that is open were its own
        unended_s = self._covered_s(self._open) - self.waited_s  # if all requests under way failed
        far_s = min(own_left_s, self.patience_left_s - unended_s)
        if far_s > _NEAR_S:
            self._scope.deadline, self._safe_until_s = _FOREVER, now_s + far_s
            if far_s < _FOREVER:
                self._timer = asyncio.get_running_loop().call_later(far_s, self._look_again)
            return
        left_s = _FOREVER
        if not self._open or self.is_used_up:
            left_s = self._max_seconds - self.charged_s
        elif any(interval.uses_patience for interval in self._open) and not any(
            interval.is_exempt for interval in self._open
        ):
            left_s = self.patience_left_s
        self._scope.deadline = anyio.current_time() + left_s

    def _look_again(self) -> None:
        self._safe_until_s = -_FOREVER
        if self._timer is not None:
            self._timer.cancel()
        self._reset_deadline(self.now_s())

    def _check_patience(self) -> None:
        """Raise the boundary's error if the trial ended because it waited too long."""
        awaited = [interval for interval in self._open if interval.uses_patience]
        last = self._last_straw or (awaited[-1] if awaited else None)
        if last is None or last.boundary is None or self.is_used_up:
            return
        waited = f"{self.waited_s:.3g} s in total, the limit of retry.patience_s"
        raise _ERRORS[last.boundary](f"the trial waited {waited}, most recently for {last.what}", kind=last.kind)


class _Waiting:
    """The context manager of :meth:`TrialClock.waiting`, a class because every append enters one."""

    def __init__(self, clock: TrialClock, boundary: Boundary, what: str, is_exempt: bool) -> None:
        self._clock, self._boundary, self._what, self._is_exempt = clock, boundary, what, is_exempt

    def __enter__(self) -> None:
        clock = self._clock
        self._interval = clock.began(Interval(clock.now_s(), self._boundary, self._what, is_exempt=self._is_exempt))
        self._token = _CURRENT.set((clock, None))

    def __exit__(self, *exc_info: object) -> None:
        _CURRENT.reset(self._token)
        self._clock.ended(self._interval, is_own=False)


_CURRENT: ContextVar[tuple[TrialClock, Interval | None] | None] = ContextVar("current_trial_clock", default=None)


@contextmanager
def held() -> Iterator[None]:
    """Report the block to the current trial's clock, if any, as a wait at an endpoint's request gate."""
    current = _CURRENT.get()
    if current is None:
        yield
        return
    clock, request = current
    with clock.holding(request):
        yield
