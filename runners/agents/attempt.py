"""Runs one attempt of one trial: opens the environment, runs the agent, grades the result, and records everything.

Every failure is attributed once, to the boundary where it occurred, and recorded as ``trial_failed``. A failed attempt
is missing data, with or without a retry owed, and never a score.

It knows no experiment, no program and no simulated user: ``runner.py`` hands it all parts of a trial.
"""

import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.errors import RecorderError, refusal
from lhaw_record.recorder.events import ArtifactStored, TrialFailed, TrialFinished, TrialStarted
from lhaw_record.recorder.events.values import Checkpoint
from lhaw_record.runners.agents.agent_loop import AgentClock
from lhaw_record.runners.base.conversation.ending import Ending
from lhaw_record.runners.base.errors import BoundaryError, GraderError, SandboxBoundaryError, ungrouped
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.environments.grading.grade import Artifact, Grade, checked, failed_grade, scored

if TYPE_CHECKING:
    from lhaw_record.runners.environments.benchmarks.protocol import AskJudge, Environment

GRADING_SECONDS = 600.0
StoreArtifact = Callable[[Artifact], Awaitable[None]]


class AttemptStream(Recording, Protocol):
    """The event stream of an attempt."""

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since the stream began."""
        ...


class TrialAgent(Protocol):
    """The agent of an attempt: the native one or a program."""

    @property
    def action_count(self) -> int:
        """The number of actions so far."""
        ...

    async def run(self) -> Ending:
        """Run until the agent ends.

        Raises:
            BoundaryError: The infrastructure failed, or the agent lost its sandbox by abuse.
        """
        ...


class TrialParts(Protocol):
    """The parts of one trial. The assembling code chooses models, tools, users, judges, clocks and budgets."""

    recording: Recording
    """The attempt's stream, as agent, environment and grader write to it."""
    checkpoints: Sequence[Checkpoint]
    grader: str
    grading_clock: AgentClock

    def keep(self, content: bytes) -> tuple[str, int]:
        """Store an artifact without its secrets, and return its SHA-256 and length. Blocks."""
        ...

    def environment(self, store: StoreArtifact) -> "AbstractAsyncContextManager[Environment]":
        """Open the environment of the trial's task. It may store what it shows while the agent works."""
        ...

    def agent(self, environment: "Environment", store: StoreArtifact) -> AbstractAsyncContextManager[TrialAgent]:
        """Prepare the trial's agent in its environment."""
        ...

    def judge(self) -> "AskJudge | None":
        """Return what asks the judge model, or None if there is none."""
        ...

    def measured(self) -> Mapping[str, float | None]:
        """Return the cost and time so far for the closing event."""
        ...


