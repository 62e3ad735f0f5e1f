"""The command ``judge``: let a model say something about trials that are over."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recorder.output import FORMATS, print_rows, say
from recorder.progress import Progress
from recorder.sharing.address import place_of, store_address
from runners.arguments import positive
from runners.model_options import add_model_options, model_parameters, named_model, redacted_keys
from runners.paid_commands import say_failures, say_how_to_go_on
from runners.unknown_costs import spent_words

if TYPE_CHECKING:
    from recorder.store import Store
    from runners.judging.driver import Driver
    from runners.judging.protocol import Judging

KINDS = ("failure-modes", "new-task")


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``judge`` to the program."""
    judge = commands.add_parser(
        "judge",
        help="let a model judge stored trials: how they asked, or whether a variant became another task",
        description="Let a model judge stored trials. What the same judge has judged with the same prompt is left out.",
        epilog="example: lhaw-record judge stores/demo --kind failure-modes --model anthropic/claude-sonnet-4-5",
    )
    judge.add_argument("store", type=store_address, help="the store's directory or shared address")
    judge.add_argument(
        "--kind",
        choices=KINDS,
        required=True,
        help="failure-modes: every trial with questions; new-task: every variant that always failed in one way",
    )
    judge.add_argument("--model", required=True, help="a model's name as in an experiment file")
    add_model_options(judge)
    judge.add_argument("--prompt", type=Path, metavar="FILE", help="a prompt in place of the one in data/judges")
    judge.add_argument("--experiment", metavar="NAME", help="only trials of this experiment")
    judge.add_argument("--agent", action="append", default=[], metavar="NAME", help="only this agent (may be repeated)")
    judge.add_argument("--concurrency", type=positive, default=4, help="judgements at a time (default: %(default)s)")
    judge.add_argument("--dry-run", action="store_true", help="only say what would be judged")
    judge.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    judge.set_defaults(function=judge_command)


def judge_command(options: argparse.Namespace) -> int:
    """Judge what is not judged yet; 1 when something is left, 130 when interrupted."""
    import anyio

    from recorder.reader import read_snapshot
    from recorder.store import Store
    from runners.afterwards import experiments_of
    from runners.judging.stored import load_stored
    from runners.judging.tally import TALLY_COLUMNS, Tally, of_agents

    store = Store(options.store)
    parameters = model_parameters(options.parameter)
    judging = _judging(options, store, parameters)
    if options.dry_run:
        experiments_of(store, options.experiment)
        stored = load_stored(read_snapshot(store.root), options.experiment)
        tally = Tally(of_agents(judging.subjects(stored), tuple(options.agent)))
        print_rows(tally.rows(), TALLY_COLUMNS, options.format)
        return 0
    driver = anyio.run(_judge, options, judging, parameters)
    print_rows(driver.tally.rows(), TALLY_COLUMNS, options.format)
    return _conclude(driver, options)


async def _judge(options: argparse.Namespace, judging: "Judging", parameters: dict[str, Any]) -> "Driver":
    from recorder.redaction import Redactor
    from runners.judging.driver import Driver
    from runners.judging.invocation import JudgeSettings
    from runners.models.litellm_library import close_clients

    settings = JudgeSettings(
        model=named_model("--model", options.model, options),
        parameters=parameters,
        config={
            "command": "judge",
            "kind": judging.kind,
            "model": options.model,
            "prompt_digest": judging.prompt_digest,
            "parameters": parameters,
            "concurrency": options.concurrency,
            "max_cost_usd": options.max_cost_usd,
            "experiment": options.experiment,
            "agents": options.agent,
        },
        redactor=Redactor(redacted_keys(options)),
        experiment_id=options.experiment,
        agents=tuple(options.agent),
        concurrency=options.concurrency,
        max_cost_usd=options.max_cost_usd,
    )
    with Progress("judged") as progress:
        driver = Driver(
            writable(options.store), judging, settings, lambda now: progress(now.tally.tried, now.tally.to_do)
        )
        try:
            await driver.run()
        finally:
            await close_clients()
    return driver


def _judging(options: argparse.Namespace, store: "Store", parameters: dict[str, Any]) -> "Judging":
    """The kind of judging that was asked for, with its prompt."""
    from recorder.blobs import load_blob
    from runners.judging.failure_modes import FailureModes
    from runners.judging.new_tasks import NewTasks

    if options.kind == "failure-modes":
        return FailureModes(options.model, parameters, options.prompt)
    return NewTasks(options.model, parameters, lambda sha256: load_blob(store, sha256), options.prompt)


def _conclude(driver: "Driver", options: argparse.Namespace) -> int:
    """Say how it ended and how to go on."""
    say(
        f"{place_of(options.store)}: {driver.tally.tried} tried, {driver.tally.left} left; "
        f"{spent_words(driver.work.spent_usd, driver.work.unpriced)}"
    )
    say_failures(driver.work)
    return say_how_to_go_on(driver.work, "judgement") if driver.tally.left else 0


def writable(root: Path) -> "Store":
    """Return the store that is there, made for writing; a mistyped name makes no new one."""
    from recorder.store import Store

    Store(root)
    return Store.create(root)
