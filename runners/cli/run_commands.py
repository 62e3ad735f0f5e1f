"""The commands ``run``, which runs an experiment, and ``show``, which prints one attempt of a trial."""

import argparse
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec

from lhaw_record.recorder.cli.arguments import FORMAT, STORE, format_option, positive, store_option
from lhaw_record.recorder.cli.command import Command, argument, flag
from lhaw_record.recorder.cli.output import print_rows, say, write_file
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.runners.base.errors import UNKNOWN_COST, ExperimentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lhaw_record.recorder.reading.trial_index import TrialIndex
    from lhaw_record.recorder.writing.redaction import Redactor
    from lhaw_record.runners.agents.planned_trial import PlannedTrial
    from lhaw_record.runners.runs.planning.looks import StoppingRule
    from lhaw_record.runners.runs.preparation import PreparedExperiment
    from lhaw_record.runners.runs.run import Executor
    from lhaw_record.runners.runs.scheduler import RunSummary

_CRASH_CHARACTERS = 500  # of a line that may end with what a program printed; cut after secrets are replaced


def run_command(options: argparse.Namespace, rule: "StoppingRule") -> int:
    """Plan and run an experiment. The exit code is 1 if some trials are unfinished, 130 if interrupted."""
    from lhaw_record.recorder.storage.manifest_check import check_manifest
    from lhaw_record.recorder.storage.store import Store, has_store
    from lhaw_record.runners.runs.live_progress import Reporter, RunProgress
    from lhaw_record.runners.runs.planning.looks import look_words
    from lhaw_record.runners.runs.planning.plan_table import plan_columns, plan_notes, plan_rows
    from lhaw_record.runners.runs.preparation import check_runnable, next_batch, prepare, stored_index
    from lhaw_record.runners.runs.run import refuse_run, run_experiment
    from lhaw_record.runners.runs.scheduler import is_refused

    executor = _executor(options.executor, options.workers)
    prepared = prepare(options.experiment)
    given = {key: value for key in ("concurrency", "wire") if (value := getattr(options, key)) is not None}
    experiment = msgspec.structs.replace(prepared.experiment, **given)  # no trial's identity depends on these keys
    prepared = msgspec.structs.replace(prepared, experiment=experiment)
    root = options.store or Path("stores") / prepared.experiment.name
    index = stored_index(prepared, root)
    batch = next_batch(prepared, index)
    if batch is not None and not options.dry_run:
        check_runnable(batch)
    notes = plan_notes(prepared.experiment, prepared.benchmark, prepared.plan, index)
    for note in (*notes, *_store_notes(root, prepared.experiment.name, prepared.plan.trials, index)):
        say(note)
    refused = {trial_id for trial_id, failed in index.failed.items() if is_refused(failed)}
    left_alone = () if options.retry_refused else refused
    rows = plan_rows(prepared.experiment, prepared.plan, index, left_alone)
    out = sys.stdout if options.dry_run else sys.stderr
    print_rows([msgspec.to_builtins(row) for row in rows], plan_columns(rows), options.format, out)
    if prepared.looks is not None:
        say("\n".join(prepared.looks.notes(index.looks, rule)))
    done = _why_done(prepared, batch, index)
    if (done or options.dry_run) and has_store(root):  # a run that goes on looks by itself, after recovery
        check_manifest(Store(root))
    if batch is None or done:
        say(f"{store_name(root)}: {done}; nothing to run")
        return 0
    if options.dry_run:
        anyio.run(refuse_run, batch, root, Reporter(), executor)
        return 0
    while batch is not None:
        with RunProgress(sys.stderr) as progress:
            run = partial(
                run_experiment,
                retries_refused=options.retry_refused,
                has_preflight=not options.no_preflight,
                rule=rule,
            )
            summary = anyio.run(run, batch, root, progress.reporter(), executor)
        exit_code = _conclude(summary, options, root, batch)
        if not batch.look:
            break
        index = stored_index(prepared, root)
        if len(index.looks) < batch.look:
            break
        say(look_words(index.looks[-1]))
        batch = next_batch(prepared, index)
    return exit_code


def _why_done(prepared: "PreparedExperiment", batch: "PreparedExperiment | None", index: "TrialIndex") -> str:
    if batch is None:
        return "the study is over"
    is_done = not batch.look and all(trial.trial_id in index.finished for trial in batch.plan.trials)
    return f"all {len(prepared.plan.trials)} trials are finished" if is_done else ""


def _store_notes(
    root: Path, experiment: str, planned: "Iterable[PlannedTrial]", index: "TrialIndex"
) -> "Iterator[str]":
    """Say where the trials of a plan go, which of them count nowhere, and which store has others of the experiment."""
    yield f"the store of this plan is {store_name(root)}"
    if aside := sum(each.trial_id in index.set_aside for each in planned):
        yield (
            f"{aside} of the finished trials are set aside by 'discard' and not counted; 'lhaw-record discard "
            f"{store_name(root)} --experiment {experiment} --rerun' lets them run again, '--undo' includes them"
        )
    others = sorted(each.parent.parent for each in root.parent.glob(f"*/events/experiment={experiment}"))
    if not index.finished and (there := [each for each in others if each != root]):
        yield f"{there[0]} already has trials of experiment {experiment}; --store {there[0]} continues there"


