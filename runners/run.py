"""One invocation of an experiment file: recover, plan, run what is owed, and say how it ended."""

import importlib.metadata
import os
import platform
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from recorder.canonical import digest
from recorder.compaction import compact
from recorder.errors import StoreError
from recorder.events import Package, RunFinished, RunStarted, TaskRegistered, VariantGenerated
from recorder.open_runs import OpenRun, open_runs
from recorder.pull import has_store
from recorder.reader import read_snapshot
from recorder.recorder import Recorder
from recorder.recovery import Recovered, recover
from recorder.redaction import Redactor, secrets_of
from recorder.store import Store
from recorder.stream import Stream
from recorder.trial_index import TrialIndex, load_trial_index
from runners.benchmarks import open_benchmark
from runners.benchmarks.protocol import Benchmark, EnvironmentSettings
from runners.errors import ExperimentError, ungrouped
from runners.experiment import Experiment, load_experiment
from runners.plan import Plan, make_plan
from runners.plan_table import unpriced_agent
from runners.prompts import Prompts
from runners.sandboxes.protocol import SandboxLimits, SandboxProvider
from runners.sandboxes.select import bubblewrap_problem, provider
from runners.scheduler import RunSummary, Scheduler
from runners.services import SCRIPTED, Services, check_scripted_names, keys_of, missing_keys, simulator_identity
from runners.trial import TrialRunner

_RECORDED_PACKAGES = ("lhaw-record", "litellm", "mcp", "anyio", "msgspec", "duckdb", "pyarrow")


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment file with everything that can be known before it runs."""

    path: Path
    experiment: Experiment
    benchmark: Benchmark
    prompts: Prompts
    plan: Plan


def prepare(path: Path) -> Prepared:
    """Decode an experiment file and plan it.

    Raises:
        ExperimentError: It cannot run as written.
    """
    experiment = load_experiment(path)
    base = path.resolve().parent
    with _naming(path):
        check_scripted_names(experiment)
        options = dict(experiment.benchmark.options)
        benchmark = open_benchmark(experiment.benchmark.name, options, base, experiment.grader)
        prompts = Prompts(experiment, base, benchmark.system_prompt())
        plan = make_plan(experiment, benchmark, prompts, simulator_identity(experiment, prompts))
    return Prepared(path=path, experiment=experiment, benchmark=benchmark, prompts=prompts, plan=plan)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put the experiment file in front of what is wrong with it."""
    try:
        yield
    except ExperimentError as error:
        raise ExperimentError(f"{path}: {error}") from error


def stored_index(prepared: Prepared, root: Path) -> TrialIndex:
    """Return what a store has of an experiment; an index of nothing when there is no store yet."""
    if not has_store(root):
        return TrialIndex(finished={}, failed={}, last_attempt={}, budgets=(), registered=frozenset(), spent_usd=0.0)
    return load_trial_index(read_snapshot(root), prepared.experiment.name)


class Reporter(msgspec.Struct, frozen=True):
    """How a run shows itself.

    What was recovered, who else may be at it, the sandbox, every change, and that it waits for running trials.
    """

    others: Callable[[list[OpenRun]], None] = lambda _: None
    recovered: Callable[[list[Recovered]], None] = lambda _: None
    sandbox: Callable[[str], None] = lambda _: None
    change: Callable[[Scheduler], None] = lambda _: None
    stopping: Callable[[Scheduler], None] = lambda _: None


async def run_experiment(prepared: Prepared, root: Path, reporter: Reporter) -> RunSummary:
    """Run what a store does not have yet of an experiment; returns when nothing is left that may start.

    The first interrupt lets running trials end, the second stops them; they are owed again.

    Raises:
        ExperimentError: A key is missing, or the sandbox is not to be had.
        StoreError: The store cannot be used, or another run holds the experiment.
        RecordingFailed: An event could not be made durable.
    """
    experiment = prepared.experiment
    with _naming(prepared.path):
        sandbox = await _checked_sandbox(experiment)
    store = Store.create(root)
    with store.hold_experiment(experiment.name):
        reporter.recovered(recover(store, experiment_id=experiment.name))
        snapshot = read_snapshot(root)
        index = load_trial_index(snapshot, experiment.name)
        if store.address is not None:  # the lock is this host's; who runs it elsewhere can only be warned of
            reporter.others(open_runs(snapshot, experiment.name))
        redactor = Redactor(secrets_of(os.environ) | keys_of(experiment))
        async with Recorder(store, experiment.name, redactor=redactor) as recorder:
            run_id = f"{experiment.name}-{secrets.token_hex(6)}"
            stream = recorder.stream(run_id)
            await _record_start(stream, prepared, index, run_id)
            services = Services(experiment, prepared.benchmark, prepared.prompts)
            runner = TrialRunner(
                experiment=experiment,
                benchmark=prepared.benchmark,
                prompts=prepared.prompts,
                settings=EnvironmentSettings(sandbox=sandbox, limits=_sandbox_limits(experiment)),
                services=services,
                recorder=recorder,
                run_id=run_id,
            )
            reporter.sandbox(sandbox.kind)
            scheduler = Scheduler(
                experiment=experiment,
                plan=prepared.plan,
                index=index,
                runner=runner,
                run_stream=stream,
                on_change=reporter.change,
            )
            try:
                summary = await _run_interruptibly(scheduler, reporter)
            finally:
                await services.close()
            await stream.append(_finished(run_id, summary))
        with suppress(OSError, StoreError):  # small segments stay whole and readable; the next run merges them
            await anyio.to_thread.run_sync(lambda: compact(store, experiment_id=experiment.name))
    return summary


