"""Reads and sums reported usage, and prices it at the user's price or litellm's list price."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models.protocol import ModelError

Number = TypeVar("Number", int, float)
NO_USAGE = Usage(cost_usd=0.0, reasoning_tokens=0, cache_write_tokens=0, provider_cost_usd=0.0)
"""The usage of zero calls, the start value of sums."""
_INPUT = (  # whose sum is what was sent: Anthropic's input tokens are without those of the cache
    ("prompt_tokens",),
    ("promptTokenCount",),
    ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
)
_OUTPUT = (("completion_tokens",), ("candidatesTokenCount", "thoughtsTokenCount"), ("output_tokens",))
_DETAILS_OF_INPUT = ("prompt_tokens_details", "input_tokens_details")
_DETAILS_OF_OUTPUT = ("completion_tokens_details", "output_tokens_details")
_CACHED = ("cached_tokens", "cache_read_input_tokens", "cachedContentTokenCount", "prompt_cache_hit_tokens")
_WRITTEN = ("cache_creation_input_tokens", "cache_write_tokens")
_REASONING = ("reasoning_tokens", "thinking_tokens", "thoughtsTokenCount")
_MOST_TOKENS = 1 << 53  # JSON numbers above this are inexact
_SNAPSHOT = re.compile(r"(?:[-:](?:latest|preview|exp|v\d+|0|\d{4}-\d\d-\d\d|\d\d-\d\d(?:\d\d)?|\d{3,8}))*")
"""What providers append to a model's name: gpt-5.1-2025-11-13, gemini-2.5-flash-preview-09-2025, claude-…-v1:0."""

_VENDOR = re.compile(r"^(?:databricks-|(?:[a-z-]+\.)?[a-z]+[0-9]*\.(?=[a-z])(?!v\d))")
"""What Bedrock, Oracle and Databricks put before a model's name: us.xai.grok-5, system.ai.kimi-k3, databricks-gpt-5."""
_HYPHENS = str.maketrans("@.", "--")


def token_count(value: Any) -> int | None:
    """Return the number of tokens that a server reports, or None if it is missing or implausible."""
    is_number = isinstance(value, int | float) and 0 <= value <= _MOST_TOKENS
    return int(value) if is_number else None


