"""The commands ``variants``: they print and preview variants, and measure the gate."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TextIO

from lhaw_record.generators.cli.generation_options import (
    ASKING_ARGUMENTS,
    JUDGE_ARGUMENTS,
    done,
    judge_of,
    paid_settings,
)
from lhaw_record.generators.cli.source_options import SOURCE_ARGUMENTS, source_of
from lhaw_record.generators.errors import GeneratorError
from lhaw_record.recorder.cli.arguments import FORMAT, STORE, positive, store_option
from lhaw_record.recorder.cli.command import Command, CommandGroup, argument, repeatable
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.events import VariantGenerated, VariantRejected
from lhaw_record.recorder.events.values import EnvironmentChange, Segment, Severity, Variant
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.cli.model_options import (
    MODEL_OPTIONS,
    named_model,
    say_failures,
    say_how_to_go_on,
)

if TYPE_CHECKING:
    from rich.console import Console

    from lhaw_record.generators.generation.generation_index import GenerationIndex
    from lhaw_record.generators.generation.judge_calibration import JudgeCalibration
    from lhaw_record.recorder.events.values import Task

SEVERITIES: tuple[Severity, ...] = ("delete", "vaguify", "genericize")
CALIBRATION = "gate-calibration"
"""The experiment that a judge's replies about the kept set belong to."""
GATE_COLUMNS = (
    *("set", "judge", "prompts", "bad", "missed", "miss_rate", "miss_low", "miss_high"),
    *("good", "refused", "false_alarm_rate", "false_alarm_low", "false_alarm_high"),
)

_Values = tuple[tuple[str, str], ...]
"""The dimensions and values of the segments that are removed together."""

_STYLES = {"same": "", "removed": "red strike", "added": "bold green"}


def show_command(options: argparse.Namespace) -> int:
    """Print a task of a store and its variants. The exit code is 1 if the task has no variants."""
    from lhaw_record.generators.generation.generation_index import load_generation_index
    from lhaw_record.recorder.reading.reader import read_snapshot

    index = load_generation_index(read_snapshot(options.store))
    tasks = {task.task_id: task for task in index.tasks.values()}
    if options.task not in tasks:
        known = ", ".join(sorted(tasks)[:12]) or "none"
        raise GeneratorError(f"{store_name(options.store)} has no task {options.task!r}; it has {known}")
    made = [each for each in index.variants.values() if each.variant.task_id == options.task]
    _show(tasks[options.task], made, _given_up(index, options.task), options.limit)
    return 0 if made else 1


def preview_command(options: argparse.Namespace) -> int:
    """Print a task and the variants that are written with it. The exit code is 1 if all are refused."""
    import anyio

    from lhaw_record.generators.generation.variant_plan import preview

    found = {source.task.task_id: source for source in source_of(options).tasks()}
    if options.task not in found:
        raise GeneratorError(f"source {options.source} has no task {options.task!r}; it has {', '.join(found)}")
    source = found[options.task]
    if not source.written and not source.variants:
        raise ExperimentError(
            f"task {options.task} has no written variants to preview; write them in a variants.toml beside it "
            "(docs/own-tasks.md), or make some with a model: 'lhaw-record generate' with --extractor and --rewriter"
        )
    made, refused = anyio.run(preview, source, options.limit, (*SEVERITIES, "decoy"))
    _show(source.task, made, refused, options.limit)
    return 0 if made else 1


def gate_command(options: argparse.Namespace) -> int:
    """Print how the gate does on the kept set of labelled rewritings. The exit code is 1 if a judge left some."""
    from lhaw_record.generators.gate.calibration import SETS, rates_on

    sets = tuple(dict.fromkeys(options.set)) or SETS
    if not set(sets) <= set(SETS):
        raise ExperimentError(f"--set {', '.join(sets)}: the sets are {', '.join(SETS)}")
    if (options.judge is None) != (options.store is None):
        raise ExperimentError("--judge MODEL and --store DIR belong together: the store keeps what the judge replies")
    if options.judge is None:
        print_rows([rates_on(name).row() for name in sets], GATE_COLUMNS, options.format)
        return 0
    import anyio

    calibration = anyio.run(_calibrated, options, sets)
    print_rows([each.row() for each in calibration.rates()], GATE_COLUMNS, options.format)
    work = calibration.work
    say(f"{calibration.left} rewritings left; {work.spent}")
    say_failures(work)
    return say_how_to_go_on(work, "rewriting") if calibration.left else 0


async def _calibrated(options: argparse.Namespace, sets: Sequence[str]) -> "JudgeCalibration":
    from lhaw_record.generators.generation.judge_calibration import CalibrationSettings, JudgeCalibration
    from lhaw_record.recorder.storage.creation import create_store

    judge = judge_of(options)
    assert judge is not None, "the command asks for one"
    models = {"judge": named_model("--judge", options.judge, options)}
    store = create_store(options.store)
    settings = CalibrationSettings(
        **paid_settings(options, CALIBRATION, store, models),
        sets=tuple(sets),
        judge=judge,
        config={"judge": judge.name, "judge_digest": judge.digest, "sets": list(sets)},
    )
    return await done("rewritings judged", partial(JudgeCalibration, store, settings))


def _given_up(index: "GenerationIndex", task_id: str) -> list[VariantRejected]:
    return [
        each
        for each in index.rejected.values()
        if each.task_id == task_id and each.is_final and each.variant_id not in index.variant_ids
    ]


