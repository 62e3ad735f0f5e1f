"""The command ``generate``: makes variants of tasks and records them in a store."""

import argparse
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lhaw_record.generators.cli.generation_options import (
    GENERATION_ARGUMENTS,
    GenerationMethods,
    done,
    grounding_of,
    paid_settings,
)
from lhaw_record.generators.cli.source_options import SOURCE_ARGUMENTS, source_of
from lhaw_record.generators.errors import GeneratorError
from lhaw_record.recorder.cli.arguments import FORMAT, store_option
from lhaw_record.recorder.cli.command import Command, argument, flag, repeatable
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.cli.model_options import say_failures, say_how_to_go_on

if TYPE_CHECKING:
    from lhaw_record.generators.generation.generate import Generation
    from lhaw_record.generators.generation.removals import RemovalSettings
    from lhaw_record.generators.generation.variant_plan import VariantKinds
    from lhaw_record.generators.protocol import SourceTask

COLUMNS = ("task_id", "segments", "not_taken", "planned", "variants", "given_up", "owed", "why_given_up")


ONLY_TASK = repeatable("--task", "ID", "only this task (may be repeated)")
EVENTS_STORE = store_option("the target store; created if it is missing")


def generate_command(options: argparse.Namespace) -> int:
    """Make the missing variants. The exit code is 1 if something failed or is left, 130 if interrupted."""
    import anyio

    source = source_of(options)
    tasks = chosen_tasks(source.tasks(), options, source.benchmark, is_competent=options.competent)
    name = options.name or f"{source.benchmark}-variants"
    generation = anyio.run(generate, options, name, tasks)
    print_rows(generation_rows(generation), COLUMNS, options.format)
    return conclude(generation, options, name)


async def generate(options: argparse.Namespace, name: str, tasks: Sequence["SourceTask"]) -> "Generation":
    """Run generation over the given tasks with the command's options, and return the finished generation."""
    from lhaw_record.generators.generation.generate import Generation, GenerationSettings
    from lhaw_record.recorder.storage.creation import create_store

    makers, grounding, wanted = GenerationMethods(options), grounding_of(options), removal_settings(options)
    extras = variant_kinds(options)
    store = create_store(options.store)
    settings = GenerationSettings(
        **paid_settings(options, name, store, makers.models),
        extractor=makers.extractor,
        rewriter=makers.rewriter,
        judge=makers.judge,
        config={
            "tasks": [source.task.task_id for source in tasks],
            "grounding": grounding,
            "candidates": wanted,
            "extras": extras,
            "max_cost_usd": options.max_cost_usd,
            **makers.config(),
        },
        grounding=grounding,
        candidates=wanted,
        extras=extras,
    )
    return await done("extractions and rewritings", partial(Generation, store, tasks, settings))


def variant_kinds(options: argparse.Namespace) -> "VariantKinds":
    from lhaw_record.generators.generation.variant_plan import VariantKinds

    return VariantKinds(
        has_chains=options.chains,
        has_controls=options.controls,
        has_environment=options.environment,
        has_written=options.extractor is None and options.rewriter is None,
    )


def removal_settings(options: argparse.Namespace) -> "RemovalSettings":
    """Return the settings for choosing removals."""
    from lhaw_record.generators.generation.removals import RemovalSettings

    return RemovalSettings(
        sizes=options.segments or ((1, 2) if options.rewriter is None else (1,)),
        severities=tuple(dict.fromkeys(options.severity or ("delete",))),
        max_per_task=options.per_task,
        min_priority=options.min_priority,
    )


def chosen_tasks(
    tasks: Sequence["SourceTask"], options: argparse.Namespace, benchmark: str, *, is_competent: bool = False
) -> list["SourceTask"]:
    """Return the tasks of a source that the options ask for."""
    known = [source.task.task_id for source in tasks]
    unknown = [name for name in options.task if name not in known]
    if unknown:
        raise ExperimentError(f"--task {unknown[0]}: no such task; the tasks are: {', '.join(known[:12])}")
    chosen = [source for source in tasks if not options.task or source.task.task_id in options.task]
    if is_competent:
        from lhaw_record.generators.selection import competent_tasks

        verdicts = competent_tasks(options.store, benchmark, [source.task for source in chosen])
        for verdict in verdicts:
            if not verdict.is_chosen:
                say(f"  left out: {verdict.task_id}: {verdict.reason}")
        within_reach = {verdict.task_id for verdict in verdicts if verdict.is_chosen}
        chosen = [source for source in chosen if source.task.task_id in within_reach]
    if not chosen:
        raise GeneratorError("no task is left for which variants can be made")
    if options.environment and not any(each.environment_change for source in chosen for each in source.variants):
        raise GeneratorError(
            f"--environment: {benchmark} has no changed workspaces for these tasks; leave the option out, or see "
            "docs/own-tasks.md for how to add some"
        )
    _check_makers(chosen, options, benchmark)
    return chosen


