"""Runs one attempt of one trial: opens the environment, runs the agent, grades the result, and records everything.

Every failure is attributed once, to the boundary where it occurred, and recorded as ``trial_failed``. A failed attempt
is missing data, with or without a retry owed, and never a score.
"""

import traceback
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.events import ArtifactStored, TrialFailed, TrialFinished
from lhaw_record.recorder.events.values import Usage
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.agents.agent_loop import NativeAgent
from lhaw_record.runners.agents.behaviour import ObservedRecording
from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.agents.program_place import ToldRecording, open_place
from lhaw_record.runners.agents.services import Services
from lhaw_record.runners.agents.toolbox import TrialToolbox, open_toolbox
from lhaw_record.runners.agents.trial_record import TrialOutcome, trial_failed, trial_started
from lhaw_record.runners.base.budget import BudgetedRecording, RunBudget
from lhaw_record.runners.base.clock import TimedRecording, TrialClock
from lhaw_record.runners.base.conversation.ending import Ending
from lhaw_record.runners.base.conversation.injection import PlannedInjection, injection_action
from lhaw_record.runners.base.errors import BoundaryError, GraderError, SandboxBoundaryError, ungrouped
from lhaw_record.runners.environments.benchmarks.protocol import (
    Benchmark,
    Environment,
    EnvironmentSettings,
    with_defaults,
)
from lhaw_record.runners.environments.grading.confined_grading import checked, failed_grade, scored
from lhaw_record.runners.environments.grading.grade import Artifact, Grade
from lhaw_record.runners.environments.sandboxes.docker.labels import labelled
from lhaw_record.runners.experiment.program import ProgramSpec
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import Experiment
from lhaw_record.runners.models.gateway.calls import SessionLimits
from lhaw_record.runners.models.gateway.session import SessionLimits
from lhaw_record.runners.runs.planning.plan import PlannedTrial
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.ask_user.server import TOOL_NAME
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge, UserSimulator

if TYPE_CHECKING:
    from lhaw_record.runners.agents.programs.agent import ExternalAgent
    from lhaw_record.runners.agents.programs.leases import Leases
    from lhaw_record.runners.agents.programs.listener import Listener

GRADING_SECONDS = 600.0
_LONGEST_AT_DOORS_S = 86_400.0


class TrialRunner(msgspec.Struct, frozen=True, kw_only=True):
    """What all attempts of a run share. ``listener`` serves programs, and is None if all agents are native.

    ``leases`` are those of the daemon, and None elsewhere.
    ``budget`` is the run's, where the trials run in the process of the scheduler; elsewhere it has no limit.
    """

    experiment: Experiment
    benchmark: Benchmark
    prompts: Prompts
    settings: EnvironmentSettings
    services: Services
    recorder: StoreRecorder
    run_id: str
    listener: "Listener | None" = None
    leases: "Leases | None" = None
    budget: RunBudget = msgspec.field(default_factory=lambda: RunBudget(None))

    async def run(self, trial: PlannedTrial, attempt: int, budget_actions: int | None) -> TrialOutcome:
        """Run one attempt to its closing event."""
        return await Attempt(self, trial, attempt, budget_actions).run()


class _Spender(Protocol):
    """Something that causes model costs: a model caller or a program."""

    @property
    def total_usage(self) -> Usage: ...


