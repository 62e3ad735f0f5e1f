"""The command ``select``: choose a benchmark from the classified variants of a store."""

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lhaw_record.recorder.cli.arguments import FORMAT, positive, store_option
from lhaw_record.recorder.cli.command import Command, argument, clear_errors, flag
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.sharing.address import store_name

if TYPE_CHECKING:
    from lhaw_record.generators.selection import BenchmarkSelection, SelectionRequest

COLUMNS = ("ambiguity_class", "wanted", "available", "chosen", "shortfall")


def select_command(options: argparse.Namespace) -> int:
    """Select a benchmark, record the selection and write its files. With ``--dry-run``, only print the selection."""
    import anyio

    from lhaw_record.generators.selection import SelectionRequest, select_benchmark

    request = SelectionRequest(
        name=options.name or f"{options.benchmark}-selection",
        benchmark=options.benchmark,
        percents=options.quota,
        max_variants=options.max,
        seed=options.seed,
        classifier=options.classifier,
        classifier_experiment=options.classifier_experiment,
        experiment=options.source,
        reviewers=options.reviewed,
    )
    with clear_errors("select from", options.store):
        experiment_id, is_recorded = options.experiment, not options.dry_run
        select = partial(select_benchmark, experiment_id=experiment_id, is_recorded=is_recorded)
        selection = anyio.run(select, options.store, request)
        print_rows(selection.rows(), COLUMNS, options.format)
        _narrate(selection, options, request)
        if not options.dry_run:
            _write(selection, options)
    return 0


def _narrate(selection: "BenchmarkSelection", options: argparse.Namespace, request: "SelectionRequest") -> None:
    """Report what was chosen, what is missing, and what was excluded."""
    from lhaw_record.generators.selection import REASONS

    verb = "would be chosen" if options.dry_run else "chosen before" if selection.is_known else "chosen"
    say(
        f"{store_name(options.store)}: {len(selection.chosen)} of {len(selection.offered.candidates)} variants {verb} "
        f"as selection {request.name}; classes by {selection.event.classifier or 'nobody'}"
    )
    if selection.unjudged:
        say(
            f"of them {selection.unjudged} may be new tasks that no judge has looked at; they count as outcome-critical"
        )
    for name, count in selection.offered.excluded.items():
        say(f"cannot be chosen: {count} {name} ({REASONS[name]})")
    if not selection.offered.is_classified and selection.chosen:
        say("no variant has a class yet: the reviews alone decide, and all are selected as unclassified")
    short = ", ".join(f"{name} {count}" for name, count in selection.shortfalls.items())
    if short:
        say(f"warning: too few variants of some classes (short by: {short}); other classes do not make up for it")


def _write(selection: "BenchmarkSelection", options: argparse.Namespace) -> None:
    from lhaw_record.generators.selection.publishing import write_card, write_dataset

    if options.output:
        exported = write_dataset(options.store, selection.event, options.output)
        left_out = (f"left out: {each}" for each in exported.left_out)
        say("; ".join([f"{options.output}: {exported.count} rows", *left_out]))
    if options.card:
        name = options.output.name if options.output else f"{selection.event.selection}.json"
        write_card(options.store, selection.event, options.card, name)
        say(f"{options.card}: the card")


def _percents(text: str) -> dict[str, int]:
    """Parse the quotas, for example ``40/30/30``: three whole numbers that add up to 100. Return them by class."""
    from lhaw_record.generators.selection.quotas import CLASSES

    try:
        shares = [int(part) for part in text.split("/")]
    except ValueError:
        shares = []
    if len(shares) != len(CLASSES) or min(shares) < 0 or sum(shares) != 100:
        raise argparse.ArgumentTypeError(f"{text!r}: write three whole numbers that add up to 100, such as 40/30/30")
    return dict(zip(CLASSES, shares, strict=True))


QUOTA_ARGUMENTS = (
    argument(
        "--quota",
        type=_percents,
        metavar="C/D/B",
        help="percent of outcome-critical, divergent and benign variants (default: 40/30/30)",
    ),
    argument("--max", type=positive, default=85, metavar="N", help="at most this many variants (default: %(default)s)"),
    argument("--seed", type=int, default=0, help="the seed that breaks ties (default: %(default)s)"),
)

COMMANDS = (
    Command(
        name="select",
        help="select a benchmark from a store's classified variants, by quotas",
        description="Choose a given percentage of each class from a store's classified variants, spread over tasks, "
        "dimensions, segment counts and severities. The choice and its classes are recorded. If a class has too few "
        "variants, no other class replaces them. With --reviewed, variants that reviewers accepted can be selected "
        "before any trial, as unclassified.",
        example="select --store stores/demo --benchmark desk --max 20 --output my-benchmark.json",
        arguments=(
            store_option("the store's directory or shared address"),
            argument("--benchmark", required=True, metavar="NAME", help="the benchmark of the variants"),
            argument("--name", metavar="NAME", help="the name of the selection (default: BENCHMARK-selection)"),
            *QUOTA_ARGUMENTS,
            argument("--classifier", metavar="AGENT", help="the classifying agent, or vote (default: the only one)"),
            argument("--classifier-experiment", metavar="NAME", help="count only trials in this experiment"),
            argument("--from", dest="source", metavar="EXPERIMENT", help="only variants registered in this experiment"),
            argument(
                "--reviewed",
                type=positive,
                nargs="?",
                const=1,
                default=0,
                metavar="N",
                help="only variants that N reviewers accepted (default: 1) and none refused",
            ),
            argument(
                "--experiment", metavar="NAME", help="the experiment to record in (default: the selection's name)"
            ),
            argument(
                "-o", "--output", type=Path, metavar="FILE", help="also write the dataset, in the published JSON format"
            ),
            argument("--card", type=Path, metavar="FILE", help="also write the dataset card, in Markdown"),
            flag("--dry-run", "only print what would be chosen"),
            FORMAT,
        ),
        function=select_command,
    ),
)
