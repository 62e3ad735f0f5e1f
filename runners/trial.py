"""One attempt of one trial: open the environment, run the agent, grade what it left, and record all of it.

Whatever fails on the way is attributed to the boundary it crossed, once, and becomes ``trial_failed`` here: missing
data with a retry owed or not, never a score.
"""

import traceback
from contextlib import AsyncExitStack
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from recorder.blobs import store_blob
from recorder.canonical import canonical_json
from recorder.errors import RecorderError
from recorder.events import ArtifactStored, TrialFailed, TrialFinished, TrialStarted
from recorder.recorder import Recorder
from recorder.stream import Stream
from runners.agent import Ending, NativeAgent, PlannedInjection
from runners.benchmarks.protocol import Benchmark, Environment, EnvironmentSettings, Grade
from runners.errors import BoundaryError, GraderError, SandboxBoundaryError, ungrouped
from runners.experiment import Experiment
from runners.grading import scored
from runners.injection import injection_action
from runners.models.calls import ModelCaller
from runners.plan import PlannedTrial
from runners.prompts import Prompts
from runners.services import Services
from runners.toolbox import TrialToolbox, open_toolbox

GRADING_SECONDS = 600.0


class TrialOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended, for the scheduler; everything else is in the events."""

    trial: PlannedTrial
    attempt: int
    is_valid: bool
    action_count: int
    cost_usd: float | None
    failure: TrialFailed | None = None


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
    ) -> None:
        self.experiment = experiment
        self.benchmark = benchmark
        self.prompts = prompts
        self.settings = settings
        self.services = services
        self.recorder = recorder
        self.run_id = run_id

    async def run(self, trial: PlannedTrial, attempt: int, budget_actions: int | None) -> TrialOutcome:
        """Run one attempt to its closing event.

        Raises:
            RecorderError: An event could not be recorded; the whole run must stop.
        """
        stream = self.recorder.attempt(trial.trial_id, attempt)
        attempted = _Attempt(self, trial, stream, budget_actions)
        await stream.append(attempted.started())
        closing: TrialFinished | TrialFailed
        try:
            with ungrouped():
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
        closing = msgspec.structs.replace(closing, duration_ms=stream.elapsed_ms, cost_usd=attempted.cost_usd())
        await stream.append(closing)
        return TrialOutcome(
            trial=trial,
            attempt=attempt,
            is_valid=isinstance(closing, TrialFinished),
            action_count=attempted.action_count,
            cost_usd=attempted.cost_usd(),
            failure=closing if isinstance(closing, TrialFailed) else None,
        )


class _Attempt:
    """The moving parts of one attempt."""

    def __init__(self, runner: TrialRunner, trial: PlannedTrial, stream: Stream, budget_actions: int | None) -> None:
        self._runner = runner
        self._trial = trial
        self._stream = stream
        self._budget_actions = budget_actions
        self._callers: list[ModelCaller] = []
        self._agent: NativeAgent | None = None

    @property
    def action_count(self) -> int:
        """Actions so far."""
        return self._agent.action_count if self._agent else 0

    def cost_usd(self) -> float | None:
        """The known cost of every model call of the attempt; None as soon as one price is unknown."""
        costs = [caller.total_usage.cost_usd for caller in self._callers]
        return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)

    async def play(self) -> TrialFinished:
        """Run the agent in its environment and grade the result; raises BoundaryError."""
        runner, trial = self._runner, self._trial
        async with AsyncExitStack() as stack:
            environment = await _opened(stack, runner.benchmark, trial, runner.settings)
            ending = await self._run_agent(environment)
            grade = await self._grade(environment, ending.final_answer)
        return TrialFinished(
            ended_by=ending.ended_by,
            is_success=grade.is_success,
            final_answer=ending.final_answer,
            action_count=self.action_count,
            checkpoint_count=len(grade.results),
            duration_ms=0.0,
            final_score=grade.final_score,
            final_total=grade.final_total,
        )

    async def _run_agent(self, environment: Environment) -> Ending:
        experiment = self._runner.experiment
        ending = None
        async with open_toolbox(self._asking(), environment, self._stream, lambda: self.action_count) as toolbox:
            agent = self._agent = self._make_agent(toolbox)
            with anyio.move_on_after(experiment.limits.max_seconds):
                ending = await agent.run()
        if ending is None:
            await agent.skip_injection("the trial ended first (time_limit)")
            ending = Ending(ended_by="time_limit", final_answer="")
        return ending

    def _make_agent(self, toolbox: TrialToolbox) -> NativeAgent:
        runner, trial = self._runner, self._trial
        has_ask_user = trial.key.channel == "ask_user"
        prompt = trial.shown_variant.prompt if trial.shown_variant else trial.task.prompt
        caller = runner.services.agent_caller(trial, self._stream)
        self._callers.append(caller)
        return NativeAgent(
            caller=caller,
            toolbox=toolbox,
            recording=self._stream,
            opening=runner.prompts.opening(trial.agent, prompt, has_ask_user=has_ask_user),
            ends_on_text=runner.benchmark.ends_on_text,
            nudge=runner.prompts.nudge,
            max_turns=runner.experiment.limits.max_turns,
            max_cost_usd=runner.experiment.budget.max_cost_usd_per_trial,
            injection=self._injection(),
        )

    def _asking(self) -> Any:
        """The simulated user of this trial, or None where the condition has none."""
        if self._trial.key.channel != "ask_user":
            return None
        simulator, caller = self._runner.services.user_simulator(self._trial, self._stream)
        if caller is not None:
            self._callers.append(caller)
        return simulator, self._runner.services.knowledge(self._trial)

    def _injection(self) -> PlannedInjection | None:
        trial = self._trial
        if trial.inject_percent is None or trial.variant is None or self._budget_actions is None:
            return None
        return PlannedInjection(
            percent=trial.inject_percent,
            target_action=injection_action(self._budget_actions, trial.inject_percent),
            message=self._runner.prompts.templates.message(trial.variant.segments),
            segment_ids=tuple(segment.segment_id for segment in trial.variant.segments),
        )

    async def _grade(self, environment: Environment, final_answer: str) -> Grade:
        ask_judge, caller = self._runner.services.judge(self._trial, self._stream)
        if caller is not None:
            self._callers.append(caller)
        try:
            with anyio.fail_after(GRADING_SECONDS):
                grade = await environment.grade(final_answer, ask_judge)
        except (BoundaryError, RecorderError):
            raise
        except TimeoutError:
            raise GraderError(f"grading took over {GRADING_SECONDS:.0f} s", kind="timeout") from None
        except Exception as error:
            raise GraderError(f"the grader crashed: {type(error).__name__}: {error}", kind="crash") from error
        await self._record(grade)
        return grade

    async def _record(self, grade: Grade) -> None:
        checkpoints = self._trial.task.checkpoints
        wanted = {checkpoint.checkpoint_id for checkpoint in checkpoints}
        found = {result.checkpoint_id for result in grade.results}
        if found != wanted or len(grade.results) != len(wanted):
            missing = ", ".join(sorted(wanted ^ found))
            raise GraderError(f"the grader did not score every checkpoint once: {missing}", kind="incomplete")
        for artifact in grade.artifacts:
            sha256 = await anyio.to_thread.run_sync(store_blob, self._runner.recorder.store, artifact.content)
            await self._stream.append(
                ArtifactStored(
                    sha256=sha256,
                    media_type=artifact.media_type,
                    size_bytes=len(artifact.content),
                    role=artifact.role,
                    name=artifact.name,
                )
            )
        await self._stream.append(*scored(grade.results, checkpoints, self._runner.benchmark.grader))

    def started(self) -> TrialStarted:
        """The first event: every key of the trial."""
        trial, runner, key = self._trial, self._runner, self._trial.key
        percent, budget = trial.inject_percent, self._budget_actions
        return TrialStarted(
            run_id=runner.run_id,
            benchmark=key.benchmark,
            benchmark_version=key.benchmark_version,
            task_id=trial.task.task_id,
            task_digest=key.task_digest,
            variant_id=trial.variant.variant_id if trial.variant else None,
            variant_digest=key.variant_digest,
            prompt_state=key.prompt_state,
            channel=key.channel,
            condition=trial.condition,
            agent=trial.agent.name,
            agent_digest=key.agent_digest,
            model=trial.agent.model,
            strategy=trial.agent.strategy,
            persona=trial.agent.persona,
            role=trial.agent.role,
            ask_notice=runner.experiment.ask_notice,
            trial_index=trial.trial_index,
            seed=trial.seed,
            user_simulator=key.user_simulator.partition(":")[0] if key.user_simulator else None,
            user_simulator_digest=key.user_simulator.partition(":")[2] if key.user_simulator else None,
            grader=key.grader,
            limits_json=canonical_json(key.limits).decode(),
            parameters_json=canonical_json(runner.services.parameters_of(trial)).decode(),
            prompts_digest=key.prompts_digest,
            oracle_scope=key.oracle_scope,
            sandbox=runner.settings.sandbox.kind,
            inject_percent=percent,
            budget_actions=budget if percent is not None else None,
            inject_after_action=injection_action(budget, percent) if percent is not None and budget else None,
        )


async def _opened(
    stack: AsyncExitStack, benchmark: Benchmark, trial: PlannedTrial, settings: EnvironmentSettings
) -> Environment:
    try:
        return await stack.enter_async_context(benchmark.open(trial.task, settings, trial.shown_variant))
    except (BoundaryError, RecorderError):
        raise
    except Exception as error:
        message = f"the environment of {trial.task.task_id} cannot be opened: {type(error).__name__}: {error}"
        raise SandboxBoundaryError(message, kind="open") from error


def _failed(boundary: Any, kind: str, message: str, *, is_retry_owed: bool) -> TrialFailed:
    return TrialFailed(boundary=boundary, error_kind=kind, message=message, is_retry_owed=is_retry_owed)