async def _run_interruptibly(scheduler: Scheduler, reporter: Reporter) -> RunSummary:
    """Run, obeying signals: the first stops new trials, the second cancels the running ones.

    Raises:
        RecorderError: An event could not be made durable.
    """

    async def listen() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if scheduler.is_stopping:
                    running.cancel()
                else:
                    scheduler.stop()
                    reporter.stopping(scheduler)

    with ungrouped():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            with anyio.CancelScope() as running:
                await scheduler.run()
            tasks.cancel_scope.cancel()
    return scheduler.summary()


async def _record_start(stream: Stream, prepared: Prepared, index: TrialIndex, run_id: str) -> None:
    """The run's first events: its configuration, then every task and variant that the store does not have yet."""
    config_json = prepared.experiment.config_json()
    planned = prepared.plan.trials
    await stream.append(
        RunStarted(
            run_id=run_id,
            config_json=config_json,
            config_digest=digest(config_json),
            code_version=importlib.metadata.version("lhaw-record"),
            packages=tuple(_packages()),
            python_version=platform.python_version(),
            platform=platform.platform(),
            cpu_count=os.cpu_count() or 0,
            planned_trials=len(planned),
            finished_before=sum(trial.trial_id in index.finished for trial in planned),
        )
    )
    tasks = {trial.key.task_digest: trial.task for trial in planned}
    variants = {trial.key.variant_digest: trial.variant for trial in planned if trial.variant}
    await stream.append(
        *(
            TaskRegistered(task=task, task_digest=task_digest)
            for task_digest, task in tasks.items()
            if task_digest not in index.registered
        ),
        *(
            VariantGenerated(variant=variant, variant_digest=variant.variant_digest)
            for variant in variants.values()
            if variant.variant_digest not in index.registered
        ),
    )


def _packages() -> Iterator[Package]:
    for name in _RECORDED_PACKAGES:
        try:
            yield Package(name=name, version=importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            continue


async def _checked_sandbox(experiment: Experiment) -> SandboxProvider:
    """Return where the agents work, after everything that could stop the run before it begins.

    Raises:
        ExperimentError: A key or a price is missing, or the sandbox is not to be had.
    """
    lacking = missing_keys(experiment)
    if lacking:
        raise ExperimentError(f"{lacking[0]}; set it, then run the same command again")
    unpriced = unpriced_agent(experiment)
    if unpriced:
        raise ExperimentError(
            f"[budget] limits the cost, but the price of {unpriced.model} is unknown; add to the agent "
            "price = { input_usd_per_million_tokens = ..., output_usd_per_million_tokens = ... }"
        )
    return await _sandbox(experiment)


async def _sandbox(experiment: Experiment) -> SandboxProvider:
    """Where the agents work. Without bubblewrap, ``auto`` takes a plain process for scripted models only.

    Raises:
        ExperimentError: A real model would run commands on this machine without isolation.
    """
    kind = experiment.sandbox.kind
    real = [agent.model for agent in experiment.agents if not agent.model.startswith(SCRIPTED)]
    if kind == "auto" and await bubblewrap_problem() is not None and not real:
        kind = "process"
    if kind == "process" and real and not experiment.sandbox.allow_unisolated:
        raise ExperimentError(
            f"key 'sandbox.kind': {real[0]} would run commands on this machine without isolation; take bubblewrap "
            "(apt-get install bubblewrap), or set sandbox.allow_unisolated = true if this machine may be harmed"
        )
    return await provider(kind)


def _sandbox_limits(experiment: Experiment) -> SandboxLimits:
    limits = experiment.limits
    return SandboxLimits(memory_mb=limits.memory_mb, processes=limits.processes, command_seconds=limits.command_seconds)


def _finished(run_id: str, summary: RunSummary) -> RunFinished:
    return RunFinished(
        run_id=run_id,
        outcome=summary.outcome,
        trials_finished=summary.finished,
        trials_failed=summary.failed,
        trials_blocked=summary.blocked,
        trials_left=summary.left,
    )
