"""Imports litellm once, on demand, and resolves model names.

The import uses no network, reads none of the user's files and prints nothing.
"""

import atexit
import contextlib
import gc
import importlib
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import anyio.to_thread

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.tables import LIMITS, asks_to_reason
from lhaw_record.runners.models.exchanges import close_http_session, leave_to_itself, watch_transports

OPENAI_COMPATIBLE = "custom_openai"
_LOADING = threading.Lock()
_REASONING = ("reasoning_effort", "thinking")
_PROVIDER_OF_WIRE = {"messages": "anthropic", "gemini": "gemini"}
_SAMPLING = ("temperature", "top_p", "top_k")
_OVER_RESPONSES = re.compile(r"^(openai|azure)/responses/")
_LAZY_MODULES = (
    "litellm.responses.mcp.chat_completions_handler",
    "litellm.llms.vertex_ai.context_caching.vertex_ai_context_caching",
)
_HAS_DEFAULT = frozenset({"OLLAMA_API_BASE"})  # litellm defaults to the local server
_ENVIRONMENT = {
    # Use the bundled price table; otherwise the import downloads it, and a thread keeps retrying.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    # In its development mode litellm loads the first .env found above its own folder into the environment.
    "LITELLM_MODE": "PRODUCTION",
    # For some providers litellm would fetch image URLs from this host, even if the agent has no network access.
    "MAX_IMAGE_URL_DOWNLOAD_SIZE_MB": "0",
}


@cache
def litellm_library() -> ModuleType:
    """Return litellm, configured. The first call takes about two seconds."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    leave_to_itself("localhost", "127.0.0.1", "::1")
    import litellm

    litellm.suppress_debug_info = True  # else it prints requests for feedback on standard output
    # A server that deviates from the schema (arguments as an object, say) makes litellm's models warn; we judge the
    # reply ourselves.
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    warnings.filterwarnings("ignore", message="Items? .* on TypedDict class .* `ReadOnly`", category=UserWarning)
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)  # it logs a warning on every call, e.g. about temperature
    watch_transports()
    return litellm


async def load_litellm() -> ModuleType:
    """Return litellm, ready for calls; the import does not block the event loop."""
    if _litellm_for_calls.cache_info().currsize:
        return _litellm_for_calls()
    return await anyio.to_thread.run_sync(_load_alone, abandon_on_cancel=True)


def _load_alone() -> ModuleType:
    with _LOADING:
        return _litellm_for_calls()


@cache
def _litellm_for_calls() -> ModuleType:
    """Return litellm with the modules that its calls import lazily.

    litellm imports them in the thread of each first call. When two first calls ran concurrently, one failed with a
    "partially initialized module" error. From litellm 1.108 on, one of them warns while it is imported; where warnings
    are errors, every call of Gemini failed, and its reply seemed malformed.
    """
    library = litellm_library()
    for name in _LAZY_MODULES:
        with contextlib.suppress(ImportError):  # another version may have moved it
            importlib.import_module(name)
    _keep_phases()
    # litellm creates about 400,000 permanent objects. Each full collection would scan them: 0.2 s (measured) with no
    # trial running, and a fifth of the gateway's CPU time.
    gc.collect()
    gc.freeze()
    atexit.register(_thaw_for_duckdb)
    return library


def _keep_phases() -> None:
    """Patch litellm's Responses requests to keep the phase of assistant messages, which OpenAI wants back on each."""
    try:
        from litellm.completion_extras.litellm_responses_transformation import transformation
    except ImportError:  # another version may have moved it
        return

    patched: Any = transformation.LiteLLMResponsesTransformationHandler
    convert = patched.convert_chat_completion_messages_to_responses_api

    def phased(handler: Any, messages: Sequence[Any], **options: Any) -> Any:
        items, instructions = convert(handler, messages, **options)
        spoken = [each for each in messages if each["role"] == "assistant" and each.get("content")]
        written = [each for each in items if each.get("role") == "assistant"]
        for message, item in zip(spoken, written, strict=False):
            item.update({"phase": message["phase"]} if "phase" in message else {})
        return items, instructions

    patched.convert_chat_completion_messages_to_responses_api = phased


