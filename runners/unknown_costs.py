"""What was spent, in words, and what to say where nobody knows it."""

from runners.errors import ModelBoundaryError

UNKNOWN_COST = "a reply came without the count of its tokens, so nobody knows what it cost"


def spent_words(spent_usd: float, unpriced: int) -> str:
    """Return what was spent, for a line of text.

    Args:
        spent_usd: The sum of what is known.
        unpriced: How many parts of it nobody knows.
    """
    if not unpriced:
        return f"{spent_usd:.4f} USD"
    return f"{spent_usd:.4f} USD, and unknown costs of {unpriced} more" if spent_usd else "cost unknown"


def limit_not_kept(max_cost_usd: float) -> ModelBoundaryError:
    """Return the failure of a trial whose own cost limit cannot be kept."""
    return ModelBoundaryError(
        f"budget.max_cost_usd_per_trial = {max_cost_usd:g} cannot be kept: {UNKNOWN_COST}; use a server that reports "
        "usage, or remove the limit",
        kind="unknown_cost",
        is_retry_owed=False,
    )
