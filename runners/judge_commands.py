"""The commands that add to trials which are over: ``judge`` them with a model, ``grade`` them again."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recorder.address import place_of, store_address
from recorder.output import FORMATS, print_rows
from recorder.progress import Progress

if TYPE_CHECKING:
    from recorder.store import Store
    from runners.judging.driver import Driver
    from runners.judging.protocol import Judging

KINDS = ("failure-modes", "new-task")


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``judge`` and ``grade`` to the program."""
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
    judge.add_argument("--api-base", help="the address of an OpenAI-compatible server")
    judge.add_argument("--api-key-env", metavar="NAME", help="the environment variable that holds the key")
    judge.add_argument(
        "--price", nargs=2, type=float, metavar=("IN", "OUT"), help="USD for a million input and output tokens"
    )
    judge.add_argument(
        "--parameter", action="append", default=[], metavar="NAME=VALUE", help="of the generation, the value as JSON"
    )
    judge.add_argument("--prompt", type=Path, metavar="FILE", help="a prompt in place of the one in data/judges")
    judge.add_argument("--experiment", metavar="NAME", help="only trials of this experiment")
    judge.add_argument("--agent", action="append", default=[], metavar="NAME", help="only this agent (may be repeated)")
    judge.add_argument("--concurrency", type=_positive, default=4, help="judgements at a time (default: %(default)s)")
    judge.add_argument("--max-cost-usd", type=float, metavar="USD", help="what this invocation may spend")
    judge.add_argument("--dry-run", action="store_true", help="only say what would be judged")
    judge.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    judge.set_defaults(function=judge_command)

    grade = commands.add_parser(
        "grade",
        help="grade stored desk trials again with the graders of this version",
        description="Grade again what desk trials left behind, with the graders of this version, beside what there is.",
        epilog="example: lhaw-record grade stores/demo --dry-run",
    )
    grade.add_argument("store", type=store_address, help="the store's directory or shared address")
    grade.add_argument("--experiment", metavar="NAME", help="only trials of this experiment")
    grade.add_argument("--dry-run", action="store_true", help="grade and compare, and record nothing")
    grade.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    grade.set_defaults(function=grade_command)


def judge_command(options: argparse.Namespace) -> int:
    """Judge what is not judged yet; 1 when something is left, 130 when interrupted."""
    import anyio

    from recorder.reader import read_snapshot
    from recorder.store import Store
    from runners.judging.afterwards import experiments_of
    from runners.judging.stored import load_stored
    from runners.judging.tally import TALLY_COLUMNS, Tally, of_agents

    store = Store(options.store)
    parameters = _parameters(options.parameter)
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
    from recorder.redaction import Redactor, secrets_of
    from runners.judging.driver import Driver, JudgeSettings
    from runners.models.litellm_library import close_clients
    from runners.models.litellm_model import LitellmModel
    from runners.models.prices import Price

    key = _key(options)
    given = options.price
    price = Price(input_usd_per_million_tokens=given[0], output_usd_per_million_tokens=given[1]) if given else None
    _check_price(options)
    settings = JudgeSettings(
        model=LitellmModel(options.model, api_base=options.api_base, api_key=key, price=price),
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
        redactor=Redactor(secrets_of(os.environ) | ({key} if key else set())),
        experiment_id=options.experiment,
        agents=tuple(options.agent),
        concurrency=options.concurrency,
        max_cost_usd=options.max_cost_usd,
    )
    with Progress("judged") as progress:
        driver = Driver(
            _writable(options.store), judging, settings, lambda now: progress(now.tally.tried, now.tally.to_do)
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


def _parameters(given: list[str]) -> dict[str, Any]:
    """The generation parameters: the defaults of every model here, and what was given."""
    from runners.errors import ExperimentError
    from runners.plan import DEFAULT_PARAMETERS

    parameters: dict[str, Any] = dict(DEFAULT_PARAMETERS)
    for text in given:
        name, has_value, value = text.partition("=")
        try:
            parameters[name] = json.loads(value)
        except ValueError:
            raise ExperimentError(f"--parameter {text!r}: write NAME=VALUE, the value as JSON") from None
        if not has_value:
            raise ExperimentError(f"--parameter {text!r} has no value; write NAME=VALUE")
    return parameters


def _key(options: argparse.Namespace) -> str | None:
    """The key that was named; None leaves it to the provider's own variable.

    Raises:
        ExperimentError: The model cannot be reached without a key that is not there.
    """
    from runners.errors import ExperimentError
    from runners.models.litellm_names import missing_credentials
    from runners.services import SCRIPTED

    if options.model.startswith(SCRIPTED):
        raise ExperimentError(f"--model {options.model}: scripted models can only be agents; name a real model")
    if options.api_key_env:
        if not os.environ.get(options.api_key_env):
            raise ExperimentError(f"--api-key-env: the environment variable {options.api_key_env} is not set")
        return os.environ[options.api_key_env]
    missing = missing_credentials(options.model, options.api_base)
    if missing:
        raise ExperimentError(f"--model {options.model} needs the environment variable {missing[0]}; set it")
    return None


def _check_price(options: argparse.Namespace) -> None:
    """Refuse a cost limit that nothing could hold.

    Raises:
        ExperimentError: There is a limit, and nobody knows the model's price.
    """
    from runners.errors import ExperimentError
    from runners.models.prices import price_of

    if options.max_cost_usd is not None and options.price is None and None in price_of(options.model):
        raise ExperimentError(
            f"--max-cost-usd limits the cost, but the price of {options.model} is unknown; add --price IN OUT, in USD "
            "for a million tokens"
        )


def _conclude(driver: "Driver", options: argparse.Namespace) -> int:
    """Say how it ended and how to go on."""
    _say(f"{place_of(options.store)}: {driver.tally.tried} tried, {driver.tally.left} left; {driver.spent_usd:.4f} USD")
    for failure in driver.failures[:5]:
        _say(f"  failed: {failure.splitlines()[0]}")
    if not driver.tally.left:
        return 0
    again = "the same command goes on"
    if driver.stop_reason == "cost_limit":
        again = "the cost limit has no room for another judgement; raise --max-cost-usd, and the same command goes on"
    _say(again)
    return 130 if driver.stop_reason == "interrupted" else 1


def grade_command(options: argparse.Namespace) -> int:
    """Grade stored desk trials again; 1 when one could not be graded."""
    import anyio

    from recorder.store import Store
    from runners.regrading_run import GRADE_COLUMNS, Regrading

    with Progress("graded") as progress:
        regrading = Regrading(
            Store(options.store) if options.dry_run else _writable(options.store), options.experiment, progress
        )
        if options.dry_run:
            regrading.look()
        else:
            anyio.run(regrading.record)
    print_rows(regrading.rows(), GRADE_COLUMNS, options.format)
    for line in regrading.summary():
        _say(line)
    if regrading.is_stopped:
        return 130
    return 1 if regrading.has_refused else 0


def _writable(root: Path) -> "Store":
    """The store that is there, made for writing; a mistyped name makes no new one."""
    from recorder.store import Store

    Store(root)
    return Store.create(root)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - narration
