"""Exceptions raised by the runners. A failure is attributed once, to the boundary where it occurred.

    RunnerError
    ├── ExperimentError            the experiment file is invalid: the message names file, key and remedy
    │   └── ModelsOutOfReach       a model does not answer now; the same file may work later
    ├── ExecutorError              trials cannot be executed: no cluster, or no worker
    ├── UnusableReply              a model's reply lacks what was asked for, so the model is asked once more
    └── BoundaryError              infrastructure failed during a trial: recorded as trial_failed, never scored
        ├── ModelBoundaryError     boundary "model"
        │   ├── NothingUsable      the model answered, but gave no usable reply
        │   ├── EndpointDown       the model's endpoint is down for everyone, so the run pauses
        │   ├── RunBudgetSpent     the run's cost limit is reached, so its running trials stop
        │   └── CostLimitNotKept   the trial's own cost limit cannot be enforced
        ├── ToolBoundaryError      boundary "tool"
        ├── SandboxBoundaryError   boundary "sandbox"
        │   ├── SandboxUnfit       the trial would fail in the same way again
        │   └── LeaseReturned      the leaseholder did not finish the trial, so it is leased again
        ├── UserSimulatorError     boundary "user_simulator"
        └── GraderError            boundary "grader"

An agent's own mistakes (a bad command, a missing file, malformed arguments) are not exceptions: the agent sees them as
results.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.events.trial import Boundary

UNKNOWN_COST = "a reply came without its token counts, or from a model without a price, so its cost is unknown"


class RunnerError(Exception):
    """Base class of all exceptions that the runners raise."""


class ExperimentError(RunnerError):
    """The experiment cannot run as written. The message names the file, the key and the remedy."""


class ModelsOutOfReach(ExperimentError):
    """A model of the experiment is unavailable now, but may be available later without changes to the file."""


class ExecutorError(RunnerError):
    """Trials cannot be executed. The message names the machine, the reason and the remedy."""


class UnusableReply(RunnerError):
    """A model's reply lacks what was asked for. The message tells the model what is wrong."""


class BoundaryError(RunnerError):
    """Infrastructure failed during a trial.

    Args:
        message: What happened, and what it affected.
        kind: A short, stable identifier for tables, for example ``rate_limit`` or ``server_gone``.
        is_retry_owed: Whether the trial should be attempted again, because the outcome could differ.
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
    """A model's endpoint is down, and waiting does not help. The run pauses, and no trial counts as failed."""

    KIND: ClassVar[str] = "endpoint_down"

    def __init__(self, message: str) -> None:
        super().__init__(message, kind=self.KIND)


class RunBudgetSpent(ModelBoundaryError):
    """A cost limit is reached, so a running trial may not send another request. The trial does not count as failed.

    Args:
        limit_usd: The limit.
        pattern: The model-name pattern that the limit applies to; empty for the limit of the whole run.
    """

    KIND: ClassVar[str] = "run_cost_limit"
    MODEL_KIND: ClassVar[str] = "model_cost_limit"

    def __init__(self, limit_usd: float, pattern: str = "") -> None:
        key = f"budget.models.'{pattern}'" if pattern else "budget.max_cost_usd"
        super().__init__(
            f"{key} = {limit_usd:g} is spent: the trial was stopped before its next request, and will run again",
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
            "reports usage, give the agent a 'price', or remove the limit",
            kind="unknown_cost",
            is_retry_owed=False,
        )


class ToolBoundaryError(BoundaryError):
    """A tool's server or process broke. Not raised for an error result that a tool returns."""

    boundary = "tool"


class SandboxBoundaryError(BoundaryError):
    """The sandbox could not be created, or it died.

    Args:
        message: What happened, and what it affected.
        kind: A short, stable identifier for tables.
        is_retry_owed: Whether the trial should be attempted again, because the outcome could differ.
        is_abuse: Whether the agent exhausted the sandbox's limits and made it unusable. The trial is then graded and
            ends with ``resource_abuse``. If the sandbox survives, the agent sees an error result instead. Running out
            of memory or disk on the host, outside the sandbox's limits, is never attributed to the agent.
    """

    boundary = "sandbox"

    def __init__(self, message: str, *, kind: str, is_retry_owed: bool = True, is_abuse: bool = False) -> None:
        super().__init__(message, kind=kind, is_retry_owed=is_retry_owed)
        self.is_abuse = is_abuse


class SandboxUnfit(SandboxBoundaryError):
    """The sandbox cannot serve this trial, however often it is attempted. The message says what to change."""

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message, kind=kind, is_retry_owed=False)


class LeaseReturned(SandboxBoundaryError):
    """The leaseholder did not finish a trial, so it is leased to the next worker that asks.

    Args:
        message: What happened, and what to do.
        kind: One of ``KINDS``, which do not count as attempts, or ``COUNTED`` if the agent already had a model reply.
            Otherwise an agent that knows its task could return it forever.
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
