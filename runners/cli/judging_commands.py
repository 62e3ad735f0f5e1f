"""The commands ``judge``, which lets a model judge stored trials, and ``grade``, which grades them again."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from lhaw_record.recorder.cli.arguments import FORMAT, STORE, positive
from lhaw_record.recorder.cli.command import Command, argument, flag, repeatable
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.cli.terminal import Progress
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.cli.model_options import (
    MODEL_OPTIONS,
    model_parameters,
    named_model,
    redacted_keys,
    request_limits,
    say_failures,
    say_how_to_go_on,
)

if TYPE_CHECKING:
    from lhaw_record.runners.judging.judge_run import JudgeRun, JudgeSettings, Judging
    from lhaw_record.runners.judging.regrading import Regrading
    from lhaw_record.runners.judging.stored_claims import JudgedRegrading


def judge_command(options: argparse.Namespace) -> int:
    """Judge the stored trials that have no judgement yet. The exit code is 1 if some are left, 130 if interrupted."""
    from lhaw_record.recorder.reading.reader import read_snapshot
    from lhaw_record.runners.judging.judge_run import TALLY_COLUMNS, JudgingTally, of_agents
    from lhaw_record.runners.judging.stored_trials import load_stored
    from lhaw_record.runners.runs.run_record import experiments_of

    store = Store(options.store)
    parameters = model_parameters(options, options.model or "")
    judging = _judging(options, store, parameters)
    if options.dry_run:
        experiments_of(store, options.experiment)
        stored = load_stored(read_snapshot(store.root), options.experiment)
        tally = JudgingTally(of_agents(judging.subjects(stored), tuple(options.agent)))
        print_rows(tally.rows(), TALLY_COLUMNS, options.format)
        return 0
    driver = anyio.run(run_judge, options, judging, parameters)
    print_rows(driver.tally.rows(), TALLY_COLUMNS, options.format)
    say(f"{store_name(options.store)}: {driver.tally.tried} tried, {driver.tally.left} left; {driver.work.spent}")
    say_failures(driver.work)
    return say_how_to_go_on(driver.work, "judgement") if driver.tally.left else 0


async def run_judge(options: argparse.Namespace, judging: "Judging", parameters: dict[str, Any]) -> "JudgeRun":
    """Judge what has no judgement yet, with the options of ``judge``, and return the driver that did it."""
    from lhaw_record.runners.judging.judge_run import JudgeRun
    from lhaw_record.runners.models.litellm_library import close_clients

    config = {
        "kind": judging.kind,
        "prompt_digest": judging.prompt_digest,
        "agents": options.agent,
    }
    settings = _judge_settings(options, ("--model", options.model), "judge", parameters, config, tuple(options.agent))
    with Progress("judged") as progress:
        driver = JudgeRun(
            _writable_store(options.store), judging, settings, lambda now: progress(now.tally.tried, now.tally.to_do)
        )
        try:
            await driver.run()
        finally:
            await close_clients()
    return driver


def _judging(options: argparse.Namespace, store: Store, parameters: dict[str, Any]) -> "Judging":
    from lhaw_record.recorder.storage.blobs import load_blob
    from lhaw_record.runners.judging.failure_modes import FailureModes
    from lhaw_record.runners.judging.new_tasks import NewTasks

    if options.kind == "failure-modes":
        return FailureModes(options.model, parameters, options.prompt)
    return NewTasks(options.model, parameters, lambda sha256: load_blob(store, sha256), options.prompt)


def grade_command(options: argparse.Namespace) -> int:
    """Grade stored trials again.

    The exit code is 1 if some trials are left or could not be graded, 130 if interrupted.
    """
    if (options.grader == "judge") != (options.judge_model is not None):
        raise ExperimentError("--grader judge and --judge-model MODEL belong together; give both, or neither")
    from lhaw_record.runners.judging.stored_graders import GRADE_COLUMNS

    store = Store(options.store) if options.dry_run else _writable_store(options.store)
    with Progress("graded") as progress:
        judged = _claim_judging(options, store, progress) if options.grader == "judge" else None
        regrading = judged or _regrading(options, store, progress)
        if options.dry_run:
            regrading.look()
        else:
            anyio.run(_run_regrading, regrading)
    print_rows(regrading.ledger.rows(), GRADE_COLUMNS, options.format)
    for line in regrading.ledger.summary():
        say(line)
    if judged is not None and options.dry_run:
        return 0
    if judged is not None:
        left = judged.ledger.total["left"]
        say(f"{store_name(options.store)}: {left} trials left, with {judged.claims_left} claims; {judged.work.spent}")
        say_failures(judged.work)
        if left:
            return say_how_to_go_on(judged.work, "trial")
    elif regrading.work.stop_reason is not None:
        return 130
    return 1 if regrading.ledger.has_refused else 0


def _regrading(options: argparse.Namespace, store: Store, progress: Progress) -> "Regrading":
    from lhaw_record.runners.judging.regrading import Regrading

    return Regrading(store, options.experiment, options.grader, progress)


def _claim_judging(options: argparse.Namespace, store: Store, progress: Progress) -> "JudgedRegrading":
    from lhaw_record.runners.environments.benchmarks.mcp_atlas.judge import ClaimJudge
    from lhaw_record.runners.judging.stored_claims import JudgedRegrading

    parameters = model_parameters(options, options.judge_model)
    judge = ClaimJudge(options.claim_judge, options.judge_model, parameters)
    config = {"graders": [judge.name]}
    settings = _judge_settings(options, ("--judge-model", options.judge_model), "grade", parameters, config)
    return JudgedRegrading(store, judge, settings, progress)


async def _run_regrading(regrading: "Regrading | JudgedRegrading") -> None:
    from lhaw_record.runners.models.litellm_library import close_clients

    try:
        await regrading.run()
    finally:
        await close_clients()


def _judge_settings(
    options: argparse.Namespace,
    model: tuple[str, str],
    kind: str,
    parameters: dict[str, Any],
    config: dict[str, Any],
    agents: tuple[str, ...] = (),
) -> "JudgeSettings":
    from lhaw_record.recorder.writing.redaction import Redactor
    from lhaw_record.runners.judging.judge_run import JudgeSettings

    limits = {"concurrency": options.concurrency, "max_cost_usd": options.max_cost_usd}
    return JudgeSettings(
        model=named_model(*model, options),
        parameters=parameters,
        kind=kind,
        config={**config, "model": model[1], "parameters": parameters, "experiment": options.experiment, **limits},
        redactor=Redactor(redacted_keys(options)),
        experiment_id=options.experiment,
        agents=agents,
        say=say,
        **request_limits(options),
        **limits,
    )


def _writable_store(root: Path) -> Store:
    """Open an existing store for writing. A mistyped name does not create a new store."""
    from lhaw_record.recorder.storage.creation import create_store

    Store(root)
    return create_store(root)


_EXPERIMENT = argument("--experiment", metavar="NAME", help="only trials of this experiment")

COMMANDS = (
    Command(
        name="judge",
        help="have a model judge stored trials: how they asked, or whether a variant is a new task",
        description="Let a model judge stored trials. Trials that the same judge has judged with the same prompt "
        "are skipped.",
        example="judge stores/demo --kind failure-modes --model anthropic/claude-sonnet-5-5",
        arguments=(
            STORE,
            argument(
                "--kind",
                choices=("failure-modes", "new-task"),
                required=True,
                help="failure-modes: every trial with questions; new-task: every variant that always failed in "
                "the same way",
            ),
            argument("--model", required=True, help="a model's name as in an experiment file"),
            *MODEL_OPTIONS,
            argument("--prompt", type=Path, metavar="FILE", help="a prompt that replaces the one in data/judges"),
            _EXPERIMENT,
            repeatable("--agent", "NAME", "only this agent (may be repeated)"),
            argument("--concurrency", type=positive, default=4, help="judgements at a time (default: %(default)s)"),
            flag("--dry-run", "only print which trials would be judged"),
            FORMAT,
        ),
        function=judge_command,
    ),
    Command(
        name="grade",
        help="grade stored trials again, with this version's graders or with a judge",
        description="Grade the final states of stored trials again and record the grades beside the existing "
        "ones. Without "
        "--grader, each benchmark uses its own grader without a model: the checks of desk, the matcher of mcp_atlas. "
        "Trials that the same grader has graded are skipped.",
        example="grade stores/atlas --grader judge --judge-model gemini/gemini-2.5-pro",
        arguments=(
            STORE,
            argument(
                "--grader",
                choices=("matcher", "judge"),
                help="only trials of benchmarks that have this grader",
            ),
            argument("--judge-model", metavar="MODEL", help="the judge: a model's name as in an experiment file"),
            argument(
                "--claim-judge",
                type=Path,
                metavar="FILE",
                help="a prompt that replaces data/prompts/claim_judge.md",
            ),
            *MODEL_OPTIONS,
            argument("--concurrency", type=positive, default=4, help="trials judged at a time (default: %(default)s)"),
            _EXPERIMENT,
            flag("--dry-run", "record nothing; only grade and compare, or count the trials that a judge would grade"),
            FORMAT,
        ),
        function=grade_command,
    ),
)
