"""Attempts on a Ray cluster: each with the worker that has the fewest, and what became of those of a lost one."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.to_thread

from recorder.errors import RecorderError, RecordingFailed
from recorder.trial_index import TrialIndex
from runners.errors import ExecutorError
from runners.executors.ray_leftovers import outcome_of_lost, wait_for_host
from runners.executors.ray_staff import Hired, Staff, first_line
from runners.executors.ray_worker import Order
from runners.plan import PlannedTrial
from runners.trial import TrialOutcome


class WorkerPool:
    """Executes attempts in workers, each with the one that has the fewest.

    Args:
        ray: The library, connected.
        order: What workers do.
        wanted: How many there are to be.
        report: Says which come and go.
        look: Reads from the store which trials have ended; for a thread.
    """

    def __init__(
        self,
        *,
        ray: Any,
        order: Order,
        wanted: int,
        report: Callable[[str], None],
        look: Callable[[], TrialIndex],
    ) -> None:
        self._ray = ray
        self._order = order
        self._report = report
        self._look = look
        self._staff = Staff(ray=ray, order=order, wanted=wanted, report=report)

    @property
    def sandbox_kind(self) -> str:
        """Where agents work; known once a worker has joined."""
        return self._staff.sandbox_kind

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Have workers, and let them go in order: they publish what they recorded.

        Raises:
            ExecutorError: Another run of the experiment is on the cluster, or no worker could be started.
            ExperimentError: A machine cannot do the work.
            RecordingFailed: A worker could not publish what it recorded.
        """
        async with self._staff.opened():
            yield

    async def run(self, trial: PlannedTrial, attempt: int, budget_actions: int | None) -> TrialOutcome:
        """Run one attempt to its closing event, or find out that its worker is lost.

        Raises:
            RecorderError: No worker can record any more.
            ExecutorError: No worker is left, and none may come.
        """
        worker = await self._staff.least_busy()
        worker.running += 1
        errors = self._ray.exceptions
        reply = worker.actor.run.remote(trial.trial_id, attempt, budget_actions)
        try:
            outcome: TrialOutcome | None = await reply
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), suppress(errors.RayError):
                await worker.actor.stop.remote(trial.trial_id)
                await reply  # the worker has recorded that it was stopped
            raise
        except errors.RayTaskError as error:
            if not isinstance(error.cause, RecorderError):
                raise ExecutorError(f"{worker.name} failed by a fault of its own: {error.cause!r}") from error
            refusal = RecordingFailed(f"{worker.name}: {error.cause}")
            self._staff.lose(worker, f"cannot record ({error.cause})", refusal=refusal)
        except errors.RayError as error:
            self._staff.lose(worker, first_line(error))
        else:
            assert outcome is not None, "only a cancelled attempt is stopped"
            return outcome
        finally:
            worker.running -= 1
        return await self._outcome_of_lost(worker, trial, attempt)

    async def _outcome_of_lost(self, worker: Hired, trial: PlannedTrial, attempt: int) -> TrialOutcome:
        """Look at the store for how an attempt of a lost worker ended, once its host has published what it can."""
        async with worker.looking:
            if worker.last_look is None:
                await wait_for_host(self._ray, self._order, worker.joined, self._report)
                worker.last_look = await anyio.to_thread.run_sync(self._look)
        return outcome_of_lost(worker.last_look, trial, attempt, worker.name)