def _thaw_for_duckdb() -> None:
    """Unfreeze the garbage collector at exit if duckdb is loaded, because its binding would report all objects as
    leaked.

    Otherwise the objects stay frozen: freeing them would take a second.
    """
    if "duckdb" in sys.modules:
        gc.unfreeze()


async def close_clients() -> None:
    """Close litellm's open connections. Await this before the event loop ends, or asyncio prints warnings.

    No model call may be in progress. Later calls open new connections.
    """
    await close_http_session()
    if litellm_library.cache_info().currsize:
        litellm: Any = litellm_library()
        await litellm.close_litellm_async_clients()
        litellm.in_memory_llm_clients_cache.flush_cache()  # else closed clients would be reused


def providers_own_name(qualified_name: str) -> str:
    """Return a model's name without litellm's prefix for the Responses API (``openai/responses/…``)."""
    return _OVER_RESPONSES.sub(r"\1/", qualified_name)


def provider_of(qualified_name: str) -> tuple[str, str] | None:
    """Return the provider and the provider's model name, or None if litellm knows no provider for the model."""
    litellm: Any = litellm_library()
    try:
        model, provider, _, _ = litellm.get_llm_provider(providers_own_name(qualified_name))
    except litellm.BadRequestError:
        return None
    return provider, model


