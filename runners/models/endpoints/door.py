"""The request gate of an endpoint, which every request from this process to that endpoint passes through.

Requests to the same model, address and key share a gate, whether an agent, simulated user, judge or generator sends
them. The gate sends them in order of arrival. The wait at the gate counts neither as the agent's time nor as model
latency; replies and errors report it as ``held_s``.
"""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from math import inf
from typing import ClassVar

import anyio
import msgspec

from lhaw_record.runners.base.clock import held
from lhaw_record.runners.base.errors import EndpointDown
from lhaw_record.runners.models.endpoints.breaker import Breaker
from lhaw_record.runners.models.endpoints.pace import Pace
from lhaw_record.runners.models.protocol import ModelError, ModelReply

INTERRUPTED = "interrupted"
"""Error kind of a request that was not sent because the run was interrupted."""

_WINDOW_S = 60.0  # of DoorState.per_minute


class DoorState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an endpoint as shown in the progress display.

    ``per_minute`` counts answers in the last minute. Since the process started, ``refused`` counts rate-limited
    requests, and ``failed`` counts other failures. ``held_s`` is the time until the next request may go out, and
    ``why`` is the reason; ``held_s`` is 0 during a probe.
    """

    name: str
    per_minute: int
    under_way: int
    waiting: int
    answered: int
    refused: int
    failed: int
    held_s: float = 0.0
    why: str | None = None


class Passage:
    """One request passing through the gate. :meth:`answered` must be called with its reply."""

    def __init__(self, door: "Door", request: Callable[[], str]) -> None:
        self._door = door
        self.request = request
        self.sent_s = 0.0
        self.held_s = 0.0
        self.has_ended = False
        self.is_probe = False

    def answered(self, reply: ModelReply) -> ModelReply:
        """Update the gate from a reply, and return the reply with its ``held_s``."""
        self.has_ended = True
        self._door._answered(self.sent_s)
        return msgspec.structs.replace(reply, held_s=self.held_s)


class Door:
    """The request gate of one endpoint.

    Args:
        name: The model and its address, for messages.
        pace: Limits the request rate.
        breaker: The endpoint's circuit breaker.
    """

    are_closed: ClassVar[bool] = False
    """Whether all request gates in this process are closed."""

    def __init__(
        self,
        name: str,
        *,
        pace: Pace | None = None,
        breaker: Breaker | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._pace = pace or Pace()
        self._breaker = breaker or Breaker(name)
        self._clock = clock
        self._turnstile = anyio.Lock(fast_acquire=True)
        self._changed = anyio.Event()
        self._answered_at_s: deque[float] = deque()
        self._waiting = 0
        self._counts = {"answered": 0, "refused": 0, "failed": 0}

    @asynccontextmanager
    async def passage(self, request: Callable[[], str]) -> AsyncIterator[Passage]:
        """Wait until a request may go out, and count it as under way during the block."""
        passage = Passage(self, request)
        await self._admit(passage)
        try:
            yield passage
        except ModelError as error:
            passage.has_ended = True
            error.held_s = passage.held_s
            self._failed(error, passage)
            raise
        finally:
            if not passage.has_ended:
                self._pace.ended()
            if passage.is_probe:
                self._breaker.probe_ended(has_result=passage.has_ended)
            self._wake()

    def state(self) -> DoorState:
        """Return the state for the progress display."""
        now_s = self._clock()
        self._forget(now_s)
        breaker_s = 0.0 if self._breaker.is_probed else self._breaker.delay_s(now_s)
        delay_s = max(self._pace.cooldown_until_s - now_s, breaker_s, 0.0)
        why = self._breaker.reason or ("rate limit" if delay_s > 0 else None)
        return DoorState(
            name=self.name,
            per_minute=len(self._answered_at_s),
            under_way=self._pace.in_flight,
            waiting=self._waiting,
            held_s=delay_s,
            why=why,
            **self._counts,
        )

    def try_now(self) -> None:
        """Let one request probe an endpoint that is down, because a new run begins."""
        self._breaker.try_now()
        self._wake()

    async def _admit(self, passage: Passage) -> None:
        came_s = self._clock()
        self._waiting += 1
        try:
            with held():
                async with self._turnstile:
                    while (delay_s := self._delay_s()) > 0:
                        with anyio.move_on_after(delay_s if delay_s < inf else None):
                            await self._changed.wait()
                    passage.sent_s = self._clock()
                    self._pace.sent(passage.sent_s)
                    passage.is_probe = self._breaker.sent()
        except ModelError as error:
            error.held_s = self._clock() - came_s
            raise
        finally:
            self._waiting -= 1
        passage.held_s = passage.sent_s - came_s

    def _delay_s(self) -> float:
        if Door.are_closed:
            raise ModelError("interrupted before it was sent", kind=INTERRUPTED, is_retryable=False)
        now_s = self._clock()
        breaker_s = self._breaker.delay_s(now_s)
        if breaker_s > 0 and self._breaker.is_down and not self._breaker.is_probed:
            raise ModelError(
                self._breaker.reason or self.name, kind=EndpointDown.KIND, is_retryable=False, outlook="down"
            )
        return max(breaker_s, self._pace.delay_s(now_s))

    def _answered(self, sent_s: float) -> None:
        now_s = self._clock()
        self._pace.answered(now_s, sent_s)
        self._breaker.answered()
        self._counts["answered"] += 1
        self._answered_at_s.append(now_s)
        self._forget(now_s)

    def _failed(self, error: ModelError, passage: Passage) -> None:
        """Update the gate from a failure, and set the error's outlook for the caller."""
        now_s = self._clock()
        is_refusal = error.kind == "rate_limit" and error.is_retryable
        if is_refusal:
            self._pace.refused(now_s, passage.sent_s, error.retry_after_s)
        else:
            self._pace.ended()
        self._counts["refused" if is_refusal else "failed"] += 1
        error.answer_count = self._counts["answered"]
        self._breaker.failed(error, passage.request(), now_s, is_probe=passage.is_probe)
        if self._breaker.is_down:
            error.outlook = "down"
            error.args = (self._breaker.reason or str(error),)  # names the endpoint and repeats the cause
        elif error.is_retryable and (is_refusal or self._breaker.reason is not None):
            error.outlook = "held"

    def _forget(self, now_s: float) -> None:
        while self._answered_at_s and self._answered_at_s[0] < now_s - _WINDOW_S:
            self._answered_at_s.popleft()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@cache
def door_of(name: str, address: str, key_digest: str) -> Door:
    """Return the request gate for a model, address and key; the same arguments give the same gate."""
    door = Door(f"{name} at {address}")
    _DOORS.append(door)
    return door


_DOORS: list[Door] = []


def try_doors_now() -> None:
    for door in _DOORS:
        door.try_now()


@contextmanager
def closable_doors() -> Iterator[Callable[[], None]]:
    """Yield a function that closes all request gates until the block ends.

    Waiting and new requests then fail as ``interrupted``. Requests already sent continue, because they are paid for.
    """

    def close() -> None:
        Door.are_closed = True
        for door in _DOORS:
            door._wake()

    try:
        yield close
    finally:
        Door.are_closed = False


def door_states() -> list[DoorState]:
    """Return the state of every request gate that has been used."""
    states = [door.state() for door in _DOORS]
    return [state for state in states if state.answered + state.refused + state.failed + state.under_way]
