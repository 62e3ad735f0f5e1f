"""Turn what an agent left behind into a checked grade: a confined child reads the files, and its result is validated.

The grader's code is trusted, but the files are not: they may be crafted to exploit or exhaust a parser. The child
therefore has memory and time limits, can read only the files and its own code, and returns plain data.

If there is no grade, the fault is assigned as follows. A limit that is reached after the grader began to read one of
the agent's items is attributed to that item, because honest deliverables come nowhere near the limits (the largest
correct answer of desk takes 2 % of the memory and 0.2 % of the time); so is a child that sleeps or ends itself, where a
check runs an agent's program. The item counts as unreadable, and the trial ends by ``resource_abuse``. Anything else is
the fault of the grader or the host, and the trial is missing data: an exception in the code, a limit reached before
anything was read, or a child that was killed from outside or got no CPU time.

Graders in containers have no items: one that gives no verdict is tried on another work (:func:`grade_without_verdict`).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec
from anyio.lowlevel import RunVar

from lhaw_record.recorder.events.values import Checkpoint
from lhaw_record.recorder.processes import processor_count
from lhaw_record.runners.base.errors import GraderError
from lhaw_record.runners.environments.grading.confined import (
    ChildException,
    ConfinedLimits,
    LimitReached,
    NoReply,
    call,
)
from lhaw_record.runners.environments.grading.deliverables import CheckpointNotMet, Deliverables
from lhaw_record.runners.environments.grading.grade import Grade, failed_grade, with_plain_details

_NO_VERDICT = {  # whether the agent's work used up what the grader may use
    **dict.fromkeys(("verifier_timeout", "suite_timeout", "timeout", "suite_killed"), True),
    **dict.fromkeys(("out_of_memory", "out_of_processes", "exec_failed", "exec_undead"), True),
    **dict.fromkeys(("no_reward", "empty_reward", "garbage_reward", "no_result", "garbage", "crash"), False),
    **dict.fromkeys(("parser_timeout", "parser_crash", "parser_garbage", "suite_crash"), False),
}
T = TypeVar("T")

GRADING_LIMITS = ConfinedLimits()
_MOST_ROUNDS = 8
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("graders at a time")


class UnreadableWithinLimits(CheckpointNotMet):
    """One or more items that the agent left behind cannot be read within the limits, so the reader stops."""


async def grade_apart(
    grade: Callable[..., Grade],
    left: Deliverables,
    *arguments: Any,
    checkpoints: Sequence[Checkpoint],
    modules: Sequence[str] = (),
    limits: ConfinedLimits = GRADING_LIMITS,
) -> Grade:
    """Grade what an agent left behind in a child process with limits."""

    def work() -> Grade:
        try:
            found, abuse = read_apart(grade, left, *arguments, returns=Grade, modules=modules, limits=limits)
        except UnreadableWithinLimits as beyond:
            return failed_grade(checkpoints, str(beyond), abuse=str(beyond))
        except CheckpointNotMet as unmet:
            return failed_grade(checkpoints, str(unmet))
        return msgspec.structs.replace(found, resource_abuse=abuse)

    # A stopped trial need not wait: the child's own limits end it.
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=_children())


def read_apart(
    read: Callable[..., T],
    left: Deliverables,
    *arguments: Any,
    returns: type[T],
    modules: Sequence[str] = (),
    limits: ConfinedLimits = GRADING_LIMITS,
) -> tuple[T, str | None]:
    """Return what a child process reads from the agent's items, and the items that exceed the limits, or None.

    If an item exceeds the limits, it is treated as unreadable and everything is read again, so that the rest still
    counts. This call blocks.
    """
    for _ in range(_MOST_ROUNDS):
        try:
            value = call(
                _read,
                read,
                left,
                arguments,
                returns=returns,
                readable=() if left.folder is None else (left.folder,),
                modules=(read.__module__, type(left).__module__, *modules),
                limits=limits,
            )
        except LimitReached as reached:
            if reached.reading is None:
                raise GraderError(
                    f"the grader {reached} before it read anything", kind="grader_limit", is_retry_owed=False
                ) from reached
            if reached.reading in left.unreadable:
                raise UnreadableWithinLimits(f"{reached.reading} {reached}") from reached
            left = left.without(reached.reading, str(reached))
        except ChildException as raised:
            if raised.type_name == CheckpointNotMet.__name__:
                raise (UnreadableWithinLimits if left.unreadable else CheckpointNotMet)(raised.message) from raised
            raise GraderError(f"the grader crashed: {raised}", kind="check_crashed", is_retry_owed=False) from raised
        except NoReply as problem:
            raise GraderError(
                f"the grader gave no grade: {problem}", kind="grader_lost", is_retry_owed=not problem.is_final
            ) from problem
        else:
            return value, _sentence(left)
    raise UnreadableWithinLimits(_sentence(left) or "")


def _read(read: Callable[..., Any], left: Deliverables, arguments: tuple[Any, ...]) -> Any:
    """Run the reader in the child, and make its result safe to encode."""
    value = read(left, *arguments)
    return with_plain_details(value) if isinstance(value, Grade) else value


def _sentence(left: Deliverables) -> str | None:
    return "; ".join(f"{name} {reason}" for name, reason in left.unreadable.items()) or None


def _children() -> anyio.CapacityLimiter:
    """Limit the number of concurrent children to the number of CPUs, which also bounds their total memory."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(processor_count())
        _limiter.set(limiter)
        return limiter


async def grade_without_verdict(
    error: GraderError, checkpoints: Sequence[Checkpoint], still_grades: Callable[[], Awaitable[bool]], other: str
) -> Grade:
    """Return the grade of a work on which a grader gives no verdict, if on another work it still gives one.

    Only a run on other work tells a deliverable that hangs, forks or kills from a machine that is slow or ill.

    Args:
        error: How the grader ended. It is raised if the work is not to blame.
        checkpoints: The task's checkpoints.
        still_grades: Whether the grader gives its verdict on the other work, here and now.
        other: What the other work is.
    """
    if error.kind not in _NO_VERDICT or not await still_grades():
        raise error
    said = f"{error}; on {other} it gives a verdict"
    return failed_grade(checkpoints, said, said if _NO_VERDICT[error.kind] else None)
