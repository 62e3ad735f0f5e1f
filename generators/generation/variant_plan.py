"""Plans the variants of a task: the segments to remove, the variant's id, and the events that record the result."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec

from lhaw_record.generators.errors import NotRemovable, RewritingFailed
from lhaw_record.generators.gate import Judgement, Scene, problems_of
from lhaw_record.generators.generation.decoys import DecoyRewriter, with_decoys
from lhaw_record.generators.generation.generation_index import GenerationIndex
from lhaw_record.generators.generation.removals import RemovalSettings, chain_pairs, choose_removals
from lhaw_record.generators.prompts.diff import prompt_diff
from lhaw_record.generators.protocol import Removal, Rewriter, Rewriting, SourceTask
from lhaw_record.generators.sources.written import WRITTEN, WrittenRewriter
from lhaw_record.recorder.events import FailedCheck, GateJudgement, VariantGenerated, VariantRejected
from lhaw_record.recorder.events.canonical_json import canonical_json, short_digest
from lhaw_record.recorder.events.values import Segment, Severity, Variant
from lhaw_record.runners.models.calls import ModelCaller

_HOPELESS = frozenset({"can_be_taken_out", "files_keep_the_secret", "recoverable_from_files"})
"""The findings that no other wording would mend."""

_BENIGN_REMOVALS = 2  # per task: a control only calibrates, so more of them would add nothing


class VariantKinds(msgspec.Struct, frozen=True, kw_only=True):
    """Which kinds of variants are wanted besides removals.

    Attributes:
        has_chains: Pairs of segments of which an agent can ask for the second only once it knows the first.
        has_controls: The unmodified prompt, and removals of segments that nobody needs.
        has_environment: The benchmark's own variants that change the environment but not the prompt.
        has_written: The prompts that a person wrote with the task.
    """

    has_chains: bool = False
    has_controls: bool = False
    has_environment: bool = False
    has_written: bool = False


class VariantPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One variant to make: which segments to remove from which task, and with which rewriter.

    ``segments`` are all segments of the task. If ``origin`` is ``control``, nobody needs the removed ones.
    """

    source: SourceTask
    removal: Removal
    rewriter: Rewriter
    segments: tuple[Segment, ...] = ()
    origin: Literal["generated", "control"] = "generated"

    @property
    def variant_id(self) -> str:
        """The variant's id: readable task, severity and segment ids, then a digest of the values and the rewriter."""
        segments, severity = self.removal.segments, self.removal.severity
        names = "-".join(segment.segment_id for segment in segments)
        marks = [mark for each in segments for mark in (each.decoy, each.revealed_after) if mark is not None]
        content = [[segment.value for segment in segments], severity, self.rewriter.digest, *marks]
        kind = "control" if self.origin == "control" else severity
        return f"{self.source.task.task_id}/{kind}-{names}-{short_digest(content)[:8]}"

    def problems(self, rewriting: Rewriting, siblings: Mapping[Severity, str]) -> tuple[FailedCheck, ...]:
        """Return everything that the gate finds against a rewriting."""
        source = self.source
        extents = self.rewriter.passages(self.removal) if isinstance(self.rewriter, WrittenRewriter) else ()
        scene = Scene(segments=self.segments, files=source.files, extents=extents, siblings=siblings)
        return problems_of(source.task.prompt, rewriting, self.removal, scene)

    async def rewritten(
        self, caller: ModelCaller | None = None, problems: Sequence[str] = ()
    ) -> Rewriting | FailedCheck:
        """Return one rewriting, or why there is none."""
        try:
            return await self.rewriter.rewrite(self.source, self.removal, caller, problems)
        except RewritingFailed as error:
            check = "can_be_taken_out" if isinstance(error, NotRemovable) else "is_rewritten"
            return FailedCheck(check=check, message=str(error))

    def decided(
        self,
        rewriting: Rewriting | FailedCheck,
        siblings: Mapping[Severity, str],
        judgement: Judgement | None = None,
        *,
        attempt: int = 1,
        attempts: int = 1,
    ) -> VariantGenerated | VariantRejected:
        """Return the event that makes the variant, or rejects this attempt at it, if the rules or the model object.

        ``siblings`` are the prompts of the same segments under other severities. The attempt is the last one at the
        number ``attempts``, and where no other wording would help.
        """
        record = judgement.record if judgement else None
        made = None if isinstance(rewriting, FailedCheck) else rewriting
        failed = self.problems(made, siblings) if made else ()
        failed += (rewriting,) if isinstance(rewriting, FailedCheck) else judgement.findings if judgement else ()
        if made and not failed:
            return self._generated(made, record)
        is_final = attempt >= attempts or any(each.check in _HOPELESS for each in failed)
        return self.rejected(made, failed, attempt=attempt, is_final=is_final, judgement=record)

    def _generated(self, rewriting: Rewriting, judgement: GateJudgement | None) -> VariantGenerated:
        """Return the event for a variant that passed its checks, with what a model judged about its prompt."""
        task = self.source.task
        variant = Variant(
            benchmark=task.benchmark,
            task_id=task.task_id,
            variant_id=self.variant_id,
            prompt=rewriting.prompt,
            segments=self.removal.segments,
            origin=self.origin,
            severity=self.removal.severity,
            expected_questions=rewriting.expected_questions,
            failure_mode=rewriting.failure_mode,
        )
        return VariantGenerated(
            variant=variant,
            variant_digest=variant.variant_digest,
            task_digest=task.task_digest,
            rewriter=self.rewriter.name,
            rewriter_digest=self.rewriter.digest,
            diff=prompt_diff(task.prompt, rewriting.prompt),
            judgement=judgement,
        )

    def rejected(
        self,
        rewriting: Rewriting | None,
        failed: tuple[FailedCheck, ...],
        *,
        attempt: int,
        is_final: bool,
        judgement: GateJudgement | None = None,
    ) -> VariantRejected:
        """Return the event that records a failed attempt."""
        task = self.source.task
        return VariantRejected(
            benchmark=task.benchmark,
            task_id=task.task_id,
            task_digest=task.task_digest,
            variant_id=self.variant_id,
            severity=self.removal.severity,
            segments=self.removal.segments,
            rewriter=self.rewriter.name,
            rewriter_digest=self.rewriter.digest,
            attempt=attempt,
            is_final=is_final,
            reason="; ".join(check.message for check in failed),
            checks=failed,
            prompt=rewriting.prompt if rewriting else None,
            diff=prompt_diff(task.prompt, rewriting.prompt) if rewriting else None,
            judgement=judgement,
        )


