"""The self-check of a careful model: late reading of what it skipped, and a look whether the deliverables are there."""

import shlex
from collections.abc import Sequence

from runners.models.scripted.recipe import Step
from runners.models.scripted.transcript import Transcript

_COMMAND = "wc -c -- "
_MOST_FAILED_CHECKS = 2


def late_reading(steps: Sequence[Step]) -> list[Step]:
    """Return the extra reading among the steps that needs to know nothing beforehand."""
    return [step for step in steps if step.is_extra and not step.needed()]


def deliverables_check(names: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a shell call that shows whether files are there."""
    return {"command": _COMMAND + " ".join(shlex.quote(name) for name in names)}


def failed_check_position(transcript: Transcript) -> int:
    """Return the position of the latest check that missed a file, or -1; a model gives up after two of them."""
    failed = [
        call.position
        for call in transcript.calls
        if str(call.arguments.get("command")).startswith(_COMMAND) and "No such file" in call.result
    ]
    return failed[-1] if failed and len(failed) <= _MOST_FAILED_CHECKS else -1
