"""Runs phases 1 and 2 of LHAW over many tasks: extract segments, choose removals, rewrite, check and record.

Work that the store already records is not repeated. An extraction is identified by task, extractor and grounding; a
variant by its removed segments, the severity and the rewriter.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from generators.errors import ExtractionFailed, RewritingFailed
from generators.gate import Judgement, ModelJudge
from generators.generation.generation_index import ExtractionKey, GenerationIndex, load_generation_index
from generators.generation.makers import extractor_for, rewriter_for
from generators.generation.recorded_trials import RecordedTask, grounded, recorded_tasks, with_golden
from generators.generation.removals import RemovalSettings
from generators.generation.variant_plan import VariantKinds, VariantPlan, plan_variants, problems_seen, ready_variants
from generators.protocol import Extraction, Extractor, Grounding, Rewriter, Rewriting, SourceTask
from recorder.events import SegmentsExtracted, TaskRegistered, VariantGenerated, VariantRejected
from recorder.events.values import Variant
from recorder.storage.store import Store
from recorder.writing.redaction import Redactor
from recorder.writing.stream import Stream
from runners.errors import ModelBoundaryError
from runners.llm_jobs.paid_work import PaidWork
from runners.models.call_events import NO_USAGE
from runners.models.calls import ModelCaller
from runners.run.supplementary_run import Counts, held, recorded_run

CallerOf = Callable[[Stream, str, str], ModelCaller | None]
"""Returns the model caller for a stream, a role and a thread id, or None if rules do the work."""


class GenerationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How variants are made.

    ``rewrite_attempts`` is the most attempts that a model gets at one removal. Rules get one attempt. Where a person
    labelled and rewrote a task, that stands in place of the rules. Without ``judge``, what no rule can judge stays
    unjudged.
    """

    experiment_id: str
    extractor: Extractor
    rewriter: Rewriter
    caller_of: CallerOf
    config: Mapping[str, Any]
    redactor: Redactor
    grounding: Grounding = Grounding()
    candidates: RemovalSettings = RemovalSettings()
    extras: VariantKinds = VariantKinds()
    rewrite_attempts: int = 3
    concurrency: int = 4
    max_cost_usd: float | None = None
    judge: ModelJudge | None = None

    def extractor_of(self, source: SourceTask) -> Extractor:
        """Return what finds the segments of a task."""
        return extractor_for(source, self.extractor)

    def rewriter_of(self, source: SourceTask) -> Rewriter:
        """Return what removes segments from a task. It knows only the segments that its own author labelled."""
        return rewriter_for(source, self.extractor, self.rewriter)


