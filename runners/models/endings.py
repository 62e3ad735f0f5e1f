"""Decides why a model's reply or refusal ended, from the provider's own words.

A reply names a reason. ``data/models/endings.toml`` lists the words of each wire with their sources; the native agent
and the gateway both read them from the provider's body, because litellm turns half of them into "stop". A word means a
finish reason, or a failure of the infrastructure that no agent is blamed for; an unknown word is such a failure too.

An error may report a limit of the agent's model instead: context overflow or a content filter. These end the trial and
are graded, because another attempt would end the same way.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
import re2

from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.conversation.ending import (
    CONTENT_FILTER,
    CONTEXT_WINDOW,
    CUT,
    FILTERED,
    REFUSAL,
    UNKNOWN_ENDING,
    WINDOW_FULL,
)
from lhaw_record.runners.models.protocol import ModelError, ModelReply


def _linear_search(*patterns: str) -> Callable[[bytes], Any]:
    """Return a search for any of the patterns, 100 times as fast as with ``re``: an error may be megabytes long."""
    search: Callable[[bytes], Any] = re2.compile(f"(?i){'|'.join(patterns)}".encode()).search
    return search


# Each server's error wording, from its source or documentation. litellm's table lacks half of them.
_OVERFLOW = _linear_search(
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
_FILTERED = _linear_search(
    r"""["']?code["']?\s*:\s*["']content_filter["']""",  # Azure OpenAI
    "content_policy_violation",  # OpenAI
    "ResponsibleAIPolicyViolation",  # Azure OpenAI, inner error
    "filtered due to the prompt triggering",  # Azure OpenAI
    "your prompt was flagged as potentially violating",  # OpenAI, reasoning models: code invalid_prompt
    "blocked by content filtering policy",  # Anthropic
    "data_inspection_failed",  # Alibaba Cloud
)
_NOT_ABOUT_CONTENT = frozenset({401, 402, 403, 407, 408, 429})


def limit_in(texts: Iterable[str], status: int | None) -> str | None:
    """Return the kind of limit that an error reports, or None if it does not concern a model limit."""
    if status in _NOT_ABOUT_CONTENT:
        return None
    searched = [text.encode("utf-8", "surrogatepass") for text in texts]
    for kind, search in ((CONTEXT_WINDOW, _OVERFLOW), (CONTENT_FILTER, _FILTERED)):
        if any(map(search, searched)):
            return kind
    return None


def limit_in_error(error: Mapping[str, object], status: int | None) -> str | None:
    """Return the kind of limit that an error object reports, by its code, type and message."""
    words = [str(error.get(key) or "") for key in ("code", "type", "message")]
    return CONTENT_FILTER if words[0] == FILTERED else limit_in(words, status)


_ORDINARY = frozenset({"stop", "tool_calls"})
_INSTEAD = {REFUSAL: FILTERED, FILTERED: REFUSAL, WINDOW_FULL: CUT}  # for a wire that lacks the word


class EndingWord(msgspec.Struct, frozen=True, kw_only=True):
    """A word for the end of a reply. ``means`` is a finish reason, or the kind of a failure if ``is_failure``."""

    wire: str
    word: str
    means: str
    by: str
    source: str
    is_failure: bool


@cache
def ending_words() -> tuple[EndingWord, ...]:
    """Return the bundled table of endings."""
    return tuple(
        EndingWord(wire=wire, word=word, is_failure=is_failure, **row)
        for wire, rows in _table().items()
        if isinstance(rows, dict)
        for is_failure, group in ((False, rows), (True, rows.get("failures", {})))
        for word, row in group.items()
        if word != "failures"
    )


def endings_version() -> int:
    """Return the version of the table, which changes with the meaning of a word."""
    return int(_table()["version"])


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(data_path("models", "endings.toml").read_text(encoding="utf-8"))


@cache
def _meaning(wire: str, word: str) -> EndingWord | None:
    """Return a word's meaning on a wire, or else on any: routers translate a wire and leave a word.

    A word may have two parts, such as ``content_filter: RECITATION``, of which the second says more.
    """
    first, colon, second = word.partition(": ")
    if colon:
        return _meaning(wire, second) or _meaning(wire, first)
    found = [row for row in ending_words() if row.word.lower() == word.lower()]
    return next((row for row in found if row.wire == wire), found[0] if found else None)


