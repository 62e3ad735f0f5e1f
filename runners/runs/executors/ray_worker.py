"""A worker on a Ray cluster: a local executor on another machine, with its own journal in the shared store.

The worker plans the experiment itself, from copies of the driver's files, so a trial's id, an attempt number and an
action budget are enough to define an attempt. If its plan has the same trials as the driver's, its machine has the same
prompts, tasks, graders and versions.
"""

import asyncio
import importlib.metadata
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sharing.address import open_address, store_address
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.agents.programs.entries import entry_path, load_entry
from lhaw_record.runners.agents.programs.installation import install_missing
from lhaw_record.runners.agents.trial_record import TrialOutcome
from lhaw_record.runners.base.budget import RunBudget
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.base.host.scratch import scratch_folder, sweep_scratch_folders
from lhaw_record.runners.experiment.tables import Experiment
from lhaw_record.runners.models.litellm_library import close_clients
from lhaw_record.runners.runs.executors.local import LocalExecutor
from lhaw_record.runners.runs.executors.ray_shipping import unpack
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.planning.plan import Plan
from lhaw_record.runners.runs.preparation import PreparedExperiment, prepare_experiment, redactor_of
from lhaw_record.runners.runs.scheduler import AttemptRunner


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has to do: the experiment and its file, the store to record in, and the run that it is part of.

    ``files`` refers to the archive of the files that the experiment names, in Ray's memory. ``makers`` distinguishes
    the store from another one at the same address. ``plan`` is the driver's :func:`plan_digest`.
    """

    experiment: Experiment
    path: Path
    files: Any
    address: str
    makers: frozenset[str]
    run_id: str
    plan: str
    version: str


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is ready: its host, its Ray node, its writer id in the store, and the sandbox of its agents."""

    host: str
    node_id: str
    writer_id: str
    sandbox: str


class RayWorker:
    """Executes attempts in its own process, many at a time. Ray creates it, and the driver calls its methods.

    Args:
        assignment: What the worker has to do.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._is_leaving = asyncio.Event()
        self._running: dict[str, anyio.CancelScope] = {}
        self._runner: AttemptRunner
        self._trials: dict[str, PlannedTrial]

    async def join(self) -> WorkerInfo:
        """Recover what earlier workers left on this host, open a journal, and return when the worker is ready."""
        self._ready: asyncio.Future[WorkerInfo] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live())
        either: list[asyncio.Future[Any]] = [self._ready, self._life]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done():
            await self._life
        return self._ready.result()

    async def run(self, trial_id: str, attempt: int, budget_actions: int | None) -> TrialOutcome | None:
        """Run one attempt to its closing event. Return None if it was stopped, which the events record."""
        with anyio.CancelScope() as self._running[trial_id]:
            try:
                return await self._runner.run(self._trials[trial_id], attempt, budget_actions)
            finally:
                del self._running[trial_id]
        return None

    async def stop(self, trial_id: str) -> None:
        with suppress(KeyError):  # it has already ended
            self._running[trial_id].cancel()

    async def leave(self) -> None:
        self._is_leaving.set()
        await self._life

    async def _live(self) -> None:
        """Do everything from joining to leaving in one task, so that the same task closes what it opened."""
        with scratch_folder() as folder:
            await self._work(folder)

    async def _work(self, folder: Path) -> None:
        import ray

        assignment = self._assignment
        try:
            archive = await assignment.files
            prepared = await anyio.to_thread.run_sync(_prepared, assignment, archive, folder)
            del archive
            executor = LocalExecutor()
            root = await anyio.to_thread.run_sync(lambda: open_address(store_address(assignment.address)))
            await executor.check(prepared, root, Reporter())
            await anyio.to_thread.run_sync(sweep_scratch_folders)
            store = await anyio.to_thread.run_sync(store_of, assignment, root)
            name = assignment.experiment.name
            await anyio.to_thread.run_sync(lambda: recover(store, experiment_id=name))
        except (ExperimentError, RecorderError) as error:
            where = f"on {socket.gethostname()}, in the environment that 'ray start' had there"
            said = str(error).replace(str(folder), "")  # the paths of the driver
            raise type(error)(f"{where}: {said}") from error
        self._trials = {trial.trial_id: trial for trial in prepared.plan.trials}
        try:
            async with (
                StoreRecorder(store, name, redactor=redactor_of(prepared)) as recorder,
                executor.runner(prepared, recorder, assignment.run_id, RunBudget(None)) as self._runner,
            ):
                self._ready.set_result(
                    WorkerInfo(
                        host=socket.gethostname(),
                        node_id=ray.get_runtime_context().get_node_id(),
                        writer_id=recorder.writer_id,
                        sandbox=executor.sandbox_kind,
                    )
                )
                await self._is_leaving.wait()
        finally:
            await close_clients()
        with suppress(RecorderError, OSError):  # of workers that died here; the next one tries again
            await anyio.to_thread.run_sync(lambda: recover(store, experiment_id=name))


def plan_digest(plan: Plan) -> str:
    return digest([trial.trial_id for trial in plan.trials])


def installed_version() -> str:
    return importlib.metadata.version("lhaw-record")


def _prepared(assignment: Assignment, archive: bytes, root: Path) -> PreparedExperiment:
    """Plan the experiment on this machine, and check that the plan equals the driver's."""
    if installed_version() != assignment.version:
        raise ExperimentError(
            f"lhaw-record {installed_version()} is installed here, and {assignment.version} where the run was started; "
            "install the same version, or remove this one, and run the same command again"
        )
    unpack(archive, root)
    path = Path(f"{root}{assignment.path}")
    path.parent.mkdir(parents=True, exist_ok=True)  # relative paths lead through it
    for agent in assignment.experiment.agents:
        if isinstance(agent.program, str):
            entry = entry_path(agent.program, path.parent)
            install_missing(load_entry(agent.program, path.parent), entry)
    prepared = prepare_experiment(assignment.experiment, path)
    if plan_digest(prepared.plan) != assignment.plan:
        raise ExperimentError(
            f"{assignment.path} plans different trials here: something that a run does not ship, such as "
            "programs in 'mounts' or installed servers, differs from the machine that started the run. Make it the "
            "same on every machine (docs/more-machines.md)"
        )
    return prepared


def store_of(assignment: Assignment, root: Path) -> Store:
    """Open the driver's store. Never create another one, because the directory may not be mounted here."""
    remote = Store(root).remote
    assert remote is not None
    if not remote.is_made() or remote.makers.isdisjoint(assignment.makers):
        raise ExperimentError(f"the store at {assignment.address} is not the one of the run; is it mounted here?")
    return create_store(root)
