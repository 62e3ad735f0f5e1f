"""Finds how far the work has come: the first step of the recipe that is not done, or that a changed value has undone.

Nothing is remembered between requests. A step is done once exactly its call, with the current values, is in the
conversation after the steps that it builds on. If a value changes, every step that used it is therefore undone and must
be repeated.
"""

import shlex
from collections.abc import Sequence

import msgspec

from lhaw_record.runners.agents.scripted.beliefs import Beliefs
from lhaw_record.runners.agents.scripted.transcript import PastCall, Transcript
from lhaw_record.runners.environments.benchmarks.desk.recipe import Memory, RecipeStep

_CHECK = "wc -c -- "
_MOST_FAILED_CHECKS = 2


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the work has come.

    Args:
        done: The steps that are done, in order.
        to_do: The first step that is not done, and all steps that follow it.
        memory: The result of each step's call, by the name of the step.
        last_call: The position of the latest call that counts, or -1 if there is none.
    """

    done: tuple[RecipeStep, ...]
    to_do: tuple[RecipeStep, ...]
    memory: dict[str, str]
    last_call: int


def measure_progress(
    steps: Sequence[RecipeStep],
    transcript: Transcript,
    beliefs: Beliefs,
    evidence: Memory,
    redo_deliveries_after: int = -1,
) -> Progress:
    """Find out which steps are done and which are to do."""
    memory, positions = dict(evidence), dict[str, int]()
    done_count = 0
    for step in steps:
        past = latest_call(step, transcript, beliefs, memory)
        oldest = max((positions.get(name, -1) for name in step.after), default=-1)
        if step.is_delivery:
            oldest = max(oldest, redo_deliveries_after)
        if past is None or past.position < oldest:
            break
        memory[step.name] = past.result
        positions[step.name] = past.position
        done_count += 1
    return Progress(
        done=tuple(steps[:done_count]),
        to_do=tuple(steps[done_count:]),
        memory=memory,
        last_call=max(positions.values(), default=-1),
    )


def latest_call(step: RecipeStep, transcript: Transcript, beliefs: Beliefs, memory: Memory) -> PastCall | None:
    """Return the latest call of a step with the current values, or None."""
    calls = transcript.all_of(step.tool, beliefs.call_of(step, memory))
    return calls[-1] if calls else None


def deliverables_check(names: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a shell call that shows whether some files exist."""
    return {"command": _CHECK + " ".join(shlex.quote(name) for name in names)}


def failed_check_position(transcript: Transcript) -> int:
    """Return the position of the latest check that found a file missing, or -1 if there is none.

    After more than two failed checks, the model gives up, and the result is -1.
    """
    failed = [
        call.position
        for call in transcript.calls
        if str(call.arguments.get("command")).startswith(_CHECK) and "No such file" in call.result
    ]
    return failed[-1] if failed and len(failed) <= _MOST_FAILED_CHECKS else -1
