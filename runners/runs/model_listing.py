"""What is known about a model without asking it: the names that its server lists, and its tokens of context.

Keys of a listed model, as servers document them: ``max_model_len`` (vLLM, SGLang), ``context_length`` (OpenRouter,
Together), ``context_window`` (Groq), ``max_context_length`` (LM Studio); llama.cpp has ``n_ctx`` under ``/props``.
"""

from typing import Any

import msgspec

from lhaw_record.runners.models.litellm_library import load_litellm
from lhaw_record.runners.models.litellm_model import LitellmModel

_CONTEXT_KEYS = ("max_model_len", "context_length", "context_window", "max_context_length")
_TIMEOUT_S = 10.0


class ListedModel(msgspec.Struct, frozen=True):
    """The names of a server's models, and the tokens of context of the model in question. None where unknown."""

    names: tuple[str, ...] = ()
    context: int | None = None


async def listed_model(model: LitellmModel, api_key: str | None) -> ListedModel:
    """Return what litellm's table knows about a hosted model, or what a server says about its own."""
    litellm: Any = await load_litellm()
    if model.api_base is None:
        try:
            context = litellm.get_model_info(model.qualified_name).get("max_input_tokens")
        except Exception:  # noqa: BLE001  litellm raises a different class for each way of not knowing a name
            return ListedModel()
        return ListedModel(context=context)
    import httpx

    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    base = model.api_base.rstrip("/")
    async with httpx.AsyncClient(headers=headers, timeout=_TIMEOUT_S) as client:
        listing = await _json(client, f"{base}/models")
        items = listing.get("data") if isinstance(listing, dict) else None
        items = items if isinstance(items, list) else []
        entries = [each for each in items if isinstance(each, dict) and isinstance(each.get("id"), str)]
        own = next((each for each in entries if model.name == each["id"] or model.name.endswith(f"/{each['id']}")), {})
        sizes = [own[key] for key in _CONTEXT_KEYS if isinstance(own.get(key), int)]
        if not sizes and isinstance(own.get("meta"), dict):  # llama.cpp
            props = await _json(client, f"{base.removesuffix('/v1')}/props")
            settings = props.get("default_generation_settings") if isinstance(props, dict) else None
            sizes = [settings["n_ctx"]] if isinstance(settings, dict) and isinstance(settings.get("n_ctx"), int) else []
    return ListedModel(tuple(each["id"] for each in entries), sizes[0] if sizes else None)


async def _json(client: Any, url: str) -> Any:
    import httpx

    try:
        response = await client.get(url)
        return response.json() if response.status_code == httpx.codes.OK else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
