"""Runs paid jobs concurrently within a cost limit, until all are done or the pool is stopped.

A job takes no arguments and returns its cost in USD, or None if the price is unknown. It records its own results
durably, so that no paid reply is lost when the pool stops.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable

import anyio

from lhaw_record.runners.base.errors import BoundaryError, EndpointDown, ungrouped
from lhaw_record.runners.base.host.serving import interruptibly
from lhaw_record.runners.models.costs import spent_words
from lhaw_record.runners.models.endpoints.door import INTERRUPTED, closable_doors

Job = Callable[[], Awaitable[float | None]]


class PaidWork:
    """A pool that runs jobs. Its costs and stop state carry over between calls of :meth:`run`.

    If there is a cost limit, a job starts only if the limit has room for it and for the running jobs, each estimated at
    the cost of the most expensive job of its kind so far. Jobs run one by one until one has had a cost. Running jobs
    are never ended because of cost, so the total can exceed the limit if a job costs more than any before it. The first
    job of unknown cost stops a pool with a limit.

    Args:
        concurrency: How many jobs may run at a time.
        max_cost_usd: The cost limit for all jobs together, in USD. None for no limit.
        on_change: Called with this pool after every job.
        say: Called with a line for the user when the pool is interrupted.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        max_cost_usd: float | None = None,
        on_change: Callable[["PaidWork"], None] = lambda _: None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._concurrency = concurrency
        self._max_cost_usd = max_cost_usd
        self._on_change = on_change
        self._say = say
        self._is_interrupted = False
        self._largest_cost_usd: dict[str, float] = {}
        self.running = 0
        self.done = 0
        self.spent_usd = 0.0
        self.unpriced = 0
        """The number of jobs of unknown cost. ``spent_usd`` does not include them."""
        self.unknown_cost_calls = 0
        """The number of failed requests that may have been charged. ``spent_usd`` does not include them either."""
        self.stop_reason: str | None = None
        """Why no more jobs start: ``interrupted``, ``cost_limit``, ``cost_unknown``, ``failed`` or another reason."""
        self.failures: list[str] = []

    @property
    def spent(self) -> str:
        return spent_words(self.spent_usd, self.unpriced + self.unknown_cost_calls)

    def stop(self, reason: str) -> None:
        """Start no more jobs. Running jobs continue to their end."""
        self.stop_reason = self.stop_reason or reason

    def note_failure(self, error: Exception, about: str = "") -> bool:
        """Keep a job's failure for the final report. Stop if every other job would fail in the same way."""
        if isinstance(error, BoundaryError) and error.kind == INTERRUPTED:
            return False
        self.failures.append(f"{about}: {error}" if about else str(error))
        if isinstance(error, BoundaryError) and error.kind in ("authentication", EndpointDown.KIND):
            self.stop("failed")
        return True

    async def run(self, jobs: Iterable[Job], kind: str = "") -> int:
        """Run jobs in order, and return how many did not start because the pool was stopped.

        After the first interrupt no new request is sent, but pending replies are awaited, because they are paid for. A
        job that needs another request then fails with kind ``interrupted``. The second interrupt cancels everything.
        """
        pending = deque(jobs)
        with closable_doors() as close:

            def interrupted() -> bool:
                is_first, self._is_interrupted = not self._is_interrupted, True
                self.stop(INTERRUPTED)
                close()
                if is_first:
                    self._say(f"stopping: {self.running} jobs wait for their open requests; Ctrl-C again ends them now")
                return is_first

            await interruptibly(lambda: self._run(pending, kind), interrupted)
        return len(pending)

    async def _run(self, pending: deque[Job], kind: str) -> None:
        async def work() -> None:
            while pending and self._may_start(kind):
                await self._do(pending.popleft(), kind)

        if self._max_cost_usd is not None:
            while pending and not self._largest_cost_usd.get(kind) and self._may_start(kind):
                await self._do(pending.popleft(), kind)  # learn the cost of one job before starting several
        with ungrouped():
            async with anyio.create_task_group() as tasks:
                for _ in range(min(self._concurrency, len(pending))):
                    tasks.start_soon(work)

    async def _do(self, job: Job, kind: str) -> None:
        self.running += 1
        try:
            paid_usd = await job()
        finally:
            self.running -= 1
        self.done += 1
        if paid_usd is None:
            self.unpriced += 1
            if self._max_cost_usd is not None:
                self.stop("cost_unknown")
        cost_usd = paid_usd or 0.0
        self.spent_usd += cost_usd
        self._largest_cost_usd[kind] = max(self._largest_cost_usd.get(kind, 0.0), cost_usd)
        self._on_change(self)

    def _may_start(self, kind: str) -> bool:
        """Return whether one more job may start: the pool was not stopped, and the cost limit has room for it."""
        if self._max_cost_usd is not None and self.stop_reason is None:
            reserved = (self.running + 1) * self._largest_cost_usd.get(kind, 0.0)
            if self.spent_usd >= self._max_cost_usd or self.spent_usd + reserved > self._max_cost_usd:
                self.stop("cost_limit")
        return self.stop_reason is None
