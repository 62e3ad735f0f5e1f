"""The original's strategies, from the points of checkpoints to the final score, as its evaluators apply them.

Of 175 published tasks 113 take the plain sum, 45 ``bonus_for_completing_final``, 14 ``bonus_for_completing_any`` and 3
others: any of given checkpoints gives what any one gives, and the last two together what the final one gives.
"""

from collections.abc import Sequence

PLAIN = "plain_sum"
UNKNOWN = "unknown"
Points = tuple[float, float]
"""(result, total)."""


def strategy_of(checkpoints: Sequence[Points], final: Points) -> str:
    """Return the first strategy that leads from checkpoints to a final score, the plain sum before all others.

    ``unknown`` is a final score that no strategy explains.
    """
    total = sum(of for _, of in checkpoints)
    if final[1] != total:
        return UNKNOWN
    reached = sum(got for got, _ in checkpoints)
    full = [got == of for got, of in checkpoints]
    first_full = reached - checkpoints[0][0] + checkpoints[0][1]
    possible = (
        (PLAIN, reached, True),
        ("bonus_for_completing_final", total, full[-1]),
        ("bonus_for_completing_any", first_full, any(full)),
    )
    return next((name for name, score, does_apply in possible if does_apply and score == final[0]), UNKNOWN)
