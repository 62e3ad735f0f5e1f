"""What a call costs: a price given by the user, or the one in litellm's bundled table, or unknown."""

from functools import cache

import msgspec

from recorder.values import Usage
from runners.models.litellm_library import litellm_library
from runners.models.litellm_names import qualified_name


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens; cached input costs the same as other input unless its own price is given."""

    input_usd_per_million_tokens: float
    output_usd_per_million_tokens: float
    cached_input_usd_per_million_tokens: float | None = None


def cost_usd(price: Price, usage: Usage) -> float | None:
    """Return the cost of a call, whose input tokens include the cached ones; None where no tokens were reported."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    cached_input_tokens = usage.cached_input_tokens or 0
    cached_price = price.cached_input_usd_per_million_tokens
    if cached_price is None:
        cached_price = price.input_usd_per_million_tokens
    millionths = (
        (usage.input_tokens - cached_input_tokens) * price.input_usd_per_million_tokens
        + cached_input_tokens * cached_price
        + usage.output_tokens * price.output_usd_per_million_tokens
    )
    return millionths / 1_000_000


@cache
def price_of(name: str, api_base: str | None = None) -> tuple[float, float] | None:
    """Return the US dollars for a million input and output tokens in litellm's bundled table; None where unknown.

    A price of 0 there is no price: litellm answers with a placeholder of zeros for names that it does not have, and its
    table has zeros for local, experimental and tiered ones. What is free is said to be so by its user.

    Args:
        name: As in an experiment file.
        api_base: The address of the server: one of your own has a price of its own, whatever its model is called.
    """
    library = litellm_library()
    try:
        entry = library.get_model_info(qualified_name(name, api_base))
    except Exception:  # noqa: BLE001  litellm raises a different class for each way of not knowing a name
        return None
    input_usd, output_usd = (entry.get(f"{kind}_cost_per_token") for kind in ("input", "output"))
    if entry.get("key") not in library.model_cost or not input_usd or not output_usd:
        return None
    return round(input_usd * 1_000_000, 9), round(output_usd * 1_000_000, 9)
