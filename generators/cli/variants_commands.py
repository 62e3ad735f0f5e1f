"""The commands ``variants``: they print and preview variants, and measure the gate and simulated users."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

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
from lhaw_record.recorder.cli.command import Command, CommandGroup, argument, flag, repeatable
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.events import VariantGenerated, VariantRejected
from lhaw_record.recorder.events.values import EnvironmentChange, Segment, Severity, Variant
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.cli.model_options import (
    MODEL_OPTIONS,
    json_values,
    named_model,
    say_failures,
    say_how_to_go_on,
)

if TYPE_CHECKING:
    from rich.console import Console

    from lhaw_record.generators.generation.generation_index import GenerationIndex
    from lhaw_record.generators.generation.judge_calibration import JudgeCalibration
    from lhaw_record.generators.generation.user_calibration import AskedUser, Outcome, UserCalibration
    from lhaw_record.recorder.events.values import Task
    from lhaw_record.runners.users.simulated_user.protocol import AskModel, UserSimulator

SEVERITIES: tuple[Severity, ...] = ("delete", "vaguify", "genericize")
CALIBRATION = "gate-calibration"
"""The experiment that a judge's replies about the kept set belong to."""
USER_CALIBRATION = "user-calibration"
"""The experiment for the replies of askers and of users being measured."""
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
    """Print how the gate does on the kept set of labelled rewritings. Exit code 1: a judge left some unjudged."""
    from lhaw_record.generators.gate.calibration import SETS, rates_on

    sets = tuple(dict.fromkeys(options.set)) or SETS
    if not set(sets) <= set(SETS):
        raise ExperimentError(f"--set {', '.join(sets)}: the sets are {', '.join(SETS)}")
    if (options.judge is None) != (options.store is None):
        raise ExperimentError("--judge MODEL and --store DIR belong together: the store keeps the judge's replies")
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


def user_command(options: argparse.Namespace) -> int:
    """Print how a simulated user does on labelled questions. The exit code is 1 if some variants are unfinished."""
    import anyio

    from lhaw_record.generators.generation.user_calibration import outcomes_of, user_rates

    if (options.set is None) == (options.asker is None):
        raise ExperimentError(
            "name a set of questions, or --asker MODEL, which writes questions for the variants of --store"
        )
    if (options.simulator == "llm") != (options.user_model is not None):
        raise ExperimentError("--simulator llm and --user-model MODEL belong together")
    if (options.store is None) != (options.asker is options.user_model is None):
        raise ExperimentError("--store DIR belongs to --asker and --user-model: it keeps the models' replies")
    simulator, users = partial(_simulator, options), _asked_users(options)
    if options.store is None:

        async def asked() -> list["Outcome"]:
            return [each for user in users for each in await outcomes_of(user, simulator(None))]

        outcomes, left = anyio.run(asked), 0
    else:
        calibration = anyio.run(_user_calibrated, options, users, simulator)
        outcomes, left = calibration.outcomes, calibration.left
        say(f"{left} of {len(users)} variants left; {calibration.work.spent}")
        say_failures(calibration.work)
    if options.wrong:
        wrong = [each.row() for each in outcomes if each.revealed != set(each.asked.asks_for)]
        print_rows(wrong, ("variant", "kind", "asks_for", "revealed", "question"), options.format)
    else:
        rows = list(user_rates(outcomes))
        print_rows(rows, tuple(rows[0]), options.format)
    return say_how_to_go_on(calibration.work, "variant") if left else 0


def _simulator(options: argparse.Namespace, ask_model: "AskModel | None") -> "UserSimulator":
    from lhaw_record.runners.experiment.decoding import converted
    from lhaw_record.runners.experiment.tables import UserSimulatorSpec
    from lhaw_record.runners.users.simulated_user.llm import simulator_of

    raw = {**json_values("--setting", options.setting), "kind": options.simulator}
    if options.user_model is not None:
        raw["llm"] = {"model": options.user_model}
    return simulator_of(converted(raw, UserSimulatorSpec, Path("--setting"), "docs/experiments.md"), ask_model, None)


def _asked_users(options: argparse.Namespace) -> "list[AskedUser]":
    """Return the users of a set, or those of a store's variants, to whom nothing has been asked yet."""
    from lhaw_record.generators.generation.user_calibration import AskedUser, bundled_sets, read_set
    from lhaw_record.generators.reviewing.reviews import reviewable
    from lhaw_record.recorder.reading.reader import read_snapshot
    from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
    from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge

    if options.set is not None:
        desk = DeskBenchmark()
        prompts = {task.task_id: task.prompt for task in desk.tasks()}
        known = {each.variant_id: UserKnowledge.of_variant(prompts[each.task_id], each) for each in desk.variants()}
        return read_set(bundled_sets().get(options.set, Path(options.set)), options.names, known)
    found = [each for each in reviewable(read_snapshot(options.store)) if each.variant.environment_change is None]
    if not found:
        raise GeneratorError(f"{store_name(options.store)} has no variants to ask about; generate some first")
    return [
        AskedUser(
            variant_id=each.variant.variant_id, knowledge=UserKnowledge.of_variant(each.task.prompt, each.variant)
        )
        for each in found
    ]


