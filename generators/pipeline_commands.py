"""The command ``pipeline``: from tasks to a validated, selected and evaluated benchmark."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from generators.generate_commands import generate
from generators.making import add_making_arguments
from generators.select_commands import add_quota_arguments
from generators.sources import add_source_arguments, source_of
from recorder.output import say
from recorder.sharing.address import place_of, store_address

if TYPE_CHECKING:
    from generators.generation import Generation
    from generators.protocol import SourceTask
    from generators.selection import Selection
    from runners.experiment import Experiment

TABLES = ("by_severity", "by_segments_removed", "variant_breakdown")
CONTROLS = "controls"


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``pipeline`` to the program."""
    pipeline = commands.add_parser(
        "pipeline",
        help="baseline, generation, validation, selection and evaluation in one go, resumed where it ended",
        description="Make a benchmark: run the tasks as they are, make variants of those that are within reach, "
        "classify the variants by trials, select by quotas, and evaluate what was selected.",
        epilog="example: lhaw-record pipeline desk --store stores/desk-benchmark",
    )
    add_source_arguments(pipeline)
    pipeline.add_argument("--store", type=store_address, required=True, help="where events go; made if it is missing")
    pipeline.add_argument(
        "--experiment",
        type=Path,
        metavar="FILE",
        help="agents, conditions and limits (default: scripted agents for desk, its own file for experiment)",
    )
    pipeline.add_argument("--task", action="append", default=[], metavar="ID", help="only this task (may be repeated)")
    add_making_arguments(pipeline)
    add_quota_arguments(pipeline)
    pipeline.add_argument("--out", type=Path, metavar="FILE", help="the benchmark file (default: NAME.json)")
    pipeline.set_defaults(function=pipeline_command, format="table", competent=False)


def pipeline_command(options: argparse.Namespace) -> int:
    """Do what is not done yet; 1 when something is left, 130 when interrupted."""
    import anyio

    from analytics.printing import print_tables
    from generators.generate_commands import chosen_tasks
    from generators.pipeline import PhaseStopped

    source = source_of(options)
    design, path = _design(options, source.benchmark)
    tasks = chosen_tasks(source.tasks(), options, source.benchmark)
    try:
        selection = anyio.run(_run, options, design, path, tasks)
    except PhaseStopped as stopped:
        say(f"lhaw-record: {stopped}")
        return 130 if stopped.outcome == "interrupted" else 1
    _write(selection, options, design.name)
    tables = (*TABLES, CONTROLS) if options.controls else TABLES
    return print_tables(options.store, tables, settings=(), form="table", out=sys.stdout)


def _design(options: argparse.Namespace, benchmark: str) -> "tuple[Experiment, Path]":
    from generators.pipeline import check_design
    from runners.experiment_file import load_experiment

    path = options.experiment or _design_path(options, benchmark)
    design = load_experiment(path)
    check_design(design, benchmark)
    return design, path


def _design_path(options: argparse.Namespace, benchmark: str) -> Path:
    """The design of a source that has one: an experiment file is its own, and ``desk`` has an embedded one."""
    from generators.errors import GeneratorError
    from recorder.resources import data_path

    if options.source == "experiment":
        source: Path = options.source_paths[0]
        return source
    if benchmark == "desk":
        return data_path("generation", "pipeline.toml")
    raise GeneratorError(f"benchmark {benchmark} has no embedded agents; name yours with --experiment FILE")


async def _run(options: argparse.Namespace, design: "Experiment", path: Path, tasks: "list[SourceTask]") -> "Selection":
    from generators.pipeline import Pipeline
    from generators.selection import Wish
    from runners.progress import Progress

    async def generation(chosen: "Sequence[SourceTask]") -> "Generation":
        return await generate(options, design.name, chosen)

    with Progress(sys.stderr) as progress:
        pipeline = Pipeline(
            root=options.store,
            design=design,
            path=path,
            tasks=tasks,
            generate=generation,
            wish=Wish(
                name=design.name,
                benchmark=design.benchmark.name,
                percents=options.quota,
                max_variants=options.max,
                seed=options.seed,
                experiment=design.name,
            ),
            has_controls=options.controls,
            reporter=progress.reporter(),
            say=say,
        )
        return await pipeline.run()


def _write(selection: "Selection", options: argparse.Namespace, name: str) -> None:
    from generators.selection.publishing import write_card, write_dataset

    out = options.out or Path(f"{name}.json")
    write_dataset(options.store, selection.event, out)
    card = out.with_suffix(".md")
    write_card(options.store, selection.event, card, out.name)
    say(f"{place_of(options.store)}: {len(selection.chosen)} variants in {out}, its card in {card}")
