"""One attempt of one trial: open the environment, run the agent, grade what it left, and record all of it.

Whatever fails on the way is attributed to the boundary it crossed, once, and becomes ``trial_failed`` here: missing
data with a retry owed or not, never a score.
"""

import traceback
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec

from recorder.errors import RecorderError
from recorder.events import TrialFailed, TrialFinished
from recorder.recorder import Recorder
from recorder.trial_index import FailedTrial
from runners.attempt import Attempt
from runners.benchmarks.protocol import Benchmark, EnvironmentSettings
from runners.errors import BoundaryError, ungrouped
from runners.experiment import Experiment
from runners.plan import PlannedTrial
from runners.prompts import Prompts
from runners.sandboxes.docker.owners import labelled
from runners.services import Services

if TYPE_CHECKING:
    from runners.external.listener import Listener


class TrialOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended, for the scheduler; everything else is in the events."""

    trial: PlannedTrial
    attempt: int
    is_valid: bool
    action_count: int
    cost_usd: float | None
    failure: TrialFailed | None = None
    is_abuse: bool = False


class TrialRunner:
    """Runs attempts of the trials of one experiment.

    Args:
        experiment: The decoded file.
        benchmark: Where environments and graders come from.
        prompts: The experiment's wordings.
        settings: How environments are opened.
        services: Models, simulators and judges.
        recorder: Where events go.
        run_id: The run that these attempts belong to.
        listener: Where programs are heard; None where all agents are native.
    """

    def __init__(
        self,
        *,
        experiment: Experiment,
        benchmark: Benchmark,
        prompts: Prompts,
        settings: EnvironmentSettings,
        services: Services,
        recorder: Recorder,
        run_id: str,
        listener: "Listener | None" = None,
    ) -> None:
        self.experiment = experiment
        self.benchmark = benchmark
        self.prompts = prompts
        self.settings = settings
        self.services = services
        self.recorder = recorder
        self.run_id = run_id
        self.listener = listener

    async def run(self, trial: PlannedTrial, attempt: int, budget_actions: int | None) -> TrialOutcome:
        """Run one attempt to its closing event.

        Raises:
            RecorderError: An event could not be recorded; the whole run must stop.
        """
        stream = self.recorder.attempt(trial.trial_id, attempt)
        attempted = Attempt(self, trial, stream, budget_actions)
        await stream.append(attempted.started())
        closing: TrialFinished | TrialFailed
        try:
            with labelled(run=self.run_id, trial=trial.trial_id, attempt=attempt), ungrouped():
                closing = await attempted.play()
        except BoundaryError as error:
            closing = _failed(error.boundary, error.kind, str(error), is_retry_owed=error.is_retry_owed)
        except RecorderError:
            raise
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await stream.append(_failed("recorder", "interrupted", "the run was stopped", is_retry_owed=True))
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours ends this trial, is shown, and spares its siblings
            place = traceback.format_exc(limit=-3)
            message = f"{type(error).__name__}: {error}\n{place}"
            closing = _failed("recorder", "internal_error", message, is_retry_owed=False)
        closing = msgspec.structs.replace(
            closing,
            duration_ms=stream.elapsed_ms,
            cost_usd=attempted.cost_usd(),
            charged_ms=round(attempted.clock.charged_s * 1000.0, 3),
            waited_ms=round(attempted.clock.waited_s * 1000.0, 3),
        )
        await stream.append(closing)
        return TrialOutcome(
            trial=trial,
            attempt=attempt,
            is_valid=isinstance(closing, TrialFinished),
            action_count=attempted.action_count,
            cost_usd=attempted.cost_usd(),
            failure=closing if isinstance(closing, TrialFailed) else None,
            is_abuse=isinstance(closing, TrialFinished) and closing.ended_by == "resource_abuse",
        )


def failed_outcome(trial: PlannedTrial, stored: FailedTrial) -> TrialOutcome:
    """Return the outcome of an attempt that failed, from what the store has of it."""
    failure = _failed(stored.boundary, stored.error_kind, stored.message, is_retry_owed=stored.is_retry_owed)
    return TrialOutcome(
        trial=trial, attempt=stored.attempt, is_valid=False, action_count=0, cost_usd=None, failure=failure
    )


def _failed(boundary: Any, kind: str, message: str, *, is_retry_owed: bool) -> TrialFailed:
    return TrialFailed(boundary=boundary, error_kind=kind, message=message, is_retry_owed=is_retry_owed)