def check_command(options: argparse.Namespace) -> int:
    """Ask every real model once, and print what was found. The exit code is 1 if there is a problem."""
    from lhaw_record.runners.models.litellm_library import close_clients
    from lhaw_record.runners.runs.endpoint_check import CheckReport, check_models
    from lhaw_record.runners.runs.planning.plan_table import model_notes
    from lhaw_record.runners.runs.preflight import check_keys
    from lhaw_record.runners.runs.preparation import naming_file, prepare, redactor_of

    prepared = prepare(options.experiment)
    with naming_file(options.experiment):
        check_keys(prepared.experiment)

    async def checked() -> CheckReport:
        try:
            return await check_models(prepared.experiment)
        finally:
            await close_clients()

    report = anyio.run(checked)
    for note in model_notes(prepared.experiment):
        say(note)
    redactor = redactor_of(prepared)
    columns = ("level", "key", "model", "address", "finding", "next_step")
    rows = [{name: redactor.clean_text(getattr(each, name)) for name in columns} for each in report.findings]
    print_rows(rows, columns, options.format)
    say(report.cost_words if rows else "all models are scripted, so there is nothing to test")
    return 1 if report.problems else 0


def _executor(name: str, workers: int | None) -> "Executor":
    from lhaw_record.runners.runs.executors.local import LocalExecutor

    if workers is not None and (name == "local" or workers < 1):
        raise ExperimentError("--workers needs --executor ray and at least 1; --concurrency sets how many trials run")
    if name == "local":
        return LocalExecutor()
    from lhaw_record.runners.runs.executors.ray_executor import RayExecutor

    return RayExecutor(workers)


def _again(options: argparse.Namespace, store: str, *, has_retry_refused: bool = False) -> str:
    words = ["lhaw-record", "run", str(options.experiment), "--store", store]
    words += [] if options.executor == "local" else ["--executor", options.executor]
    for name in ("workers", "concurrency", "wire"):
        given = getattr(options, name)
        words += [] if given is None else [f"--{name}", str(given)]
    words += ["--no-preflight"] if options.no_preflight else []
    words += ["--retry-refused"] if options.retry_refused or has_retry_refused else []
    words += [] if options.format == "table" else ["--format", options.format]
    return shlex.join(words)


def _say_failures(summary: "RunSummary", redactor: "Redactor") -> None:
    """Print the first few failures, and why the run was paused, or an agent stopped."""
    for outcome in summary.failures[:5]:
        failure = outcome.failure
        assert failure is not None
        trial = f"{outcome.trial.agent.name}, {outcome.trial.condition}, {outcome.trial.task.task_id}"
        lines = redactor.clean_text(failure.message).strip().splitlines() or [""]  # a program may print its environment
        message = " … ".join(dict.fromkeys((lines[0], lines[-1].strip())))  # the last line of a traceback is the error
        say(f"  failed at {failure.boundary} ({failure.error_kind}) in {trial}: {message}")
    for pause in summary.pauses:
        say(f"paused: {redactor.clean_text(pause)}")
    for reason in summary.repeated:
        say(f"stopped: {reason}")


def _conclude(summary: "RunSummary", options: argparse.Namespace, root: Path, prepared: "PreparedExperiment") -> int:
    """Report how the run ended and how to continue, and return the exit code."""
    from lhaw_record.runners.models.call_outcomes import REFUSED_KINDS
    from lhaw_record.runners.runs.planning.plan_table import spending
    from lhaw_record.runners.runs.preparation import redactor_of

    store = store_name(root)
    again = _again(options, store)
    spent = spending(prepared.experiment, summary.spent_usd, summary.unpriced + summary.unknown_cost_calls)
    redactor = redactor_of(prepared)
    say(f"{store}: {summary.finished} trials finished now, {summary.left} left; total cost {spent}")
    if summary.unknown_cost_calls:
        budget = prepared.experiment.budget
        has_limit = budget.max_cost_usd is not None or budget.max_cost_usd_per_trial is not None
        limits = "; the cost limit does not cover them" if has_limit else ""
        say(f"  not in this sum: {summary.unknown_cost_calls} failed requests of unknown cost{limits}")
    for crash in summary.crashes:
        say(f"  {redactor.clean_text(crash)[:_CRASH_CHARACTERS]}")
    if summary.flagged:
        say(f"  {summary.flagged} of them are flagged: the recorder could not follow the program. Details:")
        say(f"  lhaw-record tables {store} agent_health")
    _say_failures(summary, redactor)
    if summary.outcome == "interrupted":
        say(f"interrupted; no recorded data is lost. Continue with:\n  {again}")
        return 130
    if summary.outcome == "paused":
        say(f"No recorded data is lost, and no attempt was counted. When the model answers again:\n  {again}")
        return 1
    if summary.outcome == "cost_limit":
        say(
            f"the cost limit does not allow another trial. Raise {' and '.join(summary.spent_limits)} in "
            f"{options.experiment}, then:\n  {again}"
        )
        return 1
    if summary.outcome == "cost_unknown":
        remedy = f"Remove it from {options.experiment}, then:\n  {again}"
        say(f"budget.max_cost_usd cannot be kept: {UNKNOWN_COST}. {remedy}")
        return 1
    failures = [each.failure for each in summary.failures if each.failure is not None]
    if summary.left and failures and not any(failure.is_retry_owed for failure in failures):
        is_refused = any(failure.error_kind in REFUSED_KINDS for failure in failures)
        again = _again(options, store, has_retry_refused=is_refused)
        say(f"{summary.left} trials are left and would fail again. Correct the causes named above, then:\n  {again}")
        return 1
    if summary.left:
        waiting = f" ({summary.blocked} wait for full trials)" if summary.blocked else ""
        say(f"{summary.left} trials are still to run{waiting}. Continue with:\n  {again}")
        return 1
    return 0


