"""Previews the variants that ``generate`` makes from one task without a model, without recording anything."""

from collections.abc import Sequence

from lhaw_record.generators.extraction import RuleExtractor
from lhaw_record.generators.generation.generation_index import GenerationIndex
from lhaw_record.generators.generation.makers import extractor_for, rewriter_for
from lhaw_record.generators.generation.removals import RemovalSettings
from lhaw_record.generators.generation.variant_plan import VariantKinds, plan_variants
from lhaw_record.generators.protocol import Grounding, SourceTask
from lhaw_record.generators.rewriting import RuleRewriter
from lhaw_record.recorder.events import VariantGenerated, VariantRejected
from lhaw_record.recorder.events.values import Severity


async def preview(
    source: SourceTask, removals: int, severities: Sequence[Severity]
) -> tuple[list[VariantGenerated], list[VariantRejected]]:
    """Return the variants that the rules, or the task's author, make from a task, and those that are refused."""
    rules = RuleExtractor()
    extraction = await extractor_for(source, rules).extract(source, Grounding(), None)
    rewriter = rewriter_for(source, rules, RuleRewriter())
    settings = RemovalSettings(severities=tuple(severities), max_per_task=removals)
    index = GenerationIndex()
    for planned in plan_variants(source, extraction.segments, settings, rewriter, VariantKinds()):
        index.add(planned.decided(await planned.rewritten(), index.siblings(source.task.task_digest, planned.removal)))
    return list(index.variants.values()), list(index.rejected.values())
