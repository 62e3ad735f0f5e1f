"""litellm, imported once, late and quietly: no network, no files of the user's read, nothing printed."""

import os
import warnings
from functools import cache
from types import ModuleType
from typing import Any

import anyio.to_thread

_ENVIRONMENT = {
    # Read the bundled price table; otherwise the import fetches it, and a thread keeps trying.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    # In its development mode litellm loads the first .env found above its own folder into the environment.
    "LITELLM_MODE": "PRODUCTION",
}


@cache
def litellm_library() -> ModuleType:
    """Return litellm, ready for use; the first call takes about two seconds."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import litellm

    litellm.suppress_debug_info = True  # else it prints requests for feedback on standard output
    # A server that deviates from the schema (arguments as an object, say) makes litellm's models warn; we judge the
    # reply ourselves.
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings", category=UserWarning)
    return litellm


async def load_litellm() -> ModuleType:
    """Return litellm without keeping the event loop busy while it is imported."""
    if litellm_library.cache_info().currsize:
        return litellm_library()
    return await anyio.to_thread.run_sync(litellm_library, abandon_on_cancel=True)


async def close_clients() -> None:
    """Close the connections that litellm keeps open; await this before the event loop ends, else asyncio complains.

    Nobody may be calling a model meanwhile. Later calls open connections of their own.
    """
    if litellm_library.cache_info().currsize:
        litellm: Any = litellm_library()
        await litellm.close_litellm_async_clients()
        litellm.in_memory_llm_clients_cache.flush_cache()  # else closed clients are taken for good ones


def provider_of(qualified_name: str) -> tuple[str, str] | None:
    """Return the provider and the provider's own name of a model, or None where litellm knows no provider for it."""
    litellm: Any = litellm_library()
    try:
        model, provider, _, _ = litellm.get_llm_provider(qualified_name)
    except litellm.BadRequestError:
        return None
    return provider, model


def is_provider(word: str) -> bool:
    """Return whether the word before a name's first slash is a provider to litellm."""
    return word in {str(getattr(provider, "value", provider)) for provider in litellm_library().provider_list}
