"""Runs phases 1 and 2 of LHAW over many tasks: extract segments, choose removals, rewrite, check and record.

Work that the store already records is not repeated. An extraction is identified by task, extractor and grounding; a
variant by its removed segments, the severity and the rewriter.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.generators.gate import Judgement, ModelJudge
from lhaw_record.generators.generation.generation_index import ExtractionKey, GenerationIndex, load_generation_index
from lhaw_record.generators.generation.paid_run import Callers, PaidRun, PaidSettings
from lhaw_record.generators.generation.recorded_trials import RecordedTask, grounded, recorded_tasks, with_golden
from lhaw_record.generators.generation.removals import RemovalSettings
from lhaw_record.generators.generation.variant_plan import (
    VariantKinds,
    VariantPlan,
    plan_variants,
    problems_seen,
    ready_variants,
)
from lhaw_record.generators.protocol import Extractor, Grounding, Rewriter, Rewriting, SourceTask
from lhaw_record.generators.sources.written import WrittenExtractor, WrittenRewriter
from lhaw_record.recorder.events import SegmentsExtracted, TaskRegistered, VariantGenerated, VariantRejected
from lhaw_record.recorder.events.values import Severity
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.models.costs import NO_USAGE
from lhaw_record.runners.models.llm_jobs.paid_work import PaidWork
from lhaw_record.runners.runs.run_record import held


class GenerationSettings(PaidSettings, frozen=True, kw_only=True):
    """How variants are made.

    Without ``extractor`` a task has the segments that its author labelled, and without ``rewriter`` the author's
    rewritings. ``rewrite_attempts`` is the most attempts that a model gets at one removal. Without ``judge``, what no
    rule can judge stays unjudged.
    """

    extractor: Extractor | None = None
    rewriter: Rewriter | None = None
    grounding: Grounding = Grounding()
    candidates: RemovalSettings = RemovalSettings()
    extras: VariantKinds = VariantKinds()
    rewrite_attempts: int = 3
    judge: ModelJudge | None = None

    def extractor_of(self, source: SourceTask) -> Extractor:
        return self.extractor or WrittenExtractor(source)

    def rewriter_of(self, source: SourceTask) -> Rewriter:
        return self.rewriter or WrittenRewriter(source)


class Generation(PaidRun):
    """One run of generation over some tasks.

    Args:
        store: A store opened for writing.
        sources: The tasks.
        settings: How variants are made.
        on_change: Called after every extraction and rewriting.
    """

    def __init__(
        self,
        store: Store,
        sources: Sequence[SourceTask],
        settings: GenerationSettings,
        on_change: Callable[[PaidWork], None] = lambda _: None,
    ) -> None:
        super().__init__(store, settings, on_change)
        self.sources = sources
        self.settings = settings
        self._recorded: Mapping[str, RecordedTask] = {}
        self.index = GenerationIndex()
        self._deciding: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)
        """By task: what one job decides is in the index before the next job is decided."""

    async def run(self) -> None:
        """Do the extractions and rewritings that the store does not hold yet.

        The first interrupt lets open requests end; the second stops them.
        """
        settings = self.settings
        with held(self._store, (settings.experiment_id,)) as snapshot:
            self.index = await anyio.to_thread.run_sync(load_generation_index, snapshot, settings.experiment_id)
            self._recorded = await anyio.to_thread.run_sync(recorded_tasks, self._store.root)
            owed = (self.owed_extractions(), self.owed_variants(), self.owed_ready(), self.owed_judgements())
            if not any(owed):
                return
            async with self.recorded("generate", len(self.sources), lambda: len(self.owed_extractions())) as stream:
                await self._register(stream)
                await self.work.run(
                    [
                        self.job(stream, source.task.task_id, partial(self._extract, source))
                        for source in self.owed_extractions()
                    ],
                    "extraction",
                )
                for kind, owed_now, do in (
                    ("rewriting", self.owed_variants, self._rewrite),
                    ("judging", self.owed_judgements, self._judge),
                ):
                    jobs = [self.job(stream, planned.variant_id, partial(do, planned)) for planned in owed_now()]
                    await self.work.run(jobs, kind)

    def owed_extractions(self) -> list[SourceTask]:
        """Return the tasks that this extractor has not yet processed with this grounding."""
        return [source for source in self.sources if self._key(source) not in self.index.extractions]

    def owed_variants(self) -> list[VariantPlan]:
        """Return the plans whose variants have been neither made nor given up."""
        made = self.index.variant_ids
        return [
            planned for planned in self.planned if planned.variant_id not in made and self.given_up(planned) is None
        ]

    def owed_judgements(self) -> list[VariantPlan]:
        """Return the plans whose variants were made without a judge, if there is one now."""
        unjudged = {each.variant.variant_id for each in self.index.variants.values() if each.judgement is None}
        return [planned for planned in self.planned if self.settings.judge and planned.variant_id in unjudged]

    def owed_ready(self) -> list[VariantGenerated]:
        """Return the variants that need no rewriting and are not registered yet."""
        ready = (event for source in self.sources for event in self.ready_of(source))
        return [event for event in ready if event.variant.variant_id not in self.index.variant_ids]

    def ready_of(self, source: SourceTask) -> list[VariantGenerated]:
        """Return the variants of a task that need no rewriting."""
        return ready_variants(source, self.settings.extras)

    @property
    def planned(self) -> list[VariantPlan]:
        """The variant plans of all tasks whose segments have been extracted."""
        return [planned for source in self.sources for planned in self.planned_of(source)]

    def extraction_of(self, source: SourceTask) -> SegmentsExtracted | None:
        """Return the recorded extraction of a task, or None if there is none yet."""
        return self.index.extractions.get(self._key(source))

    def planned_of(self, source: SourceTask) -> list[VariantPlan]:
        """Return the variant plans of a task. The list is empty until the task's segments are extracted."""
        extracted, settings = self.extraction_of(source), self.settings
        if extracted is None:
            return []
        return plan_variants(
            source, extracted.segments, settings.candidates, settings.rewriter_of(source), settings.extras
        )

    def given_up(self, planned: VariantPlan) -> VariantRejected | None:
        """Return the final rejection of a planned variant, or None if the variant has not been given up."""
        attempts = self.index.attempts.get(planned.variant_id, ())
        is_made = planned.variant_id in self.index.variant_ids
        return attempts[-1] if attempts and attempts[-1].is_final and not is_made else None

    async def _register(self, stream: Stream) -> None:
        unknown = [source.task for source in self.sources if source.task.task_digest not in self.index.tasks]
        await stream.append(*(TaskRegistered(task=task, task_digest=task.task_digest) for task in unknown))
        ready = self.owed_ready()
        await stream.append(*ready)
        for event in ready:
            self.index.add(event)

    def _key(self, source: SourceTask) -> ExtractionKey:
        return source.task.task_digest, self.settings.extractor_of(source).digest, self._looked_at(source)

    def _looked_at(self, source: SourceTask) -> tuple[str, ...]:
        """Return the names of the things that the extractor sees of this task besides the prompt."""
        grounding, recorded = self.settings.grounding, self._recorded.get(source.task.task_digest)
        has_trajectory = with_golden(source, recorded).trajectory is not None
        found = {
            "trajectory": grounding.has_trajectory and has_trajectory,
            "checkpoints": grounding.has_checkpoints and bool(source.task.checkpoints or source.checkpoint_notes),
            "environment": grounding.has_environment and bool(source.files),
            "trials": grounding.has_trajectory and recorded is not None,
        }
        return tuple(name for name, is_there in found.items() if is_there)

    async def _extract(self, source: SourceTask, callers: Callers) -> None:
        """Extract one task's segments."""
        settings, extractor = self.settings, self.settings.extractor_of(source)
        recorded = self._recorded.get(source.task.task_digest) if settings.grounding.has_trajectory else None
        caller = callers.of("extractor", f"extract-{source.task.task_id}")
        found = await extractor.extract(with_golden(source, recorded), settings.grounding, caller)
        event = SegmentsExtracted(
            benchmark=source.task.benchmark,
            task_id=source.task.task_id,
            task_digest=source.task.task_digest,
            extractor=extractor.name,
            extractor_digest=extractor.digest,
            grounding=self._looked_at(source),
            segments=tuple(grounded(segment, source, recorded, settings.grounding) for segment in found.segments),
            rejected=found.rejected,
            usage=caller.usage_with_recalled if caller else NO_USAGE,
        )
        await self._record(callers.stream, event)

    async def _rewrite(self, planned: VariantPlan, callers: Callers) -> None:
        """Rewrite until a result passes the checks or the attempts are used up. Every attempt is recorded."""
        has_model = planned.rewriter is self.settings.rewriter  # rules make the decoys, whatever the rewriter
        caller = callers.of("rewriter", f"rewrite-{planned.variant_id}") if has_model else None
        earlier = self.index.attempts.get(planned.variant_id, ())
        problems = [problems_seen(each) for each in earlier]
        attempts = self.settings.rewrite_attempts if caller else 1
        for attempt in range((earlier[-1].attempt if earlier else 0) + 1, attempts + 1):
            rewriting = await planned.rewritten(caller, problems)
            judgement = None
            if (
                self.settings.judge
                and isinstance(rewriting, Rewriting)
                and not planned.problems(rewriting, self._siblings(planned))
            ):
                judgement = await self._asked(planned, rewriting, attempt, callers)
            async with self._deciding[planned.source.task.task_digest]:
                decision = planned.decided(
                    rewriting, self._siblings(planned), judgement, attempt=attempt, attempts=attempts
                )
                await self._record(callers.stream, decision)
            if isinstance(decision, VariantGenerated) or decision.is_final:
                return
            problems.append(problems_seen(decision))

    async def _judge(self, planned: VariantPlan, callers: Callers) -> None:
        """Judge a variant that was made without a judge: it is registered anew, or withdrawn."""
        made = next(each for each in self.index.variants.values() if each.variant.variant_id == planned.variant_id)
        rewriting = Rewriting(
            prompt=made.variant.prompt,
            expected_questions=made.variant.expected_questions,
            failure_mode=made.variant.failure_mode or "",
        )
        said = await self._asked(planned, rewriting, 0, callers)
        decision = (
            planned.rejected(rewriting, said.findings, attempt=0, is_final=True, judgement=said.record)
            if said.findings
            else msgspec.structs.replace(made, judgement=said.record)
        )
        await self._record(callers.stream, decision)

    async def _asked(self, planned: VariantPlan, rewriting: Rewriting, attempt: int, callers: Callers) -> Judgement:
        """Return what the model finds against a rewriting."""
        assert self.settings.judge is not None, "there is a judge to ask"
        prompt, files = planned.source.task.prompt, planned.source.files
        caller_of = callers.of_judge(f"{planned.variant_id}-{attempt}")
        return await self.settings.judge.judge(prompt, rewriting, planned.removal, files, caller_of)

    def _siblings(self, planned: VariantPlan) -> Mapping[Severity, str]:
        return self.index.siblings(planned.source.task.task_digest, planned.removal)

    async def _record(self, stream: Stream, event: SegmentsExtracted | VariantGenerated | VariantRejected) -> None:
        await stream.append(event)
        self.index.add(event)
