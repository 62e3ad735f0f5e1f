"""Segments found and removed by a language model: what it is asked, and what of its replies is taken."""

from generators.llm.extractor import LlmExtractor
from generators.llm.rewriter import LlmRewriter
from generators.llm.wordings import Wordings

__all__ = ["LlmExtractor", "LlmRewriter", "Wordings"]
