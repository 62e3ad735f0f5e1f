"""The options of generation: which extractor and rewriter to use, what they may read, and what is removed together."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recorder.cli.arguments import positive
from recorder.cli.command import ArgumentGroup, argument, flag
from runners.cli.model_options import MODEL_OPTIONS, model_parameters, named_model, request_limits

if TYPE_CHECKING:
    from generators.gate import ModelJudge
    from generators.generation.paid_run import CallerOf
    from generators.protocol import Extractor, Grounding, Rewriter
    from recorder.writing.stream import Stream
    from runners.models.protocol import Model
    from runners.models.recorded_replies import RecordedReplies

RULES = "rules"


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
    argument("--judge", metavar="MODEL", help="the model that judges what no rule can (default: that stays unjudged)"),
    argument(
        "--guesses",
        type=positive,
        default=3,
        metavar="N",
        help="how often the judge tries to get a removed value back (default: %(default)s)",
    ),
)

ASKING_ARGUMENTS = (
    argument(
        "--wordings",
        type=Path,
        metavar="DIR",
        help="prompts that replace those in data/generation/prompts, under the same file names",
    ),
    argument("--concurrency", type=positive, default=4, help="model calls at a time (default: %(default)s)"),
)

GENERATION_ARGUMENTS = (
    ArgumentGroup(
        "segments and variants",
        (
            argument("--extractor", default=RULES, metavar="MODEL", help="what finds segments: rules, or a model"),
            argument("--rewriter", default=RULES, metavar="MODEL", help="what removes them: rules, or a model"),
            *JUDGE_ARGUMENTS,
            flag("--no-trajectory", "do not read trajectories and recorded trials"),
            flag("--no-checkpoints", "do not read checkpoints"),
            flag("--prompt-only", "read only the prompt"),
            argument(
                "--segments",
                type=_sizes,
                default=(1, 2),
                metavar="N,N",
                help="how many segments to remove together (default: 1,2)",
            ),
            argument(
                "--severity",
                action="append",
                choices=("delete", "vaguify", "genericize", "decoy"),
                help="how to remove them; decoy puts a wrong value in their place (may be repeated; default: delete)",
            ),
            flag("--chains", "also make pairs of which the second can only be asked for after the first"),
            flag("--controls", "also make controls: the unmodified prompt, and removals of what nobody needs"),
            flag(
                "--environment",
                "also use the benchmark's variants that change the workspace and not the prompt",
            ),
            argument(
                "--per-task",
                type=positive,
                default=12,
                metavar="N",
                help="the most removals of one task (default: %(default)s)",
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
    from generators.protocol import Grounding

    return Grounding(
        has_trajectory=not (options.no_trajectory or options.prompt_only),
        has_checkpoints=not (options.no_checkpoints or options.prompt_only),
        has_environment=not options.prompt_only,
    )


def judge_of(options: argparse.Namespace) -> "ModelJudge | None":
    """Return the judge that ``--judge`` names, or None if it names none."""
    if options.judge is None:
        return None
    from generators.gate import ModelJudge
    from generators.llm import PromptTemplates

    templates = PromptTemplates(options.wordings)
    parameters = model_parameters(options)
    return ModelJudge(options.judge, parameters, templates, options.guesses)


def callers(models: Mapping[str, "Model"], options: argparse.Namespace, recorded: "RecordedReplies") -> "CallerOf":
    """Return the function that makes the model caller for a stream, a role and a thread id.

    Args:
        models: The model of each role. A role without one is left to the rules.
        options: The parsed values of the model options.
        recorded: The replies that the store already holds. They are reused, not paid for again.
    """
    from runners.models.calls import ModelCaller

    parameters = model_parameters(options)

    def caller(stream: "Stream", role: Any, thread_id: str) -> ModelCaller | None:
        if role not in models:
            return None
        return ModelCaller(
            model=models[role],
            recording=stream,
            role=role,
            thread_id=thread_id,
            parameters=parameters,
            recorded=recorded,
            **request_limits(options),
        )

    return caller


class GenerationMethods:
    """The extractor, the rewriter and the judge that the command line names, with their models.

    Args:
        options: The parsed values of :data:`GENERATION_ARGUMENTS`.

    Raises:
        ExperimentError: The API key of a model is missing, or there is a cost limit but a model's price is unknown.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._parameters = model_parameters(options)
        self._models: dict[str, Model] = {}
        for role, name in (("extractor", options.extractor), ("rewriter", options.rewriter), ("judge", options.judge)):
            if name is not None and (name != RULES or role == "judge"):  # no rules judge what only a model can
                self._models[role] = named_model(f"--{role}", name, options)
        self.extractor = self._extractor(options)
        self.rewriter = self._rewriter(options)
        self.judge = judge_of(options)

    def _extractor(self, options: argparse.Namespace) -> "Extractor":
        if "extractor" in self._models:
            from generators.llm import LlmExtractor, PromptTemplates

            return LlmExtractor(options.extractor, self._parameters, PromptTemplates(options.wordings))
        from generators.extraction import RuleExtractor

        return RuleExtractor()

    def _rewriter(self, options: argparse.Namespace) -> "Rewriter":
        if "rewriter" in self._models:
            from generators.llm import LlmRewriter, PromptTemplates

            return LlmRewriter(options.rewriter, self._parameters, PromptTemplates(options.wordings))
        from generators.rewriting import RuleRewriter

        return RuleRewriter()

    def caller_of(self, recorded: "RecordedReplies") -> "CallerOf":
        """Return the function that makes the model caller for a stream, a role and a thread id.

        Args:
            recorded: The replies that the store already holds. They are reused, not paid for again.
        """
        return callers(self._models, self._options, recorded)

    def config(self) -> dict[str, Any]:
        """Return the configuration of these methods, as a run records it."""
        return {
            "extractor": self.extractor.name,
            "extractor_digest": self.extractor.digest,
            "rewriter": self.rewriter.name,
            "rewriter_digest": self.rewriter.digest,
            "judge": self.judge.name if self.judge else None,
            "judge_digest": self.judge.digest if self.judge else None,
            "parameters": self._parameters,
        }
