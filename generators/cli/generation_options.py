"""The options of generation: which extractor and rewriter to use, what they may read, and what is removed together."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lhaw_record.recorder.cli.arguments import positive
from lhaw_record.recorder.cli.command import ArgumentGroup, argument, flag
from lhaw_record.recorder.cli.output import say
from lhaw_record.recorder.cli.terminal import Progress
from lhaw_record.runners.cli.model_options import (
    MODEL_OPTIONS,
    model_parameters,
    named_model,
    redacted_keys,
    request_limits,
)

if TYPE_CHECKING:
    from lhaw_record.generators.gate import ModelJudge
    from lhaw_record.generators.generation.generate import Generation
    from lhaw_record.generators.generation.judge_calibration import JudgeCalibration
    from lhaw_record.generators.generation.paid_run import CallerOf
    from lhaw_record.generators.generation.user_calibration import UserCalibration
    from lhaw_record.generators.protocol import Grounding
    from lhaw_record.recorder.storage.store import Store
    from lhaw_record.recorder.writing.stream import Stream
    from lhaw_record.runners.models.llm_jobs.paid_work import PaidWork
    from lhaw_record.runners.models.protocol import Model
    from lhaw_record.runners.models.recorded_replies import RecordedReplies

R = TypeVar("R", "Generation", "JudgeCalibration", "UserCalibration")


def _sizes(text: str) -> tuple[int, ...]:
    """Parse a comma-separated list of segment counts, for example ``1,2``."""
    try:
        sizes = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: write numbers from 1, for example 1,2")
    return sizes


JUDGE_ARGUMENTS = (
    argument("--judge", metavar="MODEL", help="the model that judges what rules cannot decide (default: none)"),
    argument(
        "--guesses",
        type=positive,
        default=3,
        metavar="N",
        help="how often the judge tries to guess a removed value (default: %(default)s)",
    ),
)

ASKING_ARGUMENTS = (
    argument(
        "--wordings",
        type=Path,
        metavar="DIR",
        help="prompts that replace those in data/generation/prompts, under the same file names",
    ),
    argument("--concurrency", type=positive, default=4, help="parallel model calls (default: %(default)s)"),
)

GENERATION_ARGUMENTS = (
    ArgumentGroup(
        "segments and variants",
        (
            argument(
                "--extractor",
                metavar="MODEL",
                help="the model that finds segments (default: use the segments written with tasks)",
            ),
            argument(
                "--rewriter", metavar="MODEL", help="the model that removes segments (default: the tasks' own texts)"
            ),
            *JUDGE_ARGUMENTS,
            flag("--no-trajectory", "do not read trajectories and recorded trials"),
            flag("--no-checkpoints", "do not read checkpoints"),
            flag("--prompt-only", "read only the prompt"),
            argument(
                "--segments",
                type=_sizes,
                metavar="N,N",
                help="how many segments to remove together (default: 1; without --rewriter 1,2)",
            ),
            argument(
                "--severity",
                action="append",
                choices=("delete", "vaguify", "genericize", "decoy"),
                help="how to remove them; decoy puts a wrong value in their place (may be repeated; default: delete)",
            ),
            flag("--chains", "also remove pairs of segments where the second can be asked for only after the first"),
            flag("--controls", "also make controls: the unmodified prompt, and removals of unneeded text"),
            flag(
                "--environment",
                "also use the benchmark's variants that change the workspace and not the prompt",
            ),
            argument(
                "--per-task",
                type=positive,
                default=12,
                metavar="N",
                help="at most this many removals of each task (default: %(default)s)",
            ),
            argument(
                "--min-priority",
                type=float,
                default=0.5,
                metavar="P",
                help="leave out segments whose criticality x (1 - guessability) is lower (default: %(default)s)",
            ),
            *ASKING_ARGUMENTS,
        ),
    ),
    *MODEL_OPTIONS,
)


def grounding_of(options: argparse.Namespace) -> "Grounding":
    """Return what an extractor may read besides the prompt."""
    from lhaw_record.generators.protocol import Grounding

    return Grounding(
        has_trajectory=not (options.no_trajectory or options.prompt_only),
        has_checkpoints=not (options.no_checkpoints or options.prompt_only),
        has_environment=not options.prompt_only,
    )


def judge_of(options: argparse.Namespace) -> "ModelJudge | None":
    """Return the judge that ``--judge`` names, or None if it names none."""
    if options.judge is None:
        return None
    from lhaw_record.generators.gate import ModelJudge
    from lhaw_record.generators.llm import PromptTemplates

    return ModelJudge(
        options.judge, model_parameters(options, options.judge), PromptTemplates(options.wordings), options.guesses
    )


def _callers(models: Mapping[str, "Model"], options: argparse.Namespace, recorded: "RecordedReplies") -> "CallerOf":
    from lhaw_record.runners.models.calls import ModelCaller

    parameters = {role: model_parameters(options, model.name) for role, model in models.items()}

    def caller(stream: "Stream", role: Any, thread_id: str) -> ModelCaller | None:
        if role not in models:
            return None
        return ModelCaller(
            model=models[role],
            recording=stream,
            role=role,
            thread_id=thread_id,
            parameters=parameters[role],
            recorded=recorded,
            **request_limits(options),
        )

    return caller


def paid_settings(
    options: argparse.Namespace, experiment_id: str, store: "Store", models: Mapping[str, "Model"]
) -> dict[str, Any]:
    """Return the settings of a run that asks models, all but its ``config``.

    Replies that the store already holds are not paid for again.
    """
    from lhaw_record.recorder.reading.reader import read_snapshot
    from lhaw_record.recorder.writing.redaction import Redactor
    from lhaw_record.runners.models.recorded_replies import load_recorded_replies

    recorded = load_recorded_replies(read_snapshot(store.root), experiment_id, models) if models else {}
    return {
        "experiment_id": experiment_id,
        "caller_of": _callers(models, options, recorded),
        "redactor": Redactor(redacted_keys(options)),
        "concurrency": options.concurrency,
        "max_cost_usd": options.max_cost_usd,
        "say": say,
    }


async def done(what: str, make: "Callable[[Callable[[PaidWork], None]], R]") -> "R":
    """Make a run that asks models, do its work with a progress line that says what is counted, and return it."""
    from lhaw_record.runners.models.litellm_library import close_clients

    with Progress(what) as progress:
        run = make(lambda work: progress(work.done, None))
        try:
            await run.run()
        finally:
            await close_clients()
    return run


class GenerationMethods:
    """The extractor, the rewriter and the judge that the command line names, with their models.

    Args:
        options: The parsed values of :data:`GENERATION_ARGUMENTS`.

    Raises:
        ExperimentError: The API key of a model is missing, or there is a cost limit but a model's price is unknown.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        from lhaw_record.generators.llm import LlmExtractor, LlmRewriter, PromptTemplates

        self._parameters: dict[str, dict[str, Any]] = {}
        self.models: dict[str, Model] = {}
        for role, name in (("extractor", options.extractor), ("rewriter", options.rewriter), ("judge", options.judge)):
            if name is not None:
                self.models[role] = named_model(f"--{role}", name, options)
                self._parameters[role] = model_parameters(options, name)
        given, wordings = self._parameters, PromptTemplates(options.wordings)
        self.extractor = LlmExtractor(options.extractor, given["extractor"], wordings) if options.extractor else None
        self.rewriter = LlmRewriter(options.rewriter, given["rewriter"], wordings) if options.rewriter else None
        self.judge = judge_of(options)

    def config(self) -> dict[str, Any]:
        """Return the configuration of these methods, as a run records it."""
        named = {"extractor": self.extractor, "rewriter": self.rewriter, "judge": self.judge}
        return {
            **{role: each.name if each else None for role, each in named.items()},
            **{f"{role}_digest": each.digest if each else None for role, each in named.items()},
            "parameters": self._parameters,
        }
