"""Exceptions that the runners raise. An infrastructure failure is attributed once, to the boundary where it occurred.

    RunnerError
    ├── ExperimentError            the experiment file asks for something impossible: file, key and remedy
    │   └── ModelsOutOfReach       a model does not answer now; the same file may run later
    ├── ExecutorError              the machines cannot execute trials: no cluster, or no worker on it
    ├── UnusableReply              a model's reply lacks what was asked for, so the model is asked once more
    └── BoundaryError              infrastructure failed during a trial: recorded as trial_failed, never scored
        ├── ModelBoundaryError     boundary "model"
        │   ├── NothingUsable      the model answered, but gave no usable reply
        │   ├── EndpointDown       the model's address does not answer anybody, so the run pauses
        │   ├── RunBudgetSpent     the run's cost limit is reached, so its running trials stop
        │   └── CostLimitNotKept   the trial's own cost limit cannot be enforced
        ├── ToolBoundaryError      boundary "tool"
        ├── SandboxBoundaryError   boundary "sandbox"
        │   └── LeaseReturned      whoever leased a trial did not finish it, so it is owed to the next
        ├── UserSimulatorError     boundary "user_simulator"
        └── GraderError            boundary "grader"

An agent's own mistakes (a bad command, a missing file, broken arguments) are not errors here: they are results that the
agent sees.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.events.trial import Boundary

UNKNOWN_COST = "a reply came without its token counts, so its cost is unknown"


class RunnerError(Exception):
    """Base class of all exceptions that the runners raise."""


class ExperimentError(RunnerError):
    """The experiment cannot run as written. The message names the file, the key and the remedy."""


class ModelsOutOfReach(ExperimentError):
    """A model of the experiment cannot be used now. It may be later, without a change of the file."""


class ExecutorError(RunnerError):
    """The machines cannot execute trials. The message names the machine, the reason and the remedy."""


class UnusableReply(RunnerError):
    """A model's reply lacks what was asked for. The message tells the model what is wrong."""


class BoundaryError(RunnerError):
    """Infrastructure failed during a trial.

    Args:
        message: What happened, and what it affected.
        kind: A short, stable identifier for tables, for example ``rate_limit`` or ``server_gone``.
        is_retry_owed: Whether another attempt is owed, because it could end differently.
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
    """The model gave no usable reply, even after it was told what was wrong."""


class EndpointDown(ModelBoundaryError):
    """A model's endpoint answers nobody, and waiting does not help. The run pauses, and no trial is blamed."""

    KIND: ClassVar[str] = "endpoint_down"

    def __init__(self, message: str) -> None:
        super().__init__(message, kind=self.KIND)


class RunBudgetSpent(ModelBoundaryError):
    """A cost limit is reached, so a running trial may not send its next request. No trial is blamed.

    Args:
        limit_usd: The limit.
        pattern: The models that it is for; empty for that of the whole run.
    """

    KIND: ClassVar[str] = "run_cost_limit"
    MODEL_KIND: ClassVar[str] = "model_cost_limit"

    def __init__(self, limit_usd: float, pattern: str = "") -> None:
        key = f"budget.models.'{pattern}'" if pattern else "budget.max_cost_usd"
        super().__init__(
            f"{key} = {limit_usd:g} is spent: the trial was stopped before its next request, and is owed again",
            kind=self.MODEL_KIND if pattern else self.KIND,
        )


class CostLimitNotKept(ModelBoundaryError):
    """A trial's own cost limit cannot be enforced, because the cost of a reply is unknown.

    Args:
        limit_usd: The limit.
    """

    def __init__(self, limit_usd: float) -> None:
        super().__init__(
            f"budget.max_cost_usd_per_trial = {limit_usd:g} cannot be enforced: {UNKNOWN_COST}; use a server that "
            "reports usage, or remove the limit",
            kind="unknown_cost",
            is_retry_owed=False,
        )


class ToolBoundaryError(BoundaryError):
    """A tool's server or process broke. An error result that a tool returns does not raise this."""

    boundary = "tool"


class SandboxBoundaryError(BoundaryError):
    """The sandbox could not be created, or it died.

    Args:
        message: What happened, and what it affected.
        kind: A short, stable identifier for tables.
        is_retry_owed: Whether another attempt is owed, because it could end differently.
        is_abuse: Whether the agent exhausted the limits of its sandbox, so that the sandbox is lost or cannot be read.
            The trial is then graded and ends with ``resource_abuse``. If the sandbox survives, the agent sees an error
            result instead. Memory or disk that runs out on the host, outside of the sandbox's limits, is never the
            agent's fault.
    """

    boundary = "sandbox"

    def __init__(self, message: str, *, kind: str, is_retry_owed: bool = True, is_abuse: bool = False) -> None:
        super().__init__(message, kind=kind, is_retry_owed=is_retry_owed)
        self.is_abuse = is_abuse


class LeaseReturned(SandboxBoundaryError):
    """Whoever leased a trial did not finish it. It is owed to the next who asks.

    Args:
        message: What happened, and what to do.
        kind: One of ``KINDS``, which do not count as attempts, or ``COUNTED``, if the agent had a reply of its model:
            an agent that knows its task must not be able to give it back for ever.
    """

    KINDS: ClassVar[tuple[str, ...]] = ("lease_expired", "lease_released", "lease_unused")
    COUNTED: ClassVar[str] = "lease_abandoned"

    def __init__(self, message: str, *, kind: str) -> None:
        assert kind in (*self.KINDS, self.COUNTED)
        super().__init__(message, kind=kind)


class UserSimulatorError(BoundaryError):
    """The simulated user could not answer. No answer is invented in its place."""

    boundary = "user_simulator"


class GraderError(BoundaryError):
    """The grader crashed, hung or could not be reached. This never counts as a score of zero."""

    boundary = "grader"


@contextmanager
def ungrouped() -> Iterator[None]:
    """Raise a single error in place of the exception group that a task group raises.

    A RecorderError is preferred, then a BoundaryError, then any other error.
    """
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