def usage_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage object of a reply in any wire format, or an empty one."""
    return _object(body, "usage") or _object(body, "usageMetadata")


def is_understood(usage: Mapping[str, Any]) -> bool:
    """Return whether a usage object has field names that :func:`reported_usage` reads."""
    return any(names[0] in usage for names in _INPUT)


def reported_usage(message: Message, usage: Mapping[str, Any]) -> Usage:
    """Return a reply's usage from its usage object of any wire, without its cost at the list price.

    Unreported values are None. Zero input tokens mean that the number is unknown. So do zero output tokens if the reply
    has content, because libraries between the server and us write zeros if a server reports nothing.
    """
    input_tokens, output_tokens = _total(usage, _INPUT), _total(usage, _OUTPUT)
    is_output_known = bool(output_tokens) or bool(input_tokens and not message.content and not message.tool_calls)
    charged = _usd(usage.get("cost"))
    if usage.get("is_byok") is True:  # OpenRouter's fee, beside what the provider of the user's own key charges
        charged = _sum(charged, _usd(_object(usage, "cost_details").get("upstream_inference_cost")))
    return Usage(
        input_tokens=input_tokens or None,
        output_tokens=output_tokens if is_output_known else None,
        cached_input_tokens=_first(usage, _CACHED, _DETAILS_OF_INPUT) if input_tokens else None,
        reasoning_tokens=_first(usage, _REASONING, _DETAILS_OF_OUTPUT),
        cache_write_tokens=_first(usage, _WRITTEN, _DETAILS_OF_INPUT),
        provider_cost_usd=charged,
    )


def _usd(cost: Any) -> float | None:
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0 else None


def _total(usage: Mapping[str, Any], forms: Sequence[Sequence[str]]) -> int | None:
    """Return the sum of the numbers of the first form that has any, or None."""
    known = ([count for name in names if (count := token_count(usage.get(name))) is not None] for names in forms)
    return next((sum(counts) for counts in known if counts), None)


def _first(usage: Mapping[str, Any], names: Sequence[str], groups: Sequence[str]) -> int | None:
    """Return the first number under these names, in the usage object or one of its groups, or None."""
    places = [usage, *(_object(usage, group) for group in groups)]
    counts = (token_count(place[name]) for name in names for place in places if name in place)
    return next((count for count in counts if count is not None), None)


def _object(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def add_usage(left: Usage, right: Usage) -> Usage:
    """Return the sum of two usages. A sum is unknown if one of its parts is unknown."""
    return Usage(*map(_sum, msgspec.structs.astuple(left), msgspec.structs.astuple(right)))


def _sum(left: Number | None, right: Number | None) -> Number | None:
    return None if left is None or right is None else left + right


def cost_usd(price: Price, usage: Usage) -> float | None:
    """Return a call's cost in USD, or None if no token counts were reported. A free model needs no counts."""
    if not any(msgspec.structs.astuple(price)):
        return 0.0
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    parts = (  # of the input
        (usage.cached_input_tokens or 0, price.cached_input_usd_per_million_tokens),
        (usage.cache_write_tokens or 0, price.cache_write_usd_per_million_tokens),
    )
    millionths = (
        usage.input_tokens * price.input_usd_per_million_tokens
        + usage.output_tokens * price.output_usd_per_million_tokens
        + sum(tokens * (own - price.input_usd_per_million_tokens) for tokens, own in parts if own is not None)
    )
    return millionths / 1_000_000


def failed_usage(error: ModelError, price: Price | None) -> Usage | None:
    """Return the known usage of a failed request whose reply may be lost: a cost of 0 if the model is free.

    A reply that ended for no reason of the agent's has reported its tokens.
    """
    if error.usage is not None and error.usage.input_tokens is not None:
        return error.usage
    if price is None or error.exchange is None or error.http_status is not None:
        return None
    unreported = Usage(input_tokens=None, output_tokens=None, cached_input_tokens=None)
    cost = cost_usd(price, unreported)
    return None if cost is None else msgspec.structs.replace(unreported, cost_usd=cost)


def call_cost_usd(
    usage: Usage, served: str | None, name: str, api_base: str | None, price: Price | None, body: Mapping[str, Any]
) -> float | None:
    """Return a reply's cost in USD, or None if unknown: at the user's price, as reported, or at litellm's list price.

    A reported cost of 0 is not believed. ``body`` is the provider's own.
    """
    if price is not None:
        return cost_usd(price, usage)
    if reports_cost(name, api_base) and usage.provider_cost_usd:
        return usage.provider_cost_usd
    return listed_cost_usd(usage, name, api_base, served, body)


def reports_cost(name: str, api_base: str | None) -> bool:
    """Return whether the provider reports in each reply what it charged, in USD.

    OpenRouter does, without being asked to (openrouter.ai/docs/use-cases/usage-accounting).
    """
    return name.startswith("openrouter/") or urlsplit(api_base or "").hostname == "openrouter.ai"


def price_of(name: str, api_base: str | None = None) -> tuple[float, float] | None:
    """Return a model's list price in USD per million input and output tokens, from litellm's bundled table, or None.

    A price of 0 in the table means unknown: litellm returns zeros for names that it does not have, and its table has
    zeros for local, experimental and tiered models. Users declare free models themselves. Only embeddings have no
    output cost.
    """
    row = _listed_row(name, api_base)
    return row and row[1]


