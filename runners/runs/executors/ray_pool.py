"""Runs attempts on a Ray cluster, each in the least busy worker, and looks up the attempts of lost workers.

The end of an attempt may be durable on a lost worker's host but not yet published. If it were published only after the
trial had been run again, the trial would be paid for twice. Therefore that host, if it is alive, publishes first. The
worker's replacement cannot do this: it may start on another host, or late, or never.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.to_thread

from lhaw_record.recorder.errors import RecorderError, RecordingFailed
from lhaw_record.recorder.events import TrialFailed
from lhaw_record.recorder.events.canonical_json import short_digest
from lhaw_record.recorder.reading.trial_index import TrialIndex
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sharing.address import open_address, store_address
from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.agents.trial_record import TrialOutcome, failed_outcome
from lhaw_record.runners.base.errors import ExecutorError, ExperimentError, ungrouped
from lhaw_record.runners.runs.executors.ray_worker import Assignment, RayWorker, WorkerInfo, store_of

_STRAGGLERS_S = 30.0
"""Seconds that a run waits for more workers once it has one, and for the workers of a dead driver to end."""
_LONGEST_WAIT_S = 900.0
"""Seconds that a run waits for the first worker.

A cluster that grows on demand needs minutes, and Ray gives a machine ten minutes to install packages.
"""
_LOOK_S = 0.2
_PAUSES_S = (1.0, 5.0, 25.0)
"""The pauses, in seconds, before a worker that died before joining is requested again.

