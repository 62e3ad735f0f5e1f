"""The command ``pipeline``: makes a validated, selected and evaluated benchmark from tasks."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lhaw_record.generators.cli.generate_commands import EVENTS_STORE, ONLY_TASK, chosen_tasks, generate
from lhaw_record.generators.cli.generation_options import GENERATION_ARGUMENTS, GenerationMethods
from lhaw_record.generators.cli.select_commands import QUOTA_ARGUMENTS
from lhaw_record.generators.cli.source_options import SOURCE_ARGUMENTS, source_of
from lhaw_record.generators.errors import GeneratorError
from lhaw_record.recorder.cli.command import Command, argument
from lhaw_record.recorder.cli.output import say
from lhaw_record.recorder.resources import data_path
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.cli.model_options import model_parameters

if TYPE_CHECKING:
    from lhaw_record.generators.generation.generate import Generation
    from lhaw_record.generators.protocol import SourceTask
    from lhaw_record.generators.selection import BenchmarkSelection
    from lhaw_record.runners.experiment.tables import Experiment
    from lhaw_record.runners.judging.judge_run import JudgeRun

TABLES = ("by_severity", "by_segments_removed", "variant_breakdown")
CONTROLS = "controls"
FOLDER = "benchmark"
"""The name of the folder that holds a benchmark's files, inside the directory of its store."""


def pipeline_command(options: argparse.Namespace) -> int:
    """Do the work of the pipeline that the store lacks. The exit code is 1 if work is left, 130 if interrupted."""
    import anyio

    from lhaw_record.analytics.cli.table_output import print_tables
    from lhaw_record.generators.pipeline import PhaseStopped

    source = source_of(options)
    tasks = chosen_tasks(source.tasks(), options, source.benchmark)
    design, path = _design(options, source.benchmark)
    GenerationMethods(options)  # an unknown model or a missing key must show before anything is paid for
    if options.output is not None:  # an unusable folder must show before anything is paid for
        _dataset_path(options, design.name).parent.mkdir(parents=True, exist_ok=True)
    try:
        selection = anyio.run(_run, options, design, path, tasks)
    except PhaseStopped as stopped:
        say(f"lhaw-record: {stopped}")
        return 130 if stopped.outcome == "interrupted" else 1
    _write(selection, options, design.name)
    tables = (*TABLES, CONTROLS) if options.controls else TABLES
    return print_tables(options.store, tables, settings=(), form="table", out=sys.stdout)


def _design(options: argparse.Namespace, benchmark: str) -> "tuple[Experiment, Path]":
    from lhaw_record.generators.pipeline import check_design
    from lhaw_record.runners.experiment.decoding import load_experiment

    path = options.experiment or _design_path(options, benchmark)
    design = load_experiment(path)
    check_design(design, benchmark)
    return design, path


def _design_path(options: argparse.Namespace, benchmark: str) -> Path:
    """Return the path of a source's default design.

    This is the experiment file itself for the source ``experiment``, and the built-in design for the benchmark
    ``desk``.
    """
    if options.source == "experiment":
        source: Path = options.source_paths[0]
        return source
    if benchmark == "desk":
        return data_path("generation", "pipeline.toml")
    raise GeneratorError(f"benchmark {benchmark} has no embedded agents; name yours with --experiment FILE")


async def _run(
    options: argparse.Namespace, design: "Experiment", path: Path, tasks: "list[SourceTask]"
) -> "BenchmarkSelection":
    from lhaw_record.generators.pipeline import Pipeline
    from lhaw_record.generators.selection import VOTE, SelectionRequest
    from lhaw_record.runners.runs.live_progress import RunProgress

    made: list[Generation] = []

    async def generation(chosen: "Sequence[SourceTask]") -> "Generation":
        made.append(await generate(options, design.name, chosen))
        return made[0]

    async def judging() -> "JudgeRun":
        spent_usd = made[0].work.spent_usd
        left_usd = None if options.max_cost_usd is None else max(0.0, options.max_cost_usd - spent_usd)
        return await _judged(options, design.name, left_usd)

    with RunProgress(sys.stderr) as progress:
        pipeline = Pipeline(
            root=options.store,
            design=design,
            path=path,
            tasks=tasks,
            generate=generation,
            request=SelectionRequest(
                name=design.name,
                benchmark=design.benchmark.name,
                percents=options.quota,
                max_variants=options.max,
                seed=options.seed,
                experiment=design.name,
                classifier=VOTE if sum(each.role == "classifier" for each in design.agents) > 1 else None,
            ),
            judge=judging if options.judge else None,
            has_controls=options.controls,
            reporter=progress.reporter(),
            say=say,
        )
        return await pipeline.run()


async def _judged(options: argparse.Namespace, experiment: str, left_usd: float | None) -> "JudgeRun":
    """Have the judge look for new tasks among the variants that always failed, as the command ``judge`` does."""
    from lhaw_record.recorder.storage.blobs import load_blob
    from lhaw_record.runners.cli.judging_commands import run_judge
    from lhaw_record.runners.judging.new_tasks import NewTasks

    parameters, store = model_parameters(options, options.judge), Store(options.store)
    judging = NewTasks(options.judge, parameters, lambda sha256: load_blob(store, sha256), roles=("classifier",))
    own = {"model": options.judge, "experiment": experiment, "agent": [], "max_cost_usd": left_usd}
    return await run_judge(argparse.Namespace(**{**vars(options), **own}), judging, parameters)


def _write(selection: "BenchmarkSelection", options: argparse.Namespace, name: str) -> None:
    from lhaw_record.generators.selection.publishing import write_card, write_dataset

    out = _dataset_path(options, name)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_dataset(options.store, selection.event, out)
    card = out.with_suffix(".md")
    write_card(options.store, selection.event, card, out.name)
    say(f"{store_name(options.store)}: {len(selection.chosen)} variants in {out}, its card in {card}")


def _dataset_path(options: argparse.Namespace, name: str) -> Path:
    """Return the path of the dataset file; its card goes into the same folder."""
    out: Path | None = options.output
    if out is None:  # the directory of a shared store is a hidden working copy
        out = options.store / FOLDER if Store(options.store).address is None else Path(name)
    return out if out.suffix == ".json" else out / f"{name}.json"


COMMANDS = (
    Command(
        name="pipeline",
        help="baseline, generation, validation, selection and evaluation in one command, which resumes where it "
        "stopped",
        description="Make a benchmark: run the original tasks, make variants of those that agents solve, classify the "
        "variants by trials, select by quotas, and evaluate the selection.",
        example="pipeline desk --store stores/desk-benchmark",
        arguments=(
            *SOURCE_ARGUMENTS,
            EVENTS_STORE,
            argument(
                "--experiment",
                type=Path,
                metavar="FILE",
                help="agents, conditions and limits (default: scripted agents for desk; the experiment's own file)",
            ),
            ONLY_TASK,
            *GENERATION_ARGUMENTS,
            *QUOTA_ARGUMENTS,
            argument(
                "-o",
                "--output",
                type=Path,
                metavar="DIR",
                help="the folder for the benchmark's files (NAME.json and its card), or the path of the .json "
                "(default: STORE/benchmark; for a shared store, NAME in the current folder)",
            ),
        ),
        function=pipeline_command,
    ),
)
