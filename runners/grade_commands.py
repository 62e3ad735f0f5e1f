"""The command ``grade``: grade trials that are over again, with the graders of this version or with a judge."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recorder.output import FORMATS, print_rows, say
from recorder.progress import Progress
from recorder.sharing.address import place_of, store_address
from runners.arguments import positive
from runners.judge_commands import writable
from runners.model_options import add_model_options, model_parameters, named_model, redacted_keys
from runners.paid_commands import say_failures, say_how_to_go_on
from runners.unknown_costs import spent_words

if TYPE_CHECKING:
    from runners.regrading.judged import JudgedRegrading

KINDS = ("matcher", "judge")


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``grade`` to the program."""
    grade = commands.add_parser(
        "grade",
        help="grade stored trials again: with the graders of this version, or claims with a judge",
        description="Grade again what trials left behind, beside the results that there are. Without --grader each "
        "benchmark's own grader of this version is taken that asks nobody: the checks of desk, the matcher of "
        "mcp_atlas. What a grader has graded is left out.",
        epilog="example: lhaw-record grade stores/atlas --grader judge --judge-model gemini/gemini-2.5-pro",
    )
    grade.add_argument("store", type=store_address, help="the store's directory or shared address")
    grade.add_argument("--grader", choices=KINDS, help="only trials of benchmarks that have this grader")
    grade.add_argument("--judge-model", metavar="MODEL", help="the judge: a model's name as in an experiment file")
    grade.add_argument(
        "--claim-judge", type=Path, metavar="FILE", help="a wording in place of data/prompts/claim_judge.md"
    )
    add_model_options(grade)
    grade.add_argument("--concurrency", type=positive, default=4, help="trials judged at a time (default: %(default)s)")
    grade.add_argument("--experiment", metavar="NAME", help="only trials of this experiment")
    grade.add_argument("--dry-run", action="store_true", help="record nothing: grade and compare, or count for a judge")
    grade.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    grade.set_defaults(function=grade_command)


def grade_command(options: argparse.Namespace) -> int:
    """Grade stored trials again; 1 when something is left or could not be graded, 130 when interrupted."""
    from runners.errors import ExperimentError

    if (options.grader == "judge") != (options.judge_model is not None):
        raise ExperimentError("--grader judge and --judge-model MODEL belong together; give both, or neither")
    return _judged(options) if options.grader == "judge" else _deterministic(options)


def _deterministic(options: argparse.Namespace) -> int:
    import anyio

    from recorder.store import Store
    from runners.regrading.ledger import GRADE_COLUMNS
    from runners.regrading.run import Regrading

    store = Store(options.store) if options.dry_run else writable(options.store)
    with Progress("graded") as progress:
        regrading = Regrading(store, options.experiment, options.grader, progress)
        if options.dry_run:
            regrading.look()
        else:
            anyio.run(regrading.record)
    print_rows(regrading.ledger.rows(), GRADE_COLUMNS, options.format)
    for line in regrading.ledger.summary():
        say(line)
    if regrading.is_stopped:
        return 130
    return 1 if regrading.ledger.has_refused else 0


def _judged(options: argparse.Namespace) -> int:
    import anyio

    from runners.regrading.ledger import GRADE_COLUMNS

    parameters = model_parameters(options.parameter)
    regrading = anyio.run(_judge, options, parameters)
    print_rows(regrading.ledger.rows(), GRADE_COLUMNS, options.format)
    for line in regrading.ledger.summary():
        say(line)
    return 0 if options.dry_run else _conclude(regrading, options)


async def _judge(options: argparse.Namespace, parameters: dict[str, Any]) -> "JudgedRegrading":
    from recorder.redaction import Redactor
    from recorder.store import Store
    from runners.benchmarks.mcp_atlas.judge import ClaimJudge
    from runners.judging.invocation import JudgeSettings
    from runners.models.litellm_library import close_clients
    from runners.regrading.judged import JudgedRegrading

    judge = ClaimJudge(options.claim_judge, options.judge_model, parameters)
    settings = JudgeSettings(
        model=named_model("--judge-model", options.judge_model, options),
        parameters=parameters,
        config={
            "command": "grade",
            "graders": [judge.name],
            "model": options.judge_model,
            "parameters": parameters,
            "concurrency": options.concurrency,
            "max_cost_usd": options.max_cost_usd,
            "experiment": options.experiment,
        },
        redactor=Redactor(redacted_keys(options)),
        experiment_id=options.experiment,
        concurrency=options.concurrency,
        max_cost_usd=options.max_cost_usd,
    )
    store = Store(options.store) if options.dry_run else writable(options.store)
    with Progress("graded") as progress:
        regrading = JudgedRegrading(store, judge, settings, progress)
        if options.dry_run:
            regrading.look()
        else:
            try:
                await regrading.run()
            finally:
                await close_clients()
    return regrading


def _conclude(regrading: "JudgedRegrading", options: argparse.Namespace) -> int:
    """Say how it ended and how to go on."""
    left = regrading.ledger.total["left"]
    say(
        f"{place_of(options.store)}: {left} trials left, with {regrading.claims_left} claims; "
        f"{spent_words(regrading.work.spent_usd, regrading.work.unpriced)}"
    )
    say_failures(regrading.work)
    if left:
        return say_how_to_go_on(regrading.work, "trial")
    return 1 if regrading.ledger.has_refused else 0