Ray keeps placing workers on a lost machine until it notices the loss, by default within half a minute.
"""
_PATIENCE_S = 30.0
"""Seconds that a run waits for the host of a lost worker, which may be cut off from the network."""


class WorkerHandle:
    """A worker that has joined the run."""

    def __init__(self, number: int, actor: Any, info: WorkerInfo) -> None:
        self.name = f"worker {number} on {info.host}"
        self.actor = actor
        self.info = info
        self.running = 0
        self.last_look: TrialIndex | None = None
        self.looking = anyio.Lock()


class WorkerPool:
    """The workers of a run, as many as wanted or as the cluster has room for. The least busy one gets the next attempt.

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
        self._wanted = wanted
        self._report = report
        self._look = look
        self._prefix = prefix_of(assignment)
        self._workers: list[WorkerHandle] = []
        self._requested: dict[int, Any] = {}
        self._last_number = 0
        self._refusal: Exception | None = None
        self._changed = anyio.Event()
        self.sandbox_kind = ""
        """The kind of sandbox that agents work in. It is known once a worker has joined."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Request workers. At the end, let each worker publish what it recorded, and shut it down."""
        await self._wait_for_earlier()
        with ungrouped():
            async with anyio.create_task_group() as self._tasks:
                try:
                    for _ in range(self._wanted):
                        self._request()
                    await self._wait_for_first()
                    yield
                finally:
                    self._tasks.cancel_scope.cancel()  # a worker that dies while joining is not replaced
                    with anyio.CancelScope(shield=True):
                        await self._release()

    async def run(self, trial: PlannedTrial, attempt: int, budget_actions: int | None) -> TrialOutcome:
        """Run one attempt to its closing event. If its worker is lost, look up how the attempt ended."""
        worker = await self._least_busy()
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
            self._drop(worker, f"cannot record ({error.cause})", refusal=refusal)
        except errors.RayError as error:
            self._drop(worker, first_line(error))
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

    async def _least_busy(self) -> WorkerHandle:
        """Return the worker with the fewest running attempts. Wait while one may still join."""
        while not self._workers:
            if not self._requested:
                raise self._refusal or ExecutorError("no worker is left")
            await self._changed.wait()
        return min(self._workers, key=lambda worker: worker.running)

    def _drop(self, worker: WorkerHandle, why: str, *, refusal: Exception | None = None) -> None:
        """Continue without a lost worker. The loss is reported once, however many of its attempts fail."""
        self._refusal = refusal or self._refusal
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._ray.kill(worker.actor)  # an unreachable worker may still be running
        self._report(f"{worker.name} is lost with {worker.running} running trials, which will run again: {why}")
        if refusal is None:
            self._request()
        if not self._workers and self._requested:
            self._report("no worker is left; waiting until a machine of the cluster has room for one")

    async def _wait_for_earlier(self) -> None:
        """Wait until the workers of a dead driver have ended. Until then, they may be running the same trials."""
        with anyio.move_on_after(_STRAGGLERS_S):
            while any(name.startswith(self._prefix) for name in self._ray.util.list_named_actors()):  # noqa: ASYNC110 - Ray sends no notification
                await anyio.sleep(_LOOK_S)
            return
        raise self._is_busy()

    def _is_busy(self) -> ExecutorError:
        return ExecutorError(
            f"another driver is running experiment {self._assignment.experiment.name!r} in {self._assignment.address} "
            "on this cluster; wait for it or stop it, then run the same command again"
        )

    def _request(self, deaths: int = 0) -> None:
        """Request one more worker from the cluster. It joins as soon as a machine has room for it."""
        self._last_number += 1
        number = self._last_number
        options = {
            "name": f"{self._prefix}{number}",
            "num_cpus": 1,
            "max_restarts": 0,
            "max_concurrency": 2 * self._assignment.experiment.concurrency + 2,
            "scheduling_strategy": "SPREAD",
        }
        try:
            actor = self._ray.remote(RayWorker).options(**options).remote(self._assignment)
        except ValueError as error:  # the name is taken
            raise self._is_busy() from error
        self._requested[number] = actor
        self._tasks.start_soon(self._join, number, actor, deaths)

    async def _join(self, number: int, actor: Any, deaths: int) -> None:
        errors = self._ray.exceptions
        try:
            worker = WorkerHandle(number, actor, await actor.join.remote())
            self._check_sandbox(worker)
        except (errors.RayError, ExperimentError) as error:
            if _is_death(errors, error) and deaths < len(_PAUSES_S):
                self._report(f"worker {number} died before it joined; asking for another: {first_line(error)}")
                self._ray.kill(actor)
                await anyio.sleep(_PAUSES_S[deaths])
                self._request(deaths + 1)
            else:
                self._refuse(number, actor, error)
        else:
            self.sandbox_kind = worker.info.sandbox
            self._workers.append(worker)
            self._report(f"{worker.name} has joined")
        del self._requested[number]
        self._changed.set()
        self._changed = anyio.Event()

    def _check_sandbox(self, worker: WorkerHandle) -> None:
        if self.sandbox_kind not in ("", worker.info.sandbox):
            raise ExperimentError(
                f"the sandbox of {worker.name} would be {worker.info.sandbox}, but {self.sandbox_kind} elsewhere; "
                "set sandbox.kind, and install that sandbox on every machine"
            )

    def _refuse(self, number: int, actor: Any, error: Exception) -> None:
        cause = getattr(error, "cause", error)
        if isinstance(cause, ExperimentError | RecorderError):
            self._refusal = cause
        elif isinstance(error, self._ray.exceptions.RuntimeEnvSetupError):
            last = str(error).strip().splitlines()[-1].strip()
            self._refusal = ExecutorError(
                f"Ray could not install this machine's packages on another: {last} "
                "(every machine needs Ray, virtualenv and an index of packages; or install lhaw-record there)"
            )
        else:
            self._refusal = ExecutorError(
                f"worker {number} could not start: {first_line(error)} If its machine is new in the cluster, run the "
                "same command again, so that it gets this machine's packages"
            )
        self._report(f"worker {number} could not join: {self._refusal}")
        self._ray.kill(actor)

    async def _wait_for_first(self) -> None:
        """Wait until all workers have joined, or at least one has and some more time has passed.

        That way, an unfit machine is found before anything runs.
        """
        with anyio.move_on_after(_LONGEST_WAIT_S):
            while not self._workers and self._requested and self._refusal is None:
                await self._changed.wait()
        with anyio.move_on_after(_STRAGGLERS_S):
            while self._requested and self._refusal is None:
                await self._changed.wait()
        if self._refusal is not None:
            raise self._refusal
        if not self._workers:
            raise ExecutorError(
                f"no worker could start within {_LONGEST_WAIT_S:.0f} s: no machine of the cluster has a free "
                "processor; 'ray status' shows what uses the processors"
            )
        if self._requested:
            self._report(
                f"{len(self._workers)} of {self._wanted} workers have joined; the others join when there is room"
            )

    async def _release(self) -> None:
        for actor in self._requested.values():
            self._ray.kill(actor)
        leaving = [worker.actor.leave.remote() for worker in self._workers]
        ended = await asyncio.gather(*leaving, return_exceptions=True)
        for worker, error in zip(self._workers, ended, strict=True):
            self._ray.kill(worker.actor)
            cause = getattr(error, "cause", None)
            if isinstance(cause, RecorderError):
                raise RecordingFailed(f"{worker.name}: {cause}") from cause


def prefix_of(assignment: Assignment) -> str:
    """Return the prefix of an experiment's worker names. It is the same for every driver."""
    return f"{short_digest(assignment.address)}/{assignment.experiment.name}/"


def _is_death(errors: Any, error: Exception) -> bool:
    """Return whether an error means that a worker's process or node is gone, rather than that its code raised."""
    return isinstance(error, errors.RayError) and not isinstance(
        error, errors.RayTaskError | errors.RuntimeEnvSetupError
    )


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


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
            is_success=found.is_success,
            action_count=found.action_count or 0,
            cost_usd=found.cost_usd,
        )
    if failed is not None and failed.attempt == attempt:
        return failed_outcome(trial, failed)
    lost = TrialFailed(boundary="recorder", error_kind="worker_lost", message=f"{worker} was lost", is_retry_owed=True)
    return TrialOutcome(trial=trial, attempt=attempt, is_valid=False, action_count=0, cost_usd=None, failure=lost)
