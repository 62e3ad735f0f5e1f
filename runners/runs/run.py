"""Runs an experiment file once: recovers, plans, runs the missing trials, and records how the run ended."""

import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.reading.trial_index import load_trial_index, open_runs
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.manifest_check import check_manifest
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.base.budget import RunBudget, spent_by_model
from lhaw_record.runners.base.errors import ungrouped
from lhaw_record.runners.base.host.scratch import sweep_scratch_folders
from lhaw_record.runners.base.host.serving import interruptibly
from lhaw_record.runners.models.endpoints.door import try_doors_now
from lhaw_record.runners.models.litellm_library import close_clients
from lhaw_record.runners.runs.executors.local import LocalExecutor
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.planning.looks import StoppingRule
from lhaw_record.runners.runs.preflight import Refusals
from lhaw_record.runners.runs.preparation import (
    PreparedExperiment,
    check_runnable,
    naming_file,
    redactor_of,
    stored_index,
)
from lhaw_record.runners.runs.run_record import record_start, run_finished
from lhaw_record.runners.runs.scheduler import AttemptRunner, PriorFailures, RunSummary, Scheduler

_SECONDS_BETWEEN_REPORTS = 1.0
_MOST_MISSING = 10  # one in so many trials of a batch


class Executor(Protocol):
    """Executes the attempts of one run. Each method is called once, in the order below."""

    async def check(self, prepared: PreparedExperiment, root: Path, reporter: Reporter) -> None:
        """Find problems that would stop the run, before anything is created or recorded.

        Raises:
            ExperimentError: The experiment cannot be executed in this way. The message has the remedy.
        """
        ...

    def held(self, prepared: PreparedExperiment, store: Store, run_id: str) -> AbstractAsyncContextManager[None]:
        """Hold the worker processes, if there are any. Their hosts first recover what earlier workers left.

        Raises:
            ExecutorError: There is no cluster, or its machines cannot run the experiment.
        """
        ...

    def runner(
        self, prepared: PreparedExperiment, recorder: StoreRecorder, run_id: str, budget: RunBudget
    ) -> AbstractAsyncContextManager[AttemptRunner]:
        """Provide the scheduler with the runner of attempts, as a context manager.

        Args:
            prepared: The planned experiment.
            recorder: The recorder of this process.
            run_id: The run that the attempts belong to.
            budget: What the run may spend. Attempts in other processes cannot see it.
        """
        ...

    @property
    def sandbox_kind(self) -> str:
        """The kind of sandbox that agents work in."""
        ...


class RunControl(msgspec.Struct, frozen=True):
    """How the caller controls a run.

    ``drive`` awaits ``scheduler.run()`` and may stop or cancel it meanwhile. ``prior`` has the failures of earlier runs
    that still count. ``may_take`` decides whether one more trial may start, for runs that share a limit. ``watched``
    wraps the runner of attempts. ``has_preflight`` asks every model once before anything runs. ``rule`` tests the gain
    of a study that stops when it is shown.
    """

    drive: Callable[[Scheduler], Awaitable[None]]
    prior: PriorFailures = PriorFailures()
    may_take: Callable[[Scheduler], bool] = lambda _: True
    watched: Callable[[AttemptRunner], AttemptRunner] = lambda runner: runner
    has_preflight: bool = True
    rule: StoppingRule | None = None


async def run_experiment(
    prepared: PreparedExperiment,
    root: Path,
    reporter: Reporter,
    executor: Executor | None = None,
    *,
    retries_refused: bool = False,
    has_preflight: bool = True,
    rule: StoppingRule | None = None,
) -> RunSummary:
    """Run the trials of an experiment that are missing from the store. Return when no further trial can be started.

    After the first interrupt, running trials finish but no new ones start. A second interrupt stops them, and a later
    run must repeat them. Without an executor, this process does the work. Trials that a model refused in an earlier run
    are attempted again only if ``retries_refused`` is true. If ``has_preflight`` is false, the models are not checked.
    """

    async def drive(scheduler: Scheduler) -> None:
        def stop() -> bool:
            is_first = not scheduler.is_stopping
            if is_first:
                scheduler.stop()
                reporter.stopping(scheduler)
            return is_first

        with ungrouped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_keep_reporting, reporter, scheduler)
                await interruptibly(scheduler.run, stop)
                tasks.cancel_scope.cancel()

    try:
        prior = PriorFailures(gives_up_refused=not retries_refused)
        control = RunControl(drive, prior=prior, has_preflight=has_preflight, rule=rule)
        return await run_controlled(prepared, root, reporter, control, executor or LocalExecutor())
    finally:
        await close_clients()