async def _user_calibrated(
    options: argparse.Namespace, users: "list[AskedUser]", simulator: "Callable[[AskModel | None], UserSimulator]"
) -> "UserCalibration":
    from lhaw_record.generators.generation.user_calibration import UserCalibration, UserSettings
    from lhaw_record.generators.llm import PromptTemplates
    from lhaw_record.recorder.storage.creation import create_store

    named = {"agent": ("--asker", options.asker), "user_simulator": ("--user-model", options.user_model)}
    models = {role: named_model(option, name, options) for role, (option, name) in named.items() if name}
    store, asking = create_store(options.store), PromptTemplates(options.wordings).asking
    settings = UserSettings(
        **paid_settings(options, USER_CALIBRATION, store, models),
        users=tuple(users),
        simulator=simulator,
        asking=asking,
        config={**{role: model.name for role, model in models.items()}, "set": options.set, "asking": asking.source},
    )
    return await done("variants asked about", partial(UserCalibration, store, settings))


def _given_up(index: "GenerationIndex", task_id: str) -> list[VariantRejected]:
    return [
        each
        for each in index.rejected.values()
        if each.task_id == task_id and each.is_final and each.variant_id not in index.variant_ids
    ]


def _show(
    task: "Task", made: Sequence[VariantGenerated], refused: Sequence[VariantRejected], limit: int | None
) -> None:
    """Print each removal: its segments, then the prompt under each severity with the changes marked."""
    from rich.console import Console

    has_colours = sys.stdout.isatty()
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=not has_colours)
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
                _show_variant(console, kind, event, task, has_colours=has_colours)


def _show_variant(console: "Console", kind: str, event: VariantGenerated, task: "Task", *, has_colours: bool) -> None:
    from rich.text import Text

    from lhaw_record.generators.gate import judged_words
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
        said = judged_words(event.judgement, event.variant.severity, event.variant.prompt)
        console.print(f"  gate: {said}")


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


def _described(change: EnvironmentChange) -> str:
    return f"{change.kind} " + ", ".join(f"{each.name} = {each.value}" for each in change.arguments)


def _questions(variant: Variant) -> list[str]:
    return [question for group in variant.expected_questions for question in group.questions[:1]]


_TASK = argument("task", help="the task's id")

COMMANDS = (
    CommandGroup(
        name="variants",
        help="print tasks and their variants, with the changes marked",
        description="Print a task of a store with its variants, preview a task's written variants, or measure the "
        "gate that variants must pass, or the simulated user.",
        commands=(
            Command(
                name="show",
                help="print a task of a store with its variants under each severity",
                example="variants show stores/desk expense-audit",
                arguments=(STORE, _TASK, argument("--limit", type=positive, metavar="N", help="show only N removals")),
                function=show_command,
            ),
            Command(
                name="preview",
                help="print what generate would make from a task's written variants, and record nothing",
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
                "judges them too, and the rates are given for the rules, for the model, and for both.",
                example="variants gate",
                arguments=(
                    repeatable("--set", "NAME", "only this set (may be repeated; default: all)"),
                    *JUDGE_ARGUMENTS,
                    store_option("the store for the judge's replies; created if it is missing", required=False),
                    *ASKING_ARGUMENTS,
                    *MODEL_OPTIONS,
                    FORMAT,
                ),
                function=gate_command,
            ),
            Command(
                name="user",
                help="measure a simulated user on labelled questions",
                description="Ask a simulated user labelled questions, one at a time. Print its recall (how many "
                "questions for removed segments got all of them), its precision (how many revealed segments were asked "
                "for) and its leaks (how many questions for no removed segment got one), with 95 % intervals over "
                "variants, by kind and language. With --asker, a model writes the questions and labels for a store's "
                "variants. docs/matcher.md describes the format of a set.",
                example="variants user questions.json --simulator exact",
                arguments=(
                    argument("set", nargs="?", metavar="SET", help="a file of questions, or the name of a bundled set"),
                    argument("--names", type=Path, metavar="FILE", help="a file of other names and questions"),
                    argument(
                        "--simulator",
                        choices=("exact", "dump", "llm"),
                        default="exact",
                        help="the simulated user (default: %(default)s)",
                    ),
                    repeatable("--setting", "NAME=VALUE", "another key of [user_simulator]; the value is JSON"),
                    argument("--user-model", metavar="MODEL", help="the model behind --simulator llm"),
                    argument(
                        "--asker", metavar="MODEL", help="the model that writes questions for the store's variants"
                    ),
                    store_option("the store for the models' replies, with the variants for --asker", required=False),
                    flag("--wrong", "print only the questions whose answer revealed too little or too much"),
                    *ASKING_ARGUMENTS,
                    *MODEL_OPTIONS,
                    FORMAT,
                ),
                function=user_command,
            ),
        ),
    ),
)
