"""Detects model limits in server responses: context overflow, truncation, refusal, content filter.

These come from the agent's model, not from infrastructure, so the trial ends and is graded: another attempt would end
the same way.
"""

import re
from collections.abc import Iterable, Mapping

from lhaw_record.runners.base.conversation.ending import (
    CONTENT_FILTER,
    CONTEXT_WINDOW,
    CUT,
    FILTERED,
    REFUSAL,
    WINDOW_FULL,
)

# Each server's error wording, from its source or documentation. litellm's table lacks half of them.
_OVERFLOW = re.compile(
    "|".join(
        (
            "context_length_exceeded",  # OpenAI's code, also in the failed event of a stream of Responses
            r"maximum context length (is|of) \d+",  # OpenAI, vLLM, OpenRouter; SGLang with the completion's tokens
            "exceeds model's maximum context length",  # other hosts of vLLM or SGLang
            "input exceeds the context window",  # OpenAI Responses
            "input tokens exceed the configured limit",  # OpenAI, reasoning models
            r"prompt is too long: \d+ tokens",  # Anthropic
            "exceed context limit",  # Anthropic: the prompt plus max_tokens is too long
            "exceeds the maximum number of tokens allowed",  # Gemini
            r"input token count is \d+ but",  # Vertex AI
            "longer than the model's context length",  # SGLang: the prompt alone is too long
            "longer than the maximum model length",  # vLLM, engine
            "exceed_context_size_error",  # llama.cpp: the type of its error
            "exceeds the available context size",  # llama.cpp, with and without the numbers
            "context size has been exceeded",  # llama.cpp, HTTP 500 while it generates
            "greater than the context length",  # LM Studio
            "input is too long for requested model",  # Bedrock
            r"maximum prompt length is \d+",  # xAI
            "reduce the length of the messages",  # Groq
            "exceeded model token limit",  # Kimi
            r"too large for model with \d+ maximum context length",  # Mistral
        )
    ),
    re.IGNORECASE,
)
_FILTERED = re.compile(
    "|".join(
        (
            r"""["']?code["']?\s*:\s*["']content_filter["']""",  # Azure OpenAI
            "content_policy_violation",  # OpenAI
            "ResponsibleAIPolicyViolation",  # Azure OpenAI, inner error
            "filtered due to the prompt triggering",  # Azure OpenAI
            "your prompt was flagged as potentially violating",  # OpenAI, reasoning models: code invalid_prompt
            "blocked by content filtering policy",  # Anthropic
            "data_inspection_failed",  # Alibaba Cloud
        )
    ),
    re.IGNORECASE,
)
_NOT_ABOUT_CONTENT = frozenset({401, 402, 403, 407, 408, 429})
_NATIVE = {  # reasons that litellm maps to "stop" or merges, or that a router leaves untranslated
    "refusal": REFUSAL,  # Anthropic
    WINDOW_FULL: WINDOW_FULL,  # Anthropic
    "MALFORMED_FUNCTION_CALL": "malformed_function_call",  # Gemini, like all below
    "malformed_function_call": "malformed_function_call",
    "MAX_TOKENS": CUT,
    **dict.fromkeys(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"), FILTERED),
}


def limit_in(texts: Iterable[str], status: int | None) -> str | None:
    """Return the kind of limit that an error reports, or None if it does not concern a model limit."""
    if status in _NOT_ABOUT_CONTENT:
        return None
    texts = tuple(texts)
    for kind, pattern in ((CONTEXT_WINDOW, _OVERFLOW), (CONTENT_FILTER, _FILTERED)):
        if any(pattern.search(text) for text in texts):
            return kind
    return None


def limit_in_error(error: Mapping[str, object], status: int | None) -> str | None:
    """Return the kind of limit that an error object reports, by its code, type and message."""
    words = [str(error.get(key) or "") for key in ("code", "type", "message")]
    return CONTENT_FILTER if words[0] == FILTERED else limit_in(words, status)


def finish_reason_of(reason: str | None, native: str | None = None, *, has_refused: bool = False) -> str:
    """Return the finish reason to record."""
    if has_refused:
        return REFUSAL
    return _NATIVE.get(native or reason or "", reason or "stop")
