"""The frame of runs that ask models: who is called, what each job costs, and how the run is recorded."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from lhaw_record.generators.errors import ExtractionFailed
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.redaction import Redactor
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.base.errors import ModelBoundaryError, UserSimulatorError
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.llm_jobs.paid_work import Job, PaidWork
from lhaw_record.runners.runs.run_record import WorkCounts, held, recorded_run

CallerOf = Callable[[Stream, str, str], ModelCaller | None]
"""Returns the model caller for a stream, a role and a thread id, or None if no model does the work."""


class PaidSettings(msgspec.Struct, frozen=True, kw_only=True):
    """In which experiment the calls of a run are recorded, who makes them, and what limits them.

    ``say`` prints a line for the user.
    """

    experiment_id: str
    caller_of: CallerOf
    config: Mapping[str, Any]
    redactor: Redactor
    concurrency: int = 4
    max_cost_usd: float | None = None
    say: Callable[[str], None] = lambda _: None


class Callers:
    """The model callers of one job, which know what it costs.

    Args:
        caller_of: Makes them.
        stream: Where their calls are recorded.
    """

    def __init__(self, caller_of: CallerOf, stream: Stream) -> None:
        self.stream = stream
        self._caller_of = caller_of
        self._made: list[ModelCaller] = []

    def of(self, role: str, thread_id: str) -> ModelCaller | None:
        """Return a new caller, or None if no model has the role."""
        caller = self._caller_of(self.stream, role, thread_id)
        self._made += [caller] if caller else []
        return caller

    def of_judge(self, about: str) -> Callable[[str], ModelCaller]:
        """Return what makes the caller for each question of a judge."""

        def caller_of(question: str) -> ModelCaller:
            caller = self.of("judge", f"gate-{about}-{question}")
            assert caller is not None, "a judge has a model"
            return caller

        return caller_of

    @property
    def cost_usd(self) -> float | None:
        """What they spent in this run, in USD, or None if one cost is unknown."""
        costs = [caller.total_usage.cost_usd for caller in self._made]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def unknown_cost_calls(self) -> int:
        """Their failed requests that may have been paid for."""
        return sum(caller.unknown_cost_calls for caller in self._made)


class PaidRun:
    """A run of paid jobs, of which one that fails leaves the others alone.

    Args:
        store: A store opened for writing.
        settings: How calls are made, recorded and limited.
        on_change: Called after every job.
    """

    def __init__(self, store: Store, settings: PaidSettings, on_change: Callable[[PaidWork], None]) -> None:
        self._store = store
        self._paid = settings
        self.work = PaidWork(
            concurrency=settings.concurrency,
            max_cost_usd=settings.max_cost_usd,
            on_change=on_change,
            say=settings.say,
        )

    def job(self, stream: Stream, about: str, do: Callable[[Callers], Awaitable[None]]) -> Job:
        """Return a job. It returns its cost in USD, or None if the cost is unknown, and notes a failure."""

        async def job() -> float | None:
            callers = Callers(self._paid.caller_of, stream)
            try:
                await do(callers)
            except (ExtractionFailed, ModelBoundaryError, UserSimulatorError) as error:
                self.work.note_failure(error, about)
            self.work.unknown_cost_calls += callers.unknown_cost_calls
            return callers.cost_usd

        return job

    async def run_jobs(
        self, kind: str, jobs: Iterable[tuple[str, Callable[[Callers], Awaitable[None]]]], left: Callable[[], int]
    ) -> None:
        """Do all jobs, each with what it is about, and record the run."""
        with held(self._store, (self._paid.experiment_id,)):
            async with self.recorded(kind, left(), left) as stream:
                await self.work.run(self.job(stream, about, do) for about, do in jobs)

    @asynccontextmanager
    async def recorded(self, kind: str, to_do: int, left: Callable[[], int]) -> AsyncIterator[Stream]:
        """Record the run, and how it ended if the block does. The caller holds the experiment's lock."""
        paid, counts = self._paid, WorkCounts(to_do)
        async with recorded_run(
            self._store, paid.experiment_id, kind, paid.config, counts, redactor=paid.redactor
        ) as stream:
            yield stream
            counts.done, counts.failed = to_do - left(), len(self.work.failures)
            counts.outcome = self.work.stop_reason or ("failed" if counts.failed else "completed")
