"""How a command over paid work ends: what failed, how to go on, and the exit code."""

from recorder.output import say
from runners.paid_work import PaidWork
from runners.unknown_costs import UNKNOWN_COST


def say_failures(work: PaidWork) -> None:
    """Tell the first few things that went wrong, a line each."""
    for failure in work.failures[:5]:
        say(f"  failed: {failure.splitlines()[0]}")


def say_how_to_go_on(work: PaidWork, another: str) -> int:
    """Tell how to do what is left.

    Args:
        work: What ended before everything was done.
        another: What the money did not reach for, for example ``trial``.

    Returns:
        130 if it was interrupted, else 1.
    """
    again = "the same command goes on"
    if work.stop_reason == "cost_limit":
        again = f"the cost limit has no room for another {another}; raise --max-cost-usd, and {again}"
    if work.stop_reason == "cost_unknown":
        again = f"--max-cost-usd cannot be kept: {UNKNOWN_COST}; leave the limit out, and {again}"
    say(again)
    return 130 if work.stop_reason == "interrupted" else 1