def show_command(attempt_page: Callable[[Path, str], str], options: argparse.Namespace) -> int:
    """Print one attempt of a trial. The exit code is 1 if its recorded messages contradict their digests."""
    if options.requests:
        from lhaw_record.runners.cli.attempt_details import print_requests

        return print_requests(options.store, options.stream, sys.stdout)

    from lhaw_record.runners.cli.attempt_text import print_attempt, stream_of

    if options.web:
        write_file(options.web, attempt_page(options.store, stream_of(options.store, options.stream)).encode())
        say(str(options.web))
        return 0
    return print_attempt(options.store, options.stream, sys.stdout, has_reasoning=options.reasoning)


COMMANDS = (
    Command(
        name="check",
        help="test every real model of an experiment with one request",
        description="Send each real model of an experiment file one small request, and print the problems: "
        "a wrong address, key or model name, tools that the server drops, missing token counts, a small context, "
        "an unknown price. Scripted models are not tested. The exit code is 1 if there is a problem.",
        example="check experiments/agents.toml",
        arguments=(argument("experiment", type=Path, help="the experiment file (TOML)"), FORMAT),
        function=check_command,
    ),
)


def run_commands(rule: "StoppingRule", attempt_page: Callable[[Path, str], str]) -> tuple[Command, ...]:
    """Return the commands. The rule is for studies that stop when a gain is shown."""
    return (
        Command(
            name="show",
            help="print one attempt of a trial as a conversation",
            description="Print one attempt of a trial: what was removed, every message as the model saw it, the "
            "answers, the injection and the grades. On a terminal, removed values are marked wherever they occur "
            "(not with NO_COLOR).",
            example="show stores/demo 1f0c...-1",
            arguments=(
                STORE,
                argument("stream", help="TRIAL_ID-ATTEMPT, as in the column stream_id; a unique prefix is enough"),
                flag("--reasoning", "print the whole reasoning of each reply instead of its first line"),
                flag("--requests", "instead, print each request to a model and its reply as a full line of JSON"),
                argument("--web", type=Path, metavar="FILE", help="write a page with the report's viewer instead"),
            ),
            function=partial(show_command, attempt_page),
        ),
        Command(
            name="run",
            help="run an experiment file; finished trials are not run again",
            description="Plan the trials of an experiment file, show the plan, and run the unfinished trials.",
            example="run experiments/demo.toml --store stores/demo",
            arguments=(
                argument("experiment", type=Path, help="the experiment file (TOML)"),
                store_option("the store: a directory or a shared address (default: stores/NAME)", required=False),
                flag("--dry-run", "show the plan, or why a run would be refused, with its exit code; ask no model"),
                argument("--concurrency", type=positive, help="trials at a time; overrides the file"),
                argument(
                    "--executor",
                    choices=("local", "ray"),
                    default="local",
                    help="where trials run: in this process, or on the machines of a Ray cluster, which needs a shared "
                    "store and the extra lhaw-record[ray] (docs/more-machines.md; default: %(default)s)",
                ),
                argument(
                    "--workers",
                    type=int,
                    help="with ray: processes on the cluster (default: one for each processor, at most --concurrency)",
                ),
                argument(
                    "--wire",
                    choices=("digest", "full"),
                    help="what to keep of the HTTP bodies of model calls: their digests, or the bodies themselves "
                    "(default: wire in the file, else digest)",
                ),
                flag(
                    "--retry-refused",
                    "retry trials that a model refused (bad_request, cut_reply and others); otherwise they stay failed",
                ),
                flag("--no-preflight", "skip the test request to each real model before the run (see check)"),
                format_option("format of the plan (default: %(default)s)"),
            ),
            function=partial(run_command, rule=rule),
        ),
        *COMMANDS,
    )