class Attempt:
    """One attempt of one trial.

    Args:
        runner: What all attempts of the run share.
        trial: The trial to attempt.
        number: The number of the attempt, starting at 1.
        budget_actions: The action budget of the trial's unit. Only injected trials use it.
    """

    def __init__(self, runner: TrialRunner, trial: PlannedTrial, number: int, budget_actions: int | None) -> None:
        self._runner = runner
        self._trial = trial
        self._number = number
        self._budget_actions = budget_actions
        self._spenders: list[_Spender] = []
        self._agent: NativeAgent | ExternalAgent | None = None
        self._points: tuple[float, float] | None = None
        is_leased = trial.agent.external is not None and trial.agent.external.leased
        self._leases = runner.leases if is_leased else None
        self._lease = self._leases.of_trial(trial.trial_id) if self._leases else None
        self._clock = TrialClock(runner.experiment.limits.max_seconds, runner.experiment.retry.patience_s)
        self._attempt_stream = runner.recorder.attempt(trial.trial_id, number)
        self._observed = ObservedRecording(self._attempt_stream)
        self._budgeted = BudgetedRecording(self._observed, runner.budget)
        self._stream = TimedRecording(self._budgeted, self._clock)

    @property
    def _action_count(self) -> int:
        return self._agent.action_count if self._agent else 0

    def _cost_usd(self) -> float | None:
        """Return the cost of all model calls of the attempt in USD, or None if any price is unknown."""
        costs = [spender.total_usage.cost_usd for spender in self._spenders]
        return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)

    async def run(self) -> TrialOutcome:
        """Run the attempt to its closing event."""
        try:
            closing, outcome = await self._run()
        except BaseException:
            if self._lease is not None:
                self._lease.end(None, None)
            raise
        if self._lease is not None:
            self._lease.end(closing, self._points)
        return outcome

    async def _run(self) -> tuple[TrialFinished | TrialFailed, TrialOutcome]:
        runner, trial, stream = self._runner, self._trial, self._attempt_stream
        await stream.append(
            trial_started(
                trial,
                run_id=runner.run_id,
                ask_notice=runner.experiment.ask_notice,
                parameters=runner.services.parameters_of(trial),
                sandbox=runner.settings.sandbox.kind if self._lease is None else "leased",
                budget_actions=self._budget_actions,
            )
        )
        closing = msgspec.structs.replace(
            await self._closing(),
            duration_ms=stream.elapsed_ms,
            cost_usd=self._cost_usd(),
            charged_ms=round(self._clock.charged_s * 1000.0, 3),
            waited_ms=round(self._clock.waited_s * 1000.0, 3),
        )
        await stream.append(closing)
        program = None if isinstance(self._agent, NativeAgent) else self._agent
        outcome = TrialOutcome(
            trial=trial,
            attempt=self._number,
            is_valid=isinstance(closing, TrialFinished),
            action_count=self._action_count,
            cost_usd=self._cost_usd(),
            spent_on=self._budgeted.spent_on,
            failure=closing if isinstance(closing, TrialFailed) else None,
            behaviour=self._observed.behaviour(
                closing.ended_by if isinstance(closing, TrialFinished) else None, program.crash if program else None
            ),
            is_flagged=program is not None and bool(program.flags),
        )
        return closing, outcome

    async def _closing(self) -> TrialFinished | TrialFailed:
        """Do the work and return the attempt's last event. Failures on the way are attributed here."""
        try:
            with labelled(run=self._runner.run_id, trial=self._trial.trial_id, attempt=self._number), ungrouped():
                return await self._work()
        except BoundaryError as error:
            return trial_failed(error.boundary, error.kind, str(error), is_retry_owed=error.is_retry_owed)
        except RecorderError:
            raise
        except anyio.get_cancelled_exc_class():
            stopped = trial_failed("recorder", "interrupted", "the run was stopped", is_retry_owed=True)
            with anyio.CancelScope(shield=True):
                await self._attempt_stream.append(stopped)
            raise
        except Exception as error:  # noqa: BLE001 - a bug of ours ends this trial, is shown, and spares the others
            message = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
            return trial_failed("recorder", "internal_error", message, is_retry_owed=False)

    async def _work(self) -> TrialFinished:
        """Run the agent in its environment and grade the result. Raises BoundaryError."""
        runner, trial = self._runner, self._trial
        async with AsyncExitStack() as stack:
            environment = await _opened(stack, runner.benchmark, trial, self._settings())
            for artifact in environment.facts:
                await self._store(artifact)
            ending = await self._run_agent(environment)
            grade = await self._grade(environment, ending)
        return TrialFinished(
            ended_by="resource_abuse" if grade.resource_abuse else ending.ended_by,
            is_success=grade.is_success,
            final_answer=ending.final_answer,
            action_count=self._action_count,
            checkpoint_count=len(grade.results),
            duration_ms=0.0,
            final_score=grade.final_score,
            final_total=grade.final_total,
        )

    async def _run_agent(self, environment: Environment) -> Ending:
        """Run the native agent or the program until it ends. Losing the sandbox by abuse is also an ending."""
        program = self._trial.agent.external
        try:
            with ungrouped():
                if program is None:
                    return await self._run_native(environment)
                async with AsyncExitStack() as stack:
                    return await self._run_program(program, environment, stack)
        except SandboxBoundaryError as error:
            if not error.is_abuse:
                raise
            if isinstance(self._agent, NativeAgent):
                await self._agent.skip_injection("the trial ended first (resource_abuse)")
            return Ending(ended_by="resource_abuse", final_answer="", abuse=str(error))

    def _settings(self) -> EnvironmentSettings:
        """Return the settings for opening the environment. A program also needs a way to the run's listener."""
        runner, program = self._runner, self._trial.agent.external
        settings = msgspec.structs.replace(runner.settings, keep=self._store)
        if program is None:
            return settings
        from lhaw_record.runners.agents.programs.listener import way_of

        return msgspec.structs.replace(settings, way=way_of(program, self._listener))

    @property
    def _listener(self) -> "Listener":
        listener = self._leases.listener if self._leases is not None else self._runner.listener
        assert listener is not None, "a run with programs listens for them"
        return listener

    async def _run_program(self, program: ProgramSpec, environment: Environment, stack: AsyncExitStack) -> Ending:
        """Run the program in the environment's sandbox, or in one of its own, which the stack closes."""
        from lhaw_record.runners.agents.programs.agent import ExternalAgent

        runner, trial = self._runner, self._trial
        opened = open_place(runner.benchmark.name, environment, self._settings(), program)
        sandbox, tools = await stack.enter_async_context(opened)
        limits, retry = runner.experiment.limits, runner.experiment.retry
        asking = self._asking()
        upstream = runner.services.agent_upstream(trial)
        agent = self._agent = ExternalAgent(
            program=program,
            sandbox=sandbox,
            listener=self._listener,
            recording=ToldRecording(self._stream, environment, program.ask_user_tool or TOOL_NAME),
            upstream=upstream,
            routing=runner.services.agent_route(trial, upstream),
            prompt_of=partial(runner.prompts.program_prompt, trial.agent, has_ask_user=asking is not None),
            request=self._task_prompt,
            asking=RecordedUser(*asking, self._stream, self._clock) if asking else None,
            toolbox=TrialToolbox(environment, None, self._clock, own_tools=tools),
            injection=self._injection(),
            limits=SessionLimits(
                max_turns=limits.max_turns,
                max_actions=limits.max_actions,
                max_cost_usd=runner.experiment.budget.max_cost_usd_per_trial,
            ),
            trial_clock=self._clock,
            last_resort_s=limits.max_seconds + retry.patience_s + retry.request_timeout_s + _LONGEST_AT_DOORS_S,
            keep=self._keep_output,
            lease=(self._leases, self._lease) if self._leases is not None and self._lease is not None else None,
            wire_record=runner.services.wire_record,
        )
        self._spenders.append(agent)
        return await agent.run()

    async def _keep_output(self, name: str, text: str) -> None:
        await self._store(Artifact(name=name, role="program_output", media_type="text/plain", content=text.encode()))

    async def _run_native(self, environment: Environment) -> Ending:
        tools = open_toolbox(self._asking(), environment, self._stream, lambda: self._action_count, self._clock)
        async with tools as toolbox:
            agent = self._agent = self._native_agent(toolbox)
            ending = await self._clock.bound(agent.run)
        if ending is None:
            await agent.skip_injection("the trial ended first (time_limit)")
            ending = Ending(ended_by="time_limit", final_answer="")
        return ending

    def _native_agent(self, toolbox: TrialToolbox) -> NativeAgent:
        runner, trial = self._runner, self._trial
        has_ask_user = trial.key.channel == "ask_user"
        caller = runner.services.agent_caller(trial, self._stream, self._clock)
        self._spenders.append(caller)
        return NativeAgent(
            caller=caller,
            toolbox=toolbox,
            recording=self._stream,
            opening=runner.prompts.opening(trial.agent, self._task_prompt, has_ask_user=has_ask_user),
            ends_on_text=runner.benchmark.ends_on_text,
            nudge=runner.prompts.nudge,
            max_turns=runner.experiment.limits.max_turns,
            max_actions=runner.experiment.limits.max_actions,
            max_cost_usd=runner.experiment.budget.max_cost_usd_per_trial,
            injection=self._injection(),
            follow_up=trial.shown_variant.follow_up if trial.shown_variant else None,
            trial_clock=self._clock,
        )

    @property
    def _task_prompt(self) -> str:
        shown = self._trial.shown_variant
        return shown.prompt if shown else self._trial.task.prompt

    def _asking(self) -> tuple[UserSimulator, UserKnowledge] | None:
        """Return the simulated user of this trial and its knowledge, or None if the condition has none."""
        if self._trial.key.channel != "ask_user":
            return None
        simulator, caller = self._runner.services.user_simulator(self._trial, self._stream)
        if caller is not None:
            self._spenders.append(caller)
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

    async def _grade(self, environment: Environment, ending: Ending) -> Grade:
        checkpoints = self._trial.task.checkpoints
        try:
            if ending.abuse is None:
                grade = checked(await self._graded(environment, ending.final_answer), checkpoints)
            else:
                grade = failed_grade(checkpoints, ending.abuse, abuse=ending.abuse)
        except SandboxBoundaryError as error:
            if not error.is_abuse:
                raise
            grade = failed_grade(checkpoints, str(error), abuse=str(error))
        for artifact in grade.artifacts:
            await self._store(artifact)
        self._points = sum(result.score for result in grade.results), sum(each.total for each in checkpoints)
        await self._stream.append(*scored(grade.results, checkpoints, self._runner.benchmark.grader))
        return grade

    async def _graded(self, environment: Environment, final_answer: str) -> Grade:
        ask_judge, caller = self._runner.services.judge(self._trial, self._stream)
        if caller is not None:
            self._spenders.append(caller)
        # A clock of its own, which stands still while a judge's request is held at the door of its endpoint.
        clock = TrialClock() if environment.bounds_its_grading else TrialClock(GRADING_SECONDS)
        try:
            grade = await clock.bound(lambda: environment.grade(final_answer, ask_judge))
        except (BoundaryError, RecorderError):
            raise
        except Exception as error:
            kind = "timeout" if isinstance(error, TimeoutError) else "crash"
            raise GraderError(f"the grader crashed: {type(error).__name__}: {error}", kind=kind) from error
        if grade is None:
            raise GraderError(f"grading took over {GRADING_SECONDS:.0f} s", kind="timeout")
        return grade

    async def _store(self, artifact: Artifact) -> None:
        sha256, size_bytes = await anyio.to_thread.run_sync(self._runner.recorder.keep, artifact.content)
        await self._stream.append(
            ArtifactStored(
                sha256=sha256,
                media_type=artifact.media_type,
                size_bytes=size_bytes,
                role=artifact.role,
                name=artifact.name,
            )
        )


async def _opened(
    stack: AsyncExitStack, benchmark: Benchmark, trial: PlannedTrial, settings: EnvironmentSettings
) -> Environment:
    try:
        opened = await stack.enter_async_context(benchmark.open(trial.task, settings, trial.shown_variant))
    except (BoundaryError, RecorderError):
        raise
    except Exception as error:
        message = f"the environment of {trial.task.task_id} cannot be opened: {type(error).__name__}: {error}"
        raise SandboxBoundaryError(message, kind="open") from error
    return with_defaults(opened, Environment)
