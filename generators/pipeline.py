"""From tasks to a benchmark in one go: baseline, generation, validation, selection, evaluation.

Each phase asks the store what it has already, so that the same command goes on where the last one was ended, at any
point. All phases belong to one experiment. Source: LHAW, figure 1.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from generators.errors import GeneratorError
from generators.generation import Generation
from generators.protocol import SourceTask
from generators.selection import Selection, Wish, competent_tasks, select_benchmark
from recorder.values import CONTROL_CONDITIONS
from runners.errors import ExperimentError
from runners.executors.local import LocalExecutor
from runners.experiment import Experiment, StoreSpec
from runners.run import Reporter, prepare_experiment, run_experiment, stored_index
from runners.scheduler import RunSummary

ROLES = ("evaluated", "classifier")


class PhaseStopped(GeneratorError):
    """A phase ended with work left; ``outcome`` is interrupted, cost_limit or failed."""

    def __init__(self, phase: str, outcome: str, details: str) -> None:
        super().__init__(f"{phase} ended with work left ({outcome}): {details}; the same command goes on")
        self.outcome = outcome


class Pipeline:
    """One invocation.

    Args:
        root: The store.
        design: Agents, conditions, limits; its name is that of the experiment and of the selection.
        path: The file that the design came from.
        tasks: What variants are made of.
        generate: Runs generation over some tasks, in the design's experiment.
        wish: What is selected.
        has_controls: Whether generation makes controls, which are then run too.
        reporter: Makes what a phase of trials shows itself by.
        say: Told of each phase and its end.
    """

    def __init__(
        self,
        *,
        root: Path,
        design: Experiment,
        path: Path,
        tasks: Sequence[SourceTask],
        generate: Callable[[Sequence[SourceTask]], Awaitable[Generation]],
        wish: Wish,
        has_controls: bool = False,
        reporter: Reporter,
        say: Callable[[str], None],
    ) -> None:
        self._root = root
        self._design = design
        self._path = path
        self._tasks = tasks
        self._generate = generate
        self._wish = wish
        self._has_controls = has_controls
        self._reporter = reporter
        self._say = say

    async def run(self) -> Selection:
        """Do what the store does not have yet, and return what was selected.

        Raises:
            PhaseStopped: A phase was interrupted, met a limit, or has trials that could not be finished.
            GeneratorError: No task is within reach, or nothing can be selected.
            ExperimentError: The design cannot run.
        """
        await self._check()
        await self._baseline()
        tasks = self._within_reach()
        await self._generation(tasks)
        await self._validation(tasks)
        selection = await self._selection()
        await self._evaluation()
        if self._has_controls:
            await self._controls(tasks)
        return selection

    async def _check(self) -> None:
        """Find what would stop a later phase, before the first one costs anything."""
        for role in ROLES:
            every = self._of(("full",), (role,), [source.task.task_id for source in self._tasks], None)
            await LocalExecutor().check(prepare_experiment(every, self._path), self._root, Reporter())

    async def _baseline(self) -> None:
        await self._trials("baseline", ("evaluated",), ("full",), [source.task.task_id for source in self._tasks], None)

    def _within_reach(self) -> list[SourceTask]:
        """The tasks that every evaluated agent can do as they are."""
        verdicts = competent_tasks(
            self._root,
            self._wish.benchmark,
            tasks=[source.task for source in self._tasks],
            reference_agents=[agent.name for agent in self._design.agents if agent.role == "evaluated"],
            trials=self._design.trials,
            experiment=self._design.name,
        )
        left_out = [verdict for verdict in verdicts if not verdict.is_chosen]
        for verdict in left_out:
            self._say(f"  left out: {verdict.task_id}: {verdict.reason}")
        if len(left_out) == len(verdicts):
            raise GeneratorError("no task is within reach of the evaluated agents; see the reasons above")
        self._say(f"{len(verdicts) - len(left_out)} of {len(verdicts)} tasks are within reach of the evaluated agents")
        chosen = {verdict.task_id for verdict in verdicts if verdict.is_chosen}
        return [source for source in self._tasks if source.task.task_id in chosen]

    async def _generation(self, tasks: Sequence[SourceTask]) -> None:
        self._say(f"generation: variants of {len(tasks)} tasks")
        generation = await self._generate(tasks)
        owed = len(generation.owed_extractions()) + len(generation.owed_variants())
        if owed:
            problem = generation.work.failures[0] if generation.work.failures else f"{owed} steps"
            raise PhaseStopped("generation", generation.work.stop_reason or "failed", problem)
        planned = generation.planned
        given_up = sum(generation.given_up(each) is not None for each in planned)
        lost = f", {given_up} given up because a check failed" if given_up else ""
        self._say(f"generation: {len(planned) - given_up} variants{lost}")

    async def _validation(self, tasks: Sequence[SourceTask]) -> None:
        made = StoreSpec(store=str(self._root.resolve()), experiment=self._design.name)
        task_ids = [source.task.task_id for source in tasks]
        await self._trials("validation", ("classifier",), ("underspecified",), task_ids, made)

    async def _selection(self) -> Selection:
        selection = await select_benchmark(self._root, self._wish, experiment_id=self._design.name)
        short = ", ".join(f"{name} {count}" for name, count in selection.shortfalls.items())
        self._say(
            f"selection: {len(selection.chosen)} of {len(selection.offered.candidates)} variants"
            + (f"; short by {short}, and no other class fills that up" if short else "")
        )
        return selection

    async def _evaluation(self) -> None:
        """The selected variants under the design's conditions; nothing where it has only ``full``."""
        chosen = StoreSpec(store=str(self._root.resolve()), selection=self._wish.name)
        await self._trials("evaluation", ("evaluated",), self._design.conditions, None, chosen)

    async def _controls(self, tasks: Sequence[SourceTask]) -> None:
        """The controls of the tasks within reach: what the evaluated agents do where nothing is missing."""
        made = StoreSpec(store=str(self._root.resolve()), experiment=self._design.name)
        await self._trials("controls", ("evaluated",), CONTROL_CONDITIONS, [each.task.task_id for each in tasks], made)

    async def _trials(
        self,
        phase: str,
        roles: tuple[str, ...],
        conditions: tuple[str, ...],
        tasks: Sequence[str] | None,
        variants: StoreSpec | None,
    ) -> None:
        """Run the trials of some agents that the store does not have."""
        experiment = self._of(conditions, roles, tasks, variants, has_own_conditions=phase == "evaluation")
        prepared = prepare_experiment(experiment, self._path)
        planned, index = prepared.plan.trials, stored_index(prepared, self._root)
        finished = sum(trial.trial_id in index.finished for trial in planned)
        self._say(f"{phase}: {len(planned)} trials" + (f", {finished} of them finished before" if finished else ""))
        if finished == len(planned):
            return
        summary = await run_experiment(prepared, self._root, self._reporter)
        if summary.left:
            raise PhaseStopped(phase, summary.outcome, _why(summary))

    def _of(
        self,
        conditions: tuple[str, ...],
        roles: tuple[str, ...],
        tasks: Sequence[str] | None,
        variants: StoreSpec | None,
        *,
        has_own_conditions: bool = False,
    ) -> Experiment:
        """The design cut down to one phase; in the evaluation agents keep conditions of their own."""
        benchmark = msgspec.structs.replace(
            self._design.benchmark,
            tasks=None if tasks is None else tuple(tasks),
            variants=None,
            variants_from=variants,
        )
        agents = tuple(
            msgspec.structs.replace(agent, conditions=agent.conditions if has_own_conditions else conditions)
            for agent in self._design.agents
            if agent.role in roles
        )
        return msgspec.structs.replace(self._design, benchmark=benchmark, agents=agents, conditions=conditions)


def check_design(design: Experiment, benchmark: str) -> None:
    """Check that a design can be the plan of a pipeline.

    Raises:
        ExperimentError: It is of another benchmark, or lacks a role.
    """
    if design.benchmark.name != benchmark:
        raise ExperimentError(
            f"the design is of benchmark {design.benchmark.name!r}, the tasks are of {benchmark!r}; name a file of "
            "that benchmark with --experiment"
        )
    for role in ROLES:
        if not any(agent.role == role for agent in design.agents):
            raise ExperimentError(
                f"the design has no agent of the role {role}, and a pipeline needs both roles; give it an [[agents]] "
                f'table with role = "{role}"'
            )


def _why(summary: RunSummary) -> str:
    failure = next((outcome.failure for outcome in summary.failures if outcome.failure), None)
    return f"{summary.left} trials" + (f", for example {failure.message.splitlines()[0]}" if failure else "")
