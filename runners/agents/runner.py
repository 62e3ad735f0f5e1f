"""Assembles the parts of each trial of a run, as the experiment file names them, and runs its attempts."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from lhaw_record.recorder.events import TrialFailed, TrialFinished
from lhaw_record.recorder.events.values import Checkpoint, Usage
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.agents.agent_loop import AgentClock, NativeAgent
from lhaw_record.runners.agents.attempt import GRADING_SECONDS, Attempt, AttemptStream, StoreArtifact, TrialAgent
from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.agents.program_attempts import ToolCallNotes, program_sandbox
from lhaw_record.runners.agents.services import Services
from lhaw_record.runners.agents.toolbox import TrialToolbox
from lhaw_record.runners.agents.trial_record import TrialOutcome, response_actions, trial_started
from lhaw_record.runners.base.budget import RunBudget, TrialSpending
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.conversation.injection import PlannedInjection, injection_action
from lhaw_record.runners.base.errors import SandboxUnfit
from lhaw_record.runners.base.recording import ObservedRecording, Recording
from lhaw_record.runners.environments.benchmarks.protocol import (
    AskJudge,
    Benchmark,
    Environment,
    EnvironmentSettings,
)
from lhaw_record.runners.environments.benchmarks.refusals import lacking_tools, refuse_lack
from lhaw_record.runners.environments.grading.grade import Artifact
from lhaw_record.runners.environments.sandboxes.docker.engine import labelled
from lhaw_record.runners.experiment.program import ProgramSpec
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import Experiment
from lhaw_record.runners.models.gateway.calls import SessionLimits
from lhaw_record.runners.models.gateway.session import TrialSession
from lhaw_record.runners.users.ask_user.prose import TurnUser
from lhaw_record.runners.users.ask_user.recorded_user import AskUserTool, RecordedUser, Response
from lhaw_record.runners.users.ask_user.server import TOOL_NAME
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge

if TYPE_CHECKING:
    from lhaw_record.runners.agents.programs.agent import ExternalAgent
    from lhaw_record.runners.agents.programs.leases import Lease, Leases
    from lhaw_record.runners.agents.programs.program_server import ProgramServer

_LONGEST_AT_DOORS_S = 86_400.0


class TrialRunner(msgspec.Struct, frozen=True, kw_only=True):
    """What all attempts of a run share. ``server`` serves programs, and is None if all agents are native.

    ``leases`` belong to the daemon, and are None elsewhere.
    ``budget`` is the run's, where the trials run in the process of the scheduler; elsewhere it has no limit.
    """

    experiment: Experiment
    benchmark: Benchmark
    prompts: Prompts
    settings: EnvironmentSettings
    services: Services
    recorder: StoreRecorder
    run_id: str
    server: "ProgramServer | None" = None
    leases: "Leases | None" = None
    budget: RunBudget = msgspec.field(default_factory=lambda: RunBudget(None))

    async def run(self, trial: PlannedTrial, attempt: int, budget_actions: int | None) -> TrialOutcome:
        """Run one attempt to its closing event."""
        is_leased = trial.agent.external is not None and trial.agent.external.leased
        lease = (self.leases, self.leases.of_trial(trial.trial_id)) if is_leased and self.leases else None
        stream = self.recorder.attempt(trial.trial_id, attempt)
        parts = _Parts(self, trial, budget_actions, stream, lease)
        closing, points = None, None
        try:
            started = trial_started(
                trial,
                run_id=self.run_id,
                ask_notice=self.experiment.ask_notice,
                parameters=self.services.parameters_of(trial),
                sandbox=self.settings.sandbox.kind if lease is None else "leased",
                budget_actions=budget_actions,
            )
            running = Attempt(stream, started, parts)
            with labelled(run=self.run_id, trial=trial.trial_id, attempt=attempt):
                closing = await running.run()
            points = running.points
        finally:
            if lease is not None:
                lease[1].end(closing, points)
        return TrialOutcome(
            trial=trial,
            attempt=attempt,
            is_valid=isinstance(closing, TrialFinished),
            is_success=isinstance(closing, TrialFinished) and closing.is_success,
            action_count=running.action_count,
            cost_usd=parts.cost_usd(),
            spent_on=parts.spending.spent_on,
            failure=closing if isinstance(closing, TrialFailed) else None,
            unknown_cost_calls=parts.spending.unknown_cost_calls,
            crash=parts.program.crash if parts.program else None,
            is_flagged=parts.program is not None and bool(parts.program.flags),
            has_asked=parts.has_asked,
        )


class _Spender(Protocol):
    """Something that causes model costs: a model caller or a program."""

    @property
    def total_usage(self) -> Usage: ...


class _Parts:
    """The parts of one attempt of one trial (see TrialParts)."""

    def __init__(
        self,
        runner: TrialRunner,
        trial: PlannedTrial,
        budget_actions: int | None,
        stream: AttemptStream,
        lease: "tuple[Leases, Lease] | None",
    ) -> None:
        self._runner = runner
        self._lease = lease
        self._trial = trial
        self._budget_actions = budget_actions
        self._spenders: list[_Spender] = []
        self.program: ExternalAgent | None = None
        self._executed: Callable[[], tuple[str | None, int | None]] = lambda: (None, None)
        self.checkpoints: Sequence[Checkpoint] = trial.task.checkpoints
        self.grader = runner.benchmark.grader
        # A clock of its own, which stops while a judge's request is held at the door of its endpoint.
        self.grading_clock: AgentClock = TrialClock(GRADING_SECONDS)
        self._clock = TrialClock(runner.experiment.limits.max_seconds, runner.experiment.retry.patience_s)
        self.spending = TrialSpending(runner.budget)
        self._observed = ObservedRecording(stream, partial(self._clock.waiting, "recorder", "the recorder"))
        self._observed.before.append(self.spending.observe)
        self.recording: Recording = self._observed

    def keep(self, content: bytes) -> tuple[str, int]:
        return self._runner.recorder.keep(content)

    def cost_usd(self) -> float | None:
        """Return the cost of all model calls of the attempt in USD, or None if any price is unknown."""
        costs = [spender.total_usage.cost_usd for spender in self._spenders]
        return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)

    def measured(self) -> dict[str, float | None]:
        return {
            "cost_usd": self.cost_usd(),
            "charged_ms": round(self._clock.charged_s * 1000.0, 3),
            "waited_ms": round(self._clock.waited_s * 1000.0, 3),
            "late_ms": round(self._clock.late_s * 1000.0, 3),
        }

    @asynccontextmanager
    async def environment(self, store: StoreArtifact) -> AsyncIterator[Environment]:
        benchmark, trial = self._runner.benchmark, self._trial
        async with benchmark.open(trial.task, self._settings(store), trial.shown_variant) as opened:
            if not isinstance(opened, Environment):
                message = f"{benchmark.name} opens {type(opened).__name__}, which does not inherit from Environment"
                raise SandboxUnfit(f"{message} (docs/own-tasks.md)", kind="open")
            refuse_lack({trial.task.task_id: lacking_tools(benchmark, trial.task, opened)})
            yield opened

    def judge(self) -> AskJudge | None:
        ask_judge, caller = self._runner.services.judge(self._trial, self.recording)
        if caller is not None:
            self._spenders.append(caller)
        return ask_judge

    def agent(self, environment: Environment, store: StoreArtifact) -> AbstractAsyncContextManager[TrialAgent]:
        program = self._trial.agent.external
        return self._native(environment) if program is None else self._external(program, environment, store)

    @asynccontextmanager
    async def _native(self, environment: Environment) -> AsyncIterator[NativeAgent]:
        runner, trial = self._runner, self._trial
        limits, user = runner.experiment.limits, self._user
        caller = runner.services.agent_caller(trial, self.recording, self._clock)
        self._spenders.append(caller)
        agent: NativeAgent
        asker = AskUserTool(user, lambda: agent.action_count) if user and not trial.asks_in_prose else None
        toolbox = TrialToolbox(environment, asker, self._clock)
        agent = NativeAgent(
            caller=caller,
            toolbox=toolbox,
            recording=self.recording,
            opening=runner.prompts.opening(trial.agent, self._task_prompt, has_ask_user=user is not None),
            ends_on_text=runner.benchmark.ends_on_text,
            nudge=runner.prompts.nudge,
            max_turns=limits.max_turns,
            max_actions=limits.max_actions,
            max_cost_usd=runner.experiment.budget.max_cost_usd_per_trial,
            injection=self._injection(),
            trial_clock=self._clock,
            user=self._turn_user(user),
        )
        self._executed = lambda: (toolbox.call_id, agent.action_count)
        yield agent

    @asynccontextmanager
    async def _external(
        self, program: ProgramSpec, environment: Environment, store: StoreArtifact
    ) -> AsyncIterator["ExternalAgent"]:
        """Prepare a program in the environment's sandbox, or in one of its own."""
        from lhaw_record.runners.agents.programs.agent import ExternalAgent

        runner, trial = self._runner, self._trial
        limits, retry = runner.experiment.limits, runner.experiment.retry
        settings = self._settings(store)
        async with AsyncExitStack() as stack:
            opened = program_sandbox(runner.benchmark.name, environment, settings, program)
            sandbox, tools = await stack.enter_async_context(opened)
            own_tool = program.built_in.tool if program.asks_by == "built_in" else ""
            notes = ToolCallNotes(environment, own_tool or program.ask_user_tool or TOOL_NAME)
            self._observed.after.append(notes.observe)
            asking = self._user
            upstream = runner.services.agent_upstream(trial)
            agent = self.program = ExternalAgent(
                program=program,
                sandbox=sandbox,
                server=self._server,
                session_of=partial(
                    TrialSession,
                    recording=self.recording,
                    upstream=upstream,
                    trial_id=self._trial.trial_id,
                    injection=self._injection(),
                    rules=program.threads,
                    limits=SessionLimits(
                        max_turns=limits.max_turns,
                        max_actions=limits.max_actions,
                        max_cost_usd=runner.experiment.budget.max_cost_usd_per_trial,
                    ),
                    trial_clock=self._clock,
                    wire_record=runner.services.wire_record,
                    routing=runner.services.agent_route(trial, upstream),
                ),
                model=upstream.name,
                prompt_of=partial(runner.prompts.program_prompt, trial.agent, has_ask_user=asking is not None),
                request=self._task_prompt,
                asking=asking,
                turn_user=self._turn_user(asking),
                toolbox=TrialToolbox(environment, None, self._clock, own_tools=tools),
                trial_clock=self._clock,
                last_resort_s=limits.max_seconds + retry.patience_s + retry.request_timeout_s + _LONGEST_AT_DOORS_S,
                keep=partial(_keep_output, store),
                recording=self.recording,
                lease=self._lease,
            )
            self._spenders.append(agent)
            self._executed = agent.executed_call
            yield agent

    def _settings(self, store: StoreArtifact) -> EnvironmentSettings:
        """Return the settings for opening the environment. A program must also reach the run's server."""
        fill_in = None if self._user is None else partial(self._filled_in, self._user)
        settings = msgspec.structs.replace(self._runner.settings, keep=store, fill_in=fill_in)
        program = self._trial.agent.external
        if program is None:
            return settings
        from lhaw_record.runners.agents.programs.program_server import program_access

        return msgspec.structs.replace(settings, access=program_access(program, self._server))

    @property
    def _server(self) -> "ProgramServer":
        server = self._lease[0].server if self._lease is not None else self._runner.server
        assert server is not None, "a run with programs listens for them"
        return server

    @property
    def _task_prompt(self) -> str:
        shown = self._trial.shown_variant
        return shown.prompt if shown else self._trial.task.prompt

    async def _filled_in(self, user: RecordedUser, params: Mapping[str, Any]) -> dict[str, Any]:
        """Let the user fill in a form of a tool server, which a tool call of the agent has put up."""
        from lhaw_record.runners.users.ask_user.forms import fill_in_for_server

        return await fill_in_for_server(user, self.recording, params, *self._executed())

    @property
    def has_asked(self) -> bool | None:
        """Whether the agent asked its user, None if it had none."""
        user: RecordedUser | None = vars(self).get("_user")  # not made now, after the end
        return None if user is None else user.was_asked

    @cached_property
    def _user(self) -> RecordedUser | None:
        """The simulated user of this trial, or None if the condition has none."""
        trial = self._trial
        if trial.key.channel != "ask_user":
            return None
        simulator, caller = self._runner.services.user_simulator(trial, self.recording)
        if caller is not None:
            self._spenders.append(caller)
        knowledge = UserKnowledge.of_variant(trial.task.prompt, trial.shown_variant)
        return RecordedUser(simulator, knowledge, self.recording, self._clock, response=self._response())

    def _turn_user(self, user: RecordedUser | None) -> TurnUser | None:
        """Return the user who reacts to the ends of turns, or None if there is nobody to ask and no second request."""
        runner, trial, judge, turns = self._runner, self._trial, None, None
        follow_up = trial.shown_variant.follow_up if trial.shown_variant else None
        if user is None and follow_up is None:
            return None
        if trial.asks_in_prose:
            turns = runner.experiment.limits.max_user_turns
            judge, caller = runner.services.ending_judge(trial, self.recording)
            if caller is not None:
                self._spenders.append(caller)
        policy = trial.agent.external.acp.approvals if trial.agent.external is not None else "allow"
        return TurnUser(user, self.recording, turns, follow_up, judge, policy, self._clock)

    def _response(self) -> Response | None:
        planned = self._trial.response
        if planned is None:
            return None
        return Response(
            state=planned.state,
            words=self._runner.prompts.responses,
            after_actions=response_actions(planned, self._budget_actions),
            after_seconds=planned.after_seconds,
            goes_on=self._trial.agent.external is None and not self._trial.asks_in_prose,
        )

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


async def _keep_output(store: StoreArtifact, name: str, text: str) -> None:
    await store(Artifact(name=name, role="program_output", media_type="text/plain", content=text.encode()))
