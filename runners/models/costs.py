"""Computes the cost of model calls, at the user's price or litellm's list price, and words it for messages."""

from functools import cache

import msgspec

from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.errors import ModelBoundaryError
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models.protocol import ModelError

UNKNOWN_COST = "a reply came without its token counts, so its cost is unknown"


def cost_usd(price: Price, usage: Usage) -> float | None:
    """Return the cost of a call in USD, or None if no token counts were reported. A free model needs none."""
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
    """Return what is known of the usage of a failed request whose reply may be lost: its cost, if the model is free."""
    if price is None or error.exchange is None or error.http_status is not None:
        return None
    unreported = Usage(input_tokens=None, output_tokens=None, cached_input_tokens=None)
    cost = cost_usd(price, unreported)
    return None if cost is None else msgspec.structs.replace(unreported, cost_usd=cost)


@cache
def price_of(name: str, api_base: str | None = None) -> tuple[float, float] | None:
    """Return a model's list price in US dollars per million input and output tokens, from litellm's bundled table.

    The result is None if the price is unknown. A price of 0 in the table means unknown: litellm answers with zeros for
    names that it does not have, and its table has zeros for local, experimental and tiered models. Users declare free
    models themselves. Only embeddings have no output to pay for.
    """
    from lhaw_record.runners.models.litellm_library import (  # brings asyncio
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
    return round(input_usd * 1_000_000, 9), round((output_usd or 0.0) * 1_000_000, 9)


def spent_words(spent_usd: float, unpriced: int) -> str:
    """Return a cost in words, including the number of unknown costs."""
    if not unpriced:
        return f"{spent_usd:.4f} USD"
    return f"{spent_usd:.4f} USD, and unknown costs of {unpriced} more" if spent_usd else "cost unknown"


def limit_not_kept(max_cost_usd: float) -> ModelBoundaryError:
    """Return the error for a trial whose own cost limit cannot be enforced."""
    return ModelBoundaryError(
        f"budget.max_cost_usd_per_trial = {max_cost_usd:g} cannot be enforced: {UNKNOWN_COST}; use a server that "
        "reports usage, or remove the limit",
        kind="unknown_cost",
        is_retry_owed=False,
    )
