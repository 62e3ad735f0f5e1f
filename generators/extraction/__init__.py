"""The embedded extractor: rules find the removable segments of a prompt, without a model (docs/extraction.md)."""

from generators.extraction.extractor import RuleExtractor

__all__ = ["RuleExtractor"]
