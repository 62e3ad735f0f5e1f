"""``python -m tests.reconstruction``: the papers' designs at their own scale, run and recorded as any experiment is.

Each file of experiments/ keeps its conditions, trials, sessions and limits. Planner, scheduler, agent loop, user and
recorder are the real ones; tasks are stand-ins, and each model does what is told of its trial, so that the printed
tables come out.
"""

import argparse
import resource
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.values import Task, Usage, Variant
from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.agents.runner import TrialRunner
from lhaw_record.runners.agents.services import Services
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition, ToolResult
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark, Environment, EnvironmentSettings
from lhaw_record.runners.environments.grading.grade import CheckpointResult, Grade
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.decoding import load_experiment
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import GraderSpec, SandboxSpec, UserSimulatorSpec
from lhaw_record.runners.models.protocol import ModelReply, ModelRequest
from lhaw_record.runners.runs.executors.local import LocalExecutor
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.planning.plan import Plan, make_plan
from lhaw_record.runners.runs.preparation import PreparedExperiment
from lhaw_record.runners.runs.run import run_experiment
from lhaw_record.runners.users.simulated_user.llm import simulator_identity
from tests.reconstruction.ask_early import ask_early
from tests.reconstruction.lhaw import lhaw
from tests.reconstruction.told import Tale, Told, name_of

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FILES = {
    "ask-early": [f"ask-early-{name}" for name in ("natural", "swebench-pro", "tac", "mcp-atlas")],
    "lhaw": [f"lhaw-{name}" for name in ("tac", "swebench-pro", "mcp-atlas")],
}
AT_ONCE = 32
RENAMED = {"Claude Sonnet 5.5": "Claude Sonnet 4.5"}
"""The files run the successor of a model that was retired; the tables are about the retired one."""
TOOLS = tuple(
    ToolDefinition(
        name=name,
        description="Do a step.",
        input_schema={"type": "object", "properties": {"place": {"type": "integer"}}, "required": ["place"]},
    )
    for name in ("work", "stray")
)


class ToldModel:
    """Act as is told of one trial: so many actions, some of them questions or strays, then submit."""

    name = "told"

    def __init__(self, told: Told, target: int | None) -> None:
        self._told = told
        self._actions = target if target is not None and told.injected_after is None else told.actions

    async def respond(self, request: ModelRequest) -> ModelReply:
        place = 1 + sum(len(each.tool_calls) for each in request.messages)
        name, arguments = "stray" if place <= self._told.strays else "work", {"place": place}
        if place in self._told.asks:
            name, arguments = "ask_user", {"question": "Which one?"}
        elif place >= self._actions:
            name, arguments = "submit", {"answer": "done"}
        call = ToolCall(call_id=f"t{place}", name=name, arguments_json=canonical_json(arguments).decode())
        usage = Usage(input_tokens=100 * place, output_tokens=20, cost_usd=0.001)
        return ModelReply(
            message=Message(role="assistant", content="", tool_calls=(call,)), finish_reason="tool_calls", usage=usage
        )


class ToldEnvironment(Environment):
    """Tools that do nothing, and the grade that is told of the trial."""

    tools = TOOLS

    def __init__(self, told: Told) -> None:
        self._told = told

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(text="done")

    async def grade(self, final_answer: str, ask_judge: object) -> Grade:
        results = (CheckpointResult(checkpoint_id="c1", score=self._told.score, details=""),)
        return Grade(results=results, is_success=self._told.is_success)


class ToldBenchmark(Benchmark):
    """The tasks and variants of one benchmark of a study. ``services`` sets what is told of the trial that opens."""

    version, grader, ends_on_text = "1", "told", False

    def __init__(self, name: str, tale: Tale) -> None:
        self.name = name
        self._tasks = [each for each in tale.tasks if each.benchmark == name]
        self._variants = [each for each in tale.variants if each.benchmark == name]

    def tasks(self) -> Sequence[Task]:
        return self._tasks

    def variants(self) -> Sequence[Variant]:
        return self._variants

    def system_prompt(self) -> str:
        return "You work."

    @asynccontextmanager
    async def open(
        self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None
    ) -> AsyncIterator[Environment]:
        yield ToldEnvironment(settings.told)  # type: ignore[attr-defined]


class ToldSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Settings of the environment of one trial."""

    told: Told


class ToldServices(Services):
    """Services whose agents do what is told of their trials."""

    told: dict[str, Told]

    def _agent_model(self, trial: PlannedTrial, spec: object) -> ToldModel:
        told = self.told[trial.trial_id]
        percent = int(told.condition.removeprefix("inject_")) if told.budget else 0
        return ToldModel(told, max(1, (told.budget or 0) * percent // 100) if percent else None)


class ToldRunner:
    """Run each attempt with the environment that is told of its trial."""

    def __init__(self, runner: TrialRunner, told: dict[str, Told]) -> None:
        self._runner, self._told = runner, told

    async def run(self, trial: PlannedTrial, attempt: int, budget_actions: int | None) -> Any:
        settings = ToldSettings(
            sandbox=ProcessSandboxProvider(), limits=SandboxLimits(), told=self._told[trial.trial_id]
        )
        runner = msgspec.structs.replace(self._runner, settings=settings)
        return await runner.run(trial, attempt, budget_actions)


class ToldExecutor(LocalExecutor):
    """The local executor without a sandbox."""

    sandbox_kind = "none"

    def __init__(self, told: dict[str, Told]) -> None:
        super().__init__()
        self._told = told

    async def check(self, *given: object) -> None:
        """Find nothing: no key, image or sandbox is needed."""

    @asynccontextmanager
    async def runner(self, prepared: Any, recorder: Any, run_id: str, budget: Any) -> AsyncIterator[ToldRunner]:
        services = ToldServices(prepared.experiment, prepared.benchmark, prepared.prompts)
        services.told = self._told
        settings = EnvironmentSettings(sandbox=ProcessSandboxProvider(), limits=SandboxLimits())
        yield ToldRunner(
            TrialRunner(
                experiment=prepared.experiment,
                benchmark=prepared.benchmark,
                prompts=prepared.prompts,
                settings=settings,
                services=services,
                recorder=recorder,
                run_id=run_id,
                budget=budget,
            ),
            self._told,
        )


def prepared_file(name: str, tale: Tale) -> tuple[PreparedExperiment, dict[str, Told]]:
    """Return an experiment file with its plan over a study's variants, and what is told of each planned trial."""
    path = EXPERIMENTS / f"{name}.toml"
    read = load_experiment(path)
    agents = tuple(msgspec.structs.replace(each, name=RENAMED.get(each.name, each.name)) for each in read.agents)
    experiment = msgspec.structs.replace(
        read,
        agents=agents,
        sandbox=SandboxSpec(kind="process"),
        grader=GraderSpec(),
        user_simulator=UserSimulatorSpec(kind="dump"),
        concurrency=AT_ONCE,
        preflight=False,
    )
    benchmark = ToldBenchmark(read.benchmark.name, tale)
    prompts = Prompts(experiment, path.parent, benchmark.system_prompt(), benchmark.program_prompt())
    plan = make_plan(experiment, benchmark, prompts, simulator_identity(experiment, prompts))
    courses = defaultdict[tuple[str, str], dict[tuple[str, int], Told]](dict)
    for each in tale.trials:
        if each.unit.benchmark == benchmark.name:
            courses[each.agent, each.condition][name_of(each.unit), each.index] = each
    told, others = dict[str, Told](), list[PlannedTrial]()
    for trial in plan.trials:
        course = courses[trial.agent.name, trial.condition].pop((_unit_id(trial), trial.trial_index), None)
        if course is None:
            others.append(trial)
        else:
            told[trial.trial_id] = course
    for trial in others:  # sessions are dealt by seed; what a paper has no trials of is not run
        if left := courses[trial.agent.name, trial.condition]:
            told[trial.trial_id] = left.pop(next(iter(left)))
    plan = Plan(trials=tuple(trial for trial in plan.trials if trial.trial_id in told))
    return PreparedExperiment(path=path, experiment=experiment, benchmark=benchmark, prompts=prompts, plan=plan), told


def _unit_id(trial: PlannedTrial) -> str:
    return trial.variant.variant_id if trial.variant else trial.task.task_id


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the designs of a paper, and print trials, events, seconds and the peak of memory of each file."""
    parser = argparse.ArgumentParser(prog="python -m tests.reconstruction", description=__doc__)
    parser.add_argument("paper", choices=sorted(FILES))
    parser.add_argument("store", type=Path)
    parser.add_argument("files", nargs="*", help="of experiments/, without .toml; default: all of the paper")
    options = parser.parse_args(arguments)
    for name in options.files or FILES[options.paper]:
        benchmark = name.removeprefix("lhaw-").replace("-", "_")
        prepared, told = prepared_file(name, ask_early() if options.paper == "ask-early" else lhaw(benchmark))
        began_s = time.perf_counter()
        summary = anyio.run(run_experiment, prepared, options.store, Reporter(), ToldExecutor(told))
        took_s = time.perf_counter() - began_s
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        count = f"{summary.finished} of {len(prepared.plan.trials)} trials"
        pace = f"{took_s:.0f} s, {summary.finished / took_s:.0f} a second"
        sys.stdout.write(f"{name}: {count}, {pace}, at most {peak_mb:.0f} MB\n")
        sys.stdout.flush()
        if summary.outcome != "completed":
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
