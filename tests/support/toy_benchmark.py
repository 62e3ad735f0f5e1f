"""A benchmark in process, with a model to go with it: trials of a chosen length and weight, and nothing to wait for."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events import TaskRegistered, VariantGenerated
from lhaw_record.recorder.events.values import Task, Usage, Variant
from lhaw_record.recorder.reading.trial_index import TrialIndex
from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.agents.runner import TrialRunner
from lhaw_record.runners.agents.services import Services
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition, ToolResult
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.environments.benchmarks.protocol import Environment, EnvironmentSettings
from lhaw_record.runners.environments.grading.grade import CheckpointResult, Grade
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import AgentSpec, BenchmarkSpec, Experiment, LimitsSpec
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.protocol import ModelReply, ModelRequest
from lhaw_record.runners.runs.planning.plan import Plan, make_plan
from lhaw_record.runners.runs.scheduler import RunSummary, Scheduler
from tests.support.toy_plan import EMPTY, ListedBenchmark

WORK = ToolDefinition(
    name="work",
    description="Do step n.",
    input_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
)


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is to do: trials are tasks x 3 conditions x ``trials``; texts are in characters."""

    tasks: int = 56
    trials: int = 3
    actions: int = 15
    prompt_characters: int = 1000
    reply_characters: int = 200
    result_characters: int = 400
    concurrency: int = 64


class ToyBenchmark(ListedBenchmark):
    """Tasks whose one tool gives back a text of a chosen length; an environment is an object."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(tasks=workload.tasks, prompt="Do it by {} today. ".ljust(workload.prompt_characters, "."))
        self._result_characters = workload.result_characters
        self._random = random.Random(0)

    @asynccontextmanager
    async def open(
        self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None
    ) -> AsyncIterator["ToyEnvironment"]:
        """Open at once."""
        yield ToyEnvironment(self._random, self._result_characters)


class ToyEnvironment(Environment):
    """Counts what was worked; results are hexadecimal digits at random, which compress to half, as prose does."""

    tools = (WORK,)

    def __init__(self, source: random.Random, characters: int) -> None:
        self._random = source
        self._characters = characters
        self._worked = 0

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Work."""
        self._worked += 1
        return ToolResult(text=f"{arguments['n']} {self._random.randbytes(self._characters // 2).hex()}")

    async def grade(self, final_answer: str, ask_judge: object) -> Grade:
        """Half a point for working, half for an answer."""
        score = 0.5 * (self._worked > 0) + 0.5 * (final_answer != "")
        details = f"worked {self._worked} times, answered {final_answer!r}"
        results = (CheckpointResult(checkpoint_id="c1", score=score, details=details),)
        return Grade(results=results, is_success=score == 1.0)


class ToyModel:
    """Works a number of times, then submits."""

    name = "toy/worker"

    def __init__(self, workload: Workload) -> None:
        self._text = "t" * workload.reply_characters
        self._actions = workload.actions
        self._replies = 0

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Reply at once with one tool call."""
        self._replies += 1
        name, arguments = "work", f'{{"n":{self._replies}}}'
        if self._replies == self._actions:
            name, arguments = "submit", '{"answer":"done"}'
        call = ToolCall(call_id=f"call_{self._replies}", name=name, arguments_json=arguments)
        return ModelReply(
            message=Message(role="assistant", content=self._text, tool_calls=(call,)),
            finish_reason="tool_calls",
            usage=Usage(input_tokens=200 * self._replies, output_tokens=50, cost_usd=0.001),
        )


class ToyServices(Services):
    """Services whose agent is the toy model."""

    def __init__(self, described: Experiment, benchmark: ToyBenchmark, prompts: Prompts, workload: Workload) -> None:
        super().__init__(described, benchmark, prompts)
        self._workload = workload

    def agent_caller(
        self, trial: PlannedTrial, recording: Recording, trial_clock: TrialClock | None = None
    ) -> ModelCaller:
        """Return a fresh toy model, recorded."""
        return ModelCaller(
            model=ToyModel(self._workload),
            recording=recording,
            role="agent",
            thread_id="main",
            parameters={"seed": trial.seed, **self.parameters_of(trial)},
            trial_clock=trial_clock,
        )


class ToyExperiment:
    """Everything of an experiment on the toy benchmark that can be made before it runs."""

    def __init__(self, workload: Workload) -> None:
        self._experiment = Experiment(
            name="toy",
            benchmark=BenchmarkSpec(name="toy"),
            agents=(AgentSpec(name="worker", model=ToyModel.name),),
            conditions=("full", "underspecified", "inject_50"),
            trials=workload.trials,
            concurrency=workload.concurrency,
            limits=LimitsSpec(max_turns=max(LimitsSpec().max_turns, workload.actions)),
        )
        self._benchmark = ToyBenchmark(workload)
        self._prompts = Prompts(self._experiment, Path(), self._benchmark.system_prompt())
        self._services = ToyServices(self._experiment, self._benchmark, self._prompts, workload)
        self.plan: Plan = make_plan(self._experiment, self._benchmark, self._prompts, "exact:1")

    async def run(self, recorder: Any, index: TrialIndex = EMPTY) -> RunSummary:
        """Register tasks and variants, then run what is left through the real scheduler, trial runner and agent."""
        run_id = f"toy-run-{len(index.finished)}"
        runner = TrialRunner(
            experiment=self._experiment,
            benchmark=self._benchmark,
            prompts=self._prompts,
            settings=EnvironmentSettings(sandbox=ProcessSandboxProvider(), limits=SandboxLimits()),
            services=self._services,
            recorder=recorder,
            run_id=run_id,
        )
        stream = recorder.stream(run_id)
        await stream.append(
            *(TaskRegistered(task=task, task_digest=task.task_digest) for task in self._benchmark.tasks()),
            *(
                VariantGenerated(variant=variant, variant_digest=variant.variant_digest)
                for variant in self._benchmark.variants()
            ),
        )
        scheduler = Scheduler(
            experiment=self._experiment, plan=self.plan, index=index, runner=runner, run_stream=stream
        )
        await scheduler.run()
        return scheduler.summary()