class Attempt:
    """One attempt of one trial.

    Args:
        stream: The attempt's event stream.
        started: Its first event.
        parts: The parts of the trial.
    """

    def __init__(self, stream: AttemptStream, started: TrialStarted, parts: TrialParts) -> None:
        self._stream = stream
        self._started = started
        self._parts = parts
        self._agent: TrialAgent | None = None
        self.points: tuple[float, float] | None = None
        """The points of all checkpoints, and how many there are, once the trial is graded."""

    @property
    def action_count(self) -> int:
        """The number of actions so far."""
        return self._agent.action_count if self._agent else 0

    async def run(self) -> TrialFinished | TrialFailed:
        """Run the attempt to its closing event, and return that."""
        await self._stream.append(self._started)
        closing = msgspec.structs.replace(
            await self._closing(), duration_ms=self._stream.elapsed_ms, **self._parts.measured()
        )
        await self._stream.append(closing)
        return closing

    async def store(self, artifact: Artifact) -> None:
        """Keep an artifact and record that."""
        sha256, size_bytes = await anyio.to_thread.run_sync(self._parts.keep, artifact.content)
        await self._parts.recording.append(
            ArtifactStored(
                sha256=sha256,
                media_type=artifact.media_type,
                size_bytes=size_bytes,
                role=artifact.role,
                name=artifact.name,
            )
        )

    async def _closing(self) -> TrialFinished | TrialFailed:
        """Do the work and return the attempt's last event. Failures on the way are attributed here."""
        try:
            with ungrouped():
                return await self._work()
        except BoundaryError as error:
            return trial_failed(error.boundary, error.kind, str(error), is_retry_owed=error.is_retry_owed)
        except RecorderError:
            raise
        except anyio.get_cancelled_exc_class():
            stopped = trial_failed("recorder", "interrupted", "the run was stopped", is_retry_owed=True)
            with anyio.CancelScope(shield=True):
                await self._stream.append(stopped)
            raise
        except Exception as error:  # noqa: BLE001 - a bug of ours ends this trial, is shown, and spares the others
            message = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
            return trial_failed("recorder", "internal_error", message, is_retry_owed=False)

    async def _work(self) -> TrialFinished:
        async with AsyncExitStack() as stack:
            environment = await self._opened(stack)
            for artifact in environment.facts:
                await self.store(artifact)
            ending = await self._run_agent(environment)
            grade = await self._grade(environment, ending)
        return TrialFinished(
            ended_by="resource_abuse" if grade.resource_abuse else ending.ended_by,
            is_success=grade.is_success,
            final_answer=ending.final_answer,
            action_count=self.action_count,
            checkpoint_count=len(grade.results),
            duration_ms=0.0,
            final_score=grade.final_score,
            final_total=grade.final_total,
        )

    async def _opened(self, stack: AsyncExitStack) -> "Environment":
        try:
            return await stack.enter_async_context(self._parts.environment(self.store))
        except (BoundaryError, RecorderError):
            raise
        except Exception as error:
            why = refusal(error) if isinstance(error, OSError) and error.errno else f"{type(error).__name__}: {error}"
            message = f"the environment of {self._started.task_id} cannot be opened: {why}"
            raise SandboxBoundaryError(message, kind="open") from error

    async def _run_agent(self, environment: "Environment") -> Ending:
        """Run the agent until it ends. Losing the sandbox by abuse is also an ending."""
        try:
            with ungrouped():
                async with self._parts.agent(environment, self.store) as self._agent:
                    return await self._agent.run()
        except SandboxBoundaryError as error:
            if not error.is_abuse:
                raise
            return Ending(ended_by="resource_abuse", final_answer="", abuse=str(error))

    async def _grade(self, environment: "Environment", ending: Ending) -> Grade:
        checkpoints, abuse = self._parts.checkpoints, ending.abuse
        grade = None
        try:
            if abuse is None:
                grade = checked(await self._graded(environment, ending.final_answer), checkpoints)
        except SandboxBoundaryError as error:
            if not error.is_abuse:
                raise
            abuse = str(error)
        if grade is None:
            grade = failed_grade(checkpoints, abuse or "", abuse=abuse)
        for artifact in grade.artifacts:
            await self.store(artifact)
        self.points = sum(result.score for result in grade.results), sum(each.total for each in checkpoints)
        await self._parts.recording.append(*scored(grade.results, checkpoints, self._parts.grader))
        return grade

    async def _graded(self, environment: "Environment", final_answer: str) -> Grade:
        ask_judge = self._parts.judge()
        try:
            if environment.bounds_its_grading:
                return await environment.grade(final_answer, ask_judge)
            grade = await self._parts.grading_clock.bound(lambda: environment.grade(final_answer, ask_judge))
        except (BoundaryError, RecorderError):
            raise
        except Exception as error:
            kind = "timeout" if isinstance(error, TimeoutError) else "crash"
            raise GraderError(f"the grader crashed: {type(error).__name__}: {error}", kind=kind) from error
        if grade is None:
            raise GraderError(f"grading took more than {GRADING_SECONDS:.0f} s", kind="timeout")
        return grade


def trial_failed(boundary: Any, kind: str, message: str, *, is_retry_owed: bool) -> TrialFailed:
    """Return the last event of an attempt that failed because of infrastructure."""
    return TrialFailed(boundary=boundary, error_kind=kind, message=message, is_retry_owed=is_retry_owed)