def _show(
    task: "Task",
    made: Sequence[VariantGenerated],
    refused: Sequence[VariantRejected],
    limit: int | None,
    out: TextIO | None = None,
) -> None:
    """Print each removal: its segments, then the prompt under each severity with the changes marked."""
    from rich.console import Console

    out = out or sys.stdout
    console = Console(file=out, highlight=False, markup=False, emoji=False, soft_wrap=not out.isatty())
    console.print(f"{task.benchmark} {task.task_id}: {len(made)} variants", style="bold")
    reasons = {(_values(each.segments), each.severity): _reason(each) for each in refused}
    groups = _removals(made)
    for values, _ in sorted(reasons):  # a removal of which nothing was made
        groups.setdefault(values, {})
    for values, group in list(groups.items())[:limit]:
        console.print()
        console.print("-" * 40)
        for dimension, value in values:
            console.print(f"{dimension}: {value}")
        is_removed = not group or not group.keys().isdisjoint(SEVERITIES)
        kinds = [*(SEVERITIES if is_removed else ()), *(name for name in group if name not in SEVERITIES)]
        for kind in kinds:
            if kind not in group:
                reason = reasons.get((values, kind))
                console.print(f"\n[{kind}] not made" + (f": {reason}" if reason else ""))
            for event in group.get(kind, ()):
                _show_variant(console, kind, event, task, has_colours=out.isatty())


def _show_variant(console: "Console", kind: str, event: VariantGenerated, task: "Task", *, has_colours: bool) -> None:
    from rich.text import Text

    from lhaw_record.generators.prompts.diff import marked, plain_marks

    console.print(f"\n[{kind}] {event.variant.variant_id}")
    if event.variant.environment_change is not None:
        console.print(f"  workspace: {_described(event.variant.environment_change)}")
    spans = marked(task.prompt, event.variant.prompt)
    coloured = Text.assemble(*((span.text, _STYLES[span.kind]) for span in spans))
    console.print(coloured if has_colours else plain_marks(spans))
    if event.variant.follow_up is not None:
        console.print(f"  then: {event.variant.follow_up}")
    for question in _questions(event.variant):
        console.print(f"  asks: {question}")
    if event.variant.segments and event.variant.environment_change is None:
        console.print(f"  gate: {_judgement(event)}")


def _removals(made: Iterable[VariantGenerated]) -> dict[_Values, dict[str, list[VariantGenerated]]]:
    """Group the variants by removed segments, then by severity, in the order of their ids."""
    found: dict[_Values, dict[str, list[VariantGenerated]]] = {}
    for event in sorted(made, key=lambda each: each.variant.variant_id):
        variant = event.variant
        kind = "control" if variant.is_control else variant.fault or variant.severity or variant.origin
        found.setdefault(_values(variant.segments), {}).setdefault(kind, []).append(event)
    return found


def _values(segments: Iterable[Segment]) -> _Values:
    return tuple((f"{each.dimension}/{each.subdimension}", each.value) for each in segments)


def _reason(refused: VariantRejected) -> str:
    """Return why a variant was not made: the gate's findings, each with its message, or the rewriter's refusal."""
    return "; ".join(f"{each.check}: {each.message}" for each in refused.checks) or refused.reason


def _judgement(made: VariantGenerated) -> str:
    """Return what the gate says about a variant that was made: who judged it, and what nobody judged."""
    from lhaw_record.generators.gate import unjudged_by

    said = made.judgement
    judged = "the rules find nothing"
    if said is not None:
        judged += f", nor does {said.judge} ({said.hits} of {said.guesses} guesses right)"
    left = unjudged_by(said, made.variant.severity)
    return f"{judged}; unjudged: {', '.join(left)}" if left else judged


def _described(change: EnvironmentChange) -> str:
    return f"{change.kind} " + ", ".join(f"{each.name} = {each.value}" for each in change.arguments)


def _questions(variant: Variant) -> list[str]:
    return [question for group in variant.expected_questions for question in group.questions[:1]]


_TASK = argument("task", help="the task's id")

COMMANDS = (
    CommandGroup(
        name="variants",
        help="print tasks and their variants, with the changes marked",
        description="Print a task of a store with its variants, preview those of any task, or measure the gate that "
        "every variant passes.",
        commands=(
            Command(
                name="show",
                help="print a task of a store with its variants under each severity",
                example="variants show stores/desk expense-audit",
                arguments=(STORE, _TASK, argument("--limit", type=positive, metavar="N", help="the first N removals")),
                function=show_command,
            ),
            Command(
                name="preview",
                help="print what generate would make of what is written with a task, and record nothing",
                example="variants preview desk expense-audit",
                arguments=(
                    *SOURCE_ARGUMENTS,
                    _TASK,
                    argument("--limit", type=positive, default=3, metavar="N", help="removals (default: %(default)s)"),
                ),
                function=preview_command,
            ),
            Command(
                name="gate",
                help="measure the gate on its kept set of good and bad rewritings",
                description="Judge the kept set of labelled rewritings by the gate, and print how many bad ones it "
                "misses and how many good ones it refuses, with 95 % intervals over prompts. With --judge a model "
                "judges them, too, and the rates are those of the rules, of the model, and of both.",
                example="variants gate",
                arguments=(
                    repeatable("--set", "NAME", "only this set (may be repeated; default: all)"),
                    *JUDGE_ARGUMENTS,
                    store_option("keeps what the judge replies; created if it is missing", required=False),
                    *ASKING_ARGUMENTS,
                    *MODEL_OPTIONS,
                    FORMAT,
                ),
                function=gate_command,
            ),
        ),
    ),
)
