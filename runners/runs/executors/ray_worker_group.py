"""Manages the workers of a run on a Ray cluster: requests them, replaces lost ones and shuts them down in order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from lhaw_record.recorder.errors import RecorderError, RecordingFailed
from lhaw_record.recorder.events.canonical_json import short_digest
from lhaw_record.recorder.reading.trial_index import TrialIndex
from lhaw_record.runners.base.errors import ExecutorError, ExperimentError, ungrouped
from lhaw_record.runners.runs.executors.ray_worker import Assignment, Worker, WorkerInfo

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


class WorkerHandle:
    """A worker that has joined the run."""

    def __init__(self, number: int, actor: Any, info: WorkerInfo) -> None:
        self.name = f"worker {number} on {info.host}"
        self.actor = actor
        self.info = info
        self.running = 0
        self.last_look: TrialIndex | None = None
        self.looking = anyio.Lock()


class WorkerGroup:
    """The workers of a run: as many as wanted, or as many as the cluster has room for.

    Args:
        ray: The Ray library, connected to the cluster.
        assignment: What each worker has to do.
        wanted: The number of workers.
        report: Called with a message when a worker joins or is lost.
    """

    def __init__(self, *, ray: Any, assignment: Assignment, wanted: int, report: Callable[[str], None]) -> None:
        self._ray = ray
        self._assignment = assignment
        self._wanted = wanted
        self._report = report
        self._prefix = prefix_of(assignment)
        self._workers: list[WorkerHandle] = []
        self._requested: dict[int, Any] = {}
        self._last_number = 0
        self._refusal: Exception | None = None
        self._changed = anyio.Event()
        self.sandbox_kind = ""

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

    async def least_busy(self) -> WorkerHandle:
        """Return the worker with the fewest running attempts. Wait while one may still join."""
        while not self._workers:
            if not self._requested:
                raise self._refusal or ExecutorError("no worker is left")
            await self._changed.wait()
        return min(self._workers, key=lambda worker: worker.running)

    def drop(self, worker: WorkerHandle, why: str, *, refusal: Exception | None = None) -> None:
        """Continue without a lost worker. The loss is reported once, however many of its attempts fail."""
        self._refusal = refusal or self._refusal
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._ray.kill(worker.actor)  # an unreachable worker may still be running
        self._report(f"{worker.name} is lost with {worker.running} running trials, which are owed again: {why}")
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
            actor = self._ray.remote(Worker).options(**options).remote(self._assignment)
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
        self._notify()

    def _check_sandbox(self, worker: WorkerHandle) -> None:
        if self.sandbox_kind not in ("", worker.info.sandbox):
            raise ExperimentError(
                f"the sandbox of {worker.name} would be {worker.info.sandbox}, and {self.sandbox_kind} elsewhere; "
                "set sandbox.kind, and install that sandbox on every machine"
            )

    def _refuse(self, number: int, actor: Any, error: Exception) -> None:
        """Continue without a worker that could not join, and keep the reason."""
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
                "same command again, so that it gets this one's packages"
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
                "processor; 'ray status' shows what uses them"
            )
        if self._requested:
            self._report(
                f"{len(self._workers)} of {self._wanted} workers have joined; the others join when there is room"
            )

    async def _release(self) -> None:
        """Let every worker publish what it recorded, and end it.

        Events that a dead worker acknowledged are already published.
        """
        for actor in self._requested.values():
            self._ray.kill(actor)
        leaving = [worker.actor.leave.remote() for worker in self._workers]
        ended = await asyncio.gather(*leaving, return_exceptions=True)
        for worker, error in zip(self._workers, ended, strict=True):
            self._ray.kill(worker.actor)
            cause = getattr(error, "cause", None)
            if isinstance(cause, RecorderError):
                raise RecordingFailed(f"{worker.name}: {cause}") from cause

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def prefix_of(assignment: Assignment) -> str:
    """Return the prefix of an experiment's worker names. It is the same for every driver."""
    return f"{short_digest(assignment.address)}/{assignment.experiment.name}/"


def _is_death(errors: Any, error: Exception) -> bool:
    """Return whether an error means that a worker's process or node is gone, rather than that its code raised."""
    return isinstance(error, errors.RayError) and not isinstance(
        error, errors.RayTaskError | errors.RuntimeEnvSetupError
    )


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class if it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