@cache
def word_of(wire: str, finish_reason: str) -> str:
    """Return the word of a wire's own provider for a finish reason."""
    rows = [row for row in ending_words() if row.wire == wire and not row.is_failure]
    words = {row.means: row.word for row in reversed(rows) if row.by == rows[0].by}
    return words.get(finish_reason) or words.get(_INSTEAD.get(finish_reason, "")) or words["stop"]


def with_ending(reply: ModelReply, body: Mapping[str, Any], model: str = "the provider") -> ModelReply:
    """Return a reply with its finish reason, by the word in the provider's own body of a known wire.

    Raises:
        ModelError: The reply ended for a reason that is not the agent's, or for an unknown one. It has its usage.
    """
    try:
        reason = finish_reason_in(body, model) or _unnamed(reply, model)
    except ModelError as error:
        error.usage, error.served_model = reply.usage, reply.served_model
        raise
    reason = "tool_calls" if reason in _ORDINARY and reply.message.tool_calls else reason
    return msgspec.structs.replace(reply, finish_reason=reason)


def _unnamed(reply: ModelReply, model: str) -> str:
    """Return the finish reason of a reply that names none, as some servers do, or raise if there is nothing in it."""
    if reply.message.content or reply.message.tool_calls or reply.usage.output_tokens:
        return "stop"
    message = f"{model}: the reply is empty: no finish reason, no text and no tokens"
    raise ModelError(message, kind="server_error", is_retryable=True)


def finish_reason_in(body: Mapping[str, Any], model: str = "the provider") -> str | None:
    """Return the finish reason of a reply's body, or None if it names none. Raises as :func:`with_ending` does."""
    wire, word, native, has_refused = _said_in(body)
    if not word:
        return REFUSAL if has_refused else None
    found = _meaning(wire, word)
    behind = _meaning(wire, native) if native else None
    if behind is not None and behind.means not in _ORDINARY:
        word, found = native, behind
    if found is None or found.is_failure:
        kind, what = (found.means, f"means {found.means}") if found else (UNKNOWN_ENDING, "is in no table of endings")
        message = f"{model}: the reply ended with the word {word!r}, which {what} (docs/models.md#why-a-reply-ended)"
        raise ModelError(message, kind=kind, is_retryable=kind in ("server_error", "timeout"))
    return REFUSAL if has_refused and found.means == "stop" else found.means


def is_of_known_wire(body: Mapping[str, Any]) -> bool:
    """Return whether a reply's body is of a wire whose words the table has."""
    return any(isinstance(body.get(key), list) for key in ("choices", "output", "content", "candidates")) or (
        "promptFeedback" in body
    )


def _said_in(body: Mapping[str, Any]) -> tuple[str, str, str, bool]:
    """Return a reply's wire, its word, the word of the provider behind a router, and whether it is a refusal."""
    native, has_refused, wire, word = None, False, "chat", None
    if choice := _first(body.get("choices")):
        native = choice.get("native_finish_reason")  # of a router
        own = _object(choice.get("provider_specific_fields")).get("native_finish_reason")  # litellm takes any for stop
        word = own or choice.get("finish_reason")
        has_refused = refusal_in(_object(choice.get("message"))) is not None
    elif isinstance(body.get("output"), list):
        wire, word = "responses", _object(body.get("incomplete_details")).get("reason") or body.get("status")
        contents = (_object(item).get("content") for item in body["output"])
        parts = (part for content in contents if isinstance(content, list) for part in content)
        has_refused = any(_object(part).get("type") == "refusal" for part in parts)
    elif "candidates" in body or "promptFeedback" in body:
        candidate, feedback = _first(body.get("candidates")), _object(body.get("promptFeedback"))
        wire, word = "gemini", candidate.get("finishReason")
        if not candidate:
            wire, word = "gemini_prompt", feedback.get("blockReason")
    elif isinstance(body.get("content"), list):
        wire, word = "messages", body.get("stop_reason")
    return wire, str(word or ""), str(native or ""), has_refused


def refusal_in(message: Mapping[str, Any]) -> str | None:
    """Return the refusal text of a chat completion, which litellm moves out of its own field, or None."""
    return message.get("refusal") or _object(message.get("provider_specific_fields")).get("refusal") or None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _first(values: Any) -> Mapping[str, Any]:
    return _object(values[0]) if isinstance(values, list) and values else {}
