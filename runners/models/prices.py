"""What a call costs: a price given by the user, or the one in litellm's bundled table, or unknown."""

import msgspec

from runners.models.litellm_library import litellm_library


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens; cached input costs the same as other input unless its own price is given."""

    input_usd_per_million_tokens: float
    output_usd_per_million_tokens: float
    cached_input_usd_per_million_tokens: float | None = None


def cost_usd(price: Price, *, input_tokens: int, output_tokens: int, cached_input_tokens: int = 0) -> float:
    """Return the cost of a call; ``input_tokens`` include the cached ones."""
    cached_price = price.cached_input_usd_per_million_tokens
    if cached_price is None:
        cached_price = price.input_usd_per_million_tokens
    millionths = (
        (input_tokens - cached_input_tokens) * price.input_usd_per_million_tokens
        + cached_input_tokens * cached_price
        + output_tokens * price.output_usd_per_million_tokens
    )
    return millionths / 1_000_000


def price_of(name: str) -> tuple[float | None, float | None]:
    """Return the US dollars for a million input and output tokens in litellm's bundled table; None where unknown."""
    try:
        entry = litellm_library().get_model_info(name)
    except Exception:  # noqa: BLE001  litellm raises a different class for each way of not knowing a name
        return None, None
    per_token = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    input_usd, output_usd = (None if cost is None else round(cost * 1_000_000, 9) for cost in per_token)
    return input_usd, output_usd
