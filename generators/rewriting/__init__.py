"""Removing segments from a prompt: the embedded rewriter, the checks on every rewritten prompt, the difference."""

from generators.rewriting.checks import problems_of
from generators.rewriting.diff import Span, marked, plain_marks, prompt_diff
from generators.rewriting.rules import RuleRewriter

__all__ = ["RuleRewriter", "Span", "marked", "plain_marks", "problems_of", "prompt_diff"]
