"""Creates the models behind a trial, as the experiment file names them: agent, simulated user and judge."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.agents.scripted import InProse, ScriptedModel
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.errors import BoundaryError, GraderError, ModelBoundaryError, UserSimulatorError
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.environments.benchmarks.protocol import AskJudge, Benchmark
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import AgentSpec, Experiment, ModelSpec
from lhaw_record.runners.models.call_outcomes import RetryPolicy
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.exchanges import WireRecord
from lhaw_record.runners.models.protocol import Model
from lhaw_record.runners.models.replay import REPLAY_MODELS
from lhaw_record.runners.models.reply_forms import ReplyForm, whole_reply
from lhaw_record.runners.users.ask_user.prose import EndingJudge, ModelJudge
from lhaw_record.runners.users.simulated_user.llm import simulator_of
from lhaw_record.runners.users.simulated_user.person import PersonUser
from lhaw_record.runners.users.simulated_user.protocol import UserSimulator

if TYPE_CHECKING:
    from lhaw_record.runners.models.gateway.upstream import RoutingTable, Upstream
    from lhaw_record.runners.models.litellm_model import LitellmModel


class Services:
    """Creates the models, the simulated user and the judge of each trial.

    Args:
        experiment: The decoded experiment file.
        benchmark: The benchmark, which has the references that replay models follow.
        prompts: The experiment's wordings.
        keep: Stores an artifact without its secrets and returns its SHA-256 and length. It blocks.
        questions: The folder of questions that wait for a person, for experiments whose user is one.
    """

    def __init__(
        self,
        experiment: Experiment,
        benchmark: Benchmark,
        prompts: Prompts,
        keep: Callable[[bytes], tuple[str, int]] | None = None,
        questions: Path | None = None,
    ) -> None:
        self.wire_record = WireRecord(experiment.wire, keep)
        self._experiment = experiment
        self._benchmark = benchmark
        self._prompts = prompts
        self._questions = questions
        self._shared: dict[str, LitellmModel] = {}
        retry = experiment.retry
        self._retry = RetryPolicy(max_attempts=retry.request_attempts)
        self._timeout_s = retry.request_timeout_s

    def parameters_of(self, trial: PlannedTrial) -> dict[str, Any]:
        """Return the generation parameters of a trial. Its seed is sent with them, but recorded separately.

        A program sets its own parameters, so only those in the experiment file are returned.
        """
        if trial.agent.external is not None:
            return trial.agent.given_parameters
        return trial.agent.generation_parameters

    def agent_caller(
        self, trial: PlannedTrial, recording: Recording, trial_clock: TrialClock | None = None
    ) -> ModelCaller:
        """Return the recorded model of a trial's agent. The clock charges the agent for the time of its replies."""
        model = self._agent_model(trial, trial.agent)
        parameters = {"seed": trial.seed, **self.parameters_of(trial)}
        return self._caller(model, recording, "agent", "main", parameters, trial_clock)

    def agent_upstream(self, trial: PlannedTrial) -> "Upstream":
        """Return the upstream that answers the model calls of a trial's program."""
        return self._upstream(trial, trial.agent, f"agent {trial.agent.name}")

    def agent_route(self, trial: PlannedTrial, own: "Upstream") -> "RoutingTable":
        """Return which upstream answers a request of a trial's program; ``own`` is that of the agent's own model."""
        from lhaw_record.runners.models.gateway.upstream import RoutingTable

        routed = [
            (pattern, self._upstream(trial, spec, f"agent {trial.agent.name}, {pattern}"))
            for pattern, spec in trial.agent.routed.items()
        ]
        return RoutingTable(own, routed)

    def _upstream(self, trial: PlannedTrial, spec: AgentSpec, owner: str) -> "Upstream":
        from lhaw_record.runners.agents.scripted.foreign_model import ForeignModel
        from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
        from lhaw_record.runners.models.gateway.upstream import ModelUpstream

        parameters = {"seed": trial.seed, **spec.given_parameters}
        if spec.is_scripted:
            any_agents = ForeignModel(self._agent_model(trial, spec))
            return ModelUpstream(any_agents, parameters, self._timeout_s)
        model = self._litellm_model(owner, spec)
        return LitellmUpstream(model, parameters, self._timeout_s, spec.api_wires)

    def user_simulator(self, trial: PlannedTrial, recording: Recording) -> tuple[UserSimulator, ModelCaller | None]:
        """Return a trial's simulated user, and the recorded model behind it or None."""
        spec, path = self._experiment.user_simulator, self._prompts.user_simulator_path
        if spec.kind == "person":
            assert self._questions is not None, "a run has a store"
            asker = {
                "question_id": trial.trial_id,
                "experiment": self._experiment.name,
                "task": trial.task.task_id,
                "agent": trial.agent.name,
            }
            return PersonUser(self._questions, asker, self._prompts.responses.result("declined")), None
        model = spec.llm if spec.kind == "llm" else None
        caller = self._side_caller(model, trial, recording, "user_simulator") if model else None
        return simulator_of(spec, asking(caller, UserSimulatorError) if caller else None, path), caller

    def ending_judge(self, trial: PlannedTrial, recording: Recording) -> tuple[EndingJudge | None, ModelCaller | None]:
        """Return the model that judges the ends of turns, and its recorded calls. Both are None if rules do."""
        spec = self._experiment.user_simulator.ending_judge
        if spec is None:
            return None, None
        caller = self._side_caller(spec, trial, recording, "user_simulator", "ending_judge")
        return ModelJudge(asking(caller, UserSimulatorError), spec.model), caller

    def judge(self, trial: PlannedTrial, recording: Recording) -> tuple[AskJudge | None, ModelCaller | None]:
        """Return a trial's judge and the recorded model behind it. Both are None if grading needs no judge."""
        spec = self._experiment.grader.judge
        if self._experiment.grader.kind != "judge" or spec is None:
            return None, None
        caller = self._side_caller(spec, trial, recording, "judge")
        return asking(caller, GraderError), caller

    def _agent_model(self, trial: PlannedTrial, spec: AgentSpec) -> Model:
        name = spec.model
        if name in REPLAY_MODELS:
            reference = self._benchmark.reference(trial.task.task_id)
            if reference is None:
                raise ModelBoundaryError(
                    f"{name} needs a reference for task {trial.task.task_id}", kind="no_reference", is_retry_owed=False
                )
            hidden = trial.shown_variant.segments if trial.shown_variant else ()
            model: Model = REPLAY_MODELS[name](name, trial.seed, reference, tuple(each.value for each in hidden))
        elif spec.is_scripted:
            model = ScriptedModel(name, trial.seed)
        else:
            is_marked = self._experiment.prompt_caching
            return self._litellm_model(f"agent {spec.name}", spec, is_prompt_marked=is_marked)
        return InProse(model) if trial.asks_in_prose else model

    def _side_caller(
        self, spec: ModelSpec, trial: PlannedTrial, recording: Recording, role: Any, owner: str | None = None
    ) -> ModelCaller:
        model = self._litellm_model(owner or role, spec)
        parameters = {"seed": trial.seed, **spec.generation_parameters}
        return self._caller(model, recording, role, owner or role, parameters)

    def _caller(
        self,
        model: Model,
        recording: Recording,
        role: Any,
        thread_id: str,
        parameters: dict[str, Any],
        trial_clock: TrialClock | None = None,
    ) -> ModelCaller:
        return ModelCaller(
            model=model,
            recording=recording,
            role=role,
            thread_id=thread_id,
            parameters=parameters,
            retry=self._retry,
            request_timeout_s=self._timeout_s,
            wire_record=self.wire_record,
            trial_clock=trial_clock,
        )

    def _litellm_model(self, owner: str, spec: ModelSpec, *, is_prompt_marked: bool = False) -> "LitellmModel":
        """Return the model object of an owner. All trials share it and its connections."""
        if owner not in self._shared:
            from lhaw_record.runners.models.litellm_model import LitellmModel

            self._shared[owner] = LitellmModel(
                spec.model,
                api_base=spec.api_base,
                api_key=os.environ.get(spec.api_key_env) if spec.api_key_env else None,
                price=spec.price,
                given=spec.given_parameters,
                is_prompt_marked=is_prompt_marked,
            )
        return self._shared[owner]


def asking(caller: ModelCaller, failure: type[BoundaryError]) -> AskJudge:
    """Return a function that asks a model one question. What stops it becomes an error of this kind."""

    async def ask(system: str, user: str, form: ReplyForm | None = None) -> str:
        messages = [Message(role="system", content=system)] if system else []
        messages.append(Message(role="user", content=user))
        try:
            return (await whole_reply(caller, messages, form)).message.content
        except ModelBoundaryError as error:
            raise failure(str(error), kind=error.kind, is_retry_owed=error.is_retry_owed) from error

    return ask