class Generation:
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
        self._store = store
        self.sources = sources
        self.settings = settings
        self._recorded: Mapping[str, RecordedTask] = {}
        self.work = PaidWork(concurrency=settings.concurrency, max_cost_usd=settings.max_cost_usd, on_change=on_change)
        self.index = GenerationIndex()
        self._deciding: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)
        """By task: what one job decides stands in the index before the next job is decided about."""

    async def run(self) -> None:
        """Do the extractions and rewritings that the store does not hold yet.

        The first interrupt lets running work finish; the second stops it.

        Raises:
            StoreError: Another process is writing to the experiment.
            RecordingFailed: An event could not be made durable.
        """
        settings = self.settings
        with held(self._store, (settings.experiment_id,)) as snapshot:
            self.index = await anyio.to_thread.run_sync(load_generation_index, snapshot, settings.experiment_id)
            self._recorded = await anyio.to_thread.run_sync(recorded_tasks, self._store.root)
            owed = (self.owed_extractions(), self.owed_variants(), self.owed_ready(), self.owed_judgements())
            if not any(owed):
                return
            counts = Counts(len(self.sources))
            async with recorded_run(
                self._store, settings.experiment_id, "generate", settings.config, counts, redactor=settings.redactor
            ) as stream:
                await self._register(stream)
                await self.work.run(
                    [self._extraction(source, stream) for source in self.owed_extractions()], "extraction"
                )
                await self.work.run([self._rewriting(planned, stream) for planned in self.owed_variants()], "rewriting")
                await self.work.run([self._judging(planned, stream) for planned in self.owed_judgements()], "judging")
                counts.done = len(self.sources) - len(self.owed_extractions())
                counts.failed = len(self.work.failures)
                counts.outcome = self.work.stop_reason or ("failed" if self.work.failures else "completed")

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

    def owed_ready(self) -> list[tuple[SourceTask, Variant]]:
        """Return the variants that need no rewriting and are not registered yet, each with its task."""
        made = self.index.variant_ids
        return [
            (source, variant)
            for source in self.sources
            for variant in self.ready_of(source)
            if variant.variant_id not in made
        ]

    def ready_of(self, source: SourceTask) -> list[Variant]:
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
        ready = [
            VariantGenerated(
                variant=variant, variant_digest=variant.variant_digest, task_digest=source.task.task_digest
            )
            for source, variant in self.owed_ready()
        ]
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

    def _extraction(self, source: SourceTask, stream: Stream) -> Callable[[], Awaitable[float | None]]:
        """Return the job that extracts one task's segments.

        The job returns its cost in USD, or None if the cost is unknown.
        """
        settings = self.settings
        recorded = self._recorded.get(source.task.task_digest) if settings.grounding.has_trajectory else None

        async def extract() -> float | None:
            caller = settings.caller_of(stream, "extractor", f"extract-{source.task.task_id}")
            try:
                extractor = settings.extractor_of(source)
                found = await extractor.extract(with_golden(source, recorded), settings.grounding, caller)
            except (ExtractionFailed, ModelBoundaryError) as error:
                self.work.note_failure(error, source.task.task_id)
            else:
                await self._record_extraction(source, found, recorded, stream, caller)
            return total_cost_usd([caller] if caller else [])

        return extract

    async def _record_extraction(
        self,
        source: SourceTask,
        found: Extraction,
        recorded: RecordedTask | None,
        stream: Stream,
        caller: ModelCaller | None,
    ) -> None:
        event = SegmentsExtracted(
            benchmark=source.task.benchmark,
            task_id=source.task.task_id,
            task_digest=source.task.task_digest,
            extractor=self.settings.extractor_of(source).name,
            extractor_digest=self.settings.extractor_of(source).digest,
            grounding=self._looked_at(source),
            segments=tuple(grounded(segment, source, recorded, self.settings.grounding) for segment in found.segments),
            rejected=found.rejected,
            usage=caller.usage_with_recalled if caller else NO_USAGE,
        )
        await stream.append(event)
        self.index.add(event)

    def _rewriting(self, planned: VariantPlan, stream: Stream) -> Callable[[], Awaitable[float | None]]:
        """Return the job that makes the variant of one plan.

        The job returns its cost in USD, or None if the cost is unknown.
        """
        settings = self.settings

        async def rewrite() -> float | None:
            has_model = planned.rewriter is settings.rewriter  # rules make the decoys, whatever the rewriter
            caller = settings.caller_of(stream, "rewriter", f"rewrite-{planned.variant_id}") if has_model else None
            callers = [caller] if caller else []
            try:
                await self._rewrite(planned, stream, caller, callers)
            except ModelBoundaryError as error:
                self.work.note_failure(error, planned.variant_id)
            return total_cost_usd(callers)

        return rewrite

    async def _rewrite(
        self, planned: VariantPlan, stream: Stream, caller: ModelCaller | None, callers: list[ModelCaller]
    ) -> None:
        """Rewrite until a result passes the checks or the attempts are used up. Every attempt is recorded.

        The callers of the judge are added to ``callers``, because they cost something even if this fails.
        """
        earlier = self.index.attempts.get(planned.variant_id, ())
        problems = [problems_seen(each) for each in earlier]
        attempts = self.settings.rewrite_attempts if caller else 1
        for attempt in range((earlier[-1].attempt if earlier else 0) + 1, attempts + 1):
            rewriting, reason = await self._attempt(planned, caller, problems)
            judgement = await self._judged(planned, rewriting, stream, attempt, callers)
            async with self._deciding[planned.source.task.task_digest]:
                decision = self._decided(
                    planned, rewriting, reason, judgement, attempt=attempt, is_final=attempt == attempts
                )
                await stream.append(decision)
                self.index.add(decision)
            if isinstance(decision, VariantGenerated):
                return
            problems.append(problems_seen(decision))

    def _judging(self, planned: VariantPlan, stream: Stream) -> Callable[[], Awaitable[float | None]]:
        """Return the job that judges a variant made without a judge: it is registered anew, or withdrawn.

        The job returns its cost in USD, or None if the cost is unknown.
        """

        async def judge() -> float | None:
            made = next(each for each in self.index.variants.values() if each.variant.variant_id == planned.variant_id)
            rewriting = Rewriting(
                prompt=made.variant.prompt,
                expected_questions=made.variant.expected_questions,
                failure_mode=made.variant.failure_mode or "",
            )
            callers: list[ModelCaller] = []
            try:
                said = await self._asked(planned, rewriting, stream, 0, callers)
            except ModelBoundaryError as error:
                self.work.note_failure(error, planned.variant_id)
                return total_cost_usd(callers)
            decision = (
                planned.rejected(rewriting, said.findings, "", attempt=0, is_final=True, judgement=said.record)
                if said.findings
                else msgspec.structs.replace(made, judgement=said.record)
            )
            await stream.append(decision)
            self.index.add(decision)
            return total_cost_usd(callers)

        return judge

    async def _judged(
        self,
        planned: VariantPlan,
        rewriting: Rewriting | None,
        stream: Stream,
        attempt: int,
        callers: list[ModelCaller],
    ) -> Judgement | None:
        """Return what the model finds against a rewriting; None without a judge, or if the rules found something."""
        settings = self.settings
        if settings.judge is None or rewriting is None:
            return None
        siblings = self.index.siblings(planned.source.task.task_digest, planned.removal)
        if planned.problems(rewriting, siblings):
            return None
        return await self._asked(planned, rewriting, stream, attempt, callers)

    async def _asked(
        self, planned: VariantPlan, rewriting: Rewriting, stream: Stream, attempt: int, callers: list[ModelCaller]
    ) -> Judgement:
        """Return what the model finds against a rewriting. The callers are added to ``callers``."""
        settings = self.settings
        assert settings.judge is not None, "there is a judge to ask"

        def caller_of(question: str) -> ModelCaller:
            caller = settings.caller_of(stream, "judge", f"gate-{planned.variant_id}-{attempt}-{question}")
            assert caller is not None, "a judge has a model"
            callers.append(caller)
            return caller

        source = planned.source
        return await settings.judge.judge(source.task.prompt, rewriting, planned.removal, source.files, caller_of)

    def _decided(
        self,
        planned: VariantPlan,
        rewriting: Rewriting | None,
        reason: str,
        judgement: Judgement | None,
        *,
        attempt: int,
        is_final: bool,
    ) -> VariantGenerated | VariantRejected:
        """Return the event that makes or rejects a variant. It depends on the other variants of the task."""
        if rewriting is None:
            return planned.rejected(None, (), reason, attempt=attempt, is_final=is_final)
        siblings = self.index.siblings(planned.source.task.task_digest, planned.removal)
        failed = planned.problems(rewriting, siblings) + (judgement.findings if judgement else ())
        record = judgement.record if judgement else None
        if failed:
            return planned.rejected(rewriting, failed, reason, attempt=attempt, is_final=is_final, judgement=record)
        return planned.generated(rewriting, record)

    async def _attempt(
        self, planned: VariantPlan, caller: ModelCaller | None, problems: Sequence[str]
    ) -> tuple[Rewriting | None, str]:
        """Return one rewriting with an empty reason, or None with the reason why there is none."""
        try:
            return await planned.rewriter.rewrite(planned.source, planned.removal, caller, problems), ""
        except RewritingFailed as error:
            return None, str(error)


def total_cost_usd(callers: Iterable[ModelCaller]) -> float | None:
    """Return what some callers spent in this run, in USD, or None if one cost is unknown."""
    costs = [caller.total_usage.cost_usd for caller in callers]
    return None if None in costs else sum(cost for cost in costs if cost is not None)
