"""The extractor and the rewriter that use a language model: what they ask and how they read the replies."""

from lhaw_record.generators.llm.extractor import LlmExtractor
from lhaw_record.generators.llm.prompt_templates import PromptTemplates
from lhaw_record.generators.llm.rewriter import LlmRewriter

__all__ = ["LlmExtractor", "LlmRewriter", "PromptTemplates"]
