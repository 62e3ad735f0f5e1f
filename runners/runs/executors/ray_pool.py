"""Runs attempts on a Ray cluster, each in the least busy worker, and looks up the attempts of lost workers.

The end of an attempt may be durable on a lost worker's host but not yet published. If it were published only after the
trial had been run again, the trial would be paid for twice. Therefore that host, if it is alive, publishes first. The
worker's replacement cannot do this: it may start on another host, or late, or never.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.to_thread

from lhaw_record.recorder.errors import RecorderError, RecordingFailed
from lhaw_record.recorder.events import TrialFailed
from lhaw_record.recorder.reading.trial_index import TrialIndex
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sharing.address import open_address, store_address
from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.agents.trial_record import TrialOutcome, failed_outcome
from lhaw_record.runners.base.errors import ExecutorError
from lhaw_record.runners.runs.executors.ray_worker import Assignment, WorkerInfo, store_of
from lhaw_record.runners.runs.executors.ray_worker_group import WorkerGroup, WorkerHandle, first_line

_PATIENCE_S = 30.0
"""Seconds that a run waits for the host of a lost worker, which may be cut off from the network."""
_LOOK_S = 0.1


class WorkerPool:
    """Executes each attempt in the least busy worker of a Ray cluster.

    Args:
        ray: The Ray library, connected to the cluster.
        assignment: What each worker has to do.
        wanted: The number of workers.
        report: Called with a message when a worker joins or is lost.
        look: Reads from the store which trials have ended. It is called in a thread.
    """

    def __init__(
        self,
        *,
        ray: Any,
        assignment: Assignment,
        wanted: int,
        report: Callable[[str], None],
        look: Callable[[], TrialIndex],
    ) -> None:
        self._ray = ray
        self._assignment = assignment
        self._report = report
        self._look = look
        self._group = WorkerGroup(ray=ray, assignment=assignment, wanted=wanted, report=report)

    @property
    def sandbox_kind(self) -> str:
        """The kind of sandbox that agents work in. It is known once a worker has joined."""
        return self._group.sandbox_kind

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Start workers. At the end, let each worker publish what it recorded, and shut it down."""
        async with self._group.opened():
            yield

    async def run(self, trial: PlannedTrial, attempt: int, budget_actions: int | None) -> TrialOutcome:
        """Run one attempt to its closing event. If its worker is lost, look up how the attempt ended."""
        worker = await self._group.least_busy()
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
                raise ExecutorError(f"{worker.name} failed with an internal error: {error.cause!r}") from error
            refusal = RecordingFailed(f"{worker.name}: {error.cause}")
            self._group.drop(worker, f"cannot record ({error.cause})", refusal=refusal)
        except errors.RayError as error:
            self._group.drop(worker, first_line(error))
        else:
            assert outcome is not None, "only a cancelled attempt is stopped"
            return outcome
        finally:
            worker.running -= 1
        return await self._outcome_of_lost(worker, trial, attempt)

    async def _outcome_of_lost(self, worker: WorkerHandle, trial: PlannedTrial, attempt: int) -> TrialOutcome:
        """Look up in the store how a lost worker's attempt ended, after its host has published what it can."""
        async with worker.looking:
            if worker.last_look is None:
                await wait_for_host(self._ray, self._assignment, worker.info, self._report)
                worker.last_look = await anyio.to_thread.run_sync(self._look)
        return outcome_of_lost(worker.last_look, trial, attempt, worker.name)


async def wait_for_host(ray: Any, assignment: Assignment, info: WorkerInfo, report: Callable[[str], None]) -> None:
    """Wait until the host of a lost worker has published the worker's journals, or cannot publish them."""
    there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(info.node_id, soft=False)
    publishing = ray.remote(publish_left).options(num_cpus=0, scheduling_strategy=there)
    errors = ray.exceptions
    with anyio.move_on_after(_PATIENCE_S), suppress(errors.RayError):  # RayError: the host is lost, too
        try:
            await publishing.remote(assignment, info.writer_id)
        except errors.RayTaskError as error:
            report(
                f"the journals of a lost worker on {info.host} could not be published: {error.cause}; to try again, "
                f"run there: lhaw-record log recover {assignment.address}"
            )


def publish_left(assignment: Assignment, writer_id: str) -> None:
    """Publish the journals that a dead worker left on this host. A child of the worker may still be publishing them."""
    store = store_of(assignment, open_address(store_address(assignment.address)))
    give_up_at = time.monotonic() + _PATIENCE_S
    while any(name.writer_id == writer_id for name in store.journals()) and time.monotonic() < give_up_at:
        recover(store, experiment_id=assignment.experiment.name)
        time.sleep(_LOOK_S)


def outcome_of_lost(index: TrialIndex, trial: PlannedTrial, attempt: int, worker: str) -> TrialOutcome:
    """Return how an attempt of a lost worker ended. Its end may be published although the worker's reply was lost."""
    found, failed = index.finished.get(trial.trial_id), index.failed.get(trial.trial_id)
    if found is not None and found.attempt == attempt:
        return TrialOutcome(
            trial=trial,
            attempt=attempt,
            is_valid=True,
            action_count=found.action_count or 0,
            cost_usd=found.cost_usd,
        )
    if failed is not None and failed.attempt == attempt:
        return failed_outcome(trial, failed)
    lost = TrialFailed(boundary="recorder", error_kind="worker_lost", message=f"{worker} was lost", is_retry_owed=True)
    return TrialOutcome(trial=trial, attempt=attempt, is_valid=False, action_count=0, cost_usd=None, failure=lost)