async def refuse_run(prepared: PreparedExperiment, root: Path, reporter: Reporter, executor: Executor) -> None:
    """Refuse what a run would refuse before it asks its models, all of it at once."""
    refusals = Refusals()
    with refusals:
        check_runnable(prepared)
    with refusals, naming_file(prepared.path):
        await executor.check(prepared, root, reporter)
    refusals.raise_all()


def may_look(summary: RunSummary, planned: int) -> bool:
    """Return whether a batch is done: at most a tenth of its trials could not be finished, and no agent was stopped."""
    was_tried = summary.outcome in ("completed", "failed") and not summary.repeated
    return was_tried and _MOST_MISSING * summary.left <= planned


async def _keep_reporting(reporter: Reporter, scheduler: Scheduler) -> None:
    """Report every second, because nothing else reports while all trials wait for an endpoint."""
    while True:
        await anyio.sleep(_SECONDS_BETWEEN_REPORTS)
        reporter.change(scheduler)


async def _check_models(prepared: PreparedExperiment, root: Path, reporter: Reporter) -> None:
    """Ask the models of all trials that are left whether they can do their part."""
    if all(spec.is_scripted for _, spec in prepared.experiment.models()):
        return
    from lhaw_record.runners.runs.endpoint_check import check_models, refuse_problems, warnings_of

    index = await anyio.to_thread.run_sync(stored_index, prepared, root)
    left = {trial.agent.name for trial in prepared.plan.trials if trial.trial_id not in index.finished}
    if left:
        report = await check_models(prepared.experiment, left)
        refuse_problems(report)
        reporter.checked(warnings_of(report.findings), report.cost_words)


async def run_controlled(
    prepared: PreparedExperiment, root: Path, reporter: Reporter, control: RunControl, executor: Executor
) -> RunSummary:
    """Run the trials of an experiment that a store lacks, under the caller's control.

    Several such runs may be active at a time. They share the connections to models, so the caller closes those at the
    very end.
    """
    experiment = prepared.experiment
    run_id = f"{experiment.name}-{secrets.token_hex(6)}"
    check_runnable(prepared)
    try_doors_now()
    with naming_file(prepared.path):
        await executor.check(prepared, root, reporter)
        if control.has_preflight and prepared.experiment.preflight:
            await _check_models(prepared, root, reporter)
    await anyio.to_thread.run_sync(sweep_scratch_folders)
    store = await anyio.to_thread.run_sync(create_store, root)
    with store.hold_experiment(experiment.name):
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(executor.held(prepared, store, run_id))
            reporter.recovered(await anyio.to_thread.run_sync(lambda: recover(store, experiment_id=experiment.name)))
            await anyio.to_thread.run_sync(check_manifest, store)
            snapshot = await anyio.to_thread.run_sync(read_snapshot, root)
            index = await anyio.to_thread.run_sync(load_trial_index, snapshot, experiment.name)
            if store.address is not None:  # the lock holds on this host only; for other hosts there is only a warning
                reporter.others(open_runs(snapshot, experiment.name))
            recorder = await stack.enter_async_context(
                StoreRecorder(store, experiment.name, redactor=redactor_of(prepared))
            )
            stream = recorder.stream(run_id)
            await record_start(stream, prepared, root, index, run_id)
            limits = experiment.budget
            spent_on = spent_by_model(snapshot, experiment.name) if limits.models else None
            budget = RunBudget(limits.max_cost_usd, index.spent_usd, limits.models, spent_on)
            runner = await stack.enter_async_context(executor.runner(prepared, recorder, run_id, budget))
            reporter.sandbox(executor.sandbox_kind)
            scheduler = Scheduler(
                experiment=experiment,
                plan=prepared.plan,
                index=index,
                spent_on=spent_on,
                runner=control.watched(runner),
                run_stream=stream,
                on_change=reporter.change,
                prior=control.prior,
                may_take=control.may_take,
            )
            await control.drive(scheduler)
            summary = scheduler.summary()
            if prepared.looks is not None and control.rule is not None and may_look(summary, len(prepared.plan.trials)):
                take = partial(prepared.looks.take, prepared.look, root, control.rule)
                await stream.append(await anyio.to_thread.run_sync(take))
            await stream.append(run_finished(run_id, summary))
        with suppress(OSError, StoreError):  # small segments stay whole and readable; the next run merges them
            await anyio.to_thread.run_sync(lambda: compact(store, experiment_id=experiment.name))
    return summary