def _check_makers(tasks: Sequence["SourceTask"], options: argparse.Namespace, benchmark: str) -> None:
    """Check that there is something to make variants of: a text that a person wrote, or models."""
    from lhaw_record.generators.generation.variant_plan import ready_variants

    kinds = variant_kinds(options)
    if options.extractor is None and not any(source.written or ready_variants(source, kinds) for source in tasks):
        raise ExperimentError(
            f"{benchmark}: nobody wrote variants for {tasks[0].task.task_id}{' and others' * (len(tasks) > 1)}; write "
            "them in variants.toml beside the task (docs/own-tasks.md), or name models with --extractor and --rewriter"
        )
    if options.extractor is not None and options.rewriter is None and set(options.severity or ()) != {"decoy"}:
        raise ExperimentError(
            "--extractor needs --rewriter MODEL, to remove the segments that it finds, except with --severity decoy"
        )


def generation_rows(generation: "Generation") -> list[dict[str, Any]]:
    """Return one row per task with the numbers of segments found and of variants planned, made and given up."""
    rows = []
    for source in generation.sources:
        extracted, planned = generation.extraction_of(source), generation.planned_of(source)
        ready = len(generation.ready_of(source))
        given_up = [each for each in map(generation.given_up, planned) if each is not None]
        made = sum(each.variant_id in generation.index.variant_ids for each in planned)
        why = Counter(
            " + ".join(dict.fromkeys(check.check for check in each.checks)) or "is_rewritten" for each in given_up
        )
        rows.append(
            {
                "task_id": source.task.task_id,
                "segments": len(extracted.segments) if extracted else None,
                "not_taken": len(extracted.rejected) if extracted else None,
                "planned": len(planned) + ready,
                "variants": made + ready,
                "given_up": len(given_up),
                "owed": len(planned) - made - len(given_up) if extracted else None,
                "why_given_up": ", ".join(f"{count} {name}" for name, count in why.most_common()) or None,
            }
        )
    return rows


def conclude(generation: "Generation", options: argparse.Namespace, name: str) -> int:
    """Report how generation ended and how to continue or run the variants, and return the exit code."""
    made = sum(planned.variant_id in generation.index.variant_ids for planned in generation.planned)
    made += sum(len(generation.ready_of(source)) for source in generation.sources)
    owed = len(generation.owed_extractions()) + len(generation.owed_variants())
    work = generation.work
    say(
        f"{store_name(options.store)}: {made} variants of {len(generation.sources)} tasks; {owed} extractions and "
        f"rewritings left; {work.spent}"
    )
    say_failures(work)
    judge = generation.settings.judge
    ids = {planned.variant_id for planned in generation.planned}
    left = len(generation.owed_judgements())
    if left:
        say(f"  {left} of them were made without a judge, and are not judged yet")
    digest = judge.digest if judge is not None else None
    judged = [each for each in generation.index.variants.values() if each.variant.variant_id in ids and each.judgement]
    refused = [each for each in map(generation.given_up, generation.planned) if each is not None and each.judgement]
    n_made, n_refused = (
        sum(each.judgement is not None and each.judgement.judge_digest != digest for each in events)
        for events in (judged, refused)
    )
    if n_made or n_refused:
        say(f"  {n_made} of them and {n_refused} refused ones keep the judgement of another judge")
    if owed or left:
        return say_how_to_go_on(work, "extraction, rewriting or judgement")
    spec = f'{{ store = "{options.store.resolve()}", experiment = "{name}" }}'
    say(f"to run them, write in [benchmark] of an experiment file:\n  variants_from = {spec}")
    return 0


COMMANDS = (
    Command(
        name="generate",
        help="make underspecified variants of tasks; existing ones are not made again",
        description="Find the removable segments of prompts, remove some of them, check the results, and record "
        "everything.",
        example="generate desk --store stores/desk --severity delete --severity vaguify",
        arguments=(
            *SOURCE_ARGUMENTS,
            EVENTS_STORE,
            argument("--name", help="the experiment of the variants (default: BENCHMARK-variants)"),
            ONLY_TASK,
            flag("--competent", "only tasks that agents can solve, as the store's full trials show"),
            *GENERATION_ARGUMENTS,
            FORMAT,
        ),
        function=generate_command,
    ),
)
