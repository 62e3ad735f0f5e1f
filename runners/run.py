"""One invocation of an experiment file: recover, plan, run what is owed, and say how it ended."""

import os
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from recorder.compaction import compact
from recorder.errors import StoreError
from recorder.open_runs import OpenRun, open_runs
from recorder.pull import has_store
from recorder.reader import read_snapshot
from recorder.recorder import Recorder
from recorder.recovery import Recovered, recover
from recorder.redaction import Redactor, secrets_of
from recorder.store import Store
from recorder.trial_index import TrialIndex, load_trial_index
from recorder.values import Variant
from runners.benchmarks import open_benchmark
from runners.benchmarks.protocol import Benchmark, EnvironmentSettings, HasSecrets
from runners.designs import DesignedBenchmark, chosen, load_design
from runners.errors import ExperimentError
from runners.experiment import Experiment, load_experiment
from runners.external.planning import check_programs, check_versions, with_programs
from runners.interrupts import interruptibly
from runners.models.litellm_library import close_clients
from runners.plan import Plan, make_plan
from runners.plan_table import unpriced_agent
from runners.prompts import Prompts
from runners.run_record import record_start, run_finished
from runners.sandboxes.docker.config import DockerImage
from runners.sandboxes.protocol import SandboxLimits, SandboxProvider
from runners.sandboxes.select import bubblewrap_problem, provider
from runners.scheduler import Before, RunsTrials, RunSummary, Scheduler
from runners.scratch import sweep_scratch_folders
from runners.services import SCRIPTED, Services, check_scripted_names, keys_of, missing_keys, simulator_identity
from runners.trial import TrialRunner
from runners.variants_from import load_variants, not_here


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
    return prepare_experiment(load_experiment(path), path)


def prepare_experiment(experiment: Experiment, path: Path) -> Prepared:
    """Plan a decoded experiment.

    Args:
        experiment: The experiment.
        path: The file that it came from: relative paths start in its folder, and messages name it.

    Raises:
        ExperimentError: It cannot run as written.
    """
    base = path.resolve().parent
    with _naming(path):
        experiment = with_programs(experiment, base)
        check_scripted_names(experiment)
        benchmark, variants = _offered(experiment, base)
        check_programs(experiment, benchmark)
        prompts = Prompts(experiment, base, benchmark.system_prompt())
        plan = make_plan(experiment, benchmark, prompts, simulator_identity(experiment, prompts), variants)
    return Prepared(path=path, experiment=experiment, benchmark=benchmark, prompts=prompts, plan=plan)


