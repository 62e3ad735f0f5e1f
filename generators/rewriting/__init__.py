"""The built-in rewriter, which removes segments by rules, and the prompt diff."""

from lhaw_record.generators.rewriting.diff import Span, marked, plain_marks, prompt_diff
from lhaw_record.generators.rewriting.rules import RuleRewriter

__all__ = ["RuleRewriter", "Span", "marked", "plain_marks", "prompt_diff"]
