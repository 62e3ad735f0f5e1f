"""Whose fault was it? Every failure of infrastructure is attributed once, at the boundary that it crossed.

    RunnerError
    ├── ExperimentError            the experiment file asks for something that cannot be: file, key and remedy
    ├── ExecutorError              the machines that should execute trials cannot: no cluster, or no worker on it
    ├── UnusableReply              a model's reply does not hold what was asked for; it is asked once more
    └── BoundaryError              infrastructure failed during a trial: recorded as trial_failed, never scored
        ├── ModelBoundaryError     boundary "model"
        │   └── NothingUsable      the model was reached and gave no usable reply
        ├── ToolBoundaryError      boundary "tool"
        ├── SandboxBoundaryError   boundary "sandbox"
        ├── UserSimulatorError     boundary "user_simulator"
        └── GraderError            boundary "grader"

What an agent does wrong (a bad command, a missing file, broken arguments) is not an error here: it is a result that
the agent sees.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from recorder.errors import RecorderError
from recorder.events.trial import Boundary


class RunnerError(Exception):
    """Base of the errors of this layer."""


class ExperimentError(RunnerError):
    """The experiment cannot run as written; the message names the file, the key and the remedy."""


class ExecutorError(RunnerError):
    """The machines that should execute trials cannot; the message says which one, why, and the remedy."""


class UnusableReply(RunnerError):
    """A reply does not hold what was asked for; the message says what is wrong, in words that the model can use."""


class BoundaryError(RunnerError):
    """Infrastructure failed during a trial.

    Args:
        message: What happened, to which thing.
        kind: A short stable word for tables, for example ``rate_limit`` or ``server_gone``.
        is_retry_owed: Whether a new attempt could end differently.
    """

    boundary: ClassVar[Boundary]

    def __init__(self, message: str, *, kind: str, is_retry_owed: bool = True) -> None:
        super().__init__(message)
        self.kind = kind
        self.is_retry_owed = is_retry_owed


class ModelBoundaryError(BoundaryError):
    """The model could not be reached or gave no usable reply."""

    boundary = "model"


class NothingUsable(ModelBoundaryError):
    """The model gave no usable reply, also not when it was told what was wrong."""


class ToolBoundaryError(BoundaryError):
    """A tool's own machinery (an MCP server, its process) broke; not a tool's error result."""

    boundary = "tool"


class SandboxBoundaryError(BoundaryError):
    """The sandbox could not be made, or died.

    Args:
        message: What happened, to which thing.
        kind: A short stable word for tables.
        is_retry_owed: Whether a new attempt could end differently.
        is_abuse: The agent has used up what its sandbox may use, and the sandbox is lost or cannot be read for it: the
            trial is graded and ends by ``resource_abuse``. Where it can go on, the agent sees an error result instead;
            what the host lacks (memory or disk outside of the sandbox's own limits) is never the agent's.
    """

    boundary = "sandbox"

    def __init__(self, message: str, *, kind: str, is_retry_owed: bool = True, is_abuse: bool = False) -> None:
        super().__init__(message, kind=kind, is_retry_owed=is_retry_owed)
        self.is_abuse = is_abuse


class UserSimulatorError(BoundaryError):
    """The simulated user could not answer; an answer is never invented instead."""

    boundary = "user_simulator"


class GraderError(BoundaryError):
    """The grader crashed, hung or could not be reached; never a score of zero."""

    boundary = "grader"


@contextmanager
def ungrouped() -> Iterator[None]:
    """Let an error out of a task group as itself: a failed recorder before a boundary, a boundary before the rest."""
    try:
        yield
    except BaseExceptionGroup as group:
        leaves = list(_leaves(group))
        for wanted in (RecorderError, BoundaryError, BaseException):
            for leaf in leaves:
                if isinstance(leaf, wanted):
                    raise leaf from group


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
