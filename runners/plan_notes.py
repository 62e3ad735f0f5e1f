"""What is said beside a plan: whose counts it has, which tasks it leaves out, and what its expected cost rests on."""

from collections.abc import Iterator

from recorder.trial_index import TrialIndex
from runners.benchmarks.protocol import LeavesOut
from runners.designs import DesignedBenchmark
from runners.plan_table import ASSUMED_INPUT_TOKENS, ASSUMED_OUTPUT_TOKENS, has_guessed_cost
from runners.run import Prepared

_MAX_REASONS = 5
_MAX_NAMES = 3


def plan_notes(prepared: Prepared, index: TrialIndex) -> Iterator[str]:
    """Yield the notes, a line or several each.

    Args:
        prepared: The planned experiment.
        index: What the store has of it.
    """
    if isinstance(prepared.benchmark, DesignedBenchmark):
        yield f"{prepared.benchmark.missing}\nIt is of the counts of {prepared.benchmark.source}."
    yield from _left_out(prepared)
    if any(has_guessed_cost(agent, prepared.plan, index) for agent in prepared.experiment.agents):
        yield (
            "The expected cost is a guess until trials are finished: list price times "
            f"{ASSUMED_INPUT_TOKENS:,} input and {ASSUMED_OUTPUT_TOKENS:,} output tokens a trial, "
            "without simulated users, judges and graders."
        )


def _left_out(prepared: Prepared) -> Iterator[str]:
    """Which tasks are not in the plan because they cannot run; whoever names tasks or variants has chosen already."""
    spec, benchmark = prepared.experiment.benchmark, prepared.benchmark
    if spec.tasks or spec.variants or spec.variants_from or not isinstance(benchmark, LeavesOut):
        return
    names: dict[str, list[str]] = {}
    for task_id in benchmark.left_out():
        names.setdefault(benchmark.why_not(task_id) or "it cannot run", []).append(task_id)
    count = sum(map(len, names.values()))
    if not count:
        return
    yield f"{count} of {count + len(benchmark.tasks())} tasks are left out:"
    for reason, own in list(names.items())[:_MAX_REASONS]:
        more = f" and {len(own) - _MAX_NAMES} more" if len(own) > _MAX_NAMES else ""
        yield f"  {', '.join(own[:_MAX_NAMES])}{more}: {reason}"
    rest = sum(len(own) for own in list(names.values())[_MAX_REASONS:])
    if rest:
        yield f"  {rest} more for other reasons; name one in benchmark.tasks to see its"