@cache
def _listed_row(name: str, api_base: str | None = None) -> tuple[str, tuple[float, float]] | None:
    """Return the key of the table's row that holds for a model (it may lack the name's date) and its price, or None."""
    from lhaw_record.runners.models.litellm_library import (  # imports asyncio
        litellm_library,
        providers_own_name,
        qualified_name,
    )

    library = litellm_library()
    try:
        entry = library.get_model_info(providers_own_name(qualified_name(name, api_base)))
    except Exception:  # noqa: BLE001  litellm raises a different class for each way of not knowing a name
        return None
    input_usd, output_usd = (entry.get(f"{kind}_cost_per_token") for kind in ("input", "output"))
    has_output = entry.get("mode") != "embedding"
    if entry.get("key") not in library.model_cost or not input_usd or (has_output and not output_usd):
        return None
    return entry["key"], (round(input_usd * 1_000_000, 9), round((output_usd or 0.0) * 1_000_000, 9))


@cache
def listed_name(name: str, served: str | None) -> str | None:
    """Return the name under which a reply of a hosted model is priced, or None if no price is known to hold for it.

    A served model has its own price if that is listed. The requested model's price holds for a served snapshot of it,
    which the provider may have released after the table. Another model that answers in its place has no known price.
    """
    if served:
        own = f"{name.rpartition('/')[0]}/{_bare(served)}".lstrip("/")
        if price_of(own) is not None:
            return own
        asked, answering = (_VENDOR.sub("", _bare(each).lower()).translate(_HYPHENS) for each in (name, served))
        asked, answering = asked.removesuffix("-latest"), answering.removesuffix("-latest")
        if not (answering.startswith(asked) and _SNAPSHOT.fullmatch(answering.removeprefix(asked))):
            return None
    return name if price_of(name) is not None else None


def _bare(name: str) -> str:
    """Return a model's name without its provider."""
    return name.rpartition("/")[2]


def listed_cost_usd(
    usage: Usage, name: str, api_base: str | None, served: str | None, body: Mapping[str, Any]
) -> float | None:
    """Return a reply's cost in USD by litellm's table, or None if it has no tokens or no price.

    ``body`` is the provider's own, because cache writes with a one-hour lifetime and service tiers have prices of
    their own.
    """
    if usage.input_tokens is None or usage.output_tokens is None or price_of(name, api_base) is None:
        return None
    listed = listed_name(name, served)
    row = listed and _listed_row(listed)
    if not row:
        return None
    from litellm.types.utils import CacheCreationTokenDetails, PromptTokensDetailsWrapper

    from lhaw_record.runners.models.litellm_library import litellm_library  # imports asyncio

    library: Any = litellm_library()
    lifetimes = _object(_object(body, "usage"), "cache_creation")
    cached, written = usage.cached_input_tokens or 0, usage.cache_write_tokens or 0
    details = PromptTokensDetailsWrapper(
        cached_tokens=cached,
        cache_creation_tokens=written,
        cache_creation_token_details=CacheCreationTokenDetails(**lifetimes) if lifetimes else None,
    )
    tier = body.get("service_tier")
    try:
        costs = library.cost_per_token(
            model=row[0],
            usage_object=library.Usage(
                prompt_tokens=usage.input_tokens,
                completion_tokens=usage.output_tokens,
                cache_read_input_tokens=cached,
                cache_creation_input_tokens=written,
                prompt_tokens_details=details,
                reasoning_tokens=usage.reasoning_tokens,
            ),
            service_tier=tier if isinstance(tier, str) else None,
        )
    except Exception:  # noqa: BLE001  litellm raises many classes for an unknown name
        return None
    return float(sum(costs)) or None  # tokens of a model with a price are never free


def spent_words(spent_usd: float, unpriced: int) -> str:
    """Format a cost, including the number of unknown costs."""
    if not unpriced:
        return f"{spent_usd:.4f} USD"
    return f"{spent_usd:.4f} USD, and unknown costs of {unpriced} more" if spent_usd else "cost unknown"