def _offered(experiment: Experiment, base: Path) -> tuple[Benchmark, Sequence[Variant]]:
    """The benchmark and the variants to choose from; those of a design where its variants are not here."""
    spec = experiment.benchmark
    design = load_design(spec.design, base, spec.name) if spec.design else None
    missing = not_here(spec, base)
    if design and missing:
        designed = DesignedBenchmark(spec.name, design, missing)
        return designed, designed.variants()
    benchmark = open_benchmark(spec.name, dict(spec.options), base, experiment.grader)
    variants = load_variants(spec, benchmark, base)
    return benchmark, chosen(design, variants, spec.design_seed) if design else variants


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Put the experiment file in front of what is wrong with it."""
    try:
        yield
    except ExperimentError as error:
        raise ExperimentError(f"{path}: {error}") from error


def check_runnable(prepared: Prepared) -> None:
    """Refuse a plan that only a design stands behind.

    Raises:
        ExperimentError: Its variants are not here; the message has the command that brings them.
    """
    if isinstance(prepared.benchmark, DesignedBenchmark):
        raise ExperimentError(f"{prepared.path}: {prepared.benchmark.missing}")


def stored_index(prepared: Prepared, root: Path) -> TrialIndex:
    """Return what a store has of an experiment; an index of nothing when there is no store yet."""
    if not has_store(root):
        return TrialIndex(finished={}, failed={}, last_attempt={}, budgets=(), registered=frozenset(), spent_usd=0.0)
    return load_trial_index(read_snapshot(root), prepared.experiment.name)


class Reporter(msgspec.Struct, frozen=True):
    """How a run shows itself.

    What was recovered, who else may be at it, the sandbox and what is done to have it, every change, and that it waits
    for running trials.
    """

    others: Callable[[list[OpenRun]], None] = lambda _: None
    recovered: Callable[[list[Recovered]], None] = lambda _: None
    sandbox: Callable[[str], None] = lambda _: None
    change: Callable[[Scheduler], None] = lambda _: None
    stopping: Callable[[Scheduler], None] = lambda _: None


class Control(msgspec.Struct, frozen=True):
    """Who drives a run besides its own data.

    ``drive`` awaits ``scheduler.run()`` and may stop or cancel it meanwhile. ``before`` says what earlier attempts
    count, and ``may_take`` whether one more trial may start, for runs that share a limit. ``watched`` wraps what
    executes attempts.
    """

    drive: Callable[[Scheduler], Awaitable[None]]
    before: Before = Before()
    may_take: Callable[[Scheduler], bool] = lambda _: True
    watched: Callable[[RunsTrials], RunsTrials] = lambda runner: runner


async def run_experiment(prepared: Prepared, root: Path, reporter: Reporter) -> RunSummary:
    """Run what a store does not have yet of an experiment; returns when nothing is left that may start.

    The first interrupt lets running trials end, the second stops them; they are owed again.

    Raises:
        ExperimentError: A key is missing, or the sandbox is not to be had.
        StoreError: The store cannot be used, or another run holds the experiment.
        RecordingFailed: An event could not be made durable.
    """

    async def drive(scheduler: Scheduler) -> None:
        def stop() -> bool:
            is_first = not scheduler.is_stopping
            if is_first:
                scheduler.stop()
                reporter.stopping(scheduler)
            return is_first

        await interruptibly(scheduler.run, stop)

    try:
        return await run_controlled(prepared, root, reporter, Control(drive))
    finally:
        await close_clients()


async def run_controlled(prepared: Prepared, root: Path, reporter: Reporter, control: Control) -> RunSummary:
    """Run what a store does not have yet of an experiment, as somebody drives it; several may run at a time.

    They share the connections of models, so whoever runs them closes those at the very end.

    Raises:
        ExperimentError: A key is missing, or the sandbox is not to be had.
        StoreError: The store cannot be used, or another run holds the experiment.
        RecordingFailed: An event could not be made durable.
    """
    experiment = prepared.experiment
    check_runnable(prepared)
    with _naming(prepared.path):
        sandbox = await _checked_sandbox(experiment, reporter.sandbox)
        await anyio.to_thread.run_sync(check_versions, experiment)
    await anyio.to_thread.run_sync(sweep_scratch_folders)
    store = await anyio.to_thread.run_sync(Store.create, root)
    with store.hold_experiment(experiment.name):
        reporter.recovered(await anyio.to_thread.run_sync(lambda: recover(store, experiment_id=experiment.name)))
        snapshot = await anyio.to_thread.run_sync(read_snapshot, root)
        index = await anyio.to_thread.run_sync(load_trial_index, snapshot, experiment.name)
        if store.address is not None:  # the lock is this host's; who runs it elsewhere can only be warned of
            reporter.others(open_runs(snapshot, experiment.name))
        redactor = Redactor(secrets_of(os.environ) | keys_of(experiment) | _secrets_of(prepared.benchmark))
        async with AsyncExitStack() as stack:
            recorder = await stack.enter_async_context(Recorder(store, experiment.name, redactor=redactor))
            run_id = f"{experiment.name}-{secrets.token_hex(6)}"
            stream = recorder.stream(run_id)
            await record_start(stream, prepared, root, index, run_id)
            listener = None
            if any(agent.external for agent in experiment.agents):
                from runners.external.listener import open_listener

                listener = await stack.enter_async_context(open_listener(has_port=sandbox.kind == "process"))
            services = Services(experiment, prepared.benchmark, prepared.prompts)
            runner = TrialRunner(
                experiment=experiment,
                benchmark=prepared.benchmark,
                prompts=prepared.prompts,
                settings=EnvironmentSettings(sandbox=sandbox, limits=_sandbox_limits(experiment)),
                services=services,
                recorder=recorder,
                run_id=run_id,
                listener=listener,
            )
            reporter.sandbox(sandbox.kind)
            scheduler = Scheduler(
                experiment=experiment,
                plan=prepared.plan,
                index=index,
                runner=control.watched(runner),
                run_stream=stream,
                on_change=reporter.change,
                before=control.before,
                may_take=control.may_take,
            )
            await control.drive(scheduler)
            summary = scheduler.summary()
            await stream.append(run_finished(run_id, summary))
        with suppress(OSError, StoreError):  # small segments stay whole and readable; the next run merges them
            await anyio.to_thread.run_sync(lambda: compact(store, experiment_id=experiment.name))
    return summary


async def _checked_sandbox(experiment: Experiment, report: Callable[[str], None]) -> SandboxProvider:
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
    return await _sandbox(experiment, report)


async def _sandbox(experiment: Experiment, report: Callable[[str], None]) -> SandboxProvider:
    """Where the agents work. Without bubblewrap, ``auto`` takes a plain process for scripted models only.

    Raises:
        ExperimentError: A real model or a program would run commands on this machine without isolation.
    """
    kind = experiment.sandbox.kind
    real = [
        f"program {agent.external.title}" if agent.external else agent.model
        for agent in experiment.agents
        if agent.external or not agent.model.startswith(SCRIPTED)
    ]
    if kind == "auto" and await bubblewrap_problem() is not None and not real:
        kind = "process"
    if kind == "process" and real and not experiment.sandbox.allow_unisolated:
        raise ExperimentError(
            f"key 'sandbox.kind': {real[0]} would run commands on this machine without isolation; take bubblewrap "
            "(apt-get install bubblewrap), or set sandbox.allow_unisolated = true if this machine may be harmed"
        )
    image = DockerImage(name=experiment.sandbox.image or "", cpus=experiment.sandbox.cpus) if kind == "docker" else None
    return await provider(kind, image, report)


def _secrets_of(benchmark: Benchmark) -> frozenset[str]:
    return benchmark.secrets() if isinstance(benchmark, HasSecrets) else frozenset()


def _sandbox_limits(experiment: Experiment) -> SandboxLimits:
    limits = experiment.limits
    return SandboxLimits(memory_mb=limits.memory_mb, processes=limits.processes, command_seconds=limits.command_seconds)
