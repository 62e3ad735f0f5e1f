"""The sittings that reviewers have open on a daemon's page. Each is recorded as one at a terminal is."""

import sys
import traceback
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from lhaw_record.generators.reviewing.messages import DecisionRequest
from lhaw_record.generators.reviewing.reviews import (
    Outcomes,
    Reviewable,
    VariantOutcome,
    edited,
    outcomes_of,
    read_decisions,
    reviewable,
    to_review,
)
from lhaw_record.generators.reviewing.session import ReviewSession, review_session
from lhaw_record.recorder.errors import RecorderError, RecordingFailed
from lhaw_record.recorder.events import VariantReviewed
from lhaw_record.recorder.reading.reader import read_snapshot

IDLE_S = 300.0
"""Seconds without a request after which a sitting is closed, so that its reviewer can go on at a terminal."""


class Reading(msgspec.Struct, frozen=True):
    """What a sitting knows of the store.

    Attributes:
        items: Every variant that can be reviewed, by digest.
        order: The digests of those to show, in order: what the reviewer has to decide about, and has decided about.
        own: The reviewer's last decision about each variant, by digest.
        outcomes: What the trials of each variant showed.
    """

    items: dict[str, Reviewable]
    order: list[str]
    own: dict[str, VariantReviewed]
    outcomes: Outcomes


class Sitting:
    """One reviewer's open sitting, which may be on several pages at once.

    Args:
        store: The store's directory.
        session: Records the decisions.

    Attributes:
        requests: How many requests are being answered.
        is_ending: Whether it takes no further requests.
        closed: Set when the reviewer can open another sitting.
    """

    def __init__(self, store: Path, session: ReviewSession) -> None:
        self.requests = 0
        self.is_ending = False
        self.closed = anyio.Event()
        self._store = store
        self._session = session
        self._reading: Reading | None = None
        self._turn = anyio.Lock()
        self._changed = anyio.Event()

    async def read(self, benchmark: str | None = None, experiment_id: str | None = None) -> Reading:
        """Read the store anew."""
        async with self._turn:
            self._reading = await anyio.to_thread.run_sync(self._read, benchmark, experiment_id)
            return self._reading

    async def find(
        self, variant_digest: str
    ) -> tuple[Reviewable | None, VariantReviewed | None, tuple[VariantOutcome, ...]]:
        """Return a variant, the reviewer's decision about it and what its trials showed. None if there is none."""
        reading = self._reading or await self.read()
        outcomes = tuple(reading.outcomes.get(variant_digest, ()))
        return reading.items.get(variant_digest), reading.own.get(variant_digest), outcomes

    async def decide(self, item: Reviewable, decision: DecisionRequest) -> VariantReviewed | None:
        """Record a decision, and return the one that counts now.

        Return None without recording it if the reviewer has meanwhile decided otherwise, on another page. The decision
        that counts already, sent again because its reply was lost, is not recorded twice.
        """
        async with self._turn:
            assert self._reading is not None
            last = self._reading.own.get(item.variant_digest)
            if last is not None and _is_same(decision, last, item):
                return last
            if (last and last.decision) != decision.replaces:
                return None
            try:
                recorded = await self._session.decide(item, decision)
            except RecordingFailed:
                self.end()
                raise
            self._reading.own[item.variant_digest] = recorded
            return recorded

    def end(self) -> None:
        """Let the sitting end when its requests are answered."""
        self.is_ending = True
        self._changed.set()

    def finish_request(self) -> None:
        """Count one request less, and start to wait for the next."""
        self.requests -= 1
        self._changed.set()

    async def wait(self) -> None:
        """Wait until the sitting ends, at the latest ``IDLE_S`` after its last request."""
        while self.requests or not self.is_ending:
            self._changed = anyio.Event()
            with anyio.move_on_after(IDLE_S) as idle:
                await self._changed.wait()
            if idle.cancelled_caught and not self.requests:
                self.is_ending = True

    def _read(self, benchmark: str | None, experiment_id: str | None) -> Reading:
        snapshot = read_snapshot(self._store)
        decisions, reviewer = read_decisions(snapshot), self._session.reviewer
        own = {digest: each for (digest, name), each in decisions.last.items() if name == reviewer}
        found = reviewable(snapshot, benchmark, experiment_id)
        left = {each.variant_digest for each in to_review(found, decisions, reviewer)}
        shown = left | (own.keys() - decisions.withdrawn)
        return Reading(
            items={each.variant_digest: each for each in (*reviewable(snapshot), *found)},
            order=[each.variant_digest for each in found if each.variant_digest in shown],
            own=own,
            outcomes=outcomes_of(self._store),
        )


def _is_same(decision: DecisionRequest, recorded: VariantReviewed, item: Reviewable) -> bool:
    edited_digest = None if decision.prompt is None else edited(item, decision.prompt).variant_digest
    given = decision.decision, decision.reason, decision.note, edited_digest
    return given == (recorded.decision, recorded.reason, recorded.note, recorded.edited_digest)


class Sittings:
    """The open sittings of a store by reviewer.

    Args:
        store: The store's directory.
        tasks: Runs a task for each sitting.
    """

    def __init__(self, store: Path, tasks: anyio.abc.TaskGroup) -> None:
        self.store = store
        self._tasks = tasks
        self._open: dict[str, Sitting] = {}
        self._opening: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)

    @asynccontextmanager
    async def of(self, reviewer: str) -> AsyncIterator[Sitting]:
        """Yield the sitting of a reviewer for one request. It is opened if it is not open."""
        async with self._opening[reviewer]:
            sitting = self._open.get(reviewer)
            if sitting is not None and sitting.is_ending:
                await sitting.closed.wait()
                sitting = None
            if sitting is None:
                sitting = await self._tasks.start(self._sit, reviewer)
            sitting.requests += 1
        try:
            yield sitting
        finally:
            sitting.finish_request()

    async def close(self, reviewer: str) -> None:
        """Close the sitting of a reviewer, if it is open, and wait until another process can open one."""
        if sitting := self._open.get(reviewer):
            sitting.end()
            await sitting.closed.wait()

    def end(self) -> None:
        """Let every sitting end."""
        for sitting in self._open.values():
            sitting.end()

    async def _sit(self, reviewer: str, *, task_status: anyio.abc.TaskStatus[Sitting]) -> None:
        sitting = None
        try:
            async with review_session(self.store, reviewer) as session:
                self._open[reviewer] = sitting = Sitting(self.store, session)
                task_status.started(sitting)
                await sitting.wait()
        except RecorderError as error:
            if sitting is None:
                raise
            traceback.print_exception(error, file=sys.stderr)
        finally:
            if sitting is not None:
                del self._open[reviewer]
                sitting.closed.set()