def problems_seen(rejected: VariantRejected) -> str:
    """Return a refused attempt for the next one: a JSON object with the text and the faults, each with its reason."""
    faults = [f"{check.check}: {check.message}" for check in rejected.checks] or [rejected.reason]
    return canonical_json({"faults": faults, "rewriting": rejected.prompt}).decode()


def plan_variants(
    source: SourceTask, segments: Sequence[Segment], settings: RemovalSettings, rewriter: Rewriter, extras: VariantKinds
) -> list[VariantPlan]:
    """Plan the variants of a task that need a rewriter, removals first."""
    prompt, plan = source.task.prompt, partial(VariantPlan, source=source, rewriter=rewriter, segments=tuple(segments))
    severities = tuple(each for each in settings.severities if each != "decoy")
    wanted = msgspec.structs.replace(settings, severities=severities)
    is_possible = rewriter.is_written if isinstance(rewriter, WrittenRewriter) else lambda _: True
    plans = [plan(removal=each) for each in choose_removals(prompt, segments, wanted, is_possible)]
    if "decoy" in settings.severities:
        plans += _plan_decoys(source, segments, settings)
    if extras.has_chains:
        plans += [
            plan(removal=Removal(segments=pair, severity=severity))
            for pair in chain_pairs(prompt, segments)
            for severity in severities
        ]
    if extras.has_controls:
        plans += [
            plan(removal=Removal(segments=(segment,), severity="delete"), origin="control")
            for segment in benign_segments(segments)[:_BENIGN_REMOVALS]
        ]
    return plans


def ready_variants(source: SourceTask, extras: VariantKinds) -> list[VariantGenerated]:
    """Return the events of the variants that come with a task, or keep its prompt, and need no rewriting."""
    ready = [unmodified(source)] if extras.has_controls else []
    ready += (
        variant
        for variant in source.variants
        if (extras.has_written if variant.environment_change is None else extras.has_environment)
    )
    return [_ready(source, variant) for variant in ready]


def _ready(source: SourceTask, variant: Variant) -> VariantGenerated:
    task, digest = source.task, variant.variant_digest
    event = VariantGenerated(variant=variant, variant_digest=digest, task_digest=task.task_digest)
    if variant.prompt == task.prompt:
        return event
    diff = prompt_diff(task.prompt, variant.prompt)
    return msgspec.structs.replace(event, rewriter=WRITTEN, rewriter_digest=digest, diff=diff)


async def preview(
    source: SourceTask, removals: int, severities: Sequence[Severity]
) -> tuple[list[VariantGenerated], list[VariantRejected]]:
    """Return the variants that ``generate`` makes from what is written with a task, and those that are refused."""
    index = GenerationIndex()
    for ready in ready_variants(source, VariantKinds(has_written=True)):
        index.add(ready)
    segments = tuple(each.segment for each in source.written)
    settings = RemovalSettings(severities=tuple(severities), max_per_task=removals)
    for planned in plan_variants(source, segments, settings, WrittenRewriter(source), VariantKinds()):
        index.add(planned.decided(await planned.rewritten(), index.siblings(source.task.task_digest, planned.removal)))
    return list(index.variants.values()), list(index.rejected.values())


def unmodified(source: SourceTask) -> Variant:
    """Return the control variant that keeps the task's prompt unchanged."""
    task = source.task
    return Variant(
        benchmark=task.benchmark,
        task_id=task.task_id,
        variant_id=f"{task.task_id}/control-unmodified",
        prompt=task.prompt,
        segments=(),
        origin="control",
    )


def benign_segments(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments that an agent does not need to be told: those with criticality 0 or guessability 1."""
    return [each for each in segments if each.criticality == 0.0 or each.guessability == 1.0]


def _plan_decoys(source: SourceTask, segments: Sequence[Segment], settings: RemovalSettings) -> list[VariantPlan]:
    single = [with_decoys(source, Removal(segments=(segment,), severity="decoy")) for segment in segments]
    replaced = [segment for removal in single if removal is not None for segment in removal.segments]
    rewriter, decoys = DecoyRewriter(), msgspec.structs.replace(settings, severities=("decoy",))
    return [
        VariantPlan(source=source, removal=removal, rewriter=rewriter)
        for removal in choose_removals(source.task.prompt, replaced, decoys)
    ]