def reasoning_words(wire: str, model: str, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the reasoning-effort parameters in a wire's own form, for a request that litellm does not translate."""
    asked = {name: parameters[name] for name in _REASONING if name in parameters}
    if wire == "responses" and "reasoning_effort" in asked:
        return {"reasoning": {"effort": asked["reasoning_effort"]}}, frozenset({"reasoning_effort"})
    if not asked or wire not in _PROVIDER_OF_WIRE:
        return {}, frozenset()
    litellm: Any = litellm_library()
    provider = litellm.LlmProviders(_PROVIDER_OF_WIRE[wire])
    config = litellm.utils.ProviderConfigManager.get_provider_chat_config(model=model, provider=provider)
    try:
        words = config.map_openai_params(asked, {}, model, drop_params=True)
    except litellm.UnsupportedParamsError:
        return {}, frozenset()
    found = {name: words[name] for name in ("thinking", "output_config") if name in words}
    if {"thinkingLevel", "thinkingBudget"} & {*words.get("thinkingConfig", ())}:
        found = {"generationConfig": {"thinkingConfig": words["thinkingConfig"]}}
    return found, frozenset(asked) if found else frozenset()


def is_provider(word: str) -> bool:
    """Return whether litellm has a provider of this name."""
    return word in {str(getattr(provider, "value", provider)) for provider in litellm_library().provider_list}


def qualified_name(name: str, api_base: str | None) -> str:
    """Return a model's name with its provider.

    A server given by its address alone is assumed to be OpenAI-compatible. A slash alone does not indicate a provider:
    ``Qwen/Qwen3-8B`` is the name of a model, while ``anthropic/claude-…`` begins with a provider.
    """
    if api_base is None or is_provider(name.partition("/")[0]):
        return name
    return f"{OPENAI_COMPATIBLE}/{name}"


def missing_credentials(name: str, api_base: str | None = None, api_key: str | None = None) -> list[str]:
    """Return the environment variables that a model needs and that are not set.

    If a provider accepts any one of several variables and none is set, the result lists all of them.
    """
    qualified = qualified_name(name, api_base)
    if provider_of(qualified) is None:
        raise ExperimentError(
            f"model {name!r} names no provider known to litellm; write provider/model (for example "
            "anthropic/claude-sonnet-5-5), or give the api_base of an OpenAI-compatible server"
        )
    report = litellm_library().validate_environment(model=qualified, api_key=api_key, api_base=api_base)
    return [variable for variable in report["missing_keys"] if variable not in _HAS_DEFAULT]


def key_problem(key: str | None) -> str | None:
    """Return what is wrong with an API key, as the rest of a sentence about its environment variable, or None."""
    if not key:
        return "is not set"
    if not re.fullmatch(r"[!-~]+", key):
        return "has a line break, a space or another character that no key has (set it without)"
    return None


def answers_with_responses(arguments: Mapping[str, Any]) -> bool:
    """Return whether litellm sends a completion call with these arguments to the Responses API."""
    litellm: Any = litellm_library()
    model, provider, _, _ = litellm.get_llm_provider(arguments["model"])
    if provider not in ("openai", "azure"):
        return False
    from litellm.main import responses_api_bridge_check

    info, bare = responses_api_bridge_check(
        model=model,
        custom_llm_provider=provider,
        tools=arguments.get("tools"),
        reasoning_effort=arguments.get("reasoning_effort"),
        api_base=arguments.get("api_base"),
    )
    return info.get("mode") == "responses" and bool(litellm.supports_reasoning(bare, provider))


def unsupported_parameters(qualified: str, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parameters that the provider rejects at these values and together, as far as litellm knows.

    Models reject sampling parameters while they think, so these are looked at last. Parameters that OpenAI does not
    have are always sent, and so are all parameters for an OpenAI-compatible server, because litellm does not know what
    it accepts.
    """
    known = provider_of(qualified)
    if known is None or known[0] == OPENAI_COMPATIBLE:
        return ()
    provider, model = known
    litellm: Any = litellm_library()
    unsupported: list[str] = []
    is_thinking_claude = is_claude(model) and asks_to_reason(parameters)
    accepted: dict[str, Any] = {}
    for name in sorted(parameters, key=lambda name: name in _SAMPLING):
        is_refused = is_thinking_claude and name in _SAMPLING and parameters[name] != 1
        if not is_refused and name in litellm.constants.OPENAI_CHAT_COMPLETION_PARAMS:
            together = {**accepted, name: parameters[name]}
            try:
                litellm.utils.get_optional_params(model=model, custom_llm_provider=provider, **together)
            except litellm.UnsupportedParamsError:
                is_refused = True
            else:
                accepted = together
        if is_refused:
            unsupported.append(name)
    return tuple(unsupported)


def is_claude(model: str) -> bool:
    """Return whether a provider's model name is a Claude model."""
    return "claude" in model.lower()


def length_limit(qualified: str, parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return the ``max_tokens`` that a request without one needs: Claude's own limit, if litellm knows it.

    Claude demands a limit, and litellm would choose one that thinking can use up. Other providers apply the model's
    own limit themselves.
    """
    known = provider_of(qualified)
    if known is None or not is_claude(known[1]) or parameters.keys() & set(LIMITS):
        return {}
    litellm: Any = litellm_library()
    try:
        entry = litellm.get_model_info(qualified)
    except Exception:  # noqa: BLE001  litellm raises a different class for each way of not knowing a name
        return {}
    limit = entry.get("max_output_tokens") if entry.get("key") in litellm.model_cost else None
    return {"max_tokens": int(limit)} if limit else {}


def is_embedding_model(name: str, api_base: str | None) -> bool:
    """Return whether a model is an embedding model, by litellm's table, or by its name if the table lacks it."""
    litellm: Any = litellm_library()
    table = {} if api_base is not None else litellm.model_cost
    entry = table.get(name) or table.get(name.rpartition("/")[2])
    return bool(entry.get("mode") == "embedding" if entry else "embed" in name.lower())


def takes_json_schema(qualified: str) -> bool | None:
    """Return whether a model supports JSON schemas according to litellm's table, or None if the table lacks it."""
    litellm: Any = litellm_library()
    known = provider_of(qualified)
    if known is None or known[0] == OPENAI_COMPATIBLE:
        return None
    provider, model = known
    if qualified not in litellm.model_cost and model not in litellm.model_cost:
        return None
    return bool(litellm.supports_response_schema(model=model, custom_llm_provider=provider))


def split_parameters(qualified: str, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split parameters into litellm arguments and fields added unchanged to the request's body.

    For an OpenAI-compatible server, litellm fails on unknown arguments (``top_k``, ``reasoning_effort``) and would send
    ``max_completion_tokens`` as ``max_tokens``, so these go into the body. For other providers litellm translates all
    parameters.
    """
    known = provider_of(qualified)
    if known is None or known[0] != OPENAI_COMPATIBLE:
        return dict(parameters), {}
    supported = set(litellm_library().get_supported_openai_params(known[1], custom_llm_provider=known[0]))
    supported.discard("max_completion_tokens")
    arguments = {name: value for name, value in parameters.items() if name in supported}
    return arguments, {name: value for name, value in parameters.items() if name not in supported}
