"""The built-in extractor, which finds removable segments in a prompt by rules, without a model (docs/rules.md)."""

from lhaw_record.generators.extraction.extractor import RuleExtractor

__all__ = ["RuleExtractor"]
