"""Chooses what finds and removes the segments of a task: the methods of the run, or what the task's author wrote."""

from lhaw_record.generators.extraction import RuleExtractor
from lhaw_record.generators.extraction.written import WrittenExtractor
from lhaw_record.generators.protocol import Extractor, Rewriter, SourceTask
from lhaw_record.generators.rewriting import RuleRewriter
from lhaw_record.generators.rewriting.written import WrittenRewriter


def extractor_for(source: SourceTask, extractor: Extractor) -> Extractor:
    """Return what finds the segments of a task: its author's labels stand in place of the rules."""
    return WrittenExtractor(source) if source.written and isinstance(extractor, RuleExtractor) else extractor


def rewriter_for(source: SourceTask, extractor: Extractor, rewriter: Rewriter) -> Rewriter:
    """Return what removes segments from a task: the author's passages, if rules would find and remove them."""
    has_rules = isinstance(rewriter, RuleRewriter) and isinstance(extractor, RuleExtractor)
    return WrittenRewriter(source) if source.written and has_rules else rewriter
